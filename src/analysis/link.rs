//! A path that is full: more connections bring nothing.

use redoline_proto::units::BytesPerSecond;

use super::case::{Alone, Case, at_limit, held_by_runbook, is_settled};
use super::cause::{SINGLE, enough};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::flow::{Flow, LINEAR, full_thread, queue_stands};
use super::words::{count, percent, rate, steady};
use crate::plan::node::{Direction, PairId};

/// Streams that wait for the receiver in this share of the time are held there, unless a queue on
/// the way is what they wait for.
const WAITS: f64 = 0.5;

/// The highest rate of a direction does not rise with more connections.
pub fn finding(case: &Case<'_>, direction: Direction, flows: &[Flow<'_>]) -> Option<Finding> {
    let (best_id, best) = case.best(direction)?;
    // Of a path whose best rate the runbook held nobody knows where it ends.
    if case.throughputs.iter().any(|test| test.id == best_id && held_by_runbook(test)) {
        return None;
    }
    let full: Vec<(&Flow<'_>, Alone<'_>)> =
        flows.iter().filter_map(|flow| Some((flow, full_level(case, flow, direction)?))).collect();
    let level = full.iter().copied().max_by(|a, b| a.1.steady.rate.0.total_cmp(&b.1.steady.rate.0));
    let Some((flow, level)) = level else {
        return link_or_flow(case, direction, flows);
    };
    let others = full.iter().map(|(flow, _)| flow.pair).filter(|pair| *pair != flow.pair);
    let pairs: Vec<PairId> = std::iter::once(flow.pair).chain(others).collect();
    let queue = queue_stands(level.pair);
    let lost = level.pair.kernel.lost_share.is_some_and(|share| share > 0.0);
    let confidence = if queue || lost { Confidence::Likely } else { Confidence::Possible };
    let enough = enough(case, flow.pair, direction, &level);
    let one = if flow.fills() { " One stream alone fills it." } else { "" };
    let way = case.way(flow.pair, direction);
    let why = match case.plateaued(flow.pair, direction) {
        true => format!(
            "carries {}: {} from {way} reach {}, and more connections do not raise it.",
            steady(best),
            count(enough.num_conn, "connection"),
            rate(enough.rate),
        ),
        // Nobody tried more, so what is seen is that they take from each other.
        false => format!(
            "carries at least {}, and not much more: {} from {way} reach {}, {} of what so many \
             streams would get if each got what one alone gets; more connections were not tried.",
            steady(best),
            count(level.num_conn, "connection"),
            rate(level.steady.rate),
            percent(level.steady.rate.0 / (f64::from(level.num_conn) * flow.rate().0)),
        ),
    };
    let sentence = format!(
        "The path from {direction} {why}{one}{}",
        match (queue, lost) {
            (true, _) => " A queue stands at that rate.",
            (false, true) => " Packets are lost at that rate.",
            (false, false) =>
                " Neither a queue nor losses were seen at that rate, so the limit may also lie in \
                 a node.",
        }
    );
    Some(
        Finding::new(FindingId::LinkLimited, Severity::Info, confidence, sentence)
            .direction(direction)
            .pairs(pairs)
            .value(best.rate.0, Unit::BytesPerSecond)
            .evidence(level.id, &["steady.bytes_per_second", "rtt_us", "retransmitted_bytes"])
            .evidence(enough.measurement, &["steady.bytes_per_second"])
            .evidence(best_id, &["steady.bytes_per_second"])
            .detail(Detail::Limit(best.rate)),
    )
}

/// The best level of a pair, where more connections do not raise it and no node holds it.
fn full_level<'a>(case: &Case<'_>, flow: &Flow<'a>, direction: Direction) -> Option<Alone<'a>> {
    let best = flow.best?;
    // Streams that each get less than one alone, with a queue standing, share what is full.
    let alone = f64::from(best.num_conn) * flow.rate().0;
    let shared = queue_stands(best.pair) && best.steady.rate.0 < LINEAR * alone;
    let full = case.plateaued(flow.pair, direction) || shared;
    let window = best.pair.limited.receive_window_share().is_some_and(|share| share >= WAITS);
    // What stops and goes is not held by a path that is full, whatever queues in its bursts.
    let in_node = full_thread(best.pair).is_some()
        || (window && !queue_stands(best.pair))
        || flow.reads_slowly()
        || !is_settled(best.steady);
    let held_back = at_limit(best.summary, best.pair);
    (full && !in_node && !held_back).then_some(best)
}

/// Only one stream was measured and a queue stood on its way: two causes fit.
fn link_or_flow(case: &Case<'_>, direction: Direction, flows: &[Flow<'_>]) -> Option<Finding> {
    let flow = flows.iter().find(|flow| flow.best.is_none() && flow.queue() && !flow.at_limit())?;
    let sentence = format!(
        "One stream from {} carries {} and a queue stands on its way: either the path is full or \
         the network limits each flow. What tells them apart: a ladder of connections.",
        case.way(flow.pair, direction),
        steady(flow.single.steady),
    );
    let rate: BytesPerSecond = flow.rate();
    Some(
        Finding::new(FindingId::LinkLimited, Severity::Info, Confidence::Possible, sentence)
            .direction(direction)
            .pairs([flow.pair])
            .value(rate.0, Unit::BytesPerSecond)
            .evidence(flow.single.id, SINGLE)
            .detail(Detail::Limit(rate)),
    )
}
