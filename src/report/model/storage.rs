//! A read of storage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Latency, Sample};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageRead {
    pub id: String,
    pub step: u32,
    pub node: String,
    /// `single_block` or `direct_path`.
    pub pattern: String,
    /// `file`, `device` or `scratch`.
    pub target: String,
    pub path: String,
    pub filesystem: String,
    pub device: Option<String>,
    pub size_bytes: u64,
    /// Of the Oracle blocks; equal to `request_bytes` for `single_block`.
    pub block_bytes: Option<u64>,
    pub request_bytes: u64,
    /// Concurrent readers; null for `direct_path`.
    pub sessions: Option<u32>,
    /// Outstanding requests; null for `single_block`.
    pub slots: Option<u32>,
    pub engine: Engine,
    pub reads: u64,
    pub bytes: u64,
    pub elapsed_ms: f64,
    pub iops: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub latency_us: Latency,
    pub device_read_ratio: Option<f64>,
    pub device_requests_per_read: Option<f64>,
    pub zero_block_share: Option<f64>,
    pub foreign_bytes: Option<u64>,
    pub cpu_cores: Option<f64>,
    pub short_reads: u64,
    pub buffer_pages: String,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    pub used: String,
    pub why: String,
}
