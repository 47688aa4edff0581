//! Reads of two patterns on two nodes.

use super::super::model::*;
use super::MIB;
use super::network::{next_id, point};

pub(super) fn add_storage_tests(report: &mut Report) {
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
                plateau_remark: None,
                stopped_because: "all_values".to_owned(),
            });
        }
    }
}

pub(super) fn storage_read(id: &str, node: &str, pattern: &str, level: u32) -> StorageRead {
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
