//! Findings about the network beside the causes: directions, nodes, MTU, buffers, steadiness.

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::bdp;
use super::case::{Alone, Case, DIRECTIONS, at_limit, differ, held_by_runbook, lasted};
use super::fairness;
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::jumbo;
use super::series::SeriesResult;
use super::steady::Steady;
use super::sustained::{LONG, Sustained};
use super::throughput::{PairSummary, Summary};
use super::words::{count, list, percent, rate, steady};
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::measurement::{MeasurementId, Variable};

/// Directions differ when their rates are further apart than this and than their intervals.
const ASYMMETRIC: f64 = 0.05;
/// So do nodes of one cluster.
const UNEVEN: f64 = 0.10;
/// A gain by a fixed socket buffer counts from here on.
const FIXED_GAIN: f64 = 0.05;
/// All nodes at once get less than this share of what they get one after the other.
const SHARED: f64 = 0.90;
/// Measured below this share of the declared bandwidth.
const BELOW_DECLARED: f64 = 0.90;
/// Cut away as the ramp, the beginning takes more than this share of the steady rate.
const CUT_AWAY: f64 = 0.10;
/// Of an Ethernet packet of 1500 bytes with TCP timestamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = asymmetric(case);
    for direction in DIRECTIONS {
        findings.extend(uneven_nodes(case, direction));
        findings.extend(shared_bottleneck(case, direction));
        findings.extend(below_declared(case, direction));
        findings.extend(unsteady(case, direction));
        findings.extend(cut_away(case, direction));
    }
    findings.extend(buffer_capped(case));
    findings.extend(case.series.iter().filter_map(|series| jumbo::finding(case, series)));
    findings.extend(case.series.iter().filter_map(|series| fixed_buffer(case, series)));
    findings
}

fn asymmetric(case: &Case<'_>) -> Vec<Finding> {
    let [forth, back] = DIRECTIONS;
    let mut findings = Vec::new();
    for pair in case.pairs() {
        let single = (case.single(pair, forth), case.single(pair, back));
        let best = (case.best_alone(pair, forth), case.best_alone(pair, back));
        for (what, ends) in [("one stream", single), ("the best level", best)] {
            let (Some(there), Some(back)) = ends else { continue };
            let limited = [there, back].iter().any(|one| at_limit(one.summary, one.pair));
            let same_kind = what == "one stream" || (there.num_conn > 1 && back.num_conn > 1);
            if !limited && same_kind && differ(there.steady, back.steady, ASYMMETRIC) {
                findings.push(asymmetric_finding(case, what, there, back));
                break;
            }
        }
    }
    findings
}

fn asymmetric_finding(case: &Case<'_>, what: &str, there: Alone<'_>, back: Alone<'_>) -> Finding {
    let pair = there.pair.pair;
    let ratio = there.steady.rate.0 / back.steady.rate.0;
    let sentence = format!(
        "From {} {what} carries {}, from {} {}: the directions are not alike.",
        case.way(pair, Direction::PrimaryToStandby),
        steady(there.steady),
        case.way(pair, Direction::StandbyToPrimary),
        steady(back.steady),
    );
    let (primary, standby) = case.setup().ends(pair, Direction::PrimaryToStandby);
    Finding::new(FindingId::Asymmetric, Severity::Warning, Confidence::Measured, sentence)
        .pairs([pair])
        .nodes([primary, standby])
        .value(ratio, Unit::Ratio)
        .evidence(there.id, RATE)
        .evidence(back.id, RATE)
        .also(
            what,
            format!(
                "{} {}, back {}",
                case.way(pair, Direction::PrimaryToStandby),
                steady(there.steady),
                steady(back.steady)
            ),
        )
}

const RATE: &[&str] = &["steady.bytes_per_second", "steady.half_width_bytes_per_second"];

