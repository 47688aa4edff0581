//! Reports to test renderers with: a whole run, a broken one and a demo.

use std::collections::BTreeMap;

use super::model::*;
use crate::plan::need::Transport;
use crate::plan::node::{Direction, Role};

const MBIT: f64 = 125_000.0;
const MIB: f64 = 1_048_576.0;
const OUT: Direction = Direction::PrimaryToStandby;
const BACK: Direction = Direction::StandbyToPrimary;

/// Two pairs over an emulated WAN in both directions; a per-flow limit keeps single streams down.
pub fn whole() -> Report {
    let mut report = frame();
    for (index, direction) in [OUT, BACK].into_iter().enumerate() {
        add_network_tests(&mut report, direction, index as u32);
    }
    add_storage_tests(&mut report);
    report.findings = findings();
    report.recommendations = recommendations();
    report.verdict = Verdict {
        answer: Answer::NotMet,
        sentence: "The network does not carry the redo of thread 2: one stream reaches 57.9 \
                   Mbit/s where 74.8 Mbit/s are needed. Each connection is held at the same rate \
                   while the aggregate still rises with more of them."
            .to_owned(),
        findings: vec!["need-not-met".to_owned(), "per-flow-limit".to_owned()],
    };
    report
}

/// A run that was stopped: one node never answered, and what peers said is hostile.
pub fn broken() -> Report {
    let evil = "ash1<script>alert(1)</script>\u{1b}[31m|`x`\r\n# h";
    let mut report = frame();
    report.run.complete = false;
    report.run.outcome = "interrupted".to_owned();
    report.run.exit_code = 130;
    report.run.exit_codes = vec![130, 3];
    report.run.missing = vec![
        format!("Node {evil} took no part: connection refused."),
        "Storage was not read.".to_owned(),
    ];
    report.need = None;
    report.limits = Limits {
        rate_bytes_per_second: None,
        bytes: None,
        cpu_share: None,
        load_per_cpu: None,
        window: None,
    };
    report.configuration.declared_bandwidth_bytes_per_second = None;
    report.configuration.declared_devices = vec![];
    report.configuration.declared_notes = None;
    report.configuration.pairs[0].standby = evil.to_owned();
    report.configuration.pairs[0].name = format!("phx1-{evil}");
    let nodes = &mut report.topology.nodes;
    nodes[0].facts = Some(bare_facts(evil));
    nodes[1].facts = None;
    nodes[2].name = evil.to_owned();
    nodes[2].facts = None;
    nodes[2].agent = None;
    nodes[2].clock_offset_ms = None;
    nodes[2].clock_offset_error_ms = None;
    nodes[2].lost = Some("connect: connection refused; is sshd running on port 22?".to_owned());
    nodes[3].facts = None;
    nodes[3].nothing_left = Some(false);
    nodes[3].left_behind = Some("/tmp/.redoline-3f".to_owned());
    report.steps.truncate(3);
    report.steps[1].outcome = "failed".to_owned();
    report.steps[1].messages = vec![format!("transfer, node {evil}: connection reset by peer")];
    report.steps[2].outcome = "not_reached".to_owned();
    report.steps[2].started = None;
    report.steps[2].ended = None;
    report.measurements = vec![Measurement::Throughput(Box::new(failed_test(evil)))];
    report.series = vec![Series {
        id: "s1".to_owned(),
        step: 3,
        kind: "ladder".to_owned(),
        variable: "num_conn".to_owned(),
        unit: "connections".to_owned(),
        direction: Some(OUT),
        pairs: vec![format!("phx1-{evil}")],
        node: None,
        points: vec![Point {
            value: Some(2.0),
            label: "2".to_owned(),
            measurement: None,
            bytes_per_second: None,
            half_width_bytes_per_second: None,
            remark: Some(format!("{evil} did not answer")),
        }],
        best: None,
        recommended: None,
        tolerance: Some(0.03),
        until: None,
        plateau_recommended: None,
        stopped_because: "failure".to_owned(),
    }];
    report.verdict = Verdict {
        answer: Answer::NotTested,
        sentence: "Nothing was measured.".to_owned(),
        findings: vec![],
    };
    report
}

