//! Whether a run's events name only nodes, pairs and steps that its setup has: a kept file may be
//! damaged, and everything that reads a record looks them up by number.

use super::event::{Event, StepOutcome};
use super::measurement::{Failure, Measurement};
use super::setup::Setup;
use crate::plan::node::{NodeId, PairId};

impl Setup {
    /// What is wrong with its own numbers.
    pub fn fault(&self) -> Option<String> {
        let known = Known(self);
        let ends = self.pairs.iter().flat_map(|pair| [pair.primary, pair.standby]);
        let readers = self.steps.iter().flat_map(|step| step.nodes.iter().copied());
        let pairs = self.steps.iter().flat_map(|step| step.pairs.iter().copied());
        let late = (self.finally_from > self.steps.len())
            .then(|| format!("step {} is not one of the run", self.finally_from + 1));
        known.nodes(ends.chain(readers)).or_else(|| known.pairs(pairs)).or(late)
    }

    /// Why an event cannot be one of this run.
    pub fn fault_of(&self, event: &Event) -> Option<String> {
        let known = Known(self);
        match event {
            Event::RunStarted { .. } => Some("the run begins twice".to_owned()),
            Event::NodeReady { node, .. }
            | Event::NodeFacts { node, .. }
            | Event::NodeReleased { node, .. } => known.nodes([*node]),
            Event::NodeLost { node, failure } => {
                known.nodes([*node]).or_else(|| known.failure(failure))
            }
            Event::StepStarted { step } => known.step(*step),
            Event::StepFinished { step, outcome } => {
                known.step(*step).or_else(|| known.outcome(outcome))
            }
            Event::TestStarted { step, pairs, node, .. } => known
                .step(*step)
                .or_else(|| known.pairs(pairs.iter().copied()))
                .or_else(|| known.nodes(*node)),
            Event::Live { step, pair, node, .. } => {
                known.step(*step).or_else(|| known.pairs(*pair)).or_else(|| known.nodes(*node))
            }
            Event::Looked { step, .. } => known.step(*step),
            Event::Measured { measurement } => known.measurement(measurement),
            Event::SeriesFinished { series } => known
                .step(series.step)
                .or_else(|| known.pairs(series.pair))
                .or_else(|| known.nodes(series.node)),
            Event::Warning { node, .. } => known.nodes(*node),
            Event::RunFinished { .. } => None,
        }
    }
}

/// Answers with what is not known.
struct Known<'a>(&'a Setup);

impl Known<'_> {
    fn nodes(&self, nodes: impl IntoIterator<Item = NodeId>) -> Option<String> {
        let stranger = nodes.into_iter().find(|node| node.0 >= self.0.nodes.len())?;
        Some(format!("node {} is not one of the run", stranger.0))
    }

    fn pairs(&self, pairs: impl IntoIterator<Item = PairId>) -> Option<String> {
        let stranger = pairs.into_iter().find(|pair| pair.0 >= self.0.pairs.len())?;
        Some(format!("pair {} is not one of the run", stranger.0))
    }

    fn step(&self, step: usize) -> Option<String> {
        (step >= self.0.steps.len()).then(|| format!("step {} is not one of the run", step + 1))
    }

    fn failure(&self, failure: &Failure) -> Option<String> {
        self.nodes(failure.node)
    }

    fn outcome(&self, outcome: &StepOutcome) -> Option<String> {
        let StepOutcome::Failed { failures } = outcome else { return None };
        failures.iter().find_map(|one| self.pairs(one.pair).or_else(|| self.failure(&one.failure)))
    }

    fn measurement(&self, measurement: &Measurement) -> Option<String> {
        match measurement {
            Measurement::Path(path) => self
                .step(path.step)
                .or_else(|| self.pairs([path.pair]))
                .or_else(|| path.failure.as_ref().and_then(|failure| self.failure(failure))),
            Measurement::StorageRead(read) => {
                self.step(read.step).or_else(|| self.nodes([read.node]))
            }
            Measurement::Throughput(test) => self
                .step(test.step)
                .or_else(|| self.pairs(test.pairs.iter().map(|pair| pair.pair)))
                .or_else(|| {
                    let failures = test.pairs.iter().filter_map(|pair| pair.failure.as_ref());
                    failures.into_iter().find_map(|failure| self.failure(failure))
                }),
        }
    }
}