fn uneven_nodes(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let singles: Vec<Alone<'_>> =
        case.pairs().filter_map(|pair| case.single(pair, direction)).collect();
    let by_rate = |a: &&Alone<'_>, b: &&Alone<'_>| a.steady.rate.0.total_cmp(&b.steady.rate.0);
    let (slow, fast) = (singles.iter().min_by(by_rate)?, singles.iter().max_by(by_rate)?);
    if !differ(slow.steady, fast.steady, UNEVEN) {
        return None;
    }
    let sentence = format!(
        "One stream from {} carries {}, from {} {}: the nodes are not alike.",
        case.way(slow.pair.pair, direction),
        steady(slow.steady),
        case.way(fast.pair.pair, direction),
        steady(fast.steady),
    );
    let (sender, receiver) = case.setup().ends(slow.pair.pair, direction);
    Some(
        Finding::new(FindingId::UnevenNodes, Severity::Warning, Confidence::Measured, sentence)
            .direction(direction)
            .pairs([slow.pair.pair])
            .nodes([sender, receiver])
            .value(slow.steady.rate.0 / fast.steady.rate.0, Unit::Share)
            .evidence(slow.id, RATE)
            .evidence(fast.id, RATE),
    )
}

fn shared_bottleneck(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let together = case.together(direction).filter(|together| together.complete())?;
    let alone: Option<Vec<Alone<'_>>> =
        together.pairs.iter().map(|pair| alike_alone(case, together, pair.pair)).collect();
    let alone = alone.filter(|alone| alone.len() > 1)?;
    let sum: f64 = alone.iter().map(|one| one.steady.rate.0).sum();
    let at_once = together.steady.as_ref()?;
    if held_by_runbook(together) || at_once.at_most()?.0 >= SHARED * sum {
        return None;
    }
    // What a short test lives on, a long one of all nodes has used up: they need share nothing.
    let sustained = Sustained::of(case, direction);
    let lowest = sustained.lowest();
    let credit = sustained.after(together).is_some()
        || alone.iter().any(|one| {
            let short = lasted(one.summary, one.steady) < LONG;
            let within = short && lowest.is_some_and(|later| later.0 < one.steady.rate.0);
            within || sustained.after(one.summary).is_some()
        });
    let so = match credit {
        false => "they share something on the way",
        true => {
            "either they share something on the way, or they had used up the credit that the path \
             lends. What tells them apart: tests of one length, longer than the credit lasts"
        }
    };
    let sentence = format!(
        "All nodes at once carry {} from {direction}; one after the other, with the same {} per \
         pair, they carry {} in sum: {so}.{}",
        steady(at_once),
        count(together.request.num_conn, "connection"),
        rate(BytesPerSecond(sum)),
        shares(case, together),
    );
    let confidence = if credit { Confidence::Possible } else { Confidence::Measured };
    let mut finding =
        Finding::new(FindingId::SharedBottleneck, Severity::Info, confidence, sentence)
            .direction(direction)
            .value(at_once.rate.0, Unit::BytesPerSecond)
            .also(
                "",
                format!(
                    "from {direction} ({} of {})",
                    rate(at_once.rate),
                    rate(BytesPerSecond(sum))
                ),
            )
            .evidence(together.id, RATE)
            .evidence(together.id, &["pairs[].bytes_per_second", "pair_fairness"]);
    for one in alone {
        finding = finding.pairs([one.pair.pair]).evidence(one.id, RATE);
    }
    Some(finding)
}

/// What each pair got of a test of several, and how evenly that is.
fn shares(case: &Case<'_>, together: &Summary) -> String {
    let Some(fairness) = fairness::of_pairs(together) else { return String::new() };
    let parts: Vec<String> = fairness
        .parts
        .iter()
        .map(|part| {
            format!("{} gets {}", case.way(part.name, together.direction), percent(part.share))
        })
        .collect();
    format!(" Of it, {} (Jain's index {:.2}).", list(&parts), fairness.jain)
}

/// A pair alone with the same connections and sockets as a test of several pairs.
fn alike_alone<'a>(case: &Case<'a>, together: &Summary, pair: PairId) -> Option<Alone<'a>> {
    case.alone(pair, together.direction)
        .into_iter()
        .filter(|one| one.num_conn == together.request.num_conn)
        .filter(|one| {
            let (own, theirs) = (&one.summary.request, &together.request);
            own.socket == theirs.socket
                && own.mtu_bytes == theirs.mtu_bytes
                && own.rate_limit == theirs.rate_limit
        })
        .filter(|one| !at_limit(one.summary, one.pair))
        .max_by_key(|one| lasted(one.summary, one.steady))
}

