//! The measurements of a report: raw results beside what the analysis made of them.

mod hosts;
mod path;
mod sockets;
mod storage;
mod sync;
mod throughput;

use std::time::Duration;

use redoline_proto::units::Bytes;

use super::build::significant;
use super::{model, outcome};
use crate::analysis::Analysis;
use crate::analysis::kernel::Kernel;
use crate::analysis::throughput::PairSummary;
use crate::record::measurement::Measurement;
use crate::record::run::RunRecord;

pub fn measurements(record: &RunRecord, analysis: &Analysis) -> Vec<model::Measurement> {
    record
        .measurements
        .iter()
        .filter_map(|measurement| match measurement {
            Measurement::Throughput(raw) => {
                let summary = analysis.throughputs.iter().find(|summary| summary.id == raw.id)?;
                let mut failures = outcome::of_measurement(record, measurement);
                failures.extend(summary.not_testable.clone());
                let shown = throughput::throughput(record, raw, summary, failures);
                Some(model::Measurement::Throughput(Box::new(shown)))
            }
            Measurement::Path(raw) => {
                let summary = analysis.paths.iter().find(|summary| summary.id == raw.id)?;
                let failures = outcome::of_measurement(record, measurement);
                let shown = path::path(record, raw, summary, failures);
                Some(model::Measurement::Path(Box::new(shown)))
            }
            Measurement::StorageRead(raw) => {
                let summary = analysis.storage.iter().find(|summary| summary.id == raw.id)?;
                let shown = storage::storage(&record.setup, raw, summary);
                Some(model::Measurement::StorageRead(Box::new(shown)))
            }
        })
        .collect()
}

/// `None` as soon as one pair does not know it: a sum without a part is not the sum.
fn all<T>(pairs: &[PairSummary], value: impl Fn(&PairSummary) -> Option<T>) -> Option<Vec<T>> {
    let values: Option<Vec<T>> = pairs.iter().map(value).collect();
    values.filter(|values| !values.is_empty())
}

fn least(pairs: &[PairSummary], value: fn(&PairSummary) -> Option<Bytes>) -> Option<u64> {
    pairs.iter().filter_map(value).min().map(|bytes| bytes.0)
}

fn segments(pairs: &[PairSummary]) -> model::Segments {
    let total = |count: fn(&Kernel) -> Option<u64>| all(pairs, |pair| count(&pair.kernel)).map(sum);
    let lost = all(pairs, |pair| pair.kernel.lost_share);
    model::Segments {
        lost_share: lost.map(|shares| significant(shares.into_iter().fold(0.0, f64::max))),
        delivered: total(|kernel| kernel.delivered_packets),
        reordered: total(|kernel| kernel.reordered),
        out_of_order: total(|kernel| kernel.out_of_order_packets),
        duplicates: total(|kernel| kernel.duplicates),
    }
}

fn sum(counts: Vec<u64>) -> u64 {
    counts.into_iter().sum()
}

fn latency(latency: &redoline_proto::latency::Latency) -> model::Latency {
    let known = |us: f64| (latency.count > 0).then_some(us);
    model::Latency {
        mean: known(latency.mean_us),
        p50: known(latency.p50_us),
        p90: known(latency.p90_us),
        p99: known(latency.p99_us),
        p999: known(latency.p999_us),
        max: known(latency.max_us),
        histogram: latency
            .buckets
            .iter()
            .map(|bucket| model::LatencyBucket { upper_us: bucket.upper_us, count: bucket.count })
            .collect(),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

/// To a microsecond: more digits of a sample's time say nothing.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}
