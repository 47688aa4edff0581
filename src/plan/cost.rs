//! What a plan may cost at most: time, and bytes over the network. An estimate for people, and the
//! source of the steps' timeouts.

use std::time::Duration;

use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::Plan;
use super::step::{
    Action, LEVELS_WITHOUT_RISE, LadderSpec, Nodes, NumConn, PathSpec, Step, StorageReadSpec,
    ThroughputSpec,
};

/// Of a whole run, and of each of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Of `Plan::steps`, then of `Plan::finally`.
    pub steps: Vec<StepCost>,
    /// Without reaching the nodes and starting the agents.
    pub time: TimeRange,
    /// Sent over the network at most. `None`: neither a limit nor a bandwidth is stated.
    pub bytes: Option<Bytes>,
    /// As `bytes`, as if there were no limit on the bytes of the run.
    pub bytes_without_limit: Option<Bytes>,
    /// Written to scratch files, all nodes together; removed at the end.
    pub scratch: Bytes,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TimeRange {
    pub min: Duration,
    pub max: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Zero for a step that is left out.
    pub time: TimeRange,
    /// As if it were not left out.
    pub time_if_run: TimeRange,
    /// `None`: unknown. Zero for a step that sends nothing.
    pub bytes: Option<Bytes>,
    pub scratch: Bytes,
}

/// For connecting, the common start, and draining what is on its way; measured on loopback and
/// rounded up for a path of 100 ms.
const AROUND_A_TEST: Duration = Duration::from_secs(1);

/// Assumed for filling a scratch file: less than any disk a database should stand on.
const FILL_RATE: BytesPerSecond = BytesPerSecond(100e6);

pub fn cost(plan: &Plan) -> Cost {
    let steps: Vec<StepCost> =
        plan.steps.iter().chain(&plan.finally).map(|step| of_step(step, plan)).collect();
    let sum = |time: fn(&TimeRange) -> Duration| steps.iter().map(|step| time(&step.time)).sum();
    let bytes: Option<u64> = steps.iter().map(|step| step.bytes.map(|bytes| bytes.0)).sum();
    let limit = plan.limits.bytes.map(|limit| limit.0);
    Cost {
        time: TimeRange { min: sum(|time| time.min), max: sum(|time| time.max) },
        bytes_without_limit: bytes.map(Bytes),
        bytes: bytes.map(|bytes| bytes.min(limit.unwrap_or(u64::MAX))).or(limit).map(Bytes),
        scratch: Bytes(steps.iter().map(|step| step.scratch.0).sum()),
        steps,
    }
}

/// When a step that was to take `expected` is given up.
pub fn timeout(expected: TimeRange) -> Duration {
    expected.max * 3 + Duration::from_secs(60)
}

fn of_step(step: &Step, plan: &Plan) -> StepCost {
    let time = match &step.action {
        Action::Topology(spec) => TimeRange { min: AROUND_A_TEST, max: spec.deadline },
        Action::Throughput(spec) => of_tests(spec, levels(&spec.num_conn)),
        Action::Sweep(spec) => {
            let points = u32::try_from(spec.vary.len()).unwrap_or(u32::MAX);
            of_tests(&spec.throughput, (points, points))
        }
        Action::Path(spec) => of_paths(spec),
        Action::InterfaceMtu(spec) => of_tests(&spec.throughput, (3, 3)),
        Action::StorageRead(spec) => of_storage(spec),
        Action::SwapRoles | Action::Assert(_) => TimeRange::default(),
    };
    let time = TimeRange { min: time.min.min(time.max), max: time.max };
    if step.excluded {
        let none = (TimeRange::default(), Some(Bytes(0)), Bytes(0));
        return StepCost { time: none.0, time_if_run: time, bytes: none.1, scratch: none.2 };
    }
    StepCost {
        time,
        time_if_run: time,
        bytes: bytes(&step.action, plan),
        scratch: scratch(&step.action),
    }
}

