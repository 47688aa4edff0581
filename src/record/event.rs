//! The one language between running and watching: progress, history and report read these.

use redoline_proto::facts::HostFacts;
use redoline_proto::handshake::ClockOffset;
use redoline_proto::units::BytesPerSecond;
use serde::{Deserialize, Serialize};

use super::measurement::{Failure, FailureCause, Measurement, Series};
use super::setup::Setup;
use crate::plan::node::{Direction, NodeId, PairId};

/// The format of `events.jsonl`; a reader refuses a newer one by name.
pub const FORMAT: u32 = 1;

/// [`Failure::phase`] of a data connection that was answered by a reset or an ICMP message although
/// the receiver listened.
pub const DATA_PORT_REFUSED: &str = "data port refused";
/// [`Failure::phase`] of a data connection that nothing answered although the receiver listened.
pub const DATA_PORT_FILTERED: &str = "data port filtered";

/// An event with the time at which the coordinator took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Since 1970, UTC.
    pub unix_ms: i64,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// Always the first.
    RunStarted {
        format: u32,
        run_id: String,
        version: String,
        commit: String,
        setup: Box<Setup>,
    },
    /// The agent answered and holds the node.
    NodeReady {
        node: NodeId,
        clock: ClockOffset,
        /// Executable, directory, whether it was there already.
        agent: String,
        /// SHA-256 fingerprint, when `--accept-new-host-keys` took an unknown key.
        accepted_host_key: Option<String>,
    },
    /// The node takes no further part.
    NodeLost {
        node: NodeId,
        failure: Failure,
    },
    NodeFacts {
        node: NodeId,
        facts: Box<HostFacts>,
    },
    StepStarted {
        step: usize,
    },
    StepFinished {
        step: usize,
        outcome: StepOutcome,
    },
    /// A test begins; `text` says what is measured, for people.
    TestStarted {
        step: usize,
        text: String,
        pairs: Vec<PairId>,
        node: Option<NodeId>,
        expected_ms: u64,
    },
    /// A rate for the eye, about once a second; no result.
    Live {
        step: usize,
        pair: Option<PairId>,
        node: Option<NodeId>,
        direction: Option<Direction>,
        rate: BytesPerSecond,
    },
    /// How well the rate of a test with `duration: auto` is known so far, for the eye.
    Looked {
        step: usize,
        direction: Direction,
        /// Half-width as a share of the rate; `None` while nothing tells it.
        half_width_share: Option<f64>,
    },
    Measured {
        measurement: Measurement,
    },
    SeriesFinished {
        series: Series,
    },
    /// Something that a reader of the report should know.
    Warning {
        node: Option<NodeId>,
        text: String,
    },
    /// What is left on a node after the run, or that nothing is.
    NodeReleased {
        node: NodeId,
        left_behind: Option<String>,
    },
    /// Always the last of a run that was not killed.
    RunFinished {
        outcome: RunOutcome,
    },
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum StepOutcome {
    Passed,
    /// At least one pair or node did not give a result; the others did.
    Failed {
        failures: Vec<StepFailure>,
    },
    Skipped {
        reason: String,
    },
    /// An assertion does not hold.
    AssertionFailed {
        texts: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFailure {
    pub pair: Option<PairId>,
    pub failure: Failure,
}

impl StepFailure {
    pub fn cause(&self) -> FailureCause {
        self.failure.cause
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every step that was to run has run.
    Completed,
    Interrupted,
    /// A step with `on_error: stop` failed, or a limit ended the run.
    Stopped,
}
