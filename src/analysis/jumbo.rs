//! Whether larger packets carry more: by a sweep of `mtu`, or with the interfaces held at another MTU.

use redoline_proto::units::BytesPerSecond;

use super::case::Case;
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::series::SeriesResult;
use super::throughput::Summary;
use super::words::{percent, rate};
use crate::plan::node::NodeId;
use crate::record::measurement::Variable;

/// A gain by a larger MTU counts from here on.
const WORTH_IT: f64 = 0.05;
/// Ethernet's without jumbo frames.
const ORDINARY_MTU: f64 = 1500.0;

/// What was carried with one MTU.
struct Side<'a> {
    /// `None`: as the interfaces are, where no node told it.
    mtu: Option<f64>,
    rate: BytesPerSecond,
    half_width: Option<BytesPerSecond>,
    /// One, or both tests around the other side.
    tests: Vec<&'a Summary>,
}

/// Both sides, and how sure the comparison is.
struct Compared<'a> {
    small: Side<'a>,
    large: Side<'a>,
    confidence: Confidence,
    /// The larger one is not what the interfaces have now.
    is_new: bool,
}

pub fn finding(case: &Case<'_>, series: &SeriesResult) -> Option<Finding> {
    let Compared { small, large, confidence, is_new } = match series.variable {
        Variable::Mtu => of_sockets(case, series),
        Variable::InterfaceMtu => of_interfaces(case, series),
        _ => None,
    }?;
    let first = *large.tests.first()?;
    let nodes = segmented_ends(case, first)?;
    let gain = Gain::of(&small, &large)?;
    let (id, what) = gain.told();
    let once = match confidence {
        Confidence::Possible => {
            " The test with the MTU as it is was not repeated, so a drift of the path would look \
             the same."
        }
        _ => "",
    };
    let (who, carries) = who(case, first);
    let sentence = format!(
        "From {who} {carries} {} with an MTU of {} and {} with {}: {what}.{once}",
        small.carried(),
        small.name(),
        large.carried(),
        large.name(),
    );
    let mut finding = Finding::new(id, Severity::Info, confidence, sentence)
        .direction(first.direction)
        .pairs(first.pairs.iter().map(|pair| pair.pair))
        .nodes(nodes)
        .value(gain.share, Unit::Ratio)
        .also(
            format!("{} {}", small.name(), large.name()),
            format!("{who} ({}, {}: {what})", small.carried(), large.carried()),
        );
    for test in small.tests.iter().chain(&large.tests) {
        finding = finding.evidence(test.id, &["steady", "mss_bytes"]);
    }
    Some(match large.mtu.filter(|_| is_new) {
        Some(mtu) => finding.detail(Detail::Mtu(mtu as u32)),
        None => finding,
    })
}

/// The question is whether frames above Ethernet's ordinary size are worth having.
fn of_sockets<'a>(case: &Case<'a>, series: &SeriesResult) -> Option<Compared<'a>> {
    let mut sides: Vec<Side<'a>> = measured(case, series)
        .filter_map(|(mtu, test)| Some(Side { mtu: Some(mtu?), ..Side::of(vec![test])? }))
        .collect();
    sides.sort_by(|a, b| a.mtu.unwrap_or(0.0).total_cmp(&b.mtu.unwrap_or(0.0)));
    let large = sides.pop().filter(|side| side.mtu > Some(ORDINARY_MTU))?;
    let small = sides.into_iter().rfind(|side| side.mtu <= Some(ORDINARY_MTU))?;
    Some(Compared { small, large, confidence: Confidence::Measured, is_new: true })
}

/// The test at the new MTU against the mean of the ones before and after it.
fn of_interfaces<'a>(case: &Case<'a>, series: &SeriesResult) -> Option<Compared<'a>> {
    let is_held = |test: &Summary| test.request.interface_mtu_bytes.is_some();
    let (held, own): (Vec<_>, Vec<_>) = measured(case, series).partition(|(_, test)| is_held(test));
    let side = |points: Vec<(Option<f64>, &'a Summary)>| {
        let mtu = points.first()?.0;
        Some(Side { mtu, ..Side::of(points.into_iter().map(|(_, test)| test).collect())? })
    };
    let (held, own) = (side(held)?, side(own)?);
    let confidence = if own.tests.len() > 1 { Confidence::Measured } else { Confidence::Possible };
    let is_new = held.mtu > Some(own.mtu.unwrap_or(ORDINARY_MTU));
    let (small, large) = if is_new { (own, held) } else { (held, own) };
    Some(Compared { small, large, confidence, is_new })
}

