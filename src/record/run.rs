//! A run is the fold of its events; an interrupted one is a shorter stream.

use std::collections::BTreeMap;

use redoline_proto::facts::HostFacts;
use redoline_proto::handshake::ClockOffset;

use super::event::{Event, Moment, RunOutcome, StepOutcome};
use super::measurement::{
    Failure, Measurement, MeasurementId, Path, Series, StorageRead, Throughput,
};
use super::setup::Setup;
use crate::plan::node::NodeId;

/// All that is known of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    pub run_id: String,
    pub version: String,
    pub commit: String,
    pub setup: Setup,
    /// Since 1970, UTC.
    pub started_unix_ms: i64,
    /// Of the last event.
    pub ended_unix_ms: i64,
    /// `None`: the controller was killed, or the run still goes on.
    pub outcome: Option<RunOutcome>,
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    pub steps: Vec<StepRecord>,
    pub measurements: Vec<Measurement>,
    pub series: Vec<Series>,
    pub warnings: Vec<(Option<NodeId>, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRecord {
    pub clock: Option<ClockOffset>,
    pub agent: Option<String>,
    pub accepted_host_key: Option<String>,
    pub lost: Option<Failure>,
    pub facts: Option<HostFacts>,
    /// Known only when the node was released.
    pub released: bool,
    pub left_behind: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepRecord {
    pub started_unix_ms: Option<i64>,
    pub ended_unix_ms: Option<i64>,
    /// `None`: not reached, or not finished.
    pub outcome: Option<StepOutcome>,
}

/// The events are not those of a run.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotARun {
    #[error("the first event is not `run_started`")]
    NoStart,
    #[error("the setup of the run is damaged: {0}")]
    Setup(String),
}

impl RunRecord {
    /// Folds a whole stream.
    pub fn fold<'a>(moments: impl IntoIterator<Item = &'a Moment>) -> Result<Self, NotARun> {
        let mut moments = moments.into_iter();
        let first = moments.next().ok_or(NotARun::NoStart)?;
        if let Event::RunStarted { setup, .. } = &first.event
            && let Some(fault) = setup.fault()
        {
            return Err(NotARun::Setup(fault));
        }
        let mut record = Self::begin(first).ok_or(NotARun::NoStart)?;
        for moment in moments {
            record.apply(moment);
        }
        Ok(record)
    }

    /// The record after its first event; `None` when that is another one, or its setup is damaged.
    pub fn begin(first: &Moment) -> Option<Self> {
        let Event::RunStarted { run_id, version, commit, setup, .. } = &first.event else {
            return None;
        };
        if setup.fault().is_some() {
            return None;
        }
        Some(Self {
            run_id: run_id.clone(),
            version: version.clone(),
            commit: commit.clone(),
            setup: (**setup).clone(),
            started_unix_ms: first.unix_ms,
            ended_unix_ms: first.unix_ms,
            outcome: None,
            nodes: BTreeMap::new(),
            steps: vec![StepRecord::default(); setup.steps.len()],
            measurements: Vec::new(),
            series: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// An event that cannot be one of this run is left out, and a warning says so.
    pub fn apply(&mut self, moment: &Moment) {
        if let Some(fault) = self.setup.fault_of(&moment.event) {
            self.warnings.push((None, format!("an event of the run's file is damaged: {fault}")));
            return;
        }
        self.ended_unix_ms = moment.unix_ms;
        match &moment.event {
            Event::RunStarted { .. }
            | Event::TestStarted { .. }
            | Event::Live { .. }
            | Event::Looked { .. } => (),
            Event::NodeReady { node, clock, agent, accepted_host_key } => {
                let node = self.node_mut(*node);
                node.clock = Some(*clock);
                node.agent = Some(agent.clone());
                node.accepted_host_key.clone_from(accepted_host_key);
            }
            Event::NodeLost { node, failure } => self.node_mut(*node).lost = Some(failure.clone()),
            Event::NodeFacts { node, facts } => {
                self.node_mut(*node).facts = Some((**facts).clone());
            }
            Event::StepStarted { step } => {
                self.step_mut(*step, |step| step.started_unix_ms = Some(moment.unix_ms));
            }
            Event::StepFinished { step, outcome } => self.step_mut(*step, |step| {
                step.ended_unix_ms = Some(moment.unix_ms);
                step.outcome = Some(outcome.clone());
            }),
            Event::Measured { measurement } => self.measurements.push(measurement.clone()),
            Event::SeriesFinished { series } => self.series.push(series.clone()),
            Event::Warning { node, text } => self.warnings.push((*node, text.clone())),
            Event::NodeReleased { node, left_behind } => {
                let node = self.node_mut(*node);
                node.released = true;
                node.left_behind.clone_from(left_behind);
            }
            Event::RunFinished { outcome } => self.outcome = Some(*outcome),
        }
    }

    pub fn complete(&self) -> bool {
        self.outcome == Some(RunOutcome::Completed)
    }

    pub fn throughputs(&self) -> impl Iterator<Item = &Throughput> {
        self.measurements.iter().filter_map(|measurement| match measurement {
            Measurement::Throughput(throughput) => Some(&**throughput),
            Measurement::Path(_) | Measurement::StorageRead(_) => None,
        })
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.measurements.iter().filter_map(|measurement| match measurement {
            Measurement::Path(path) => Some(&**path),
            Measurement::Throughput(_) | Measurement::StorageRead(_) => None,
        })
    }

    pub fn storage_reads(&self) -> impl Iterator<Item = &StorageRead> {
        self.measurements.iter().filter_map(|measurement| match measurement {
            Measurement::StorageRead(read) => Some(&**read),
            Measurement::Throughput(_) | Measurement::Path(_) => None,
        })
    }

    pub fn measurement(&self, id: MeasurementId) -> Option<&Measurement> {
        self.measurements.iter().find(|measurement| measurement.id() == id)
    }

    fn node_mut(&mut self, id: NodeId) -> &mut NodeRecord {
        self.nodes.entry(id).or_default()
    }

    fn step_mut(&mut self, step: usize, change: impl FnOnce(&mut StepRecord)) {
        if let Some(step) = self.steps.get_mut(step) {
            change(step);
        }
    }
}
