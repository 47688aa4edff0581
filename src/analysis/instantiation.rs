//! Whether a database can be copied to the standby in the time that is allowed.

use redoline_proto::units::BytesPerSecond;

use super::case::{
    Case, DIRECTIONS, as_long_as_others, differ, held_by_runbook, is_as_long, is_settled, time,
};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::need::is_planned;
use super::sustained::{LONG, Sustained};
use super::throughput::Summary;
use super::words::{long_time, rate};
use crate::plan::need::Need;
use crate::plan::node::{Direction, PairId};

/// Redo made while a database is copied lengthens the copy by up to this share (MAA).
const MEANWHILE: f64 = 0.5;
/// A pair alone that carries more than all at once, by this share, shows that these held back.
const MORE_ALONE: f64 = 0.05;
const DIRECTION: Direction = Direction::PrimaryToStandby;

/// The test that says how fast a copy can be, and why it may not say how slow it has to be.
struct Basis<'a> {
    summary: &'a Summary,
    /// What is left of it once a credit that the path lends is used up.
    rate: BytesPerSecond,
    /// `None`: more than this rate cannot be had.
    only_at_least: Option<String>,
}

/// Size over the aggregate from primary to standby; redo made meanwhile adds up to a half.
///
/// A stated goal always gives a finding, unless the run measures no throughput at all.
pub fn finding(case: &Case<'_>, need: &Need) -> Option<Finding> {
    let (size, goal) = (need.database_size?, need.instantiate_within?.as_secs_f64());
    if !DIRECTIONS.into_iter().any(|direction| is_planned(case, direction)) {
        return None;
    }
    let copy = format!("Copying {size} within {}", long_time(goal));
    let Some(basis) = basis(case).filter(|basis| basis.rate.0 > 0.0) else {
        let why = format!("no throughput from {DIRECTION} was measured");
        return Some(cannot_tell(&copy, &why));
    };
    let quiet = size.0 as f64 / basis.rate.0;
    let busy = quiet * (1.0 + MEANWHILE);
    let in_time = busy <= goal;
    if let Some(why) = basis.only_at_least.as_ref().filter(|_| !in_time) {
        let why = format!("{why} (measured {})", rate(basis.rate));
        let finding = cannot_tell(&copy, &why);
        return Some(finding.evidence(basis.summary.id, &["steady.bytes_per_second"]));
    }
    let (id, severity, confidence, text) = match () {
        () if in_time => {
            (FindingId::InstantiationInTime, Severity::Ok, Confidence::Likely, "in time")
        }
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
        rate(basis.rate),
        long_time(quiet),
        long_time(busy),
        long_time(goal)
    );
    Some(
        Finding::new(id, severity, confidence, sentence)
            .direction(DIRECTION)
            .value(quiet, Unit::Seconds)
            .evidence(basis.summary.id, &["steady.bytes_per_second"])
            .detail(Detail::Instantiation {
                quiet_seconds: quiet,
                busy_seconds: busy,
                goal_seconds: goal,
            }),
    )
}

/// All nodes at once where that was measured, else the best of the longest tests.
fn basis<'a>(case: &Case<'a>) -> Option<Basis<'a>> {
    let sustained = Sustained::of(case, DIRECTION);
    let together = case.together(DIRECTION);
    let of_all = together.map(time).unwrap_or_default();
    let long_enough = |test: &Summary| match sustained.lowest() {
        // What a shorter test carried more may be the credit.
        Some(_) => time(test) >= of_all,
        None => is_as_long(test, of_all),
    };
    let whole: Vec<&Summary> = case
        .counting(DIRECTION)
        .filter(|test| test.complete() && long_enough(test))
        .filter(|test| {
            test.steady.as_ref().is_some_and(is_settled) || sustained.after(test).is_some()
        })
        .collect();
    let best = as_long_as_others(&whole)
        .filter_map(|test| Some((test, sustained.rate(test)?)))
        .max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let together = together.and_then(|test| Some((test, sustained.rate(test)?)));
    let more_alone = best.filter(|best| together.is_none_or(|at_once| is_more(*best, at_once)));
    let (summary, rate) = more_alone.or(together)?;
    let within = sustained.lowest().filter(|lowest| time(summary) < LONG && lowest.0 < rate.0);
    let only_at_least = match () {
        () if within.is_some() => Some(
            "the path lends a credit, and no long test shows what so many connections keep"
                .to_owned(),
        ),
        () if held_by_runbook(summary) => Some("the runbook's own limit held the rate".to_owned()),
        () if case.pair_count() == 1 => (!case.plateaued(PairId(0), DIRECTION))
            .then(|| "no ladder of connections reached its plateau".to_owned()),
        () => case
            .limited_to()
            .map(|limited| format!("{limited}, so not all pairs were measured"))
            .or_else(|| why_not_all(together.map(|(test, _)| test), more_alone.is_some())),
    };
    Some(Basis { summary, rate: within.unwrap_or(rate), only_at_least })
}

/// Surely, and by an amount that matters.
fn is_more(one: (&Summary, BytesPerSecond), other: (&Summary, BytesPerSecond)) -> bool {
    let steadies = one.0.steady.as_ref().zip(other.0.steady.as_ref());
    one.1.0 > other.1.0 && steadies.is_some_and(|(one, other)| differ(other, one, MORE_ALONE))
}

fn why_not_all(together: Option<&Summary>, more_alone: bool) -> Option<String> {
    match together {
        None => Some("all nodes at once were not measured".to_owned()),
        Some(test) if !test.complete() => Some("not all pairs gave a result".to_owned()),
        Some(_) => {
            more_alone.then(|| "one pair alone carried more than all nodes at once did".to_owned())
        }
    }
}

fn cannot_tell(copy: &str, why: &str) -> Finding {
    let sentence = format!("{copy}: whether that can be done cannot be told: {why}.");
    Finding::new(FindingId::NeedCannotBeJudged, Severity::Warning, Confidence::Measured, sentence)
        .direction(DIRECTION)
}
