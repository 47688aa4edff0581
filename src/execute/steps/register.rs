//! Keeps what expressions will see of a measurement.

use super::At;
use super::measure::Measured;
use crate::execute::results::PairResult;
use crate::execute::run::Run;
use crate::plan::node::PairId;

/// Of each pair, in each direction that was measured. `complete` adds what only the step knows of
/// its own direction.
pub fn register(
    run: &mut Run<'_>,
    at: At<'_>,
    pairs: &[PairId],
    measured: &Measured,
    complete: impl Fn(PairResult) -> PairResult,
) {
    let Some(register) = at.register else { return };
    for pair in pairs {
        if let Some(result) = result(measured, *pair) {
            run.results.add_pair(register, measured.direction, *pair, complete(result));
        }
        if let Some(reverse) = &measured.reverse
            && let Some(result) = result(reverse, *pair)
        {
            run.results.add_pair(register, reverse.direction, *pair, result);
        }
    }
}

fn result(measured: &Measured, pair: PairId) -> Option<PairResult> {
    let of_pair = measured.summary.pair(pair)?;
    let steady = of_pair.steady.as_ref();
    let sync = of_pair.sync.as_ref();
    let half_width = steady.and_then(|steady| steady.half_width);
    Some(PairResult {
        bytes_per_second: steady.map(|steady| steady.rate.0),
        half_width_bytes_per_second: half_width.map(|half_width| half_width.0),
        total_bytes_per_second: measured.rate().map(|rate| rate.0),
        min_rtt_us: of_pair.rtt.min.and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
        retransmitted_bytes: of_pair.counts.retransmitted,
        latency_p50_us: sync.map(|sync| sync.total.p50_us),
        latency_p99_us: sync.map(|sync| sync.total.p99_us),
        messages_per_second: sync.and_then(|sync| sync.messages_per_second),
        ..PairResult::default()
    })
}
