//! One storage test in numbers.

use redoline_proto::storage::{Latency, StoragePattern, StorageResult};
use redoline_proto::units::BytesPerSecond;

use super::steady::{Interval, steady};
use crate::plan::node::NodeId;
use crate::record::measurement::{MeasurementId, StorageRead};

#[derive(Clone, Debug, PartialEq)]
pub struct StorageSummary {
    pub id: MeasurementId,
    pub step: usize,
    pub node: NodeId,
    pub pattern: StoragePattern,
    pub request_bytes: u64,
    /// Concurrent readers, or outstanding requests of `direct_path`.
    pub outstanding: u32,
    /// Of the whole test.
    pub iops: Option<f64>,
    pub rate: Option<BytesPerSecond>,
    /// By batch means of the samples; `None` when they are too few.
    pub half_width: Option<BytesPerSecond>,
    pub latency: Latency,
    pub device_read_ratio: Option<f64>,
    pub zero_block_share: Option<f64>,
    pub cpu_cores: Option<f64>,
}

/// Below this share of its bytes a test did not come from the device.
pub const FROM_DEVICE: f64 = 0.9;
/// Arrays answer blocks of zeros without a disk.
const ZEROS: f64 = 0.1;

impl StorageSummary {
    /// Bytes of a test came from a cache, or blocks were empty.
    pub fn suspect(&self) -> bool {
        self.device_read_ratio.is_some_and(|ratio| ratio < FROM_DEVICE)
            || self.zero_block_share.is_some_and(|share| share > ZEROS)
    }
}

pub fn summarise(read: &StorageRead) -> StorageSummary {
    let result = &read.result;
    let seconds = result.elapsed_ns as f64 / 1e9;
    let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
    StorageSummary {
        id: read.id,
        step: read.step,
        node: read.node,
        pattern: result.point.pattern,
        request_bytes: result.point.request_bytes,
        outstanding: result.point.outstanding,
        iops: per_second(result.reads as f64),
        rate: per_second(result.bytes as f64).map(BytesPerSecond),
        half_width: steady(&intervals(result), None).and_then(|steady| steady.half_width),
        latency: result.latency.clone(),
        device_read_ratio: result.device_read_ratio,
        zero_block_share: read.prepared.zero_block_share,
        cpu_cores: per_second(result.cpu_us as f64 / 1e6),
    }
}

fn intervals(result: &StorageResult) -> Vec<Interval> {
    result
        .samples
        .iter()
        .filter(|sample| sample.to_ns > sample.from_ns)
        .map(|sample| Interval {
            seconds: (sample.to_ns - sample.from_ns) as f64 / 1e9,
            bytes: sample.bytes as f64,
        })
        .collect()
}
