//! Raw results with the conditions they were taken under; what they mean is recomputed from them.

use redoline_proto::encoding::Encoding;
use redoline_proto::handshake::ClockOffset;
use redoline_proto::path::PathProbe;
use redoline_proto::storage::{StoragePrepared, StorageResult, StorageTarget};
use redoline_proto::transfer::{
    Acknowledge, Connected, Payload, Reading, Sample, SocketRequest, TransferEnd,
};
use redoline_proto::units::BytesPerSecond;
use serde::{Deserialize, Serialize};

use crate::plan::node::{Direction, NodeId, PairId};
use crate::plan::step::{Nodes, Until};

/// Counts the measurements of a run from 1; shown as `m7`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeasurementId(pub u32);

impl std::fmt::Display for MeasurementId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "m{}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Measurement {
    Throughput(Box<Throughput>),
    Path(Box<Path>),
    StorageRead(Box<StorageRead>),
}

impl Measurement {
    pub fn id(&self) -> MeasurementId {
        match self {
            Self::Throughput(throughput) => throughput.id,
            Self::Path(path) => path.id,
            Self::StorageRead(read) => read.id,
        }
    }
}

/// One throughput test: all its pairs sent from one barrier on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub id: MeasurementId,
    pub step: usize,
    pub direction: Direction,
    pub request: TransferRequest,
    /// One, or all pairs of the step when they were measured together.
    pub pairs: Vec<PairTransfer>,
}

/// Every effective parameter, as asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferRequest {
    #[serde(with = "nodes_as_text")]
    pub nodes: Nodes,
    pub num_conn: u32,
    /// Of `auto`, the most.
    pub duration_ms: u64,
    /// Of `duration: auto`: the half-width that ends the test, as a share of the rate.
    #[serde(default)]
    pub auto_target: Option<f64>,
    /// `async`, `sync` or `fastsync`.
    #[serde(default = "asynchronous")]
    pub mode: String,
    /// What the receiver does before it answers, in SYNC modes.
    #[serde(default)]
    pub acknowledge: Option<Acknowledge>,
    #[serde(default)]
    pub delay_us: Option<u64>,
    #[serde(default)]
    pub network_timeout_ms: Option<u64>,
    #[serde(default)]
    pub encoding: Option<Encoding>,
    #[serde(default)]
    pub compressible_share: Option<f64>,
    /// The same was sent the other way at the same time.
    #[serde(default)]
    pub both_directions: bool,
    /// The interface's MTU while it was held at another value.
    #[serde(default)]
    pub interface_mtu_bytes: Option<u32>,
    pub interval_ms: u64,
    pub message_bytes: u64,
    pub payload: Payload,
    /// As the runbook has it: `auto`, `4 MiB`, `3xBDP`.
    pub socket_buffer: String,
    pub mtu_bytes: Option<u32>,
    pub socket: SocketRequest,
    /// What the runbook's limit of each node leaves for one pair.
    pub rate_limit: Option<BytesPerSecond>,
}

/// What one pair did in a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairTransfer {
    pub pair: PairId,
    pub sender: EndRecord,
    pub receiver: EndRecord,
    /// Why there is no complete result.
    pub failure: Option<Failure>,
}

/// One end of a pair's transfer; times are of that node's monotonic clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// To bring the times of several nodes together.
    pub clock: Option<ClockOffset>,
    pub connected: Option<Connected>,
    pub started_ns: Option<i64>,
    pub samples: Vec<Sample>,
    pub readings: Vec<Reading>,
    pub end: Option<TransferEnd>,
}

/// Something that did not work: where, in which phase, why, and the way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub node: Option<NodeId>,
    /// `connect`, `host key`, `data connection`, `transfer`, …
    pub phase: String,
    pub text: String,
    pub cause: FailureCause,
}

/// What a failure means for the exit code.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// The node cannot be reached, or was lost (exit code 3).
    Unreachable,
    /// Another run holds the node (6).
    Busy,
    /// A limit of the runbook ended it (5).
    Limit,
    /// The step could not measure (4).
    CouldNotMeasure,
    /// Ctrl-C (130).
    Interrupted,
}

/// What the way between the nodes of a pair is like, from the sender's side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    pub id: MeasurementId,
    pub step: usize,
    pub direction: Direction,
    pub pair: PairId,
    /// `None`: it could not be asked for; `failure` says why.
    pub probe: Option<PathProbe>,
    /// A short stream of large messages, whose counters tell what probes cannot.
    pub stream: Option<PairTransfer>,
    pub failure: Option<Failure>,
}

/// One point of a storage test on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageRead {
    pub id: MeasurementId,
    pub step: usize,
    pub node: NodeId,
    pub target: StorageTarget,
    pub prepared: StoragePrepared,
    pub result: StorageResult,
}

/// A ladder or a sweep: one variable, one pair or node, the measurements in the order taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Counts the series of a run from 1; shown as `s2`.
    pub id: u32,
    pub step: usize,
    pub kind: SeriesKind,
    pub variable: Variable,
    /// `None` for storage.
    pub direction: Option<Direction>,
    /// Exactly one of pair and node.
    pub pair: Option<PairId>,
    pub node: Option<NodeId>,
    pub points: Vec<SeriesPoint>,
    /// Of a ladder: the share by which a level must rise.
    pub tolerance: Option<f64>,
    #[serde(default)]
    pub until: Until,
    pub stopped_because: StoppedBecause,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesKind {
    Ladder,
    Sweep,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variable {
    NumConn,
    SocketBuffer,
    Mtu,
    /// Of the interface itself.
    InterfaceMtu,
    MessageLength,
    Encryption,
    Compression,
    /// Seconds since the first repetition.
    Time,
    /// Outstanding requests of `direct_path`.
    Slots,
    /// Concurrent readers of `single_block`.
    Sessions,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// `None` for `socket_buffer: auto`.
    pub value: Option<f64>,
    /// As the runbook has it: `auto`, `4 MiB`, `9000`.
    pub label: String,
    /// `None` when it could not be measured; then `remark` says why.
    pub measurement: Option<MeasurementId>,
    pub remark: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBecause {
    /// Three consecutive levels did not rise.
    Plateau,
    /// Two consecutive levels missed the best, and the contenders were measured again.
    Knee,
    /// The runbook's highest level was reached while still rising.
    Maximum,
    /// Every value was tried.
    AllValues,
    /// A level could not be measured.
    Failure,
    /// A limit of the runbook, a timeout or Ctrl-C.
    Interrupted,
}

/// What runs of versions without SYNC did.
fn asynchronous() -> String {
    "async".to_owned()
}

mod nodes_as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::plan::step::Nodes;

    pub(super) fn serialize<S: Serializer>(nodes: &Nodes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match nodes {
            Nodes::Each => "each",
            Nodes::Together => "together",
            Nodes::AllToOne => "all_to_one",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nodes, D::Error> {
        match String::deserialize(from)?.as_str() {
            "each" => Ok(Nodes::Each),
            "together" => Ok(Nodes::Together),
            "all_to_one" => Ok(Nodes::AllToOne),
            other => Err(de::Error::unknown_variant(other, &["each", "together", "all_to_one"])),
        }
    }
}
