//! What a node is: CPU, memory, network and storage as the node itself sees them.

use serde::{Deserialize, Serialize};

/// Everything that an agent can say of its node; unknown is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    pub hostname: String,
    /// `PRETTY_NAME` of /etc/os-release.
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
    pub oracle: OracleSoftware,
    pub effective_user_id: u32,
    pub user: String,
}

/// The system's settings for TCP sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSettings {
    pub rmem_min_bytes: Option<u64>,
    pub rmem_default_bytes: Option<u64>,
    /// `tcp_rmem[2]`: what auto-tuning may grow a receive buffer to.
    pub rmem_max_bytes: Option<u64>,
    pub wmem_min_bytes: Option<u64>,
    pub wmem_default_bytes: Option<u64>,
    /// `tcp_wmem[2]`: what auto-tuning may grow a send buffer to.
    pub wmem_max_bytes: Option<u64>,
    /// `rmem_max`: what SO_RCVBUF may ask for.
    pub core_rmem_max_bytes: Option<u64>,
    /// `wmem_max`: what SO_SNDBUF may ask for.
    pub core_wmem_max_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    pub congestion_controls_available: Vec<String>,
    pub default_qdisc: Option<String>,
    pub mtu_probing: Option<u32>,
    pub window_scaling: Option<u32>,
    pub timestamps: Option<u32>,
    pub sack: Option<u32>,
    pub no_metrics_save: Option<u32>,
    pub local_port_first: Option<u32>,
    pub local_port_last: Option<u32>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub addresses: Vec<String>,
    pub mtu_bytes: Option<u32>,
    pub speed_mbit_per_s: Option<u64>,
    pub driver: Option<String>,
    pub state: Option<String>,
    pub qdisc: Option<String>,
    pub offloads: Vec<Offload>,
    pub rx_queues: Option<u32>,
    pub tx_queues: Option<u32>,
    pub bond_mode: Option<String>,
    pub bond_members: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offload {
    pub name: String,
    pub on: bool,
}

/// The way to a peer's redo address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// A router on the way; one that did not answer has no address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    pub ttl: u32,
    pub address: Option<String>,
    pub rtt_us: Option<u64>,
}

/// A whole disk, LVM volume or multipath device with its queue limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockDevice {
    pub name: String,
    pub size_bytes: Option<u64>,
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    pub model: Option<String>,
    pub logical_block_bytes: Option<u32>,
    pub physical_block_bytes: Option<u32>,
    pub max_sectors_kib: Option<u64>,
    pub max_hw_sectors_kib: Option<u64>,
    pub max_segments: Option<u32>,
    pub max_segment_bytes: Option<u64>,
    pub nr_requests: Option<u32>,
    pub queue_depth: Option<u32>,
    pub members: Vec<String>,
    pub mount_points: Vec<String>,
}

/// Oracle software found on the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OracleSoftware {
    pub homes: Vec<String>,
    /// Of `oracle` and `grid`, those that exist.
    pub users: Vec<String>,
    pub groups: Vec<String>,
    pub grid_home: Option<String>,
}

/// A node whose redo address is asked for by its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    pub name: String,
    pub address: String,
}

/// What the facts are to cover.
#[derive(Clone, Debug, PartialEq)]
pub struct FactsRequest {
    pub peers: Vec<Peer>,
    pub redo_address: String,
    pub deadline_ms: u64,
}

mirror!(
    HostFacts,
    FactsReply {
        hostname,
        os_release,
        kernel,
        architecture,
        cpus,
        cpu_model,
        memory_bytes,
        load_1min,
        tcp,
        interfaces,
        routes,
        block_devices,
        oracle,
        effective_user_id,
        user,
    }
);
mirror!(
    TcpSettings,
    TcpSettings {
        rmem_min_bytes,
        rmem_default_bytes,
        rmem_max_bytes,
        wmem_min_bytes,
        wmem_default_bytes,
        wmem_max_bytes,
        core_rmem_max_bytes,
        core_wmem_max_bytes,
        congestion_control,
        congestion_controls_available,
        default_qdisc,
        mtu_probing,
        window_scaling,
        timestamps,
        sack,
        no_metrics_save,
        local_port_first,
        local_port_last,
    }
);
mirror!(
    Interface,
    Interface {
        name,
        addresses,
        mtu_bytes,
        speed_mbit_per_s,
        driver,
        state,
        qdisc,
        offloads,
        rx_queues,
        tx_queues,
        bond_mode,
        bond_members,
    }
);
mirror!(Offload, Offload { name, on });
mirror!(
    Route,
    Route {
        peer,
        peer_address,
        interface,
        source_address,
        gateway,
        mtu_bytes,
        hops,
        hops_complete,
        hops_remark,
    }
);
mirror!(Hop, Hop { ttl, address, rtt_us });
mirror!(
    BlockDevice,
    BlockDevice {
        name,
        size_bytes,
        rotational,
        scheduler,
        model,
        logical_block_bytes,
        physical_block_bytes,
        max_sectors_kib,
        max_hw_sectors_kib,
        max_segments,
        max_segment_bytes,
        nr_requests,
        queue_depth,
        members,
        mount_points,
    }
);
mirror!(OracleSoftware, OracleSoftware { homes, users, groups, grid_home });
mirror!(Peer, Peer { name, address });
mirror!(FactsRequest, FactsRequest { peers, redo_address, deadline_ms });
