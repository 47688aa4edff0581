//! From a step to what it does.

pub mod assertion;
pub mod measure;
pub mod socket;
pub mod storage;
pub mod sweep;
pub mod throughput;

use crate::plan::node::{Direction, PairId};
use crate::plan::step::{Action, Step, TopologySpec};
use crate::record::event::{StepFailure, StepOutcome};

use super::run::Run;

/// The step that is running.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// Its place among the run's steps.
    pub index: usize,
    pub direction: Direction,
    pub register: Option<&'a str>,
}

/// Runs one step for the pairs whose `when` holds.
pub async fn run(run: &mut Run<'_>, index: usize, step: &Step) -> StepOutcome {
    let at = At { index, direction: step.direction, register: step.register.as_deref() };
    let failures = match &step.action {
        Action::SwapRoles => Vec::new(),
        Action::Topology(spec) => topology(run, spec).await,
        Action::Throughput(spec) => {
            let pairs = match wanted_pairs(run, step, &spec.pairs) {
                Ok(pairs) if pairs.is_empty() => return not_wanted(step),
                Ok(pairs) => pairs,
                Err(outcome) => return outcome,
            };
            throughput::run(run, at, spec, &pairs).await
        }
        Action::Sweep(spec) => {
            let pairs = match wanted_pairs(run, step, &spec.throughput.pairs) {
                Ok(pairs) if pairs.is_empty() => return not_wanted(step),
                Ok(pairs) => pairs,
                Err(outcome) => return outcome,
            };
            sweep::run(run, at, spec, &pairs).await
        }
        Action::StorageRead(spec) => match wanted_at_all(run, step) {
            Ok(true) => storage::run(run, at, spec).await,
            Ok(false) => return not_wanted(step),
            Err(outcome) => return outcome,
        },
        Action::Assert(spec) => match wanted_at_all(run, step) {
            Ok(true) => return assertion::check(run, at, spec),
            Ok(false) => return not_wanted(step),
            Err(outcome) => return outcome,
        },
    };
    run.note(&failures).await;
    if failures.is_empty() { StepOutcome::Passed } else { StepOutcome::Failed { failures } }
}

async fn topology(run: &mut Run<'_>, spec: &TopologySpec) -> Vec<StepFailure> {
    run.gather_facts(spec.deadline).await
}

/// The pairs for which the step's `when` is true.
fn wanted_pairs(run: &Run<'_>, step: &Step, pairs: &[PairId]) -> Result<Vec<PairId>, StepOutcome> {
    let Some(when) = &step.when else { return Ok(pairs.to_vec()) };
    let mut wanted = Vec::new();
    for pair in pairs {
        let context = run.results.context(*pair, run.plan.pair(*pair), step.direction);
        match when.evaluate(&context) {
            Ok(value) if value.is_true() => wanted.push(*pair),
            Ok(_) => (),
            Err(error) => {
                return Err(StepOutcome::Skipped {
                    reason: format!("`when` has no value: {error}"),
                });
            }
        }
    }
    Ok(wanted)
}

/// A step about nodes runs when its `when` is true for any pair.
fn wanted_at_all(run: &Run<'_>, step: &Step) -> Result<bool, StepOutcome> {
    let pairs: Vec<PairId> = (0..run.plan.pairs.len()).map(PairId).collect();
    wanted_pairs(run, step, &pairs).map(|wanted| !wanted.is_empty())
}

fn not_wanted(step: &Step) -> StepOutcome {
    let when = step.when.as_ref().map_or("", |when| when.text());
    StepOutcome::Skipped { reason: format!("`when: {when}` is false") }
}
