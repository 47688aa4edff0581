//! What load does to the round trip, and packets that overtake others.

use std::time::Duration;

use super::case::{Case, DIRECTIONS, is_plain};
use super::finding::{Confidence, Finding, FindingId, Severity, Unit};
use super::throughput::PairSummary;
use super::words::{milliseconds, percent};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::MeasurementId;

/// A queue that adds less is not called bloated.
const BLOAT: Duration = Duration::from_millis(30);
/// Nor is one that does not at least double the round trip.
const BLOAT_RATIO: f64 = 2.0;
/// Packets that came too early, of all.
const REORDERED: f64 = 0.001;
/// So many of the probes.
const REORDERED_PROBES: f64 = 0.01;
/// With more than this sent again, gaps are losses.
const FEW_LOST: f64 = 0.000_1;
/// What is under way just before a loss, over the mean: 1 / 0.85 with CUBIC (β = 0.7), 1 / 0.75 with
/// Reno, and what other streams of a test leave room for.
const WINDOW_PEAK: f64 = 2.0;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let of = |direction| [bufferbloat(case, direction), reordering(case, direction)];
    DIRECTIONS.into_iter().flat_map(of).flatten().collect()
}

/// Idle and loaded round trip of a measurement.
struct Loaded {
    id: MeasurementId,
    pair: PairId,
    idle: Duration,
    loaded: Duration,
    fields: &'static [&'static str],
}

impl Loaded {
    fn waiting(&self) -> Duration {
        self.loaded.saturating_sub(self.idle)
    }
}

fn bufferbloat(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let tests = case.counting(direction).flat_map(|test| {
        test.pairs.iter().filter_map(|pair| {
            let fields = &["rtt_us.min", "rtt_us.p50"];
            let (idle, loaded) = pair.rtt.without_load().zip(pair.rtt.p50)?;
            Some(Loaded { id: test.id, pair: pair.pair, idle, loaded, fields })
        })
    });
    let paths = case.paths.iter().filter(|path| path.direction == direction).filter_map(|path| {
        let fields = &["rtt_us.idle", "rtt_us.loaded_p50"];
        let stream = path.stream.as_ref()?;
        let probed = path.idle_rtt().map(|rtt| Duration::from_secs_f64(rtt.p50_us / 1e6));
        let (idle, loaded) = (probed.or(stream.rtt.min)?, stream.rtt.p50?);
        Some(Loaded { id: path.id, pair: path.pair, idle, loaded, fields })
    });
    let worst = tests
        .chain(paths)
        .filter(|one| one.waiting() >= BLOAT && one.loaded >= one.idle.mul_f64(BLOAT_RATIO))
        .max_by_key(Loaded::waiting)?;
    let sentence = format!(
        "Under load the round trip from {} rises from {} to {}: a queue on the way holds packets \
         for {}. Whatever shares the path waits as long, SYNC commits and cluster traffic too.",
        case.way(worst.pair, direction),
        milliseconds(worst.idle),
        milliseconds(worst.loaded),
        milliseconds(worst.waiting()),
    );
    Some(
        Finding::new(FindingId::Bufferbloat, Severity::Info, Confidence::Measured, sentence)
            .direction(direction)
            .pairs([worst.pair])
            .value(worst.waiting().as_secs_f64() * 1e6, Unit::Microseconds)
            .evidence(worst.id, worst.fields),
    )
}

/// Segments that lost ones may have left behind a gap, at most: the receiver counts all that is under
/// way behind each as out of order. `None` where that is not known.
fn behind_losses(pair: &PairSummary) -> Option<f64> {
    let mss = pair.mss.filter(|mss| mss.0 > 0)?.0 as f64;
    let lost = pair.counts.retransmitted? as f64 / mss;
    let trip = pair.rtt.p50.or(pair.rtt.min)?;
    let under_way = pair.steady.as_ref()?.rate.0 * trip.as_secs_f64() / mss;
    Some(lost * WINDOW_PEAK * under_way)
}

fn reordering(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let probes = case.paths.iter().filter(|path| path.direction == direction).filter_map(|path| {
        let probe = path.probe.as_ref().filter(|probe| probe.answered > 0)?;
        let share = f64::from(probe.reordered) / f64::from(probe.answered);
        let seen = share >= REORDERED_PROBES;
        seen.then_some((path.id, path.pair, share, Confidence::Measured, "reordered_probes"))
    });
    let tests = case.throughputs.iter().filter(|test| test.direction == direction);
    let streams = tests.filter(|test| is_plain(test)).flat_map(|test| {
        test.pairs.iter().filter_map(|pair| {
            let kernel = &pair.kernel;
            let delivered = kernel.delivered_packets.filter(|packets| *packets > 0)? as f64;
            // What overtakes is seen by the sender; a gap at the receiver may be a loss as well.
            let seen = kernel.reordered.map_or(0.0, |times| times as f64 / delivered);
            let early = kernel.out_of_order_packets.zip(behind_losses(pair));
            let early = early.map_or(0.0, |(early, behind)| (early as f64 - behind).max(0.0));
            let few_lost = pair.counts.retransmitted_share().is_some_and(|lost| lost < FEW_LOST);
            let share = if few_lost { seen.max(early / delivered) } else { seen };
            let fields = "out_of_order_packets";
            (share >= REORDERED).then_some((test.id, pair.pair, share, Confidence::Likely, fields))
        })
    });
    let (id, pair, share, confidence, field) =
        probes.chain(streams).max_by(|a, b| a.2.total_cmp(&b.2))?;
    let sentence = format!(
        "{} of the packets from {} overtook others: they take several ways of different length. A \
         stream may take that for loss and slow down.",
        percent(share),
        case.way(pair, direction),
    );
    Some(
        Finding::new(FindingId::Reordering, Severity::Info, confidence, sentence)
            .direction(direction)
            .pairs([pair])
            .value(share, Unit::Share)
            .evidence(id, &[field]),
    )
}
