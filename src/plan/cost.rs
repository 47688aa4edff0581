//! What a plan may cost at most: time, and bytes over the network. An estimate for people, and the
//! source of the steps' timeouts.

use std::collections::BTreeSet;
use std::time::Duration;

use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::Plan;
use super::step::{
    Action, InterfaceMtuSpec, LEVELS_WITHOUT_RISE, LadderSpec, Mode, Nodes, NumConn, PathSpec,
    Step, StorageReadSpec, SweepSpec, ThroughputSpec, Until,
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
    /// As `bytes`, if every `auto` and every ladder ends as early as it can.
    pub bytes_least: Option<Bytes>,
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
    /// When the step is given up, unless the runbook says.
    pub timeout: Duration,
    /// Sent at most. `None`: unknown. Zero for a step that sends nothing.
    pub bytes: Option<Bytes>,
    /// Sent at that rate if the step ends as early as it can.
    pub bytes_least: Option<Bytes>,
    pub scratch: Bytes,
}

/// For connecting, the common start, and draining what is on its way; measured on loopback and
/// rounded up for a path of 100 ms.
pub const AROUND_A_TEST: Duration = Duration::from_secs(1);

/// Assumed for filling a scratch file: less than any disk a database should stand on.
const FILL_RATE: BytesPerSecond = BytesPerSecond(100e6);

pub fn cost(plan: &Plan) -> Cost {
    let steps: Vec<StepCost> =
        plan.steps.iter().chain(&plan.finally).map(|step| of_step(step, plan)).collect();
    let sum = |time: fn(&TimeRange) -> Duration| steps.iter().map(|step| time(&step.time)).sum();
    let total = |bytes: fn(&StepCost) -> Option<Bytes>| -> Option<Bytes> {
        let mut all = steps.iter().map(bytes);
        all.try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?.0))).map(Bytes)
    };
    let limited = |bytes: Option<Bytes>| match (bytes, plan.limits.bytes) {
        (Some(bytes), Some(limit)) => Some(bytes.min(limit)),
        (bytes, limit) => bytes.or(limit),
    };
    let bytes = total(|step| step.bytes);
    Cost {
        time: TimeRange { min: sum(|time| time.min), max: sum(|time| time.max) },
        bytes_least: limited(total(|step| step.bytes_least)),
        bytes_without_limit: bytes,
        bytes: limited(bytes),
        scratch: Bytes(steps.iter().map(|step| step.scratch.0).sum()),
        steps,
    }
}

/// What running a step once takes.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    time: TimeRange,
    /// Of it, time in which nothing is done but to wait for the next repetition.
    waiting: Duration,
    /// Of it, time in which streams are sent.
    sending: TimeRange,
    /// Of the most, time in which scratch files are filled.
    filling: Duration,
    /// When filling them is given up: it has a deadline of its own, whose explanation is to arrive.
    prepare_deadline: Duration,
}

impl Effort {
    /// Three times what it was to take, and a minute.
    fn timeout(&self) -> Duration {
        let busy = self.time.max.saturating_sub(self.waiting).saturating_sub(self.filling);
        self.waiting
            .saturating_add(busy.saturating_mul(3))
            .saturating_add(self.prepare_deadline)
            .saturating_add(Duration::from_secs(60))
    }
}

