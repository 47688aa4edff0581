//! Latencies of reads, writes and answers: percentiles that can be merged, and Oracle's buckets.

use std::time::Duration;

use hdrhistogram::Histogram;
use redoline_proto::latency::{Latency, LatencyBucket};

/// One hour; what takes longer is counted as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Of [`BUCKETS`], the last ends at 2^35 µs: more than nine hours.
const BUCKETS: usize = 36;

/// Counts latencies of one thread. Only whole recorders are merged, never their percentiles.
#[derive(Clone, Debug)]
pub struct LatencyRecorder {
    histogram: Histogram<u64>,
    /// `buckets[k]` counts those of at most 2^k µs and more than 2^(k-1) µs, the bounds of
    /// V$EVENT_HISTOGRAM_MICRO.
    buckets: [u64; BUCKETS],
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("the bounds and three digits are valid for a histogram");
        Self { histogram, buckets: [0; BUCKETS], sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl LatencyRecorder {
    pub fn record(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(LATENCY_NS_MAX);
        self.histogram.saturating_record(took_ns);
        self.buckets[bucket(took_ns)] += 1;
        self.sum_ns += u128::from(took_ns);
        self.min_ns = self.min_ns.min(took_ns);
        self.max_ns = self.max_ns.max(took_ns);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all recorders have the same bounds, so that every count has its place");
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Everything zero when nothing was recorded: then `count` says so.
    pub fn summary(&self) -> Latency {
        let count = self.histogram.len();
        if count == 0 {
            return Latency::default();
        }
        let percentile = |quantile| {
            let value_ns = self.histogram.value_at_quantile(quantile);
            microseconds(value_ns.clamp(self.min_ns, self.max_ns))
        };
        Latency {
            count,
            mean_us: self.sum_ns as f64 / count as f64 / 1e3,
            min_us: microseconds(self.min_ns),
            p50_us: percentile(0.5),
            p90_us: percentile(0.9),
            p99_us: percentile(0.99),
            p999_us: percentile(0.999),
            max_us: microseconds(self.max_ns),
            buckets: self.occupied(),
        }
    }

    /// From the first bucket that holds one to the last.
    fn occupied(&self) -> Vec<LatencyBucket> {
        let first = self.buckets.iter().position(|count| *count > 0).unwrap_or(BUCKETS);
        let last = self.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        (first..last)
            .map(|power| LatencyBucket {
                upper_us: (1_u64 << power) as f64,
                count: self.buckets[power],
            })
            .collect()
    }
}

fn bucket(took_ns: u64) -> usize {
    let whole_us = took_ns.div_ceil(1000).max(1);
    (whole_us.next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1)
}

fn microseconds(value_ns: u64) -> f64 {
    value_ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(latencies_us: impl IntoIterator<Item = u64>) -> LatencyRecorder {
        let mut recorder = LatencyRecorder::default();
        latencies_us.into_iter().for_each(|us| recorder.record(Duration::from_micros(us)));
        recorder
    }

    #[track_caller]
    fn assert_near(measured: f64, expected: f64) {
        assert!((measured / expected - 1.0).abs() < 0.001, "{measured} is not near {expected}");
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let latency = recorded(1..=1000).summary();
        assert_eq!((latency.count, latency.min_us, latency.max_us), (1000, 1.0, 1000.0));
        assert_near(latency.mean_us, 500.5);
        assert_near(latency.p50_us, 500.0);
        assert_near(latency.p90_us, 900.0);
        assert_near(latency.p99_us, 990.0);
        assert_near(latency.p999_us, 999.0);
    }

    #[test]
    fn merging_is_the_same_as_recording_in_one() {
        let mut merged = recorded(1..=10);
        merged.merge(&recorded(5000..=5010));
        assert_eq!(merged.summary(), recorded((1..=10).chain(5000..=5010)).summary());
    }

    #[test]
    fn buckets_end_at_powers_of_two_and_include_their_bound() {
        let bounds: Vec<_> = recorded([64, 65, 128, 129])
            .summary()
            .buckets
            .iter()
            .map(|bucket| (bucket.upper_us, bucket.count))
            .collect();
        assert_eq!(bounds, [(64.0, 1), (128.0, 2), (256.0, 1)]);
    }

    #[test]
    fn nothing_recorded_counts_nothing() {
        assert_eq!(LatencyRecorder::default().summary(), Latency::default());
    }
}
