//! Nodes, and what they told of themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::node::Role;

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
