//! A throughput test: what was asked for, granted, and measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BothEnds, HostUse, Latency, Sample};
use crate::plan::node::Direction;

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

/// LGWR writes locally and sends at the same time: max(0, remote − local) … remote. Means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommitOverhead {
    /// Null when the local log write is not known.
    pub low: Option<f64>,
    pub high: f64,
    /// As the need states it.
    pub local_write: Option<f64>,
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
