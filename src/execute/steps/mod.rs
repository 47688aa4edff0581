//! From a step to what it does.

pub mod announce;
pub mod assertion;
pub mod carried;
pub mod climb;
pub mod frequency;
pub mod interface_mtu;
pub mod measure;
pub mod path;
pub mod register;
pub mod request;
pub mod room;
pub mod socket;
pub mod storage;
pub mod sweep;
pub mod throughput;

#[cfg(test)]
mod samples;

use crate::plan::node::{Direction, PairId};
use crate::plan::step::{
    Action, InterfaceMtuSpec, PathSpec, Step, SweepSpec, ThroughputSpec, TopologySpec, Until,
};
use crate::record::event::{StepFailure, StepOutcome};
use crate::record::measurement::{Series, SeriesKind, StoppedBecause, Variable};

use super::run::Run;

/// The step that is running.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// Its place among the run's steps.
    pub index: usize,
    pub direction: Direction,
    pub register: Option<&'a str>,
}

impl At<'_> {
    /// A sweep of the step that has no points yet; of several pairs together, none is named.
    fn series(self, variable: Variable, pairs: &[PairId]) -> Series {
        Series {
            id: 0,
            step: self.index,
            kind: SeriesKind::Sweep,
            variable,
            direction: Some(self.direction),
            pair: match pairs {
                [pair] => Some(*pair),
                _ => None,
            },
            node: None,
            points: Vec::new(),
            tolerance: None,
            until: Until::default(),
            stopped_because: StoppedBecause::Interrupted,
        }
    }
}

/// Runs one step for the pairs whose `when` holds.
pub async fn run(run: &mut Run<'_>, index: usize, step: &Step) -> StepOutcome {
    let at = At { index, direction: step.direction, register: step.register.as_deref() };
    let failures = match &step.action {
        Action::SwapRoles => Vec::new(),
        Action::Topology(spec) => topology(run, spec).await,
        Action::Path(PathSpec { pairs, .. })
        | Action::Throughput(ThroughputSpec { pairs, .. })
        | Action::Sweep(SweepSpec { throughput: ThroughputSpec { pairs, .. }, .. })
        | Action::InterfaceMtu(InterfaceMtuSpec {
            throughput: ThroughputSpec { pairs, .. }, ..
        }) => {
            let Wanted { pairs, mut failures } = wanted_pairs(run, step, pairs);
            if pairs.is_empty() {
                return not_wanted(step, failures);
            }
            failures.extend(of_pairs(run, at, &step.action, &pairs).await);
            failures
        }
        Action::StorageRead(spec) => match wanted_at_all(run, step) {
            Ok(()) => storage::run(run, at, spec).await,
            Err(outcome) => return outcome,
        },
        Action::Assert(spec) => match wanted_at_all(run, step) {
            Ok(()) => return assertion::check(run, at, spec),
            Err(outcome) => return outcome,
        },
    };
    run.note(&failures).await;
    if failures.is_empty() { StepOutcome::Passed } else { StepOutcome::Failed { failures } }
}

/// Of the actions that are about pairs.
async fn of_pairs(
    run: &mut Run<'_>,
    at: At<'_>,
    action: &Action,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    match action {
        Action::Path(spec) => path::run(run, at, spec, pairs).await,
        Action::Throughput(spec) => throughput::run(run, at, spec, pairs).await,
        Action::Sweep(spec) => sweep::run(run, at, spec, pairs).await,
        Action::InterfaceMtu(spec) => interface_mtu::run(run, at, spec, pairs).await,
        Action::Topology(_) | Action::SwapRoles | Action::StorageRead(_) | Action::Assert(_) => {
            Vec::new()
        }
    }
}

async fn topology(run: &mut Run<'_>, spec: &TopologySpec) -> Vec<StepFailure> {
    run.gather_facts(spec.deadline).await
}

/// The pairs for which the step's `when` is true, and those for which it has no value.
struct Wanted {
    pairs: Vec<PairId>,
    failures: Vec<StepFailure>,
}

fn wanted_pairs(run: &Run<'_>, step: &Step, pairs: &[PairId]) -> Wanted {
    let Some(when) = &step.when else {
        return Wanted { pairs: pairs.to_vec(), failures: Vec::new() };
    };
    let mut wanted = Wanted { pairs: Vec::new(), failures: Vec::new() };
    for pair in pairs {
        let context = run.context(*pair, step.direction);
        match when.holds(&context) {
            Ok(true) => wanted.pairs.push(*pair),
            Ok(false) => (),
            Err(error) => wanted.failures.push(measure::no_value("when", error.to_string(), *pair)),
        }
    }
    wanted
}

/// A step about nodes runs when its `when` is true for any pair.
fn wanted_at_all(run: &Run<'_>, step: &Step) -> Result<(), StepOutcome> {
    let pairs: Vec<PairId> = run.plan.own_pairs().collect();
    match wanted_pairs(run, step, &pairs) {
        Wanted { pairs, failures } if pairs.is_empty() => Err(not_wanted(step, failures)),
        _ => Ok(()),
    }
}

/// A condition that could not be told is a failure; one that is false is not.
fn not_wanted(step: &Step, failures: Vec<StepFailure>) -> StepOutcome {
    if !failures.is_empty() {
        return StepOutcome::Failed { failures };
    }
    let when = step.when.as_ref().map_or("", |when| when.text());
    StepOutcome::Skipped { reason: format!("`when: {when}` is false") }
}
