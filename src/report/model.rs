//! `report.json`: the contract with everyone who builds on a report.
//!
//! Units are in the names; unknown is `null`, never 0 and never absent; directions are named by the
//! roles of the inventory. `SCHEMA_VERSION` grows with every change: a new field raises the minor,
//! a changed or removed one the major number.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::need::Transport;
use crate::plan::node::{Direction, Role};

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
pub struct Topology {
    pub nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    pub name: String,
    pub role: Role,
    pub cluster: String,
    pub thread: Option<u32>,
    pub redo_address: String,
    pub access: String,
    /// Executable and directory; null when the agent never answered.
    pub agent: Option<String>,
    /// Set when `--accept-new-host-keys` took a key that no known_hosts file had.
    pub accepted_host_key: Option<String>,
    /// Why the node took no (further) part.
    pub lost: Option<String>,
    /// After the run: true when nothing is left, false when `left_behind` says what is, null when
    /// that is not known.
    pub nothing_left: Option<bool>,
    /// What could not be removed; null when nothing is left, or when unknown.
    pub left_behind: Option<String>,
    /// The node's time of day minus the controller's.
    pub clock_offset_ms: Option<f64>,
    pub clock_offset_error_ms: Option<f64>,
    /// As the agent read them; null when it was not asked or did not answer.
    pub facts: Option<Facts>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    pub hostname: String,
    pub os_release: String,
    pub kernel: String,
    pub architecture: String,
    pub cpus: Option<u32>,
    pub cpu_model: Option<String>,
    pub memory_bytes: Option<u64>,
    pub load_1min: Option<f64>,
    pub tcp: TcpSettings,
    pub interfaces: Vec<Interface>,
    pub routes: Vec<Route>,
    pub block_devices: Vec<BlockDevice>,
    pub oracle_homes: Vec<String>,
    pub grid_home: Option<String>,
    pub oracle_users: Vec<String>,
    pub user: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpSettings {
    /// `net.ipv4.tcp_rmem`: minimum, default, maximum.
    pub tcp_rmem_bytes: Vec<Option<u64>>,
    /// `net.ipv4.tcp_wmem`: minimum, default, maximum.
    pub tcp_wmem_bytes: Vec<Option<u64>>,
    pub rmem_max_bytes: Option<u64>,
    pub wmem_max_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    pub congestion_controls_available: Vec<String>,
    pub default_qdisc: Option<String>,
    pub mtu_probing: Option<u32>,
    pub window_scaling: Option<u32>,
    pub timestamps: Option<u32>,
    pub sack: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    pub name: String,
    pub addresses: Vec<String>,
    pub mtu_bytes: Option<u32>,
    pub speed_mbit_per_second: Option<u64>,
    pub driver: Option<String>,
    pub state: Option<String>,
    pub qdisc: Option<String>,
    /// Offloads that are on.
    pub offloads: Vec<String>,
    pub bond_mode: Option<String>,
    pub bond_members: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    pub peer: String,
    pub peer_address: String,
    pub interface: Option<String>,
    pub source_address: Option<String>,
    pub gateway: Option<String>,
    pub mtu_bytes: Option<u32>,
    pub hops: Vec<Hop>,
    pub hops_complete: bool,
    pub hops_remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    pub ttl: u32,
    pub address: Option<String>,
    pub rtt_us: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockDevice {
    pub name: String,
    pub size_bytes: Option<u64>,
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    pub model: Option<String>,
    pub logical_block_bytes: Option<u32>,
    pub max_sectors_kib: Option<u64>,
    pub max_hw_sectors_kib: Option<u64>,
    pub max_segments: Option<u32>,
    pub nr_requests: Option<u32>,
    pub queue_depth: Option<u32>,
    pub members: Vec<String>,
    pub mount_points: Vec<String>,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// `m7`.
    pub id: String,
    /// Number of the step, from 1.
    pub step: u32,
    pub direction: Direction,
    pub pairs: Vec<PairEnds>,
    /// `each`, `together` or `all_to_one`.
    pub nodes: String,
    /// The same was sent the other way at the same time.
    pub both_directions: bool,
    /// `async`, `sync` (AFFIRM) or `fastsync` (NOAFFIRM).
    pub mode: String,
    /// Of `sync`: where the receiver writes each message before it answers.
    pub write: Option<ScratchWrite>,
    pub num_conn: u32,
    pub message_bytes: u64,
    pub requested: SocketParameters,
    /// At the end of the test; auto-tuning moves the buffers.
    pub granted: Granted,
    /// Of `duration: auto`, the most.
    pub duration_ms: u64,
    /// Of `duration: auto`: the half-width that ends the test, as a share of the rate.
    pub auto_target_share: Option<f64>,
    pub interval_ms: u64,
    pub payload: String,
    /// What a good compressor takes out of it, 0 to 1; null where nothing was asked for.
    pub compressible_share: Option<f64>,
    pub delay_us: Option<u64>,
    pub network_timeout_ms: Option<u64>,
    /// `aes-256-gcm`, `lz4`, `zlib-6`; null in the clear.
    pub encoding: Option<String>,
    /// Set while the interface's MTU was held at this value.
    pub interface_mtu_bytes: Option<u32>,
    pub rate_limit_bytes_per_second: Option<f64>,
    /// What the receivers got, in the window common to all streams; null when it failed.
    pub steady: Option<Steady>,
    pub whole_run_bytes_per_second: Option<f64>,
    pub written_bytes: Option<u64>,
    pub acked_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub retransmitted_bytes: Option<u64>,
    /// Of the segments that the senders' kernels sent and the receivers' got.
    pub segments: Segments,
    pub rtt_us: Rtt,
    pub limited: Limited,
    /// The largest window that a receiver offered to a stream.
    pub offered_window_bytes: Option<u64>,
    pub congestion_control: BothEnds<Option<String>>,
    pub mss_bytes: Option<u64>,
    pub path_mtu_bytes: Option<u64>,
    /// CPU time of the test's threads over its duration, as a number of cores.
    pub cpu_cores: BothEnds<Option<f64>>,
    /// Of the whole host.
    pub host_cpu_cores: BothEnds<Option<f64>>,
    /// What each end of each pair did meanwhile; null ends were lost before they could tell.
    pub hosts: Vec<HostUse>,
    /// Of SYNC modes: messages of all streams over the time of the test.
    pub messages_per_second: Option<f64>,
    /// Of SYNC modes: from `send` to the acknowledgement. Percentiles of several pairs cannot be
    /// merged: then they are null here, and each pair has its own.
    pub latency_us: Option<Latency>,
    /// Of that, the receiver's write; null when nothing was written.
    pub write_latency_us: Option<Latency>,
    /// Mean of `latency_us` − mean of `write_latency_us`: network and both ends' processors.
    pub network_latency_mean_us: Option<f64>,
    /// Of the mean of `latency_us`, what is not the write, 0 to 1; null when nothing was written.
    pub network_share: Option<f64>,
    /// Of the mean of `latency_us`, the write, 0 to 1; null when nothing was written.
    pub disk_share: Option<f64>,
    /// What SYNC adds to a commit, as bounds; of several pairs, with the slowest.
    pub commit_overhead_us: Option<CommitOverhead>,
    /// How evenly streams share the rate (Jain's index): 1 is even, 1/n is all for one. Of several
    /// pairs that of the least even; null with one stream each.
    pub stream_fairness: Option<f64>,
    /// The same of pairs; null with one.
    pub pair_fairness: Option<f64>,
    pub streams: Vec<Stream>,
    pub samples: Vec<Sample>,
    pub failures: Vec<String>,
}

/// A file that the receiver of a SYNC test writes round and round (O_DIRECT, O_DSYNC).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScratchWrite {
    pub directory: String,
    pub file_bytes: u64,
}

/// Sums over streams; null where a kernel does not count them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segments {
    /// Bytes sent again of all sent after the ramp, 0 to 1; of several pairs the highest.
    pub lost_share: Option<f64>,
    pub delivered: Option<u64>,
    /// Times that a sender saw segments overtake others.
    pub reordered: Option<u64>,
    /// Got too early, behind a gap.
    pub out_of_order: Option<u64>,
    /// Arrived twice: sent again for nothing.
    pub duplicates: Option<u64>,
}

