//! Whether what was measured is enough for what the databases need.

use redoline_proto::units::BytesPerSecond;

use super::case::{Alone, Case, DIRECTIONS, held_by_runbook};
use super::finding::{Confidence, Finding, FindingId, NeedJudged, Severity, Unit};
use super::steady::Steady;
use super::sustained::Sustained;
use super::throughput::Summary;
use super::words::{percent, rate, steady};
use crate::plan::need::Need;
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::measurement::MeasurementId;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let Some(need) = case.setup().need.as_ref().filter(|_| !case.loopback()) else {
        return unknown(case).into_iter().collect();
    };
    let mut findings = Vec::new();
    for direction in DIRECTIONS.into_iter().filter(|direction| is_planned(case, *direction)) {
        let left_out = &case.setup().left_out.threads;
        let sustained = Sustained::of(case, direction);
        for (thread, peak) in need.threads.iter().filter(|(thread, _)| !left_out.contains(thread)) {
            let required = need.with_headroom(*peak);
            findings.extend(of_thread(case, (direction, &sustained), *thread, required));
        }
        findings.extend(of_all(case, (direction, &sustained), need));
    }
    // The closest first: it is the one whose sentence stays when findings are merged.
    findings.sort_by(|a, b| spare(a).total_cmp(&spare(b)));
    findings.extend(super::instantiation::finding(case, need));
    findings
}

fn unknown(case: &Case<'_>) -> Option<Finding> {
    let nothing = case.setup().need.is_none() && !case.loopback();
    nothing.then(|| {
        Finding::new(
            FindingId::NeedUnknown,
            Severity::Info,
            Confidence::Measured,
            "The runbook states no need, so nothing says whether these rates are enough.",
        )
    })
}

/// Measured over needed; without a measurement nothing is known to be spare.
fn spare(finding: &Finding) -> f64 {
    let parts = finding.needs.iter().filter_map(|need| Some(need.measured?.0 / need.required.0));
    parts.fold(f64::INFINITY, f64::min)
}

/// A step of the runbook measures throughput in this direction.
pub fn is_planned(case: &Case<'_>, direction: Direction) -> bool {
    case.setup().steps.iter().any(|step| {
        step.direction == direction
            && !step.excluded
            && matches!(step.action.as_str(), "throughput" | "sweep")
    })
}

/// A need and who has it, as sentences name them.
struct Subject {
    name: String,
    need: NeedJudged,
}

/// What was measured for a need.
struct Measured {
    id: MeasurementId,
    steady: Steady,
    /// What the runbook lets the senders send, all together.
    limit: Option<BytesPerSecond>,
    /// It was the runbook's own limit that held the rate.
    held: bool,
    /// Every pair gave its part.
    complete: bool,
    /// What was left once a credit that the path lends was used up, by any test that tells.
    sustained: Option<BytesPerSecond>,
}

fn unjudged(
    thread: Option<u32>,
    direction: Direction,
    pair: Option<PairId>,
    required: BytesPerSecond,
) -> NeedJudged {
    let (measured, half_width, measurement) = (None, None, None);
    NeedJudged { thread, direction, pair, required, measured, half_width, measurement }
}

