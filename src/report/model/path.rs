//! What the way between two nodes is like.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BothEnds, Latency, Segments};
use crate::plan::node::Direction;

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
    /// Of the stream; 0 where the path swallowed all of it, null where none was sent.
    pub acked_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
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