fn below_declared(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let declared = case.setup().declared_bandwidth()?;
    let (id, best) = case.best(direction)?;
    let tried = case.pairs().any(|pair| case.plateaued(pair, direction));
    let limited = case
        .throughputs
        .iter()
        .filter(|summary| summary.direction == direction)
        .any(held_by_runbook);
    let payload = declared.0 * PAYLOAD_SHARE;
    if limited || !tried || best.at_most()?.0 >= BELOW_DECLARED * payload {
        return None;
    }
    let sentence = format!(
        "The path from {direction} carries {}, {} of the {} that {declared} of declared bandwidth \
         leave for payload.",
        steady(best),
        percent(best.rate.0 / payload),
        rate(BytesPerSecond(payload)),
    );
    Some(
        Finding::new(
            FindingId::BelowDeclaredBandwidth,
            Severity::Warning,
            Confidence::Measured,
            sentence,
        )
        .direction(direction)
        .value(best.rate.0, Unit::BytesPerSecond)
        .also("", format!("from {direction} ({})", rate(best.rate)))
        .evidence(id, RATE)
        .detail(Detail::Limit(declared)),
    )
}

/// Of the results that the answer rests on: single streams and all nodes at once.
fn unsteady(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let singles = case
        .pairs()
        .filter_map(|pair| case.single(pair, direction))
        .map(|one| (one.id, one.steady, case.way(one.pair.pair, direction)));
    let together = case
        .together(direction)
        .filter(|summary| summary.pairs.len() > 1)
        .and_then(|summary| Some((summary.id, summary.steady.as_ref()?, "all nodes".to_owned())));
    let moved: Vec<(_, &Steady, String)> = singles
        .chain(together)
        .filter(|(_, steady, _)| !steady.converged || steady.level_shift.is_some())
        .collect();
    let (_, worst, name) = moved.first()?;
    let what = match worst.level_shift {
        Some(shift) => format!("moved from {} to {}", rate(shift.first), rate(shift.last)),
        None => format!("did not settle to within {}", percent(worst.target)),
    };
    let sentence = format!(
        "The rate from {name} {what} during the test ({}). A longer test tells more.",
        steady(worst)
    );
    let mut finding =
        Finding::new(FindingId::Unsteady, Severity::Info, Confidence::Measured, sentence)
            .direction(direction);
    if let Some(half) = worst.half_width {
        finding = finding.value(half.0 / worst.rate.0, Unit::Share);
    }
    for (id, _, _) in &moved {
        finding = finding.evidence(*id, &["steady", "samples[]"]);
    }
    Some(finding)
}

/// What was cut away as the ramp was no ramp: a test whose mean over all of it is far below its steady
/// rate. Of single streams and of SYNC, where a stall of the standby's storage looks like a ramp; that
/// a test began faster than it went on is told by [`super::credit`].
fn cut_away(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let singles = case
        .pairs()
        .filter_map(|pair| case.single(pair, direction))
        .map(|one| (one.id, one.steady, one.pair));
    let sync = case
        .throughputs
        .iter()
        .filter(|test| test.direction == direction && test.request.mode != "async")
        .filter(|test| !test.request.both_directions)
        .flat_map(|test| test.pairs.iter().map(move |pair| (test.id, pair)))
        .filter_map(|(id, pair)| Some((id, pair.steady.as_ref()?, pair)));
    let mut cut: Vec<(_, &Steady, &PairSummary, f64)> = singles
        .chain(sync)
        .filter_map(|(id, steady, pair)| {
            let below = 1.0 - pair.whole_run?.0 / steady.rate.0;
            (below > CUT_AWAY).then_some((id, steady, pair, below))
        })
        .collect();
    cut.sort_by(|a, b| b.3.total_cmp(&a.3));
    let (id, worst, pair, below) = cut.first()?;
    let sentence = format!(
        "The rate from {} is {} in its steady part, and {} over the whole test ({id}): {:.1} s at its \
         beginning were slower and are not counted. If that was a stall, and not the start of the \
         stream, the whole test is what redo would have got.",
        case.way(pair.pair, direction),
        steady(worst),
        pair.whole_run.map_or_else(String::new, rate),
        worst.truncated.as_secs_f64(),
    );
    let mut finding =
        Finding::new(FindingId::Unsteady, Severity::Info, Confidence::Measured, sentence)
            .direction(direction)
            .value(*below, Unit::Share);
    for (id, ..) in &cut {
        finding.add_evidence(*id, &["steady", "whole_run_bytes_per_second", "samples[]"]);
    }
    Some(finding)
}

