//! How long reads, writes and acknowledgements took.

use serde::{Deserialize, Serialize};

/// Nearest-rank percentiles from an HdrHistogram with three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean_us: f64,
    pub min_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub buckets: Vec<LatencyBucket>,
}

/// Those that took at most `upper_us` and more than the bucket before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyBucket {
    pub upper_us: f64,
    pub count: u64,
}

mirror!(
    Latency,
    Latency { count, mean_us, min_us, p50_us, p90_us, p99_us, p999_us, max_us, buckets }
);
mirror!(LatencyBucket, LatencyBucket { upper_us, count });