fn of_step(step: &Step, plan: &Plan) -> StepCost {
    let effort = match &step.action {
        Action::Topology(spec) => without_sending(AROUND_A_TEST.min(spec.deadline), spec.deadline),
        Action::Throughput(spec) => of_tests(spec, levels(&spec.num_conn)),
        Action::Sweep(SweepSpec { throughput, vary }) => {
            let points = u32::try_from(vary.len()).unwrap_or(u32::MAX);
            of_tests(throughput, (points, points))
        }
        Action::Path(spec) => of_paths(spec),
        Action::InterfaceMtu(spec) => of_interface_mtu(spec),
        Action::StorageRead(spec) => of_storage(spec),
        Action::SwapRoles | Action::Assert(_) => Effort::default(),
    };
    let none = StepCost {
        time: TimeRange::default(),
        timeout: effort.timeout(),
        bytes: Some(Bytes(0)),
        bytes_least: Some(Bytes(0)),
        scratch: Bytes(0),
    };
    if step.excluded {
        return none;
    }
    let rate = rate(&step.action, plan);
    let bytes = |sending: Duration| match sending.is_zero() {
        true => Some(Bytes(0)),
        false => rate.map(|rate| rate.bytes_in(sending)),
    };
    StepCost {
        time: effort.time,
        bytes: bytes(effort.sending.max),
        bytes_least: bytes(effort.sending.min),
        scratch: scratch(step, plan),
        ..none
    }
}

fn without_sending(min: Duration, max: Duration) -> Effort {
    Effort { time: TimeRange { min: min.min(max), max }, ..Effort::default() }
}

/// Fewest and most tests.
fn levels(num_conn: &NumConn) -> (u32, u32) {
    let NumConn::Ladder(ladder) = num_conn else { return (1, 1) };
    let all = u32::try_from(ladder.levels().count()).unwrap_or(u32::MAX);
    match ladder.until {
        // The first level is the reference; three more that do not rise end it.
        Until::Plateau => (all.min(1 + LEVELS_WITHOUT_RISE as u32), all),
        // Four levels at least, and two contenders twice again: A B B A.
        Until::Knee if all == 1 => (1, 1),
        Until::Knee => (all.min(4) + CONTENDERS, all + CONTENDERS),
    }
}

/// How often contenders of a knee are measured again.
const CONTENDERS: u32 = 4;

fn of_tests(spec: &ThroughputSpec, (fewest, most): (u32, u32)) -> Effort {
    let rounds = rounds(spec);
    let (repeats, waiting) = match spec.frequency {
        // The last repetition begins one interval before the end.
        Some(frequency) => {
            (frequency.tests(), frequency.every.saturating_mul(frequency.tests() - 1))
        }
        None => (1, Duration::ZERO),
    };
    let (fewest, most) = (fewest.saturating_mul(rounds), most.saturating_mul(rounds));
    // Each test makes and fills a file of its own.
    let (fill, deadline) = match &spec.mode {
        Mode::Sync(write) => (fill(Bytes(write.file_bytes)), write.prepare_deadline()),
        Mode::Async | Mode::Fastsync => (Duration::ZERO, Duration::ZERO),
    };
    let once = TimeRange {
        min: spec.time.shortest().saturating_mul(fewest),
        max: (spec.time.longest() + fill + AROUND_A_TEST).saturating_mul(most),
    };
    Effort {
        time: TimeRange {
            min: waiting.saturating_add(once.min),
            max: waiting.saturating_add(once.max),
        },
        waiting,
        sending: TimeRange {
            min: once.min.saturating_mul(repeats),
            max: spec.time.longest().saturating_mul(most.saturating_mul(repeats)),
        },
        filling: fill.saturating_mul(most),
        prepare_deadline: deadline.saturating_mul(most),
    }
}

fn fill(file: Bytes) -> Duration {
    Duration::try_from_secs_f64(file.0 as f64 / FILL_RATE.0).unwrap_or_default()
}

/// How often one test is done for all its pairs to have been tested.
fn rounds(spec: &ThroughputSpec) -> u32 {
    match spec.nodes {
        Nodes::Each => u32::try_from(spec.pairs.len()).unwrap_or(u32::MAX),
        Nodes::Together | Nodes::AllToOne => u32::from(!spec.pairs.is_empty()),
    }
}

