//! Throughput tests over an emulated WAN, their ladders and sweeps.

use super::super::model::*;
use super::{BACK, MBIT, MIB, OUT};
use crate::plan::node::Direction;

pub(super) fn add_network_tests(report: &mut Report, direction: Direction, turn: u32) {
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

pub(super) fn add_ladder(report: &mut Report, step: u32, direction: Direction, pair: usize) {
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
        until: Some("plateau".to_owned()),
        plateau_recommended: None,
        plateau_remark: None,
        stopped_because: "plateau".to_owned(),
    });
}

pub(super) fn add_buffer_sweep(report: &mut Report, step: u32, direction: Direction) {
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
        plateau_remark: None,
        stopped_because: "all_values".to_owned(),
    });
}

/// `parts` are pair, rate and half-width in bytes per second.
pub(super) fn test(
    id: &str,
    step: u32,
    direction: Direction,
    parts: &[(usize, f64, f64)],
    num_conn: u32,
) -> Throughput {
    let total: f64 = parts.iter().map(|part| part.1).sum();
    let half_width: f64 = parts.iter().map(|part| part.2).sum();
    let bytes = (total * 20.0) as u64;
    let pairs: Vec<PairEnds> = parts.iter().map(|part| pair_ends(*part, direction)).collect();
    let shared = parts.len() > 1;
    Throughput {
        id: id.to_owned(),
        step,
        direction,
        hosts: hosts(&pairs),
        granted: granted(&pairs),
        pairs: pairs
            .into_iter()
            .map(|ends| PairEnds {
                share: ends.bytes_per_second.filter(|_| shared).map(|rate| rate / total),
                ..ends
            })
            .collect(),
        write: None,
        segments: Segments {
            lost_share: Some(0.0002),
            delivered: Some(bytes / 1448),
            reordered: Some(0),
            out_of_order: Some(12),
            duplicates: Some(0),
        },
        offered_window_bytes: Some(3_145_728),
        network_share: None,
        disk_share: None,
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
        stream_fairness: (num_conn > 1).then_some(0.998),
        pair_fairness: shared.then(|| {
            let squares: f64 = parts.iter().map(|part| part.1.powi(2)).sum();
            total.powi(2) / (parts.len() as f64 * squares)
        }),
        num_conn,
        message_bytes: 1 << 20,
        requested: SocketParameters {
            socket_buffer: "auto".to_owned(),
            socket_buffer_bytes: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            congestion_control: None,
            mtu_bytes: None,
            mss_bytes: None,
            dscp: None,
            device: None,
            source_port: None,
            pacing_bytes_per_second: None,
        },
        duration_ms: 20_000,
        interval_ms: 100,
        payload: "random".to_owned(),
        rate_limit_bytes_per_second: Some(400.0 * MBIT),
        steady: Some(Steady {
            bytes_per_second: total,
            half_width_bytes_per_second: Some(half_width),
            confidence: 0.95,
            target_share: 0.025,
            converged: half_width <= 0.025 * total,
            truncated_ms: 1200,
            batches: 24,
            window_ms: 18_800,
            level_shift: None,
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
pub(super) fn samples(rate: f64) -> Vec<Sample> {
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

pub(super) fn failed_test(evil: &str) -> Throughput {
    let mut failed = test("m1", 2, OUT, &[(0, 0.0, 0.0)], 1);
    failed.pairs[0] = PairEnds {
        pair: format!("phx1-{evil}"),
        sender: "phx1".to_owned(),
        receiver: evil.to_owned(),
        bytes_per_second: None,
        half_width_bytes_per_second: None,
        share: None,
        messages_per_second: None,
        latency_us: None,
        write_latency_us: None,
    };
    failed.granted = Granted::default();
    failed.segments = Segments::default();
    failed.offered_window_bytes = None;
    failed.hosts = vec![];
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

pub(super) fn pair_ends(part: (usize, f64, f64), direction: Direction) -> PairEnds {
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
        share: None,
        messages_per_second: None,
        latency_us: None,
        write_latency_us: None,
    }
}

fn hosts(pairs: &[PairEnds]) -> Vec<HostUse> {
    let host = |pair: &PairEnds, node: &str, end: &str, bytes: (u64, u64)| HostUse {
        pair: pair.pair.clone(),
        node: node.to_owned(),
        end: end.to_owned(),
        cpu: Some(CpuUse {
            test_cores: 0.05,
            busiest_thread_cores: 0.05,
            busiest_thread_waited_cores: Some(0.002),
            throttled_cores: None,
            host_cores: Some(1.6),
            host_softirq_cores: Some(0.1),
            host_steal_cores: Some(0.0),
            busiest_core_share: Some(0.31),
            busiest_core_softirq_share: Some(0.02),
        }),
        interfaces: Some(vec![InterfaceUse {
            name: "ens3".to_owned(),
            received_bytes: bytes.0,
            sent_bytes: bytes.1,
            received_packets: bytes.0 / 1000,
            sent_packets: bytes.1 / 1000,
            receive_drops: 0,
            send_drops: 0,
            receive_errors: 0,
            send_errors: 0,
        }]),
        softnet_dropped: Some(0),
        softnet_squeezed: Some(0),
    };
    pairs
        .iter()
        .flat_map(|pair| {
            let bytes = (pair.bytes_per_second.unwrap_or(0.0) * 20.6) as u64;
            [
                host(pair, &pair.sender, "sender", (bytes / 50, bytes)),
                host(pair, &pair.receiver, "receiver", (bytes, bytes / 50)),
            ]
        })
        .collect()
}

/// As auto-tuning leaves them: the receiver's came to its maximum.
fn granted(pairs: &[PairEnds]) -> Granted {
    let end = |pair: &PairEnds, node: &str, end: &str, bytes: u64| GrantedEnd {
        pair: pair.pair.clone(),
        node: node.to_owned(),
        end: end.to_owned(),
        begin_bytes: Some(131_072),
        end_bytes: Some(bytes),
        forced: Some(false),
        bound_by: (end == "receiver").then(|| "net.ipv4.tcp_rmem[2]".to_owned()),
        congestion_control: Some("cubic".to_owned()),
    };
    Granted {
        send_buffer_bytes: Some(4_194_304),
        receive_buffer_bytes: Some(6_291_456),
        usable_send_buffer_bytes: Some(2_097_152),
        usable_receive_buffer_bytes: Some(3_145_728),
        ends: pairs
            .iter()
            .flat_map(|pair| {
                [
                    end(pair, &pair.sender, "sender", 4_194_304),
                    end(pair, &pair.receiver, "receiver", 6_291_456),
                ]
            })
            .collect(),
    }
}

pub(super) fn point(value: f64, label: &str, measurement: &str, part: (usize, f64, f64)) -> Point {
    Point {
        value: Some(value),
        label: label.to_owned(),
        measurement: Some(measurement.to_owned()),
        bytes_per_second: Some(part.1),
        half_width_bytes_per_second: Some(part.2),
        remark: None,
    }
}

pub(super) fn next_id(report: &Report) -> String {
    format!("m{}", report.measurements.len() + 1)
}

pub(super) fn push(report: &mut Report, test: Throughput) {
    report.measurements.push(Measurement::Throughput(Box::new(test)));
}