/// Fewest and most levels.
fn levels(num_conn: &NumConn) -> (u32, u32) {
    match num_conn {
        NumConn::Fixed(_) | NumConn::Later(_) => (1, 1),
        NumConn::Ladder(ladder) => {
            let all = all_levels(ladder);
            // The first level is the reference; three more that do not rise end it.
            (all.min(1 + LEVELS_WITHOUT_RISE as u32), all)
        }
    }
}

fn all_levels(ladder: &LadderSpec) -> u32 {
    1 + ladder.max.saturating_sub(ladder.from) / ladder.step.max(1)
}

fn of_tests(spec: &ThroughputSpec, (fewest, most): (u32, u32)) -> TimeRange {
    let one = spec.time.longest() + AROUND_A_TEST;
    let rounds = rounds(spec);
    TimeRange {
        min: spec.time.longest().saturating_mul(fewest.saturating_mul(rounds)),
        max: one.saturating_mul(most.saturating_mul(rounds)),
    }
}

/// How often one test is done for all its pairs to have been tested.
fn rounds(spec: &ThroughputSpec) -> u32 {
    match spec.nodes {
        Nodes::Each => u32::try_from(spec.pairs.len()).unwrap_or(u32::MAX),
        Nodes::Together | Nodes::AllToOne => u32::from(!spec.pairs.is_empty()),
    }
}

fn of_paths(spec: &PathSpec) -> TimeRange {
    let pairs = u32::try_from(spec.pairs.len()).unwrap_or(u32::MAX);
    let probing = spec.spacing.saturating_mul(spec.probes) + spec.load;
    TimeRange {
        min: probing.saturating_mul(pairs),
        max: (spec.deadline + spec.load + AROUND_A_TEST).saturating_mul(pairs),
    }
}

/// Nodes are read one after another at most, all at once at least.
fn of_storage(spec: &StorageReadSpec) -> TimeRange {
    let points: usize = spec
        .patterns
        .iter()
        .map(|pattern| match pattern {
            StoragePattern::SingleBlock => spec.sessions.len(),
            StoragePattern::DirectPath => spec.slots.len(),
        })
        .sum();
    let points = u32::try_from(points).unwrap_or(u32::MAX);
    let nodes = u32::try_from(spec.nodes.len()).unwrap_or(u32::MAX);
    let reading = spec.duration.saturating_mul(points);
    let fill = match &spec.target {
        StorageTarget::Scratch { size, .. } => {
            Duration::try_from_secs_f64(size.0 as f64 / FILL_RATE.0).unwrap_or_default()
        }
        StorageTarget::File(_) | StorageTarget::Device(_) => Duration::ZERO,
    };
    let around = AROUND_A_TEST.saturating_mul(points);
    TimeRange {
        min: if nodes == 0 { Duration::ZERO } else { reading },
        max: (reading + fill + around).saturating_mul(nodes),
    }
}

fn bytes(action: &Action, plan: &Plan) -> Option<Bytes> {
    let (spec, tests) = match action {
        Action::Throughput(spec) => (spec, levels(&spec.num_conn).1),
        Action::Sweep(spec) => (&spec.throughput, u32::try_from(spec.vary.len()).ok()?),
        _ => return Some(Bytes(0)),
    };
    let at_once = match spec.nodes {
        Nodes::Each => 1,
        Nodes::Together | Nodes::AllToOne => spec.pairs.len(),
    };
    let limit = plan.limits.rate.map(|rate| rate.0 * at_once as f64);
    let bandwidth = plan.configuration.network.bandwidth.map(|rate| rate.0);
    let rate = match (limit, bandwidth) {
        (Some(limit), Some(bandwidth)) => limit.min(bandwidth),
        (limit, bandwidth) => limit.or(bandwidth)?,
    };
    let sending = spec.time.longest().saturating_mul(tests.saturating_mul(rounds(spec)));
    Some(BytesPerSecond(rate).bytes_in(sending))
}

fn scratch(action: &Action) -> Bytes {
    match action {
        Action::StorageRead(StorageReadSpec {
            nodes,
            target: StorageTarget::Scratch { size, .. },
            ..
        }) => Bytes(size.0.saturating_mul(nodes.len() as u64)),
        _ => Bytes(0),
    }
}