fn of_paths(spec: &PathSpec) -> Effort {
    let pairs = u32::try_from(spec.pairs.len()).unwrap_or(u32::MAX);
    let probing = spec.spacing.saturating_mul(spec.probes) + spec.load;
    let load = spec.load.saturating_mul(pairs);
    Effort {
        time: TimeRange {
            min: probing.saturating_mul(pairs),
            max: (spec.deadline + spec.load + AROUND_A_TEST).saturating_mul(pairs),
        },
        sending: TimeRange { min: load, max: load },
        ..Effort::default()
    }
}

/// The test as it is, at the other MTU, and as it was. Before the second, packets of that size are
/// tried.
fn of_interface_mtu(spec: &InterfaceMtuSpec) -> Effort {
    let tests = of_tests(&spec.throughput, (3, 3));
    let trying = MTU_PROBE.saturating_mul(rounds(&spec.throughput));
    let time = TimeRange { max: tests.time.max + trying, ..tests.time };
    Effort { time, ..tests }
}

/// For packets that a path does not carry to be given up.
const MTU_PROBE: Duration = Duration::from_secs(10);

/// Nodes are read one after another at most, all at once at least.
fn of_storage(spec: &StorageReadSpec) -> Effort {
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
        StorageTarget::Scratch { size, .. } => fill(*size),
        StorageTarget::File(_) | StorageTarget::Device(_) => Duration::ZERO,
    };
    let around = AROUND_A_TEST.saturating_mul(points);
    let whole = without_sending(
        if nodes == 0 { Duration::ZERO } else { reading },
        (reading + fill + around).saturating_mul(nodes),
    );
    Effort {
        filling: fill.saturating_mul(nodes),
        prepare_deadline: spec.prepare_deadline().saturating_mul(nodes),
        ..whole
    }
}

/// The most that a step's streams can send. `None`: nothing that is stated bounds it.
fn rate(action: &Action, plan: &Plan) -> Option<BytesPerSecond> {
    let both = action.test().is_some_and(|test| test.both_directions);
    let directions = if both { 2.0 } else { 1.0 };
    let at_once = match action.test() {
        Some(test) if test.nodes != Nodes::Each => test.pairs.len() as f64,
        _ => 1.0,
    };
    let limit = plan.limits.rate.map(|rate| rate.0 * at_once * directions);
    let bandwidth = plan.configuration.network.bandwidth.map(|rate| rate.0 * directions);
    let own = action.test().and_then(|test| of_one_stream(test).zip(most_conn(test)));
    let own = own.map(|(rate, count)| rate * f64::from(count) * at_once * directions);
    let bounds = [limit, bandwidth, own].into_iter().flatten();
    bounds.min_by(f64::total_cmp).map(BytesPerSecond)
}

/// Where pacing or the pause between messages bounds it.
fn of_one_stream(test: &ThroughputSpec) -> Option<f64> {
    // The first message goes before the first pause.
    let first = test.message.0 as f64 / test.time.shortest().as_secs_f64();
    let paused = test.delay.map(|delay| test.message.0 as f64 / delay.as_secs_f64() + first);
    let bounds = [test.pacing.map(|rate| rate.0), paused].into_iter().flatten();
    bounds.min_by(f64::total_cmp)
}

fn most_conn(test: &ThroughputSpec) -> Option<u32> {
    match test.num_conn {
        NumConn::Fixed(count) | NumConn::Ladder(LadderSpec { max: count, .. }) => Some(count),
        NumConn::Later(_) => None,
    }
}

fn scratch(step: &Step, plan: &Plan) -> Bytes {
    match &step.action {
        Action::StorageRead(StorageReadSpec {
            nodes,
            target: StorageTarget::Scratch { size, .. },
            ..
        }) => Bytes(size.0.saturating_mul(nodes.len() as u64)),
        action => match action.test() {
            // The file is written round and round, so its size is what is taken of the disk.
            Some(ThroughputSpec { mode: Mode::Sync(write), pairs, .. }) => {
                let receivers: BTreeSet<_> =
                    pairs.iter().map(|id| plan.pair(*id).receiver(step.direction)).collect();
                Bytes(write.file_bytes.saturating_mul(receivers.len() as u64))
            }
            _ => Bytes(0),
        },
    }
}

