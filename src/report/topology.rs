//! The nodes of a report: what the setup, the record and the agents say of them.

use redoline_proto::facts;

use super::model;
use crate::plan::node::NodeId;
use crate::record::run::RunRecord;

pub fn topology(record: &RunRecord) -> model::Topology {
    let nodes = (0..record.setup.nodes.len()).map(|node| self::node(record, NodeId(node)));
    model::Topology { nodes: nodes.collect() }
}

fn node(record: &RunRecord, id: NodeId) -> model::Node {
    let setup = &record.setup.nodes[id.0];
    let state = record.nodes.get(&id).cloned().unwrap_or_default();
    let milliseconds = |ns: i64| ns as f64 / 1e6;
    model::Node {
        name: setup.name.clone(),
        role: setup.role,
        cluster: setup.cluster.clone(),
        thread: setup.thread,
        redo_address: setup.redo_address.clone(),
        access: setup.access.clone(),
        agent: state.agent,
        accepted_host_key: state.accepted_host_key,
        lost: state.lost.map(|failure| format!("{}: {}", failure.phase, failure.text)),
        nothing_left: state.released.then_some(state.left_behind.is_none()),
        left_behind: state.left_behind,
        clock_offset_ms: state.clock.map(|clock| milliseconds(clock.unix_offset_ns)),
        clock_offset_error_ms: state.clock.map(|clock| milliseconds(clock.error_ns)),
        facts: state.facts.map(facts),
    }
}

fn facts(facts: facts::HostFacts) -> model::Facts {
    model::Facts {
        hostname: facts.hostname,
        os_release: facts.os_release,
        kernel: facts.kernel,
        architecture: facts.architecture,
        cpus: facts.cpus,
        cpu_model: facts.cpu_model,
        memory_bytes: facts.memory_bytes,
        load_1min: facts.load_1min,
        tcp: tcp(facts.tcp),
        interfaces: facts.interfaces.into_iter().map(interface).collect(),
        routes: facts.routes.into_iter().map(route).collect(),
        block_devices: facts.block_devices.into_iter().map(block_device).collect(),
        oracle_homes: facts.oracle.homes,
        grid_home: facts.oracle.grid_home,
        oracle_users: facts.oracle.users,
        user: facts.user,
    }
}

fn tcp(tcp: facts::TcpSettings) -> model::TcpSettings {
    model::TcpSettings {
        tcp_rmem_bytes: vec![tcp.rmem_min_bytes, tcp.rmem_default_bytes, tcp.rmem_max_bytes],
        tcp_wmem_bytes: vec![tcp.wmem_min_bytes, tcp.wmem_default_bytes, tcp.wmem_max_bytes],
        rmem_max_bytes: tcp.core_rmem_max_bytes,
        wmem_max_bytes: tcp.core_wmem_max_bytes,
        congestion_control: tcp.congestion_control,
        congestion_controls_available: tcp.congestion_controls_available,
        default_qdisc: tcp.default_qdisc,
        mtu_probing: tcp.mtu_probing,
        window_scaling: tcp.window_scaling,
        timestamps: tcp.timestamps,
        sack: tcp.sack,
    }
}

fn interface(interface: facts::Interface) -> model::Interface {
    let on = interface.offloads.into_iter().filter(|offload| offload.on);
    model::Interface {
        name: interface.name,
        addresses: interface.addresses,
        mtu_bytes: interface.mtu_bytes,
        speed_mbit_per_second: interface.speed_mbit_per_s,
        driver: interface.driver,
        state: interface.state,
        qdisc: interface.qdisc,
        offloads: on.map(|offload| offload.name).collect(),
        bond_mode: interface.bond_mode,
        bond_members: interface.bond_members,
    }
}

fn route(route: facts::Route) -> model::Route {
    model::Route {
        peer: route.peer,
        peer_address: route.peer_address,
        interface: route.interface,
        source_address: route.source_address,
        gateway: route.gateway,
        mtu_bytes: route.mtu_bytes,
        hops: route
            .hops
            .into_iter()
            .map(|hop| model::Hop { ttl: hop.ttl, address: hop.address, rtt_us: hop.rtt_us })
            .collect(),
        hops_complete: route.hops_complete,
        hops_remark: route.hops_remark,
    }
}

fn block_device(device: facts::BlockDevice) -> model::BlockDevice {
    model::BlockDevice {
        name: device.name,
        size_bytes: device.size_bytes,
        rotational: device.rotational,
        scheduler: device.scheduler,
        model: device.model,
        logical_block_bytes: device.logical_block_bytes,
        max_sectors_kib: device.max_sectors_kib,
        max_hw_sectors_kib: device.max_hw_sectors_kib,
        max_segments: device.max_segments,
        nr_requests: device.nr_requests,
        queue_depth: device.queue_depth,
        members: device.members,
        mount_points: device.mount_points,
    }
}