/// Requests for socket buffers that the system cut down, in either direction.
fn buffer_capped(case: &Case<'_>) -> Option<Finding> {
    let capped: Vec<Capped> =
        case.throughputs.iter().flat_map(|test| cut_down(case, test)).collect();
    let worst = capped.iter().max_by_key(|one| one.requested)?;
    let sentence = format!(
        "A socket buffer of {} was asked for and {} was granted on {}: {} caps it without an \
         error.",
        worst.requested,
        bdp::usable(worst.granted),
        case.name(worst.node),
        worst.setting,
    );
    let mut finding =
        Finding::new(FindingId::BufferCapped, Severity::Warning, Confidence::Measured, sentence)
            .value(bdp::usable(worst.granted).0 as f64, Unit::Bytes);
    for one in &capped {
        finding = finding
            .nodes([one.node])
            .evidence(one.id, &["requested.socket_buffer_bytes", "granted"]);
    }
    let needs = DIRECTIONS.into_iter().filter_map(|way| case.largest_buffer_need(way));
    Some(match needs.max_by_key(|need| need.buffer()) {
        Some(need) => finding.detail(Detail::Buffers(need)),
        None => finding,
    })
}

/// A request that was not granted in full.
struct Capped {
    node: NodeId,
    id: MeasurementId,
    requested: Bytes,
    granted: Bytes,
    setting: &'static str,
}

fn cut_down(case: &Case<'_>, test: &Summary) -> Vec<Capped> {
    let socket = &test.request.socket;
    let asked = [
        socket.send_buffer_bytes.or(socket.socket_buffer_bytes),
        socket.receive_buffer_bytes.or(socket.socket_buffer_bytes),
    ];
    let ends = test.pairs.iter().flat_map(|pair| {
        let (sender, receiver) = case.setup().ends(pair.pair, test.direction);
        [
            (sender, asked[0], pair.granted.send_buffer, "net.core.wmem_max"),
            (receiver, asked[1], pair.granted.receive_buffer, "net.core.rmem_max"),
        ]
    });
    ends.filter_map(|(node, requested, granted, setting)| {
        let requested = Bytes(requested?);
        let granted = granted.filter(|granted| bdp::capped(requested, *granted))?;
        Some(Capped { node, id: test.id, requested, granted, setting })
    })
    .collect()
}

/// A fixed socket buffer did better than auto-tuning.
fn fixed_buffer(case: &Case<'_>, series: &SeriesResult) -> Option<Finding> {
    let (pair, direction) = (series.pair?, series.direction?);
    if series.variable != Variable::SocketBuffer {
        return None;
    }
    let steady_of = |id| {
        let summary = case.throughputs.iter().find(|summary| summary.id == id)?;
        summary.steady.as_ref()
    };
    let measured = || series.points.iter().filter_map(|point| Some((point, point.measurement?)));
    let (_, auto_id) = measured().find(|(point, _)| point.value.is_none())?;
    let auto = steady_of(auto_id)?;
    let (bytes, fixed, id) = measured()
        .filter_map(|(point, id)| Some((Bytes(point.value? as u64), steady_of(id)?, id)))
        .max_by(|a, b| a.1.rate.0.total_cmp(&b.1.rate.0))?;
    if fixed.rate.0 <= auto.rate.0 || !differ(auto, fixed, FIXED_GAIN) {
        return None;
    }
    let sentence = format!(
        "From {} one stream carries {} with auto-tuned buffers and {} with buffers of {bytes}.",
        case.way(pair, direction),
        steady(auto),
        steady(fixed),
    );
    let (sender, receiver) = case.setup().ends(pair, direction);
    Some(
        Finding::new(FindingId::FixedBufferGain, Severity::Info, Confidence::Measured, sentence)
            .direction(direction)
            .pairs([pair])
            .nodes([sender, receiver])
            .value(fixed.rate.0 / auto.rate.0 - 1.0, Unit::Ratio)
            .also(
                bytes.to_string(),
                format!(
                    "{} ({}, auto-tuned {})",
                    case.way(pair, direction),
                    steady(fixed),
                    steady(auto)
                ),
            )
            .evidence(auto_id, RATE)
            .evidence(id, RATE)
            .evidence(id, &["requested.socket_buffer_bytes", "granted"])
            .detail(Detail::FixedBuffer(bytes)),
    )
}