/// A thread's redo is shipped by one stream from its node, on each of the node's pairs.
fn of_thread(
    case: &Case<'_>,
    (direction, sustained): (Direction, &Sustained<'_>),
    thread: u32,
    required: BytesPerSecond,
) -> Vec<Finding> {
    let setup = case.setup();
    let node = setup.nodes.iter().position(|node| node.thread == Some(thread)).map(NodeId);
    let pairs: Vec<PairId> =
        case.pairs().filter(|pair| Some(setup.pairs[pair.0].primary) == node).collect();
    if pairs.is_empty() {
        let why = format!("no pair of the inventory carries redo thread {thread}");
        let need = unjudged(Some(thread), direction, None, required);
        return vec![cannot_tell(&Subject { name: format!("Thread {thread}"), need }, None, &why)];
    }
    pairs
        .into_iter()
        .map(|pair| {
            let name = format!("Thread {thread} on one stream from {}", case.way(pair, direction));
            let need = unjudged(Some(thread), direction, Some(pair), required);
            let measured = |one: Alone<'_>| Measured {
                id: one.id,
                steady: one.steady.clone(),
                limit: one.summary.request.rate_limit,
                held: held_by_runbook(one.summary),
                complete: true,
                sustained: sustained.after(one.summary),
            };
            let runs: Vec<Measured> =
                case.singles(pair, direction).into_iter().map(measured).collect();
            let nothing = "one stream was not measured";
            worst(&Subject { name, need }, &runs, nothing).pairs([pair]).nodes(node)
        })
        .collect()
}

