//! What a SYNC test says of a commit, for the test as a whole.

use redoline_proto::latency::Latency;

use super::super::model;
use super::{all, latency};
use crate::analysis::sync::SyncSummary;
use crate::analysis::throughput::PairSummary;
use crate::plan::need::Need;

#[derive(Default)]
pub(super) struct Sync {
    pub messages_per_second: Option<f64>,
    pub latency: Option<model::Latency>,
    pub write_latency: Option<model::Latency>,
    pub network_mean_us: Option<f64>,
    pub network_share: Option<f64>,
    pub overhead: Option<model::CommitOverhead>,
}

/// Nothing of an ASYNC test, of one in which a pair did not get to its end, and of one without a
/// single answer.
pub(super) fn sync(pairs: &[PairSummary], need: Option<&Need>) -> Sync {
    let answered = |pair: &PairSummary| pair.sync.clone().filter(|sync| sync.messages > 0);
    let Some(parts) = all(pairs, answered) else { return Sync::default() };
    let totals: Vec<&Latency> = parts.iter().map(|part| &part.total).collect();
    let writes: Option<Vec<&Latency>> = parts.iter().map(|part| part.write.as_ref()).collect();
    let rates: Option<Vec<f64>> = parts.iter().map(|part| part.messages_per_second).collect();
    let total = merged(&totals);
    let write = writes.map(|writes| merged(&writes));
    let network = match &write {
        Some(write) => total.mean.zip(write.mean).map(|(all, write)| (all - write).max(0.0)),
        None => total.mean,
    };
    let share = network.zip(total.mean).map(|(network, all)| network / all);
    Sync {
        messages_per_second: rates.map(|rates| rates.iter().sum()),
        network_mean_us: network,
        network_share: share.filter(|_| write.is_some()),
        overhead: overhead(&parts, need),
        latency: Some(total),
        write_latency: write,
    }
}

/// Percentiles of several pairs cannot be had from theirs; mean, maximum and counts can.
fn merged(parts: &[&Latency]) -> model::Latency {
    if let [alone] = parts {
        return latency(alone);
    }
    let count: u64 = parts.iter().map(|part| part.count).sum();
    let sum: f64 = parts.iter().map(|part| part.mean_us * part.count as f64).sum();
    let mut histogram: Vec<model::LatencyBucket> = Vec::new();
    for bucket in parts.iter().flat_map(|part| &part.buckets) {
        match histogram.iter_mut().find(|known| known.upper_us == bucket.upper_us) {
            Some(known) => known.count += bucket.count,
            None => histogram
                .push(model::LatencyBucket { upper_us: bucket.upper_us, count: bucket.count }),
        }
    }
    histogram.sort_by(|a, b| a.upper_us.total_cmp(&b.upper_us));
    model::Latency {
        mean: (count > 0).then(|| sum / count as f64),
        p50: None,
        p90: None,
        p99: None,
        p999: None,
        max: parts.iter().map(|part| part.max_us).reduce(f64::max).filter(|_| count > 0),
        histogram,
    }
}

/// With the slowest pair, whose commits wait longest.
fn overhead(parts: &[SyncSummary], need: Option<&Need>) -> Option<model::CommitOverhead> {
    let slowest = parts.iter().max_by(|a, b| a.total.mean_us.total_cmp(&b.total.mean_us))?;
    let local = need.and_then(|need| need.local_write);
    let (low, high) = slowest.commit_overhead_us(local);
    Some(model::CommitOverhead {
        low,
        high,
        local_write: local.map(|time| time.as_secs_f64() * 1e6),
    })
}

#[cfg(test)]
mod tests {
    use redoline_proto::latency::LatencyBucket;

    use super::*;

    fn of(count: u64, mean_us: f64) -> Latency {
        let upper_us = mean_us.log2().ceil().exp2();
        Latency {
            count,
            mean_us,
            p50_us: mean_us,
            max_us: 2.0 * mean_us,
            buckets: vec![LatencyBucket { upper_us, count }],
            ..Latency::default()
        }
    }

    #[test]
    fn percentiles_of_one_pair_are_its_own_and_of_several_are_not_made_up() {
        assert_eq!(merged(&[&of(10, 1000.0)]).p50, Some(1000.0));
        let both = merged(&[&of(30, 1000.0), &of(10, 3000.0)]);
        assert_eq!((both.mean, both.p50, both.max), (Some(1500.0), None, Some(6000.0)));
        let counts: Vec<_> = both.histogram.iter().map(|one| (one.upper_us, one.count)).collect();
        assert_eq!(counts, [(1024.0, 30), (4096.0, 10)]);
    }
}
