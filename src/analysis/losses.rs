//! Streams that losses hold.

use super::case::Case;
use super::cause::{SINGLE, per_flow_fits};
use super::finding::{Confidence, End, Finding, FindingId, Severity, Unit};
use super::flow::{Flow, GAIN};
use super::words::{percent, rate, steady};
use crate::plan::node::{Direction, NodeId};

/// Losses of several streams this many times those of one are their own doing: streams that fill a
/// queue lose with the square of their number.
const OWN_DOING: f64 = 4.0;
/// An interface that counted this share of what was lost, or more, is where to look.
const COUNTED: f64 = 0.1;
/// A stream alone in a queue that loses this much would have fewer than 17 segments under way
/// (1.22 / √loss): where more fit, something else drops as well.
const MUCH_IN_QUEUE: f64 = 0.005;

pub fn finding(case: &Case<'_>, direction: Direction, flows: &[Flow<'_>]) -> Option<Finding> {
    let lossy: Vec<(&Flow<'_>, Confidence)> =
        flows.iter().filter_map(|flow| Some((flow, fits(flow)?))).collect();
    let (slowest, confidence) =
        lossy.iter().min_by(|a, b| a.0.rate().0.total_cmp(&b.0.rate().0)).copied()?;
    let share = slowest.lost_share()?;
    let counted = at_interfaces(case, slowest);
    let where_seen: String = counted.iter().map(|(_, sentence)| sentence.as_str()).collect();
    let sentence = format!(
        "{} of what one stream from {} sent had to be sent again{}. A stream that loses so much \
         gets about {} (1.22 × MSS / (RTT × √loss), CUBIC on long paths more); it got {}.{}\
         {where_seen}",
        percent(share),
        case.way(slowest.pair, direction),
        if slowest.queue() { "" } else { ", without a queue on the way" },
        rate(slowest.loss_rate()?),
        steady(slowest.single.steady),
        beside(slowest)
    );
    let mut finding = Finding::new(FindingId::LossLimited, Severity::Warning, confidence, sentence)
        .direction(direction)
        .value(share, Unit::Share)
        .nodes(counted.iter().map(|(node, _)| *node));
    if !counted.is_empty() {
        finding.add_evidence(slowest.single.id, &["hosts[].interfaces[]"]);
    }
    for (flow, _) in lossy {
        finding = finding
            .pairs([flow.pair])
            .nodes([flow.sender, flow.receiver])
            .evidence(flow.single.id, SINGLE)
            .evidence(flow.single.id, &["retransmitted_bytes", "mss_bytes"]);
    }
    Some(finding)
}

/// Ends whose own interface counted a good part of the losses, each with a sentence.
fn at_interfaces(case: &Case<'_>, flow: &Flow<'_>) -> Vec<(NodeId, String)> {
    let pair = flow.single.pair;
    let lost = pair.counts.retransmitted.zip(pair.mss.filter(|mss| mss.0 > 0));
    let lost = lost.map_or(0.0, |(bytes, mss)| bytes as f64 / mss.0 as f64);
    let ends = [
        (flow.sender, flow.receiver, &pair.host.sender, End::Sender),
        (flow.receiver, flow.sender, &pair.host.receiver, End::Receiver),
    ];
    ends.into_iter()
        .filter_map(|(node, peer, host, end)| {
            let name = &*case.interface(node, peer)?.name;
            let of = host.interface(name)?;
            let (drops, errors, what) = match end {
                End::Sender => (of.send_drops, of.send_errors, "was to send"),
                End::Receiver => (of.receive_drops, of.receive_errors, "received"),
            };
            let counted = drops.saturating_add(errors);
            let much = counted > 0 && counted as f64 >= COUNTED * lost;
            let sentence = format!(
                " Of the packets that {name} on {} {what} meanwhile, it dropped {drops} and found \
                 {errors} in error: look there first.",
                case.name(node)
            );
            much.then_some((node, sentence))
        })
        .collect()
}

/// How sure it is that losses hold a stream; `None` where they do not fit its rate, or where
/// something else holds it.
pub fn fits(flow: &Flow<'_>) -> Option<Confidence> {
    let otherwise =
        flow.fills() || flow.at_limit() || flow.cpu_full().is_some() || flow.reads_slowly();
    if !flow.lost() || otherwise || flow.fits_random_loss() != Some(true) || flow.held().is_some() {
        return None;
    }
    let near = flow.best.is_some_and(|best| best.steady.rate.0 < GAIN * flow.rate().0);
    let own_doing = flow.losses_grow().map(|times| times >= OWN_DOING);
    match (flow.queue(), near) {
        // A limit that it is close to makes these losses itself.
        (_, true) if own_doing == Some(true) => None,
        (false, false) if per_flow_fits(flow).is_none() => Some(Confidence::Likely),
        (false, _) => Some(Confidence::Possible),
        // Several streams, each in the same queue, lose no more than one: the queue is not why.
        (true, true) if own_doing == Some(false) => Some(Confidence::Possible),
        (true, _) => {
            let much = flow.lost_share().is_some_and(|share| share >= MUCH_IN_QUEUE);
            (much && flow.growth().is_none()).then_some(Confidence::Possible)
        }
    }
}

/// What fits as well, and what would tell them apart.
fn beside(flow: &Flow<'_>) -> &'static str {
    if per_flow_fits(flow).is_some() {
        " A limit per flow that drops what exceeds it fits as well."
    } else if flow.queue()
        || flow.best.is_some_and(|best| best.steady.rate.0 < GAIN * flow.rate().0)
    {
        " The path's own limit is near as well. What tells them apart: congestion_control: bbr, \
         which random loss does not slow down."
    } else {
        ""
    }
}