/// The built-in inventory on loopback, one pair, no need.
pub fn demo() -> Report {
    let mut report = frame();
    report.configuration.demo = true;
    report.configuration.name = "demo".to_owned();
    report.configuration.pairs.truncate(1);
    report.topology.nodes.remove(3);
    report.topology.nodes.remove(1);
    report.need = None;
    report.run.remarks =
        vec!["All nodes are this machine: loopback, no statement about a network.".to_owned()];
    report.steps.truncate(2);
    report.measurements = vec![Measurement::Throughput(Box::new(test(
        "m1",
        2,
        OUT,
        &[(0, 21_000.0 * MBIT, 180.0 * MBIT)],
        1,
    )))];
    report.verdict = Verdict {
        answer: Answer::NotTested,
        sentence: "No need is stated, so none was judged.".to_owned(),
        findings: vec!["need-unknown".to_owned()],
    };
    report.findings = vec![finding("need-unknown", Severity::Info, None, &[], None, &[])];
    report.findings[0].sentence = "The runbook states no need.".to_owned();
    report
}

fn frame() -> Report {
    Report {
        schema_version: SCHEMA_VERSION.to_owned(),
        redoline: Product {
            version: "0.1.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            analysis_version: 1,
        },
        run: Run {
            id: "20261130-183005-orders".to_owned(),
            started: "2026-11-30T18:30:05Z".to_owned(),
            ended: "2026-11-30T18:52:41Z".to_owned(),
            complete: true,
            outcome: "completed".to_owned(),
            exit_code: 1,
            exit_codes: vec![1],
            missing: vec![],
            remarks: vec![
                "The host key of ash2 was in no known_hosts file and was accepted, as \
                           asked for."
                    .to_owned(),
            ],
        },
        runbook: Runbook {
            name: "Pre-migration assessment".to_owned(),
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        },
        configuration: Configuration {
            name: "orders".to_owned(),
            primary_cluster: "orders-phx".to_owned(),
            standby_cluster: "orders-ash".to_owned(),
            demo: false,
            declared_bandwidth_bytes_per_second: Some(500.0 * MBIT),
            declared_devices: vec!["phx-fw1".to_owned(), "wan-r7".to_owned()],
            declared_notes: Some("MPLS, QoS class gold".to_owned()),
            pairs: (1..=2)
                .map(|i| Pair {
                    name: format!("phx{i}-ash{i}"),
                    primary: format!("phx{i}"),
                    standby: format!("ash{i}"),
                })
                .collect(),
        },
        need: Some(Need {
            threads_bytes_per_second: BTreeMap::from([(1, 40.0 * MBIT), (2, 57.5 * MBIT)]),
            total_bytes_per_second: Some(97.5 * MBIT),
            headroom_share: 0.3,
            transport: Transport::Async,
            write_size_bytes: Some(20_480),
            database_size_bytes: Some(1 << 40),
            instantiate_within_seconds: Some(28_800.0),
        }),
        limits: Limits {
            rate_bytes_per_second: Some(400.0 * MBIT),
            bytes: Some(500 << 30),
            cpu_share: Some(0.8),
            load_per_cpu: None,
            window: Some("22:00-05:00".to_owned()),
        },
        topology: Topology { nodes: nodes() },
        steps: steps(),
        measurements: vec![],
        series: vec![],
        findings: vec![],
        recommendations: vec![],
        verdict: Verdict { answer: Answer::NotTested, sentence: String::new(), findings: vec![] },
    }
}

fn steps() -> Vec<Step> {
    let rows = [
        ("Topology", "topology", OUT, None),
        ("One stream, as redo transport uses", "throughput", OUT, Some("single")),
        ("Streams until the aggregate stops rising", "throughput", OUT, Some("ladder")),
        ("All nodes at once", "throughput", OUT, Some("together")),
        ("Socket buffers", "sweep", OUT, Some("buffers")),
        ("Roles swapped for the tests", "swap_roles", BACK, None),
        ("One stream, as redo transport uses", "throughput", BACK, Some("single")),
        ("Streams until the aggregate stops rising", "throughput", BACK, Some("ladder")),
        ("All nodes at once", "throughput", BACK, Some("together")),
        ("Socket buffers", "sweep", BACK, Some("buffers")),
        ("How Oracle reads", "storage_read", BACK, None),
    ];
    rows.iter()
        .enumerate()
        .map(|(index, (name, action, direction, register))| Step {
            number: index as u32 + 1,
            name: (*name).to_owned(),
            action: (*action).to_owned(),
            direction: *direction,
            register: register.map(str::to_owned),
            outcome: "passed".to_owned(),
            messages: match *action {
                "swap_roles" => vec!["test direction only; no database switchover".to_owned()],
                _ => vec![],
            },
            started: Some(format!("2026-11-30T18:{:02}:05Z", 30 + 2 * index)),
            ended: Some(format!("2026-11-30T18:{:02}:55Z", 31 + 2 * index)),
            scope: None,
        })
        .collect()
}

