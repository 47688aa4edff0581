//! What disks do to a storage test.

use redoline_proto::storage::{
    Latency, LatencyBucket, StoragePattern, StoragePoint, StoragePrepared, StorageResult,
    StorageSample, StorageTarget,
};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::{Disks, optional, quantity, time};
use crate::plan::node::NodeId;
use crate::record::measurement::{MeasurementId, StorageRead};

pub const SESSIONS: [u32; 2] = [1, 8];
pub const SLOTS: [u32; 5] = [1, 2, 4, 8, 16];
const SECONDS: u64 = 10;
const SIZE: u64 = 8 << 30;

/// `second`: not the first node of its cluster.
pub fn read(
    disks: &Disks,
    id: u32,
    step: usize,
    node: NodeId,
    second: bool,
    (pattern, outstanding): (StoragePattern, u32),
) -> StorageRead {
    let part = optional::<Share>(disks.second_node.as_ref()).filter(|_| second);
    let highest = quantity::<BytesPerSecond>(&disks.highest).0 * part.map_or(1.0, |part| part.0);
    let p50_us = time(&disks.block_latency).as_secs_f64() * 1e6;
    let request_bytes = if pattern == StoragePattern::SingleBlock { 8192 } else { 1 << 20 };
    let (rate, latency_us) = match pattern {
        StoragePattern::SingleBlock => (f64::from(outstanding) * 8192.0 / (p50_us / 1e6), p50_us),
        StoragePattern::DirectPath => {
            let rate = highest * (f64::from(outstanding) / f64::from(disks.knee)).min(1.0);
            (rate, f64::from(outstanding) * f64::from(1 << 20) / rate * 1e6)
        }
    };
    let each = (rate / 4.0 / request_bytes as f64) as u64;
    let samples: Vec<StorageSample> = (0..4 * SECONDS)
        .map(|i| {
            let from_ns = i as i64 * 250_000_000;
            let reads = each + i % 3;
            StorageSample {
                from_ns,
                to_ns: from_ns + 250_000_000,
                reads,
                bytes: reads * request_bytes,
            }
        })
        .collect();
    let reads = samples.iter().map(|sample| sample.reads).sum();
    StorageRead {
        id: MeasurementId(id),
        step,
        node,
        target: StorageTarget::Scratch { dir: "/u02/oradata".to_owned(), size: Bytes(SIZE) },
        prepared: StoragePrepared {
            path: "/u02/oradata".to_owned(),
            size_bytes: SIZE,
            filesystem: "xfs".to_owned(),
            device: Some("dm-3".to_owned()),
            alignment_bytes: 512,
            zero_block_share: Some(
                optional::<Share>(disks.zeros.as_ref()).map_or(0.0, |share| share.0),
            ),
            scratch: true,
        },
        result: StorageResult {
            point: StoragePoint {
                pattern,
                request_bytes,
                outstanding,
                duration_ms: 1000 * SECONDS,
            },
            engine: "io_uring".to_owned(),
            engine_reason: "the kernel allows it".to_owned(),
            reads,
            bytes: reads * request_bytes,
            elapsed_ns: SECONDS * 1_000_000_000,
            samples,
            latency: latency(latency_us, reads),
            device_read_ratio: (!disks.ratio_unknown).then(|| {
                optional::<Share>(disks.from_device.as_ref()).map_or(1.0, |share| share.0)
            }),
            device_requests_per_read: Some(1.0),
            foreign_bytes: Some(0),
            cpu_us: 300_000,
            short_reads: 0,
            buffer_pages: "4 KiB".to_owned(),
        },
    }
}

fn latency(p50_us: f64, count: u64) -> Latency {
    Latency {
        count,
        mean_us: p50_us * 1.1,
        min_us: p50_us * 0.5,
        p50_us,
        p90_us: p50_us * 1.5,
        p99_us: p50_us * 3.0,
        p999_us: p50_us * 5.0,
        max_us: p50_us * 8.0,
        buckets: [(1.0, 2), (1.5, 4), (3.0, 10), (8.0, 100)]
            .into_iter()
            .map(|(factor, part)| LatencyBucket { upper_us: p50_us * factor, count: count / part })
            .collect(),
    }
}
