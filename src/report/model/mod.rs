//! `report.json`: the contract with everyone who builds on a report.
//!
//! Units are in the names; unknown is `null`, never 0 and never absent; directions are named by the
//! roles of the inventory. `SCHEMA_VERSION` grows with every change: a new field raises the minor,
//! a changed or removed one the major number.

mod conclusion;
mod hosts;
mod path;
mod storage;
mod throughput;
mod topology;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::need::Transport;
use crate::plan::node::Direction;

pub use conclusion::{
    Answer, Command, Evidence, Finding, JudgedNeed, Recommendation, Severity, Verdict,
};
pub use hosts::{CpuUse, HostUse, InterfaceUse};
pub use path::{Path, PathRtt, SizeProbe};
pub use storage::{Engine, StorageRead};
pub use throughput::{
    CommitOverhead, Granted, GrantedEnd, LevelShift, Limited, PairEnds, Rtt, ScratchWrite,
    Segments, SocketParameters, Steady, Stream, Throughput,
};
pub use topology::{BlockDevice, Facts, Hop, Interface, Node, Route, TcpSettings, Topology};

pub const SCHEMA_VERSION: &str = "1.1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub schema_version: String,
    pub redoline: Product,
    pub run: Run,
    pub runbook: Runbook,
    pub configuration: Configuration,
    pub need: Option<Need>,
    pub limits: Limits,
    pub topology: Topology,
    pub steps: Vec<Step>,
    pub measurements: Vec<Measurement>,
    pub series: Vec<Series>,
    pub findings: Vec<Finding>,
    pub recommendations: Vec<Recommendation>,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Product {
    /// Of the controller that measured.
    pub version: String,
    pub commit: String,
    /// Findings are recomputed from kept runs; this tells by which rules.
    pub analysis_version: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub ended: String,
    /// Every step that was to run has run.
    pub complete: bool,
    /// `completed`, `interrupted`, `stopped` or `unknown` (the controller was killed).
    pub outcome: String,
    /// The most severe of `exit_codes`.
    pub exit_code: u8,
    pub exit_codes: Vec<u8>,
    /// What is missing from this report, in sentences.
    pub missing: Vec<String>,
    /// What a reader should know of how it was measured, in sentences.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runbook {
    pub name: String,
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    pub name: String,
    pub primary_cluster: String,
    pub standby_cluster: String,
    /// All nodes are this machine: loopback, no statement about a network.
    pub demo: bool,
    pub declared_bandwidth_bytes_per_second: Option<f64>,
    pub declared_devices: Vec<String>,
    pub declared_notes: Option<String>,
    pub pairs: Vec<Pair>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    pub name: String,
    pub primary: String,
    pub standby: String,
    /// Only measured by `nodes: all_to_one`; no need is judged by it.
    pub crossed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Need {
    /// Peak redo rate of each thread, without headroom.
    pub threads_bytes_per_second: BTreeMap<u32, f64>,
    pub total_bytes_per_second: Option<f64>,
    pub headroom_share: f64,
    pub transport: Transport,
    pub write_size_bytes: Option<u64>,
    /// Average write to the primary's own redo log (`log file parallel write`).
    pub local_write_us: Option<f64>,
    pub database_size_bytes: Option<u64>,
    pub instantiate_within_seconds: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub rate_bytes_per_second: Option<f64>,
    pub bytes: Option<u64>,
    pub cpu_share: Option<f64>,
    pub load_per_cpu: Option<f64>,
    /// `22:00-05:00`.
    pub window: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// From 1.
    pub number: u32,
    pub name: String,
    pub action: String,
    pub direction: Direction,
    pub register: Option<String>,
    /// `passed`, `failed`, `skipped`, `assertion_failed`, `not_reached`, `excluded`.
    pub outcome: String,
    /// For people: what failed, why, and the way out.
    pub messages: Vec<String>,
    pub started: Option<String>,
    pub ended: Option<String>,
    /// What the step covered, where that is not everything: "on pair phx1-ash1 only".
    pub scope: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Measurement {
    Throughput(Box<Throughput>),
    Path(Box<Path>),
    StorageRead(Box<StorageRead>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BothEnds<T> {
    pub sender: T,
    pub receiver: T,
}

/// What the receivers got in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Since the test began.
    pub at_ms: f64,
    pub interval_ms: f64,
    pub bytes: u64,
}

/// Null when no read, or no message, was completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<f64>,
    pub histogram: Vec<LatencyBucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    pub upper_us: f64,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// `s2`.
    pub id: String,
    pub step: u32,
    /// `ladder` or `sweep`.
    pub kind: String,
    /// `num_conn`, `socket_buffer`, `mtu`, `interface_mtu`, `message_length`, `encryption`,
    /// `compression`, `time`, `slots`, `sessions`.
    pub variable: String,
    /// `connections`, `bytes`, `seconds`, `requests`, `sessions`; empty for names.
    pub unit: String,
    pub direction: Option<Direction>,
    pub pairs: Vec<String>,
    pub node: Option<String>,
    pub points: Vec<Point>,
    /// The point with the highest rate; null when none was measured.
    pub best: Option<Point>,
    /// The smallest value within the tolerance of the best; null for sweeps without an order.
    pub recommended: Option<Point>,
    pub tolerance: Option<f64>,
    /// Of a ladder: `plateau` (the documented procedure) or `knee`.
    pub until: Option<String>,
    /// Of a knee: what the documented procedure would recommend from the same levels; null when
    /// they do not tell.
    pub plateau_recommended: Option<f64>,
    /// Where they do not: what it would recommend under which condition, or what is open.
    pub plateau_remark: Option<String>,
    /// `plateau`, `knee`, `maximum`, `all_values`, `failure`, `interrupted`.
    pub stopped_because: String,
}

/// A value may have several points: a knee measures its contenders again. `best` and `recommended`
/// have the mean over all of a value's points, with the measurement of the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Null for `auto`.
    pub value: Option<f64>,
    pub label: String,
    pub measurement: Option<String>,
    pub bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    /// Why there is no number.
    pub remark: Option<String>,
}
