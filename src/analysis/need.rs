//! Whether what was measured is enough for what the databases need.

use redoline_proto::units::BytesPerSecond;

use super::case::{Case, DIRECTIONS, at_limit};
use super::finding::{Confidence, Detail, Finding, FindingId, NeedJudged, Severity, Unit};
use super::steady::Steady;
use super::words::{long_time, percent, rate, steady};
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::measurement::MeasurementId;

/// Redo made while a database is copied lengthens the copy by up to this share (MAA).
const MEANWHILE: f64 = 0.5;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let Some(need) = case.setup().need.as_ref().filter(|_| !case.loopback()) else {
        return unknown(case).into_iter().collect();
    };
    let mut findings = Vec::new();
    for direction in DIRECTIONS.into_iter().filter(|direction| is_planned(case, *direction)) {
        for (thread, peak) in &need.threads {
            findings.extend(of_thread(case, direction, *thread, need.with_headroom(*peak)));
        }
        if let Some(total) = case.required_total() {
            findings.push(of_all(case, direction, total));
        }
    }
    findings.extend(instantiation(case));
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

/// A step of the runbook measures throughput in this direction.
pub fn is_planned(case: &Case<'_>, direction: Direction) -> bool {
    case.setup().steps.iter().any(|step| {
        step.direction == direction
            && !step.excluded
            && matches!(step.action.as_str(), "throughput" | "sweep")
    })
}

/// A thread's redo is shipped by one stream from its node, on each of the node's pairs.
fn of_thread(
    case: &Case<'_>,
    direction: Direction,
    thread: u32,
    required: BytesPerSecond,
) -> Vec<Finding> {
    let setup = case.setup();
    let node = setup.nodes.iter().position(|node| node.thread == Some(thread)).map(NodeId);
    let pairs: Vec<PairId> =
        case.pairs().filter(|pair| Some(setup.pairs[pair.0].primary) == node).collect();
    let judged = NeedJudged { thread: Some(thread), required, measured: None };
    if pairs.is_empty() {
        let why = format!("no pair of the inventory carries redo thread {thread}");
        return vec![cannot_tell(direction, &format!("Thread {thread}"), judged, &why)];
    }
    pairs
        .into_iter()
        .map(|pair| {
            let single = case.single(pair, direction);
            let subject =
                format!("Thread {thread} on one stream from {}", case.way(pair, direction));
            let evidence = single.map(|single| (single.id, single.steady));
            let limit = single.and_then(|single| single.summary.request.rate_limit);
            judge(direction, &subject, judged, evidence, limit, true).pairs([pair]).nodes(node)
        })
        .collect()
}

fn of_all(case: &Case<'_>, direction: Direction, required: BytesPerSecond) -> Finding {
    let together = case.together(direction);
    let judged = NeedJudged { thread: None, required, measured: None };
    let mut senders: Vec<NodeId> =
        case.pairs().map(|pair| case.setup().ends(pair, direction).0).collect();
    senders.sort_unstable();
    senders.dedup();
    let senders = senders.len() as f64;
    let limit = together
        .and_then(|summary| summary.request.rate_limit)
        .map(|limit| BytesPerSecond(limit.0 * senders));
    let evidence = together.and_then(|summary| Some((summary.id, summary.steady.as_ref()?)));
    let complete = together.is_none_or(super::throughput::Summary::complete);
    let subject = format!("All threads together from {direction}");
    judge(direction, &subject, judged, evidence, limit, complete)
}

/// mean − half-width ≥ need is met, mean + half-width < need is not, anything else cannot be told.
fn judge(
    direction: Direction,
    subject: &str,
    judged: NeedJudged,
    measured: Option<(MeasurementId, &Steady)>,
    limit: Option<BytesPerSecond>,
    complete: bool,
) -> Finding {
    let required = judged.required;
    let Some((id, steady)) = measured else {
        let what =
            if judged.thread.is_some() { "one stream was" } else { "all nodes at once were" };
        return cannot_tell(direction, subject, judged, &format!("{what} not measured"));
    };
    let judged = NeedJudged { measured: Some(steady.rate), ..judged };
    let why = match (steady.at_least(), steady.at_most(), limit) {
        (_, _, Some(limit)) if required.0 > limit.0 => {
            format!("the runbook's limit of {} is below it", rate(limit))
        }
        (None, _, _) | (_, None, _) => "too few samples were taken".to_owned(),
        (Some(least), _, _) if least.0 >= required.0 => {
            return met(direction, subject, judged, id, steady);
        }
        (_, Some(most), _) if most.0 < required.0 && complete => {
            return not_met(direction, subject, judged, id, steady);
        }
        _ if !complete => "not all pairs gave a result".to_owned(),
        _ => "the need lies within the measurement's uncertainty".to_owned(),
    };
    let why = format!("{why} (measured {})", super::words::steady(steady));
    cannot_tell(direction, subject, judged, &why).evidence(id, RATE)
}