/// All threads at once; without a stated total their sum, where there are several.
fn of_all(
    case: &Case<'_>,
    (direction, sustained): (Direction, &Sustained<'_>),
    need: &Need,
) -> Option<Finding> {
    let sum = BytesPerSecond(need.threads.values().map(|rate| rate.0).sum());
    let (total, what) = match need.total {
        Some(total) => (total, "All threads together"),
        None if need.threads.len() > 1 => {
            (sum, "All threads together (no total is stated, so their sum counts)")
        }
        None => return None,
    };
    let subject = Subject {
        name: format!("{what} from {direction}"),
        need: unjudged(None, direction, None, need.with_headroom(total)),
    };
    if let Some(limited) = case.limited_to() {
        let why = format!("{limited}, so not all pairs were measured");
        return Some(cannot_tell(&subject, None, &why));
    }
    let measured = |summary: &Summary| {
        Some(Measured {
            id: summary.id,
            steady: summary.steady.clone()?,
            limit: limit_of_all(summary),
            held: held_by_runbook(summary),
            complete: summary.complete(),
            sustained: sustained.after(summary),
        })
    };
    let runs: Vec<Measured> = case.togethers(direction).into_iter().filter_map(measured).collect();
    Some(worst(&subject, &runs, "all nodes at once were not measured"))
}

/// Each pair has its own share of what the runbook lets a node send.
fn limit_of_all(summary: &Summary) -> Option<BytesPerSecond> {
    let limit = summary.request.rate_limit?;
    Some(BytesPerSecond(limit.0 * summary.pairs.len() as f64))
}

/// A need counts at every time that was tried: of tests repeated over time the worst is told.
fn worst(subject: &Subject, tests: &[Measured], nothing: &str) -> Finding {
    let mut judged: Vec<Finding> =
        tests.iter().map(|test| judge(subject, Some(test), nothing)).collect();
    judged.sort_by(|a, b| rank(a.id).cmp(&rank(b.id)).then(spare(a).total_cmp(&spare(b))));
    let of = judged.len();
    let mut judged = judged.into_iter();
    let Some(mut worst) = judged.next() else { return judge(subject, None, nothing) };
    if of > 1 {
        let others: Vec<Finding> =
            judged.filter(|other| worst.id != FindingId::NeedMet && other.id == worst.id).collect();
        let alike = match (worst.id, others.len() + 1) {
            (FindingId::NeedMet, _) => String::new(),
            (FindingId::NeedNotMet, count) => format!("; {count} of them do not meet the need"),
            (_, count) => format!("; of {count} of them it cannot be told"),
        };
        worst.sentence += &format!(" It is the worst of {of} tests at different times{alike}.");
        for evidence in others.into_iter().flat_map(|other| other.evidence) {
            worst.add_evidence(evidence.measurement, &evidence.fields);
        }
    }
    worst
}

fn rank(id: FindingId) -> u8 {
    match id {
        FindingId::NeedNotMet => 0,
        FindingId::NeedCannotBeJudged => 1,
        _ => 2,
    }
}

/// mean − half-width ≥ need is met, mean + half-width < need is not, anything else cannot be told.
fn judge(subject: &Subject, measured: Option<&Measured>, nothing: &str) -> Finding {
    let required = subject.need.required;
    let Some(test) = measured else {
        return cannot_tell(subject, None, nothing);
    };
    let why = match (test.steady.at_least(), test.steady.at_most(), test.limit) {
        (_, _, Some(limit)) if required.0 > limit.0 => {
            format!("the runbook's limit of {} is below it", rate(limit))
        }
        // What the others carried says nothing of a pair that carried nothing.
        _ if !test.complete => "not all pairs gave a result".to_owned(),
        (None, _, _) | (_, None, _) => "too few samples were taken".to_owned(),
        (_, Some(most), _)
            if most.0 >= required.0 && test.sustained.is_some_and(|later| later.0 < required.0) =>
        {
            let later = test.sustained.map_or_else(String::new, rate);
            format!("the path lends a credit at the beginning and then carries {later}")
        }
        (Some(least), _, _) if least.0 >= required.0 => return met(subject, test),
        _ if test.held => "the runbook's own limit held the rate".to_owned(),
        (_, Some(most), _) if most.0 < required.0 => return not_met(subject, test),
        _ => "the need lies within the measurement's uncertainty".to_owned(),
    };
    cannot_tell(subject, Some(test), &why)
}

const RATE: &[&str] = &["steady.bytes_per_second", "steady.half_width_bytes_per_second"];

fn judged(id: FindingId, severity: Severity, subject: &Subject, sentence: String) -> Finding {
    Finding::new(id, severity, Confidence::Measured, sentence).direction(subject.need.direction)
}

fn with(finding: Finding, subject: &Subject, test: &Measured) -> Finding {
    finding.evidence(test.id, RATE).need(NeedJudged {
        measured: Some(test.steady.rate),
        half_width: test.steady.half_width,
        measurement: Some(test.id),
        ..subject.need
    })
}

fn met(subject: &Subject, test: &Measured) -> Finding {
    let (needed, there) = (rate(subject.need.required), steady(&test.steady));
    let spare = test.steady.rate.0 / subject.need.required.0 - 1.0;
    let sentence = format!(
        "{}: {needed} are needed with headroom, {there} are there, {} more.",
        subject.name,
        percent(spare.max(0.0))
    );
    let finding = judged(FindingId::NeedMet, Severity::Ok, subject, sentence)
        .value(test.steady.rate.0, Unit::BytesPerSecond)
        .also("", format!("{} ({} more)", subject.name, percent(spare.max(0.0))));
    with(finding, subject, test)
}

fn not_met(subject: &Subject, test: &Measured) -> Finding {
    let required = subject.need.required;
    let (needed, there) = (rate(required), steady(&test.steady));
    let short = BytesPerSecond((required.0 - test.steady.rate.0).max(0.0));
    let sentence = format!(
        "{}: {needed} are needed with headroom, {there} are there; {} are missing, {} of the need.",
        subject.name,
        rate(short),
        percent(short.0 / required.0)
    );
    let finding = judged(FindingId::NeedNotMet, Severity::Critical, subject, sentence)
        .value(test.steady.rate.0, Unit::BytesPerSecond)
        .also("", format!("{} ({there}, {needed} needed)", subject.name));
    with(finding, subject, test)
}

fn cannot_tell(subject: &Subject, test: Option<&Measured>, why: &str) -> Finding {
    let needed = rate(subject.need.required);
    let seen = test.map_or(String::new(), |test| format!(" (measured {})", steady(&test.steady)));
    let sentence = format!(
        "{}: whether the needed {needed} are there cannot be told: {why}{seen}.",
        subject.name
    );
    let finding = judged(FindingId::NeedCannotBeJudged, Severity::Warning, subject, sentence)
        .also(why, format!("{} ({needed} needed)", subject.name));
    match test {
        Some(test) => with(finding, subject, test),
        None => finding.need(subject.need),
    }
}
