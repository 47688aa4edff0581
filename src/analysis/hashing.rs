//! Flows that a hash spreads unevenly over equal links: bonds and equal-cost routes.

use redoline_proto::facts::Interface;

use super::case::{Case, DIRECTIONS};
use super::fairness::jain;
use super::finding::{Confidence, End, Finding, FindingId, Severity, Unit};
use super::throughput::{PairSummary, Summary};
use super::words::{count, list, percent};
use crate::plan::node::{Direction, NodeId, PairId};

/// With fewer streams, nothing is said: two of two on one link is chance.
const STREAMS: usize = 4;
/// Streams of one link get the same to within this ratio, and those of a fuller one so much less.
const ALIKE: f64 = 1.15;
const APART: f64 = 1.3;
/// Both groups get the same in sum, to within this ratio: the links are equal and both full.
const EQUAL_LINKS: f64 = 1.15;
/// A member of a bond that carries less than this of its even part is left out.
const LEFT_OUT: f64 = 0.2;
/// Jain's index of the members below which they are unevenly used.
const UNEVEN: f64 = 0.9;
/// A member that was used to this share of its speed may have held the rate.
const FULL: f64 = 0.7;
/// The members carried this much of the test: else something else was counted.
const OF_TEST: f64 = 0.8;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    DIRECTIONS.into_iter().filter_map(|direction| worst(case, direction)).collect()
}

fn worst(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let tests = || {
        case.counting(direction)
            .flat_map(|test| test.pairs.iter().map(move |pair| (test, pair)))
            .filter(|(_, pair)| pair.streams.len() >= STREAMS)
    };
    let members = tests().filter_map(|(test, pair)| members(case, test, pair));
    let groups = tests().filter_map(|(test, pair)| groups(case, test, pair));
    let index = |finding: &Finding| finding.value.map_or(1.0, |value| value.0);
    let least = |a: &Finding, b: &Finding| index(a).total_cmp(&index(b));
    let (full, spare): (Vec<Finding>, Vec<Finding>) =
        members.partition(|finding| finding.severity >= Severity::Warning);
    // What interfaces counted says more than what rates look like, where it held a rate.
    let full = full.into_iter().min_by(least).or_else(|| groups.min_by(least));
    full.or_else(|| spare.into_iter().min_by(least))
}

fn finding(
    direction: Direction,
    pair: PairId,
    nodes: &[NodeId],
    (index, severity, confidence): (f64, Severity, Confidence),
    sentence: String,
) -> Finding {
    Finding::new(FindingId::HashImbalance, severity, confidence, sentence)
        .direction(direction)
        .pairs([pair])
        .nodes(nodes.iter().copied())
        .value(index, Unit::Share)
}

/// What the members of a bond carried.
fn members(case: &Case<'_>, test: &Summary, pair: &PairSummary) -> Option<Finding> {
    let (sender, receiver) = case.setup().ends(pair.pair, test.direction);
    [(sender, receiver, End::Sender), (receiver, sender, End::Receiver)].into_iter().find_map(
        |(node, peer, end)| of_bond(case, test, pair, (node, end, bond(case, node, peer)?)),
    )
}

fn bond<'a>(case: &Case<'a>, node: NodeId, peer: NodeId) -> Option<&'a Interface> {
    let spreads = |mode: &str| !mode.contains("active-backup") && mode != "1";
    case.interface(node, peer).filter(|interface| {
        let mode = interface.bond_mode.as_deref();
        interface.bond_members.len() > 1 && mode.is_none_or(spreads)
    })
}

fn of_bond(
    case: &Case<'_>,
    test: &Summary,
    pair: &PairSummary,
    (node, end, bond): (NodeId, End, &Interface),
) -> Option<Finding> {
    let host = if end == End::Sender { &pair.host.sender } else { &pair.host.receiver };
    let carried: Option<Vec<f64>> = bond
        .bond_members
        .iter()
        .map(|name| {
            let one = host.interface(name)?;
            Some(if end == End::Sender { one.sent_bytes } else { one.received_bytes } as f64)
        })
        .collect();
    let carried = carried?;
    let sum: f64 = carried.iter().sum();
    let index = jain(&carried).filter(|index| *index < UNEVEN)?;
    if sum < OF_TEST * pair.counts.received? as f64 {
        return None;
    }
    let even = sum / carried.len() as f64;
    let used = carried.iter().filter(|bytes| **bytes >= LEFT_OUT * even).count();
    let parts: Vec<String> = bond
        .bond_members
        .iter()
        .zip(&carried)
        .map(|(name, bytes)| format!("{name} {}", percent(bytes / sum)))
        .collect();
    let used_most = fullest(case, (node, bond), &carried, host.seconds);
    let full = used_most.is_some_and(|share| share >= FULL) || groups(case, test, pair).is_some();
    let severity = if full { Severity::Warning } else { Severity::Info };
    let held = match used_most {
        _ if full => String::new(),
        Some(share) => format!(
            " The fullest was used to {} of its speed, so that is not what held the rate.",
            percent(share)
        ),
        None => {
            " Whether that held the rate is not known, since the links do not tell their speed."
                .to_owned()
        }
    };
    let sentence = format!(
        "{} of one test used {used} of {} links of {} on {}: {}. The hash that spreads flows put \
         them so; other source ports may fall otherwise.{held}",
        count(pair.streams.len() as u32, "stream"),
        carried.len(),
        bond.name,
        case.name(node),
        list(&parts),
    );
    let of = (index, severity, Confidence::Measured);
    let finding = finding(test.direction, pair.pair, &[node], of, sentence);
    Some(finding.evidence(test.id, &["hosts[].interfaces[]", "streams[].received_bytes"]))
}

