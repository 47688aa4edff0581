//! Nodes that told everything, and one that could tell next to nothing.

use super::super::model::*;
use crate::plan::node::Role;

pub(super) fn nodes() -> Vec<Node> {
    [
        ("phx1", Role::Primary, Some(1), "198.51.100.11", "ash1", "203.0.113.11"),
        ("phx2", Role::Primary, Some(2), "198.51.100.12", "ash2", "203.0.113.12"),
        ("ash1", Role::Standby, None, "203.0.113.11", "phx1", "198.51.100.11"),
        ("ash2", Role::Standby, None, "203.0.113.12", "phx2", "198.51.100.12"),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, (name, role, thread, address, peer, peer_address))| Node {
        name: name.to_owned(),
        role,
        cluster: if role == Role::Primary { "orders-phx" } else { "orders-ash" }.to_owned(),
        thread,
        redo_address: address.to_owned(),
        access: format!("ssh oracle@192.0.2.1{index} port 22"),
        agent: Some("/tmp/redoline-9f86d081/redoline-agent".to_owned()),
        accepted_host_key: (name == "ash2").then(|| "SHA256:nThbg6kXUpJWGl7E1IGOCspRom".to_owned()),
        lost: None,
        nothing_left: Some(true),
        left_behind: None,
        clock_offset_ms: Some(0.8 - index as f64),
        clock_offset_error_ms: Some(0.2),
        facts: Some(facts(name, address, peer, peer_address)),
    })
    .collect()
}

pub(super) fn facts(name: &str, address: &str, peer: &str, peer_address: &str) -> Facts {
    Facts {
        hostname: format!("{name}.example.com"),
        os_release: "Oracle Linux Server 8.10".to_owned(),
        kernel: "5.15.0-300.163.18.el8uek.x86_64".to_owned(),
        architecture: "x86_64".to_owned(),
        cpus: Some(16),
        cpu_model: Some("Intel Xeon Platinum 8358 @ 2.60GHz".to_owned()),
        memory_bytes: Some(256 << 30),
        load_1min: Some(1.42),
        tcp: TcpSettings {
            tcp_rmem_bytes: vec![Some(4096), Some(131_072), Some(6_291_456)],
            tcp_wmem_bytes: vec![Some(4096), Some(16_384), Some(4_194_304)],
            rmem_max_bytes: Some(212_992),
            wmem_max_bytes: Some(212_992),
            congestion_control: Some("cubic".to_owned()),
            congestion_controls_available: vec!["reno".to_owned(), "cubic".to_owned()],
            default_qdisc: Some("fq_codel".to_owned()),
            mtu_probing: Some(0),
            window_scaling: Some(1),
            timestamps: Some(1),
            sack: Some(1),
        },
        interfaces: vec![Interface {
            name: "ens3".to_owned(),
            addresses: vec![format!("{address}/24")],
            mtu_bytes: Some(9000),
            speed_mbit_per_second: Some(25_000),
            driver: Some("mlx5_core".to_owned()),
            state: Some("up".to_owned()),
            qdisc: Some("mq".to_owned()),
            offloads: vec!["tso".to_owned(), "gso".to_owned(), "gro".to_owned()],
            bond_mode: None,
            bond_members: vec![],
        }],
        routes: vec![Route {
            peer: peer.to_owned(),
            peer_address: peer_address.to_owned(),
            interface: Some("ens3".to_owned()),
            source_address: Some(address.to_owned()),
            gateway: Some("198.51.100.1".to_owned()),
            mtu_bytes: Some(1500),
            hops: vec![
                Hop { ttl: 1, address: Some("198.51.100.1".to_owned()), rtt_us: Some(310) },
                Hop { ttl: 2, address: None, rtt_us: None },
                Hop { ttl: 3, address: Some(peer_address.to_owned()), rtt_us: Some(20_140) },
            ],
            hops_complete: true,
            hops_remark: None,
        }],
        block_devices: vec![BlockDevice {
            name: "dm-3".to_owned(),
            size_bytes: Some(2 << 40),
            rotational: Some(false),
            scheduler: Some("none".to_owned()),
            model: Some("LUN C-Mode".to_owned()),
            logical_block_bytes: Some(512),
            max_sectors_kib: Some(512),
            max_hw_sectors_kib: Some(4096),
            max_segments: Some(128),
            nr_requests: Some(256),
            queue_depth: Some(64),
            members: vec!["sdb".to_owned(), "sdc".to_owned()],
            mount_points: vec!["/u02".to_owned()],
        }],
        oracle_homes: vec!["/u01/app/oracle/product/19.0.0/dbhome_1".to_owned()],
        grid_home: Some("/u01/app/19.0.0/grid".to_owned()),
        oracle_users: vec!["oracle".to_owned(), "grid".to_owned()],
        user: "oracle".to_owned(),
    }
}

/// A node that could tell next to nothing.
pub(super) fn bare_facts(evil: &str) -> Facts {
    Facts {
        hostname: evil.to_owned(),
        os_release: String::new(),
        kernel: "3.10.0".to_owned(),
        architecture: "x86_64".to_owned(),
        cpus: None,
        cpu_model: None,
        memory_bytes: None,
        load_1min: None,
        tcp: TcpSettings {
            tcp_rmem_bytes: vec![None, None, None],
            tcp_wmem_bytes: vec![],
            rmem_max_bytes: None,
            wmem_max_bytes: None,
            congestion_control: None,
            congestion_controls_available: vec![],
            default_qdisc: None,
            mtu_probing: None,
            window_scaling: None,
            timestamps: None,
            sack: None,
        },
        interfaces: vec![Interface {
            name: evil.to_owned(),
            addresses: vec![],
            mtu_bytes: None,
            speed_mbit_per_second: None,
            driver: None,
            state: None,
            qdisc: None,
            offloads: vec![],
            bond_mode: Some(evil.to_owned()),
            bond_members: vec![evil.to_owned()],
        }],
        routes: vec![Route {
            peer: evil.to_owned(),
            peer_address: "203.0.113.11".to_owned(),
            interface: None,
            source_address: None,
            gateway: None,
            mtu_bytes: None,
            hops: vec![],
            hops_complete: false,
            hops_remark: Some("not permitted".to_owned()),
        }],
        block_devices: vec![BlockDevice {
            name: evil.to_owned(),
            size_bytes: None,
            rotational: None,
            scheduler: None,
            model: Some(evil.to_owned()),
            logical_block_bytes: None,
            max_sectors_kib: None,
            max_hw_sectors_kib: None,
            max_segments: None,
            nr_requests: None,
            queue_depth: None,
            members: vec![],
            mount_points: vec![],
        }],
        oracle_homes: vec![],
        grid_home: None,
        oracle_users: vec![],
        user: "root".to_owned(),
    }
}
