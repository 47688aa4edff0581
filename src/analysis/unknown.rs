//! Rates that no rule explains: that the cause cannot be told is an answer, with what would tell.

use super::case::{Case, DIRECTIONS, differ, held_by_runbook};
use super::finding::{Confidence, Detail, Finding, FindingId, PerFlow, Severity, Unit};
use super::flow::{Flow, GAIN};
use super::steady::Steady;
use super::throughput::PairSummary;
use super::words::{count, list, steady};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::{MeasurementId, StoppedBecause, Variable};

/// They hold a single stream.
const OF_STREAM: &[FindingId] = &[
    FindingId::WindowLimited,
    FindingId::PerFlowLimit,
    FindingId::LossLimited,
    FindingId::CpuLimited,
    FindingId::SlowReader,
    FindingId::MtuBlackHole,
    FindingId::BurstCredit,
];
/// They hold all streams together, so a single one that gets as much as several, too.
const OF_PATH: &[FindingId] = &[
    FindingId::LinkLimited,
    FindingId::CpuLimited,
    FindingId::SlowReader,
    FindingId::LimitedByRunbook,
    FindingId::HashImbalance,
    FindingId::BurstCredit,
];
/// A stream that had data to send in less than this share of the time was not held by the network.
const BUSY: f64 = 0.7;

/// For each direction: single streams, best levels and all nodes at once that nothing in `findings`
/// explains.
pub fn findings(case: &Case<'_>, findings: &[Finding]) -> Vec<Finding> {
    DIRECTIONS.into_iter().filter_map(|direction| of(case, findings, direction)).collect()
}

/// A rate without a cause, and what would tell it.
struct Unexplained<'a> {
    id: MeasurementId,
    steady: &'a Steady,
    pairs: Vec<PairId>,
    /// `one stream from phx1 to ash1`.
    what: String,
    /// `phx1 to ash1`.
    who: String,
    tells: Vec<String>,
    needed: bool,
    /// The limit per flow of another pair that fits it as well, and that pair's way.
    alike: Option<(PerFlow, String)>,
}

/// Single streams whose rates are closer than this share have the same.
const SAME: f64 = 0.03;

fn of(case: &Case<'_>, findings: &[Finding], direction: Direction) -> Option<Finding> {
    let of_pairs = case.pairs().flat_map(|pair| {
        let flow = Flow::of(case, pair, direction);
        let single = flow.as_ref().and_then(|flow| single(flow, findings));
        let level = best(case, findings, pair, direction);
        [single, level].into_iter().flatten().collect::<Vec<_>>()
    });
    let unexplained: Vec<Unexplained<'_>> =
        of_pairs.chain(all_at_once(case, findings, direction)).collect();
    let first = unexplained.iter().max_by_key(|one| one.needed)?;
    let needed = unexplained.iter().any(|one| one.needed);
    let others: Vec<String> = unexplained
        .iter()
        .filter(|one| one.pairs != first.pairs)
        .map(|one| one.who.clone())
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(" The same holds for {}.", list(&deduplicated(others))),
    };
    let sentence = match &first.alike {
        Some((_, way)) => format!(
            "What holds {} at {} is likely the limit per flow that was seen from {way}: the rate is \
             the same, and a queue stands. A ladder of connections there would confirm it.{others}",
            first.what,
            steady(first.steady),
        ),
        None => format!(
            "What holds {} at {} cannot be told: no rule fits. What would tell: {}.{others}",
            first.what,
            steady(first.steady),
            first.tells.join("; "),
        ),
    };
    let severity = if needed { Severity::Warning } else { Severity::Info };
    let id = FindingId::CauseUnknown;
    let mut finding = Finding::new(id, severity, Confidence::Possible, sentence)
        .direction(direction)
        .value(first.steady.rate.0, Unit::BytesPerSecond);
    if let Some((limit, _)) = &first.alike {
        finding = finding.detail(Detail::PerFlow(*limit));
    }
    for one in &unexplained {
        let new: Vec<PairId> =
            one.pairs.iter().copied().filter(|pair| !finding.pairs.contains(pair)).collect();
        let fields = &["steady.bytes_per_second", "rtt_us", "limited", "cpu_cores"];
        finding = finding.pairs(new).evidence(one.id, fields);
    }
    Some(finding)
}