/// One end of a pair during a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUse {
    pub pair: String,
    pub node: String,
    /// `sender` or `receiver`.
    pub end: String,
    /// Null when the agent could not tell, or what it told is impossible.
    pub cpu: Option<CpuUse>,
    /// Those that carried or dropped anything, ours and everybody else's; null when unknown.
    pub interfaces: Option<Vec<InterfaceUse>>,
    /// Packets that the kernel dropped because its queue for a processor was full
    /// (`/proc/net/softnet_stat`).
    pub softnet_dropped: Option<u64>,
    /// Times that it had more packets to take than its budget allowed.
    pub softnet_squeezed: Option<u64>,
}

/// As numbers of cores over the time of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// Of the test's threads.
    pub test_cores: f64,
    /// At 1 the thread cannot do more.
    pub busiest_thread_cores: f64,
    /// What that thread waited for a processor although it could have run.
    pub busiest_thread_waited_cores: Option<f64>,
    /// What a control group's quota kept the test from running.
    pub throttled_cores: Option<f64>,
    pub host_cores: Option<f64>,
    pub host_softirq_cores: Option<f64>,
    pub host_steal_cores: Option<f64>,
    /// 0 to 1.
    pub busiest_core_share: Option<f64>,
    /// That core's time in soft interrupts, 0 to 1.
    pub busiest_core_softirq_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceUse {
    pub name: String,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub sent_packets: u64,
    pub receive_drops: u64,
    pub send_drops: u64,
    pub receive_errors: u64,
    pub send_errors: u64,
}