#[cfg(test)]
mod tests {
    use redoline_proto::transfer::{Payload, RedoWrite};

    use super::*;
    use crate::plan::node::{NodeId, PairId};
    use crate::plan::step::{BufferSize, Frequency, TestTime};

    fn spec() -> ThroughputSpec {
        ThroughputSpec {
            pairs: vec![PairId(0)],
            nodes: Nodes::Each,
            both_directions: false,
            num_conn: NumConn::Fixed(1),
            time: TestTime::Fixed(Duration::from_secs(10)),
            mode: Mode::Async,
            delay: None,
            network_timeout: None,
            frequency: None,
            interval: Duration::from_secs(1),
            message: Bytes(8192),
            payload: Payload::Random,
            socket_buffer: BufferSize::Auto,
            send_buffer: None,
            receive_buffer: None,
            congestion_control: None,
            mtu: None,
            dscp: None,
            device: None,
            source_port_base: None,
            pacing: None,
            encoding: None,
            compressible: None,
        }
    }

    fn ladder(until: Until, from: u32, max: u32) -> NumConn {
        NumConn::Ladder(LadderSpec { until, from, step: 2, max, tolerance: 0.03 })
    }

    #[test]
    fn a_knee_is_four_levels_at_least_and_its_contenders_again() {
        assert_eq!(levels(&ladder(Until::Plateau, 2, 64)), (4, 32));
        assert_eq!(levels(&ladder(Until::Knee, 1, 64)), (8, 16));
        assert_eq!(levels(&ladder(Until::Knee, 3, 3)), (1, 1));
        assert_eq!(levels(&NumConn::Fixed(8)), (1, 1));
    }

    #[test]
    fn every_hour_for_a_day_is_twenty_four_tests() {
        let hours = |count: u64| Duration::from_secs(count * 3600);
        assert_eq!(Frequency { every: hours(1), during: hours(24) }.tests(), 24);
        assert_eq!(Frequency { every: hours(2), during: hours(5) }.tests(), 3);
    }

    fn sync(file_bytes: u64, tests: u32) -> Effort {
        let write = RedoWrite { dir: "/u02".to_owned(), file_bytes };
        of_tests(&ThroughputSpec { mode: Mode::Sync(write), ..spec() }, (tests, tests))
    }

    #[test]
    fn each_test_that_writes_fills_a_file_of_its_own_first() {
        let effort = sync(16_000_000_000, 4);
        let seconds = (10 + 160 + 1) * 4;
        assert_eq!(effort.time.max, Duration::from_secs(seconds));
        assert_eq!(effort.sending.max, Duration::from_secs(40), "nothing is sent meanwhile");
        assert_eq!(of_tests(&spec(), (4, 4)).time.max, Duration::from_secs(44));
    }

    #[test]
    fn a_step_waits_for_every_file_for_as_long_as_its_agents_do() {
        for file_bytes in [1 << 20, 16 << 30, 1 << 40] {
            let write = RedoWrite { dir: String::new(), file_bytes };
            let agents = write.prepare_deadline() * 4;
            assert!(sync(file_bytes, 4).timeout() > agents + Duration::from_secs(44));
        }
        let size = Bytes(64 << 30);
        let reads = StorageReadSpec {
            nodes: vec![NodeId(0), NodeId(1)],
            target: StorageTarget::Scratch { dir: "/u02".to_owned(), size },
            patterns: vec![StoragePattern::DirectPath],
            block: Bytes(8192),
            request: Bytes(1 << 20),
            sessions: vec![1],
            slots: vec![1],
            duration: Duration::from_secs(10),
        };
        assert!(of_storage(&reads).timeout() > reads.prepare_deadline() * 2);
    }
}