fn nodes() -> Vec<Node> {
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

fn facts(name: &str, address: &str, peer: &str, peer_address: &str) -> Facts {
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
fn bare_facts(evil: &str) -> Facts {
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

fn add_network_tests(report: &mut Report, direction: Direction, turn: u32) {
    let single = [(0, 57.9 * MBIT, 0.4 * MBIT), (1, 57.6 * MBIT, 0.5 * MBIT)];
    let step = 2 + 5 * turn;
    for part in single {
        let id = next_id(report);
        push(report, test(&id, step, direction, &[part], 1));
    }
    for pair in 0..2 {
        add_ladder(report, step + 1, direction, pair);
    }
    let id = next_id(report);
    let parts = [(0, 118.0 * MBIT, 1.2 * MBIT), (1, 117.0 * MBIT, 1.4 * MBIT)];
    let mut together = test(&id, step + 2, direction, &parts, 4);
    together.nodes = "together".to_owned();
    push(report, together);
    add_buffer_sweep(report, step + 3, direction);
}

fn add_ladder(report: &mut Report, step: u32, direction: Direction, pair: usize) {
    let rates = [115.2, 171.0, 188.5, 189.9, 190.3, 189.0];
    let mut points = Vec::new();
    for (index, rate) in rates.iter().enumerate() {
        let num_conn = 2 * (index as u32 + 1);
        let part = (pair, (rate - 3.0 * pair as f64) * MBIT, (1.0 + 0.3 * index as f64) * MBIT);
        let id = next_id(report);
        push(report, test(&id, step, direction, &[part], num_conn));
        points.push(point(f64::from(num_conn), &num_conn.to_string(), &id, part));
    }
    report.series.push(Series {
        id: format!("s{}", report.series.len() + 1),
        step,
        kind: "ladder".to_owned(),
        variable: "num_conn".to_owned(),
        unit: "connections".to_owned(),
        direction: Some(direction),
        pairs: vec![report.configuration.pairs[pair].name.clone()],
        node: None,
        best: Some(points[4].clone()),
        recommended: Some(points[2].clone()),
        points,
        tolerance: Some(0.03),
        until: None,
        plateau_recommended: None,
        stopped_because: "plateau".to_owned(),
    });
}

fn add_buffer_sweep(report: &mut Report, step: u32, direction: Direction) {
    let values = [
        (None, "auto", 57.9),
        (Some(MIB), "1 MiB", 52.5),
        (Some(4.0 * MIB), "4 MiB", 57.8),
        (Some(435_000.0), "3xBDP", 57.7),
    ];
    let mut points = Vec::new();
    for (value, label, rate) in values {
        let part = (0, rate * MBIT, 0.5 * MBIT);
        let id = next_id(report);
        let mut sweep = test(&id, step, direction, &[part], 1);
        label.clone_into(&mut sweep.requested.socket_buffer);
        sweep.requested.socket_buffer_bytes = value.map(|bytes| bytes as u64);
        push(report, sweep);
        points.push(Point { value, ..point(0.0, label, &id, part) });
    }
    points.push(Point {
        value: Some(64.0 * MIB),
        label: "64 MiB".to_owned(),
        measurement: None,
        bytes_per_second: None,
        half_width_bytes_per_second: None,
        remark: Some("above net.core.wmem_max, and the agent is not root".to_owned()),
    });
    report.series.push(Series {
        id: format!("s{}", report.series.len() + 1),
        step,
        kind: "sweep".to_owned(),
        variable: "socket_buffer".to_owned(),
        unit: "bytes".to_owned(),
        direction: Some(direction),
        pairs: vec!["phx1-ash1".to_owned()],
        node: None,
        best: Some(points[0].clone()),
        recommended: None,
        points,
        tolerance: None,
        until: None,
        plateau_recommended: None,
        stopped_because: "all_values".to_owned(),
    });
}

fn add_storage_tests(report: &mut Report) {
    for node in ["phx1", "ash1"] {
        for (pattern, variable) in [("direct_path", "slots"), ("single_block", "sessions")] {
            let mut points = Vec::new();
            for level in [1_u32, 2, 4, 8, 16, 32, 64] {
                let id = next_id(report);
                let read = storage_read(&id, node, pattern, level);
                let part = (0, read.bytes_per_second.unwrap_or(0.0), 2.0 * MIB);
                points.push(point(f64::from(level), &level.to_string(), &id, part));
                report.measurements.push(Measurement::StorageRead(Box::new(read)));
            }
            report.series.push(Series {
                id: format!("s{}", report.series.len() + 1),
                step: 11,
                kind: "ladder".to_owned(),
                variable: variable.to_owned(),
                unit: if variable == "slots" { "requests" } else { "sessions" }.to_owned(),
                direction: None,
                pairs: vec![],
                node: Some(node.to_owned()),
                best: points.last().cloned(),
                recommended: points.get(4).cloned(),
                points,
                tolerance: Some(0.03),
                until: None,
                plateau_recommended: None,
                stopped_because: "all_values".to_owned(),
            });
        }
    }
}

fn storage_read(id: &str, node: &str, pattern: &str, level: u32) -> StorageRead {
    let direct = pattern == "direct_path";
    let request_bytes = if direct { 1 << 20 } else { 8192 };
    let service_us = if direct { 1800.0 } else { 420.0 };
    let level_f64 = f64::from(level);
    let slow = if node == "ash1" { 1.6 } else { 1.0 };
    let latency = slow * service_us * (1.0 + level_f64 / 12.0);
    let iops = level_f64 / latency * 1e6;
    StorageRead {
        id: id.to_owned(),
        step: 11,
        node: node.to_owned(),
        pattern: pattern.to_owned(),
        target: "scratch".to_owned(),
        path: "/u02/oradata/redoline-scratch".to_owned(),
        filesystem: "xfs".to_owned(),
        device: Some("dm-3".to_owned()),
        size_bytes: 8 << 30,
        block_bytes: Some(8192),
        request_bytes,
        sessions: (!direct).then_some(level),
        slots: direct.then_some(level),
        engine: Engine { used: "io_uring".to_owned(), why: "available and permitted".to_owned() },
        reads: (iops * 10.0) as u64,
        bytes: (iops * 10.0) as u64 * request_bytes,
        elapsed_ms: 10_000.0,
        iops: Some(iops),
        bytes_per_second: Some(iops * request_bytes as f64),
        half_width_bytes_per_second: Some(2.0 * MIB),
        latency_us: Latency {
            mean: Some(latency),
            p50: Some(latency * 0.9),
            p90: Some(latency * 1.4),
            p99: Some(latency * 2.2),
            p999: Some(latency * 3.9),
            max: Some(latency * 8.0),
            histogram: vec![LatencyBucket { upper_us: latency, count: 10 }],
        },
        device_read_ratio: Some(1.0),
        device_requests_per_read: Some(if direct { 2.0 } else { 1.0 }),
        zero_block_share: Some(0.0),
        foreign_bytes: Some(0),
        cpu_cores: Some(0.11),
        short_reads: 0,
        buffer_pages: "huge pages, 2 MiB".to_owned(),
        samples: vec![],
    }
}

/// `parts` are pair, rate and half-width in bytes per second.
fn test(
    id: &str,
    step: u32,
    direction: Direction,
    parts: &[(usize, f64, f64)],
    num_conn: u32,
) -> Throughput {
    let total: f64 = parts.iter().map(|part| part.1).sum();
    let half_width: f64 = parts.iter().map(|part| part.2).sum();
    let bytes = (total * 20.0) as u64;
    Throughput {
        id: id.to_owned(),
        step,
        direction,
        pairs: parts.iter().map(|part| pair_ends(*part, direction)).collect(),
        nodes: "each".to_owned(),
        both_directions: false,
        mode: "async".to_owned(),
        auto_target_share: None,
        compressible_share: None,
        delay_us: None,
        network_timeout_ms: None,
        encoding: None,
        interface_mtu_bytes: None,
        messages_per_second: None,
        latency_us: None,
        write_latency_us: None,
        network_latency_mean_us: None,
        commit_overhead_us: None,
        stream_fairness: None,
        pair_fairness: None,
        num_conn,
        message_bytes: 1 << 20,
        requested: SocketParameters {
            socket_buffer: "auto".to_owned(),
            socket_buffer_bytes: None,
            congestion_control: None,
            mtu_bytes: None,
            mss_bytes: None,
        },
        granted: Granted {
            send_buffer_bytes: Some(4_194_304),
            receive_buffer_bytes: Some(6_291_456),
        },
        duration_ms: 20_000,
        interval_ms: 100,
        payload: "random".to_owned(),
        rate_limit_bytes_per_second: Some(400.0 * MBIT),
        steady: Some(Steady {
            bytes_per_second: total,
            half_width_bytes_per_second: Some(half_width),
            confidence: 0.95,
            converged: true,
            truncated_ms: 1200,
            batches: 24,
            window_ms: 18_800,
        }),
        whole_run_bytes_per_second: Some(total * 0.97),
        written_bytes: Some(bytes + 4_194_304),
        acked_bytes: Some(bytes + 1448),
        received_bytes: Some(bytes),
        retransmitted_bytes: Some(28_960),
        rtt_us: Rtt { min: Some(20_050), p50: Some(21_400), max: Some(39_000) },
        limited: Limited {
            busy_ms: Some(19_900),
            receive_window_ms: Some(120),
            send_buffer_ms: Some(0),
        },
        congestion_control: BothEnds {
            sender: Some("cubic".to_owned()),
            receiver: Some("cubic".to_owned()),
        },
        mss_bytes: Some(1448),
        path_mtu_bytes: Some(1500),
        cpu_cores: BothEnds { sender: Some(0.04), receiver: Some(0.06) },
        host_cpu_cores: BothEnds { sender: Some(1.6), receiver: Some(0.9) },
        streams: vec![Stream {
            pair: "phx1-ash1".to_owned(),
            stream: 0,
            local: "198.51.100.11:40112".to_owned(),
            remote: "203.0.113.11:5555".to_owned(),
            received_bytes: Some(bytes),
            retransmitted_bytes: Some(28_960),
            rtt_us: Some(21_400),
            min_rtt_us: Some(20_050),
            send_buffer_bytes: Some(4_194_304),
            receive_buffer_bytes: Some(6_291_456),
        }],
        samples: samples(total),
        failures: vec![],
    }
}

/// A ramp of one second, then a slight swing.
fn samples(rate: f64) -> Vec<Sample> {
    (0..200)
        .map(|index| {
            let ramp = (f64::from(index) / 10.0).min(1.0);
            let swing = 1.0 + 0.03 * (f64::from(index) * 0.7).sin();
            Sample {
                at_ms: f64::from(index) * 100.0,
                interval_ms: 100.0,
                bytes: (rate * 0.1 * ramp * swing) as u64,
            }
        })
        .collect()
}

fn failed_test(evil: &str) -> Throughput {
    let mut failed = test("m1", 2, OUT, &[(0, 0.0, 0.0)], 1);
    failed.pairs[0] = PairEnds {
        pair: format!("phx1-{evil}"),
        sender: "phx1".to_owned(),
        receiver: evil.to_owned(),
        bytes_per_second: None,
        half_width_bytes_per_second: None,
    };
    failed.granted = Granted { send_buffer_bytes: None, receive_buffer_bytes: None };
    failed.rate_limit_bytes_per_second = None;
    failed.steady = None;
    failed.whole_run_bytes_per_second = None;
    failed.written_bytes = None;
    failed.acked_bytes = None;
    failed.received_bytes = None;
    failed.retransmitted_bytes = None;
    failed.rtt_us = Rtt::default();
    failed.limited = Limited::default();
    failed.congestion_control = BothEnds { sender: Some(evil.to_owned()), receiver: None };
    failed.mss_bytes = None;
    failed.path_mtu_bytes = None;
    failed.cpu_cores = BothEnds { sender: None, receiver: None };
    failed.host_cpu_cores = BothEnds { sender: None, receiver: None };
    failed.streams = vec![];
    failed.samples = vec![];
    failed.failures = vec![format!("transfer: node {evil}: connection reset by peer")];
    failed
}

fn pair_ends(part: (usize, f64, f64), direction: Direction) -> PairEnds {
    let (primary, standby) = (format!("phx{}", part.0 + 1), format!("ash{}", part.0 + 1));
    let pair = format!("{primary}-{standby}");
    let (sender, receiver) = match direction {
        OUT => (primary, standby),
        BACK => (standby, primary),
    };
    PairEnds {
        pair,
        sender,
        receiver,
        bytes_per_second: Some(part.1),
        half_width_bytes_per_second: Some(part.2),
    }
}

fn point(value: f64, label: &str, measurement: &str, part: (usize, f64, f64)) -> Point {
    Point {
        value: Some(value),
        label: label.to_owned(),
        measurement: Some(measurement.to_owned()),
        bytes_per_second: Some(part.1),
        half_width_bytes_per_second: Some(part.2),
        remark: None,
    }
}

fn next_id(report: &Report) -> String {
    format!("m{}", report.measurements.len() + 1)
}

fn push(report: &mut Report, test: Throughput) {
    report.measurements.push(Measurement::Throughput(Box::new(test)));
}

fn finding(
    id: &str,
    severity: Severity,
    direction: Option<Direction>,
    nodes: &[&str],
    value: Option<(f64, &str)>,
    evidence: &[(&str, &str)],
) -> Finding {
    Finding {
        id: id.to_owned(),
        severity,
        direction,
        pairs: vec![],
        nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
        value: value.map(|value| value.0),
        unit: value.map(|value| value.1.to_owned()),
        confidence: "measured".to_owned(),
        evidence: evidence
            .iter()
            .map(|(measurement, field)| Evidence {
                measurement: (*measurement).to_owned(),
                fields: vec![(*field).to_owned()],
            })
            .collect(),
        needs: vec![],
        sentence: String::new(),
    }
}

/// The need that a finding of `findings` judges; `None` for those about something else.
fn need_of(finding: &Finding) -> Option<JudgedNeed> {
    let of = |thread: u32, mbit: f64, (measured, half_width): (f64, f64)| JudgedNeed {
        thread: Some(thread).filter(|thread| *thread > 0),
        direction: finding.direction.unwrap_or(OUT),
        pair: (thread > 0).then(|| format!("phx{thread}-ash{thread}")),
        required_bytes_per_second: mbit * MBIT,
        measured_bytes_per_second: Some(measured * MBIT),
        half_width_bytes_per_second: Some(half_width * MBIT),
        measurement: finding.evidence.first().map(|evidence| evidence.measurement.clone()),
    };
    match (finding.id.as_str(), finding.nodes.first().map(String::as_str)) {
        ("need-met", Some(_)) => Some(of(1, 52.0, (57.9, 0.4))),
        ("need-met", None) => Some(of(0, 127.0, (235.0, 3.0))),
        ("need-not-met", _) => Some(of(2, 74.8, (57.6, 0.5))),
        ("need-cannot-be-judged", _) => Some(of(2, 74.8, (57.6, 0.5))),
        _ => None,
    }
}

fn findings() -> Vec<Finding> {
    use Severity::{Critical, Info, Ok, Warning};
    let steady = "steady.bytes_per_second";
    let rate = |mbit: f64| Some((mbit * MBIT, "bytes_per_second"));
    let rows = [
        (
            finding("need-met", Ok, Some(OUT), &["phx1", "ash1"], rate(57.9), &[("m1", steady)]),
            "One stream from phx1 to ash1 carries 57.9 Mbit/s; thread 1 needs 52 Mbit/s with \
             headroom.",
        ),
        (
            finding(
                "need-not-met",
                Critical,
                Some(OUT),
                &["phx2", "ash2"],
                rate(57.6),
                &[("m2", steady)],
            ),
            "One stream from phx2 to ash2 carries 57.6 Mbit/s; thread 2 needs 74.8 Mbit/s with \
             headroom.",
        ),
        (
            finding("need-met", Ok, Some(OUT), &[], rate(235.0), &[("m15", steady)]),
            "All nodes together carry 235 Mbit/s; 127 Mbit/s are needed.",
        ),
        (
            finding(
                "need-cannot-be-judged",
                Warning,
                Some(BACK),
                &["ash2", "phx2"],
                None,
                &[("m21", "steady.half_width_bytes_per_second")],
            ),
            "The rate from ash2 to phx2 varied too much to compare it with the need of thread 2.",
        ),
        (
            finding(
                "per-flow-limit",
                Critical,
                Some(OUT),
                &[],
                rate(57.8),
                &[("m1", steady), ("m3", "streams"), ("m5", "limited.busy_ms")],
            ),
            "Every connection is held at about 58 Mbit/s while the aggregate rises to 190 Mbit/s \
             with 6 of them: a device on the path limits single flows.",
        ),
        (
            finding(
                "request-split",
                Warning,
                None,
                &["phx1", "ash1"],
                Some((2.0, "requests")),
                &[("m39", "device_requests_per_read")],
            ),
            "A read of 1 MiB is split into 2 device requests (max_sectors_kb is 512).",
        ),
        (
            finding(
                "mtu-reduced",
                Info,
                Some(OUT),
                &[],
                Some((1500.0, "bytes")),
                &[("m1", "path_mtu_bytes")],
            ),
            "The interfaces have an MTU of 9000 bytes; the path carries 1500.",
        ),
    ];
    rows.into_iter()
        .map(|(finding, sentence)| Finding {
            sentence: sentence.to_owned(),
            needs: need_of(&finding).into_iter().collect(),
            ..finding
        })
        .collect()
}

fn recommendations() -> Vec<Recommendation> {
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    vec![
        Recommendation {
            id: "lift-per-flow-limit".to_owned(),
            findings: vec!["per-flow-limit".to_owned(), "need-not-met".to_owned()],
            action: "Ask the network team to lift the limit for single flows between the redo \
                     addresses."
                .to_owned(),
            commands: vec![Command {
                nodes: vec![],
                kind: "request".to_owned(),
                lines: lines(&["198.51.100.0/24 <-> 203.0.113.0/24, tcp port 1522"]),
            }],
            expected_effect: "One stream rises from 57.9 Mbit/s towards the 190 Mbit/s that six \
                              reach together."
                .to_owned(),
            how_to_verify: "Repeat step 2 and compare the two reports.".to_owned(),
            how_to_undo: "Restore the former policy.".to_owned(),
            risk: "Redo may then crowd out other traffic of the same class.".to_owned(),
            needs_root: false,
            licence: None,
        },
        Recommendation {
            id: "raise-max-sectors".to_owned(),
            findings: vec!["request-split".to_owned()],
            action: "Let the kernel send reads of 1 MiB to the storage in one request.".to_owned(),
            commands: vec![
                Command {
                    nodes: vec!["phx1".to_owned(), "ash1".to_owned()],
                    kind: "sysfs".to_owned(),
                    lines: lines(&["echo 1024 > /sys/block/dm-3/queue/max_sectors_kb"]),
                },
                Command {
                    nodes: vec!["phx1".to_owned()],
                    kind: "udev".to_owned(),
                    lines: lines(&[
                        "# /etc/udev/rules.d/99-oracle-queue.rules",
                        "ACTION==\"add|change\", KERNEL==\"dm-3\", \
                         ATTR{queue/max_sectors_kb}=\"1024\"",
                    ]),
                },
            ],
            expected_effect: "Half the requests at the device for the same bytes.".to_owned(),
            how_to_verify: "Device requests per read is 1 in step 11.".to_owned(),
            how_to_undo: "echo 512 > /sys/block/dm-3/queue/max_sectors_kb".to_owned(),
            risk: "Low; holds until the device is removed.".to_owned(),
            needs_root: true,
            licence: Some("Advanced Compression, only where redo is compressed".to_owned()),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_survives_json() {
        for report in [whole(), broken(), demo()] {
            let text = crate::report::json::render(&report).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        }
    }

    #[test]
    fn every_sample_is_valid_by_the_published_schema() {
        let schema = crate::report::json::schema();
        let validator = jsonschema::draft7::new(&schema).unwrap();
        for report in [whole(), broken(), demo()] {
            let value = serde_json::to_value(&report).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }

    #[test]
    fn the_schema_refuses_a_field_that_is_absent_instead_of_null() {
        let validator = jsonschema::draft7::new(&crate::report::json::schema()).unwrap();
        let mut value = serde_json::to_value(demo()).unwrap();
        value.as_object_mut().unwrap().remove("need");
        assert!(!validator.is_valid(&value));
        let mut value = serde_json::to_value(demo()).unwrap();
        value["measurements"][0].as_object_mut().unwrap().remove("steady");
        assert!(!validator.is_valid(&value));
    }

    #[test]
    fn the_schema_says_its_draft() {
        let schema = crate::report::json::schema();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    }
}