const RATE: &[&str] = &["steady.bytes_per_second", "steady.half_width_bytes_per_second"];

fn met(
    direction: Direction,
    subject: &str,
    judged: NeedJudged,
    id: MeasurementId,
    measured: &Steady,
) -> Finding {
    let spare = measured.rate.0 / judged.required.0 - 1.0;
    let sentence = format!(
        "{subject}: {} are needed with headroom, {} are there, {} more.",
        rate(judged.required),
        steady(measured),
        percent(spare.max(0.0))
    );
    Finding::new(FindingId::NeedMet, Severity::Ok, Confidence::Measured, sentence)
        .direction(direction)
        .value(measured.rate.0, Unit::BytesPerSecond)
        .evidence(id, RATE)
        .detail(Detail::Need(judged))
}

fn not_met(
    direction: Direction,
    subject: &str,
    judged: NeedJudged,
    id: MeasurementId,
    measured: &Steady,
) -> Finding {
    let short = BytesPerSecond((judged.required.0 - measured.rate.0).max(0.0));
    let sentence = format!(
        "{subject}: {} are needed with headroom, {} are there; {} are missing, {} of the need.",
        rate(judged.required),
        steady(measured),
        rate(short),
        percent(short.0 / judged.required.0)
    );
    Finding::new(FindingId::NeedNotMet, Severity::Critical, Confidence::Measured, sentence)
        .direction(direction)
        .value(measured.rate.0, Unit::BytesPerSecond)
        .evidence(id, RATE)
        .detail(Detail::Need(judged))
}

fn cannot_tell(direction: Direction, subject: &str, judged: NeedJudged, why: &str) -> Finding {
    let sentence = format!(
        "{subject}: whether the needed {} are there cannot be told: {why}.",
        rate(judged.required)
    );
    Finding::new(FindingId::NeedCannotBeJudged, Severity::Warning, Confidence::Measured, sentence)
        .direction(direction)
        .detail(Detail::Need(judged))
}

/// Size over the aggregate from primary to standby; redo made meanwhile adds up to a half.
fn instantiation(case: &Case<'_>) -> Option<Finding> {
    let need = case.setup().need.as_ref()?;
    let (size, goal) = (need.database_size?, need.instantiate_within?.as_secs_f64());
    let direction = Direction::PrimaryToStandby;
    let (id, best) = match case.together(direction) {
        Some(summary) => (summary.id, summary.steady.as_ref()?),
        None => case.best(direction)?,
    };
    let summary = case.throughputs.iter().find(|summary| summary.id == id)?;
    let limited = summary.pairs.iter().any(|pair| at_limit(summary, pair));
    if best.rate.0 <= 0.0 {
        return None;
    }
    let quiet = size.0 as f64 / best.rate.0;
    let busy = quiet * (1.0 + MEANWHILE);
    let (finding, severity, confidence, text) = match () {
        () if busy <= goal => {
            (FindingId::InstantiationInTime, Severity::Ok, Confidence::Likely, "in time")
        }
        () if limited => return None,
        () if quiet > goal => {
            (FindingId::InstantiationTooSlow, Severity::Critical, Confidence::Likely, "too slow")
        }
        () => (
            FindingId::InstantiationTooSlow,
            Severity::Warning,
            Confidence::Possible,
            "in time only while little redo is made",
        ),
    };
    let sentence = format!(
        "Copying {size} at {} takes {}, and up to {} with the redo made meanwhile (+0 to 50 %); {} \
         are allowed: {text}.",
        rate(best.rate),
        long_time(quiet),
        long_time(busy),
        long_time(goal)
    );
    Some(
        Finding::new(finding, severity, confidence, sentence)
            .direction(direction)
            .value(quiet, Unit::Seconds)
            .evidence(id, &["steady.bytes_per_second"])
            .detail(Detail::Instantiation {
                quiet_seconds: quiet,
                busy_seconds: busy,
                goal_seconds: goal,
            }),
    )
}