fn deduplicated(names: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

fn explained(findings: &[Finding], ids: &[FindingId], pair: PairId, direction: Direction) -> bool {
    findings.iter().any(|finding| {
        // Of a bond with links to spare the spread explains nothing.
        let spare = finding.id == FindingId::HashImbalance && finding.severity < Severity::Warning;
        ids.contains(&finding.id)
            && !spare
            && finding.direction.is_none_or(|of| of == direction)
            && (finding.pairs.is_empty() || finding.pairs.contains(&pair))
    })
}

fn missed(findings: &[Finding], pair: Option<PairId>, direction: Direction) -> bool {
    let missed = findings.iter().filter(|finding| finding.id == FindingId::NeedNotMet);
    missed
        .flat_map(|finding| &finding.needs)
        .any(|need| need.direction == direction && (need.thread.is_none() || need.pair == pair))
}

/// A single stream below a need, or below what several get.
fn single<'a>(flow: &Flow<'a>, findings: &[Finding]) -> Option<Unexplained<'a>> {
    let (pair, direction) = (flow.pair, flow.single.summary.direction);
    let below = flow.best.is_some_and(|best| {
        best.steady.rate.0 > flow.rate().0 && differ(best.steady, flow.single.steady, GAIN - 1.0)
    });
    let needed = missed(findings, Some(pair), direction);
    // A path that is full holds a single stream only where several get no more.
    let path = !below && explained(findings, OF_PATH, pair, direction);
    let alone =
        flow.best.is_none() && explained(findings, &[FindingId::LinkLimited], pair, direction);
    let so = below || needed || flow.best.is_none();
    // The runbook's own limit explains the streams that it held, and no slower one.
    let held_back = flow.at_limit();
    if !so || held_back || path || alone || explained(findings, OF_STREAM, pair, direction) {
        return None;
    }
    let who = flow.case.way(pair, direction);
    Some(Unexplained {
        id: flow.single.id,
        steady: flow.single.steady,
        pairs: vec![pair],
        what: format!("one stream from {who}"),
        who,
        tells: tells(flow),
        needed,
        alike: alike(flow, findings),
    })
}

/// Where no ladder was climbed and a queue stands: another pair of the direction is held by a limit
/// per flow, at the same rate.
fn alike(flow: &Flow<'_>, findings: &[Finding]) -> Option<(PerFlow, String)> {
    let direction = flow.single.summary.direction;
    let asked = flow.best.is_none() && flow.queue();
    findings.iter().filter(|_| asked).find_map(|finding| {
        let Detail::PerFlow(limit) = finding.detail else { return None };
        let fits = finding.id == FindingId::PerFlowLimit
            && finding.direction == Some(direction)
            && (flow.rate().0 / limit.stream.0 - 1.0).abs() <= SAME;
        let other = finding.pairs.first().filter(|_| fits)?;
        Some((limit, flow.case.way(*other, direction)))
    })
}

/// What has not been tried, and what was not seen.
fn tells(flow: &Flow<'_>) -> Vec<String> {
    let case = flow.case;
    let (pair, direction) = (flow.pair, flow.single.summary.direction);
    let mut tells = Vec::new();
    if flow.best.is_none() {
        tells.push("a ladder of connections".to_owned());
    }
    let swept = case.series.iter().any(|series| {
        series.variable == Variable::SocketBuffer
            && series.pair == Some(pair)
            && series.direction == Some(direction)
    });
    if !swept {
        tells.push("a sweep of socket_buffer".to_owned());
    }
    tells.extend(of_kernel(flow.single.pair));
    if case.paths_of(pair, direction).next().is_none() {
        tells.push("a path step (round trip idle and loaded, loss, path MTU)".to_owned());
    }
    if tells.is_empty() {
        tells.push(
            "the same test with congestion_control: bbr, and at another time of day".to_owned(),
        );
    }
    tells
}