/// What the fullest member carried of what it can, 0 to about 1; `None` where no speed is known.
fn fullest(
    case: &Case<'_>,
    (node, bond): (NodeId, &Interface),
    carried: &[f64],
    seconds: Option<f64>,
) -> Option<f64> {
    let interfaces = &case.facts(node)?.interfaces;
    let seconds = seconds?;
    let shares = bond.bond_members.iter().zip(carried).filter_map(|(name, bytes)| {
        let member = interfaces.iter().find(|interface| interface.name == *name)?;
        let mbit = member.speed_mbit_per_s.filter(|mbit| *mbit > 0)?;
        Some(bytes / seconds / (mbit as f64 * 125_000.0))
    });
    shares.max_by(f64::total_cmp)
}

/// Streams in two groups that get the same in sum: each fills one of two equal links.
fn groups(case: &Case<'_>, test: &Summary, pair: &PairSummary) -> Option<Finding> {
    let rates: Option<Vec<f64>> =
        pair.streams.iter().map(|stream| stream.received.map(|bytes| bytes as f64)).collect();
    let (slow, fast) = two_groups(rates?)?;
    let index = jain(&[slow.as_slice(), fast.as_slice()].concat())?;
    let (sender, receiver) = case.setup().ends(pair.pair, test.direction);
    let sentence = format!(
        "Of {} from {}, {} get {:.1} times what {} others get, and both groups the same in sum: two \
         equal links on the way, of which a hash gave one too many. Other source ports may fall \
         otherwise.",
        count(pair.streams.len() as u32, "stream"),
        case.way(pair.pair, test.direction),
        fast.len(),
        mean(&fast) / mean(&slow),
        slow.len(),
    );
    let of = (index, Severity::Warning, Confidence::Possible);
    let finding = finding(test.direction, pair.pair, &[sender, receiver], of, sentence);
    Some(finding.evidence(test.id, &["streams[].received_bytes", "stream_fairness"]))
}

/// Split at the widest gap, where the parts are two links.
fn two_groups(mut rates: Vec<f64>) -> Option<(Vec<f64>, Vec<f64>)> {
    rates.sort_by(f64::total_cmp);
    if rates.len() < STREAMS || rates.first().is_none_or(|least| *least <= 0.0) {
        return None;
    }
    let gap = |at: &usize| rates[*at] / rates[*at - 1];
    let at = (1..rates.len()).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let apart = gap(&at) >= APART;
    let fast = rates.split_off(at);
    let alike = |group: &[f64]| group[group.len() - 1] <= ALIKE * group[0];
    let sums = (rates.iter().sum::<f64>(), fast.iter().sum::<f64>());
    let equal = sums.0.max(sums.1) <= EQUAL_LINKS * sums.0.min(sums.1);
    (apart && equal && alike(&rates) && alike(&fast)).then_some((rates, fast))
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_and_three_streams_on_two_equal_links_are_two_groups() {
        let rates = vec![20.0, 20.5, 33.3, 19.8, 33.0, 20.2, 33.9, 19.9];
        let (slow, fast) = two_groups(rates).unwrap();
        assert_eq!((slow.len(), fast.len()), (5, 3));
    }

    #[test]
    fn uneven_streams_of_one_queue_are_not() {
        // Anything between, one that runs away, and two groups that are no equal links.
        assert_eq!(two_groups(vec![10.0, 14.0, 18.0, 25.0, 33.0]), None);
        assert_eq!(two_groups(vec![10.0, 10.1, 10.2, 10.0, 60.0]), None);
        assert_eq!(two_groups(vec![10.0, 10.0, 20.0, 20.0]), None);
        assert_eq!(two_groups(vec![10.0; 8]), None);
    }
}