/// Points with a rate, each with its MTU.
fn measured<'a>(
    case: &Case<'a>,
    series: &SeriesResult,
) -> impl Iterator<Item = (Option<f64>, &'a Summary)> {
    series.points.iter().filter_map(|point| {
        let test = case.throughputs.iter().find(|test| Some(test.id) == point.measurement)?;
        (test.complete() && test.steady.is_some()).then_some((point.value, test))
    })
}

/// The nodes of a test; `None` where drivers pass unsegmented packets on, whatever the MTU.
fn segmented_ends(case: &Case<'_>, test: &Summary) -> Option<Vec<NodeId>> {
    let ends: Vec<(NodeId, NodeId)> =
        test.pairs.iter().map(|pair| case.setup().ends(pair.pair, test.direction)).collect();
    let unsegmented = ends.iter().any(|(a, b)| case.is_virtual(*a, *b) || case.is_virtual(*b, *a));
    (!unsegmented).then(|| ends.into_iter().flat_map(|(a, b)| [a, b]).collect())
}

/// Whose rate it is, and the words for it.
fn who(case: &Case<'_>, test: &Summary) -> (String, String) {
    let way = match test.pairs.as_slice() {
        [pair] => case.way(pair.pair, test.direction),
        _ => format!("{} all nodes at once, with", test.direction),
    };
    let carries = match (test.request.num_conn, test.pairs.len()) {
        (1, 1) => "one stream carries".to_owned(),
        (1, _) => "one stream each, carry".to_owned(),
        (count, 1) => format!("{count} connections carry"),
        (count, _) => format!("{count} connections each, carry"),
    };
    (way, carries)
}

impl<'a> Side<'a> {
    /// The mean of tests. Of two their distance is part of what is not known: half of it beside what
    /// each of them knows of itself.
    fn of(tests: Vec<&'a Summary>) -> Option<Self> {
        let steadies: Vec<_> = tests.iter().filter_map(|test| test.steady.as_ref()).collect();
        let rates = || steadies.iter().map(|steady| steady.rate.0);
        let count = steadies.len() as f64;
        let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0_f64, f64::max));
        let squares: Option<f64> = steadies.iter().map(|one| Some(one.half_width?.0.powi(2))).sum();
        let half = squares.map(|squares| (squares.sqrt() / count).hypot((high - low) / 2.0));
        (high > 0.0).then(|| Self {
            mtu: None,
            rate: BytesPerSecond(rates().sum::<f64>() / count),
            half_width: half.map(BytesPerSecond),
            tests,
        })
    }

    fn name(&self) -> String {
        self.mtu.map_or_else(|| "the interfaces as they are".to_owned(), |mtu| mtu.to_string())
    }

    fn carried(&self) -> String {
        let all = match self.half_width {
            Some(half) => format!("{} ± {half}", rate(self.rate)),
            None => format!("{} (too few samples for an interval)", rate(self.rate)),
        };
        let single = |test: &&Summary| test.rate().map(|rate| rate.to_string());
        let each: Vec<String> = self.tests.iter().filter_map(single).collect();
        match each.as_slice() {
            [before, after] => format!("{all} (the mean of {before} before and {after} after)"),
            _ => all,
        }
    }
}

/// Of the rate, with the half-width of its interval.
#[derive(Clone, Copy, Debug)]
struct Gain {
    share: f64,
    half_width: Option<f64>,
}

impl Gain {
    /// From both half-widths as independent errors.
    fn of(small: &Side<'_>, large: &Side<'_>) -> Option<Self> {
        let ratio = large.rate.0 / small.rate.0;
        let relative = |side: &Side<'_>| Some(side.half_width?.0 / side.rate.0);
        let half_width = relative(small).zip(relative(large)).map(|(a, b)| ratio * a.hypot(b));
        ratio.is_finite().then_some(Self { share: ratio - 1.0, half_width })
    }

    fn told(self) -> (FindingId, String) {
        let no_gain = FindingId::JumboNoGain;
        let Some(half) = self.half_width else {
            return (no_gain, "too few samples to tell a gain from noise".to_owned());
        };
        let sign = if self.share < 0.0 { "−" } else { "+" };
        let size = format!("{} ± {}", percent(self.share.abs()), percent(half));
        match self.share {
            share if share.abs() <= half => {
                (no_gain, format!("no gain that the tests could tell from noise ({sign}{size})"))
            }
            share if share < 0.0 => (no_gain, format!("{size} less")),
            share if share < WORTH_IT => (no_gain, format!("{size} more, hardly worth it")),
            _ => (FindingId::JumboGain, format!("{size} more")),
        }
    }
}