/// LGWR writes locally and sends at the same time: max(0, remote − local) … remote. Means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommitOverhead {
    /// Null when the local log write is not known.
    pub low: Option<f64>,
    pub high: f64,
    /// As the need states it.
    pub local_write: Option<f64>,
}

/// What the way between two nodes is like. Sizes are of IP packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    pub id: String,
    pub step: u32,
    pub direction: Direction,
    pub pair: String,
    pub sender: String,
    pub receiver: String,
    /// `udp` (to the agent) or `icmp`; null when no small probe came back.
    pub way: Option<String>,
    pub rtt_us: PathRtt,
    /// Of small probes, 0 to 1; null when none came back.
    pub loss_ratio: Option<f64>,
    pub probes: Option<u32>,
    pub answered_probes: Option<u32>,
    pub reordered_probes: Option<u32>,
    /// The largest packet that came back; null when unknown.
    pub path_mtu_bytes: Option<u32>,
    pub return_path_mtu_bytes: Option<u32>,
    /// That the kernel remembered from earlier traffic, below the interface's MTU.
    pub remembered_mtu_bytes: Option<u32>,
    /// Of the stream of large messages.
    pub mss_bytes: Option<u64>,
    pub sizes: Vec<SizeProbe>,
    /// By the route to the other end.
    pub interface: BothEnds<Option<String>>,
    /// That carried the stream, by the bytes that its counters grew by; null when the stream
    /// carried too little to tell.
    pub used_interface: BothEnds<Option<String>>,
    pub interface_mtu_bytes: BothEnds<Option<u32>>,
    /// The sender's, of its route to the receiver.
    pub source_address: Option<String>,
    pub gateway: Option<String>,
    /// What the stream carried while it loaded the path; null when it carried nothing.
    pub load_bytes_per_second: Option<f64>,
    /// Of the stream.
    pub retransmitted_bytes: Option<u64>,
    pub segments: Segments,
    pub remarks: Vec<String>,
    pub failures: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathRtt {
    /// Of small probes on the idle path.
    pub idle: Option<Latency>,
    /// Median of the kernel's smoothed round trip under load.
    pub loaded_p50: Option<u64>,
    /// Nearest rank; of fewer than 100 readings it is the largest of them.
    pub loaded_p99: Option<u64>,
    pub loaded_max: Option<u64>,
    /// That these rest on.
    pub loaded_readings: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeProbe {
    pub packet_bytes: u32,
    /// `passed`, `too_big_here`, `too_big_there`, `lost`.
    pub outcome: String,
    pub told_mtu_bytes: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairEnds {
    pub pair: String,
    pub sender: String,
    pub receiver: String,
    /// This pair's part of the common window.
    pub bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    /// Of the sum of all pairs of the test, 0 to 1; null unless each of them has a rate.
    pub share: Option<f64>,
    /// Of SYNC modes.
    pub messages_per_second: Option<f64>,
    pub latency_us: Option<Latency>,
    pub write_latency_us: Option<Latency>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketParameters {
    /// As the runbook has it: `auto`, `4 MiB`, `3xBDP`.
    pub socket_buffer: String,
    pub socket_buffer_bytes: Option<u64>,
    /// Of the sender alone; wins over `socket_buffer_bytes`.
    pub send_buffer_bytes: Option<u64>,
    /// Of the receiver alone; wins over `socket_buffer_bytes`.
    pub receive_buffer_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    pub mtu_bytes: Option<u32>,
    pub mss_bytes: Option<u32>,
    /// The 6 bits of DiffServ, 0 to 63.
    pub dscp: Option<u32>,
    /// The sender's interface.
    pub device: Option<String>,
    /// Stream i leaves from this port + i.
    pub source_port: Option<u32>,
    /// Of each stream.
    pub pacing_bytes_per_second: Option<f64>,
}

/// As getsockopt reports them: on Linux twice what surely carries data. Of several streams the
/// smallest; the sender's send buffer and the receiver's receive buffer carry the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Granted {
    pub send_buffer_bytes: Option<u64>,
    pub receive_buffer_bytes: Option<u64>,
    /// What of `send_buffer_bytes` surely carries data.
    pub usable_send_buffer_bytes: Option<u64>,
    /// What of `receive_buffer_bytes` surely carries data.
    pub usable_receive_buffer_bytes: Option<u64>,
    /// By pair, sender and receiver.
    pub ends: Vec<GrantedEnd>,
}

/// The buffer that carries the data at one end of a pair, the smallest of its streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantedEnd {
    pub pair: String,
    pub node: String,
    /// `sender` (its send buffer) or `receiver` (its receive buffer).
    pub end: String,
    /// After connect, as getsockopt reports it.
    pub begin_bytes: Option<u64>,
    /// At the end of the test; auto-tuning moves it.
    pub end_bytes: Option<u64>,
    /// Set past the system's maximum, with privilege; null when no connection stood.
    pub forced: Option<bool>,
    /// The setting that the buffer stands at: `net.core.wmem_max`, `net.core.rmem_max` (a request was
    /// cut down), `net.ipv4.tcp_wmem[2]`, `net.ipv4.tcp_rmem[2]` (auto-tuning came to its maximum).
    /// Null when none bound it, or when it is not known.
    pub bound_by: Option<String>,
    pub congestion_control: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    pub bytes_per_second: f64,
    /// The mean is within this of the true one, with `confidence`; null when it cannot be told.
    pub half_width_bytes_per_second: Option<f64>,
    pub confidence: f64,
    /// The share of the rate that the half-width was to reach.
    pub target_share: f64,
    /// The half-width is within the target.
    pub converged: bool,
    /// Ramp that was cut off.
    pub truncated_ms: u64,
    pub batches: u32,
    /// Of the window that the mean rests on.
    pub window_ms: u64,
    /// The rate moved from one level to another within the window; null when it did not.
    pub level_shift: Option<LevelShift>,
}

/// Mean rates of the first and the last third of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelShift {
    pub first_bytes_per_second: f64,
    pub last_bytes_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rtt {
    pub min: Option<u64>,
    /// Under the test's load.
    pub p50: Option<u64>,
    pub max: Option<u64>,
}

/// Time in which the senders' streams were held, of `busy_ms`; sums over streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limited {
    pub busy_ms: Option<u64>,
    pub receive_window_ms: Option<u64>,
    pub send_buffer_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BothEnds<T> {
    pub sender: T,
    pub receiver: T,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    pub pair: String,
    pub stream: u32,
    pub local: String,
    pub remote: String,
    pub received_bytes: Option<u64>,
    pub retransmitted_bytes: Option<u64>,
    pub rtt_us: Option<u64>,
    pub min_rtt_us: Option<u64>,
    pub send_buffer_bytes: Option<u64>,
    pub receive_buffer_bytes: Option<u64>,
}

/// What the receivers got in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Since the test began.
    pub at_ms: f64,
    pub interval_ms: f64,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageRead {
    pub id: String,
    pub step: u32,
    pub node: String,
    /// `single_block` or `direct_path`.
    pub pattern: String,
    /// `file`, `device` or `scratch`.
    pub target: String,
    pub path: String,
    pub filesystem: String,
    pub device: Option<String>,
    pub size_bytes: u64,
    /// Of the Oracle blocks; equal to `request_bytes` for `single_block`.
    pub block_bytes: Option<u64>,
    pub request_bytes: u64,
    /// Concurrent readers; null for `direct_path`.
    pub sessions: Option<u32>,
    /// Outstanding requests; null for `single_block`.
    pub slots: Option<u32>,
    pub engine: Engine,
    pub reads: u64,
    pub bytes: u64,
    pub elapsed_ms: f64,
    pub iops: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub latency_us: Latency,
    pub device_read_ratio: Option<f64>,
    pub device_requests_per_read: Option<f64>,
    pub zero_block_share: Option<f64>,
    pub foreign_bytes: Option<u64>,
    pub cpu_cores: Option<f64>,
    pub short_reads: u64,
    pub buffer_pages: String,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    pub used: String,
    pub why: String,
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

#[derive(
    Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Ok,
    Info,
    Warning,
    Critical,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Of the list in the documentation: `per-flow-limit`, `need-not-met`, …
    pub id: String,
    pub severity: Severity,
    /// Null when it is about both, or about no network.
    pub direction: Option<Direction>,
    pub pairs: Vec<String>,
    pub nodes: Vec<String>,
    pub value: Option<f64>,
    /// `bytes_per_second`, `bytes`, `seconds`, …
    pub unit: Option<String>,
    /// `measured`, `likely`, `possible`.
    pub confidence: String,
    pub evidence: Vec<Evidence>,
    /// The needs that it judges.
    pub needs: Vec<JudgedNeed>,
    pub sentence: String,
}

/// A need in one direction beside what was measured for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedNeed {
    /// Null: all threads together.
    pub thread: Option<u32>,
    pub direction: Direction,
    /// Null: all pairs, or no pair carries the thread.
    pub pair: Option<String>,
    /// With headroom.
    pub required_bytes_per_second: f64,
    pub measured_bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub measurement: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    pub measurement: String,
    /// Names of the fields used: `limited.send_buffer_ms`.
    pub fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    pub id: String,
    /// Ids of the findings that it follows from.
    pub findings: Vec<String>,
    /// A sentence.
    pub action: String,
    pub commands: Vec<Command>,
    pub expected_effect: String,
    pub how_to_verify: String,
    pub how_to_undo: String,
    pub risk: String,
    pub needs_root: bool,
    pub licence: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Node names; empty for the network team.
    pub nodes: Vec<String>,
    /// `sysctl`, `sqlnet.ora`, `tnsnames.ora`, `rman`.
    pub kind: String,
    pub lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Met,
    /// Met under conditions that the sentence names.
    Conditional,
    NotMet,
    CannotTell,
    NotTested,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    pub answer: Answer,
    pub sentence: String,
    /// Ids of the findings that it rests on.
    pub findings: Vec<String>,
}