fn of_kernel(pair: &PairSummary) -> Option<String> {
    let busy = pair.limited.busy;
    if busy.is_none() {
        return Some(
            "a newer kernel on the sender, since this one does not count what streams wait for"
                .to_owned(),
        );
    }
    let seconds = pair.host.sender.seconds?;
    let streams = pair.streams.len().max(1) as f64;
    let share = busy?.as_secs_f64() / (seconds * streams);
    (share < BUSY).then(|| {
        "why the sender had nothing to send in part of the time (its process, not the network)"
            .to_owned()
    })
}

/// A pair's best level, where it is not known that the path is full.
fn best<'a>(
    case: &Case<'a>,
    findings: &[Finding],
    pair: PairId,
    direction: Direction,
) -> Option<Unexplained<'a>> {
    let best = case.best_alone(pair, direction).filter(|best| best.num_conn > 1)?;
    if explained(findings, OF_PATH, pair, direction) || held_by_runbook(best.summary) {
        return None;
    }
    // Without a ladder nobody asked what the best is; a missed need asks.
    let needed = missed(findings, None, direction);
    let ladder = case.ladder(pair, direction);
    let rising = ladder.is_some_and(|ladder| ladder.stopped_because == StoppedBecause::Maximum);
    let tells = match ladder {
        Some(_) if rising => "a ladder with a higher max, since it ended while the rate still rose",
        Some(_) => "the same ladder again",
        None => "a ladder of connections up to the point where the rate stops rising",
    };
    let who = case.way(pair, direction);
    Some(Unexplained {
        id: best.id,
        steady: best.steady,
        pairs: vec![pair],
        what: format!("{} from {who}", count(best.num_conn, "connection")),
        who,
        tells: vec![tells.to_owned()],
        needed,
        alike: None,
    })
}

/// All nodes at once, where the total misses a need and nothing explains it.
fn all_at_once<'a>(
    case: &Case<'a>,
    findings: &[Finding],
    direction: Direction,
) -> Option<Unexplained<'a>> {
    let test = case.together(direction).filter(|test| test.pairs.len() > 1)?;
    let pairs: Vec<PairId> = test.pairs.iter().map(|pair| pair.pair).collect();
    let by_path = explained_for_all(findings, OF_PATH, &pairs, direction)
        || explained_for_all(findings, &[FindingId::SharedBottleneck], &pairs, direction);
    // With one connection each, what holds every stream holds their sum.
    let by_streams = test.request.num_conn == 1
        && pairs.iter().all(|pair| explained(findings, OF_STREAM, *pair, direction));
    if !missed(findings, None, direction) || held_by_runbook(test) || by_path || by_streams {
        return None;
    }
    let num_conn = test.request.num_conn;
    let alone =
        |pair: &PairId| case.alone(*pair, direction).iter().any(|one| one.num_conn == num_conn);
    let tells = match pairs.iter().all(alone) {
        true => "more connections on all nodes at once".to_owned(),
        false => format!(
            "each pair alone with {}, which shows whether they share something",
            count(num_conn, "connection")
        ),
    };
    Some(Unexplained {
        id: test.id,
        steady: test.steady.as_ref()?,
        pairs,
        what: format!("all nodes at once from {direction}"),
        who: "all nodes at once".to_owned(),
        tells: vec![tells],
        needed: true,
        alike: None,
    })
}

/// What holds one pair holds the sum as well.
fn explained_for_all(
    findings: &[Finding],
    ids: &[FindingId],
    pairs: &[PairId],
    direction: Direction,
) -> bool {
    pairs.iter().any(|pair| explained(findings, ids, *pair, direction))
}
