//! `frequency: P/T`: the same test every P for T, by a schedule that does not drift.

use std::time::Duration;

use redoline_proto::units::{Bytes, milliseconds};
use tokio::time::{Instant, sleep_until};

use super::At;
use super::announce;
use super::throughput::{Done, run_group};
use crate::execute::run::Run;
use crate::plan::node::{Direction, PairId};
use crate::plan::step::{Frequency, ThroughputSpec};
use crate::record::event::StepFailure;
use crate::record::measurement::{FailureCause, SeriesPoint, StoppedBecause, Variable};

/// The first at once; each of `groups` has a series of its own. Nothing runs between two times.
///
/// A node that is lost ends what its pairs would still do; a guard or the window for tests ends one
/// repetition, since the next may find the host idle and the window open.
pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    frequency: Frequency,
    groups: &[Vec<PairId>],
) -> Vec<StepFailure> {
    let start = Instant::now();
    let mut going_on: Vec<Repeated> =
        groups.iter().map(|group| Repeated::begin(run, at, group)).collect();
    let mut failures = Vec::new();
    let mut turn = Some(0);
    while let Some(repetition) = turn {
        wait(run, at, start, frequency, repetition).await;
        let mut over = None;
        for one in &mut going_on {
            let since = start.elapsed();
            let done = run_group(run, at, spec, &one.pairs).await;
            run.add_point(one.series, point(since, &done));
            run.note(&done.failures).await;
            over = over.or_else(|| ends_all(&done.failures, run.bytes_left()));
            one.failures.add(done.failures);
            if over.is_some() {
                break;
            }
        }
        failures.extend(end_lost(run, at.direction, &mut going_on).await);
        turn = next(frequency, repetition, start.elapsed())
            .filter(|_| over.is_none() && !going_on.is_empty());
        if let (None, Some(why)) = (turn, over) {
            failures.extend(end(run, going_on, why).await);
            return failures;
        }
    }
    failures.extend(end(run, going_on, StoppedBecause::AllValues).await);
    failures
}

/// A group and its series.
struct Repeated {
    pairs: Vec<PairId>,
    series: u32,
    failures: Failures,
}

impl Repeated {
    fn begin(run: &mut Run<'_>, at: At<'_>, group: &[PairId]) -> Self {
        let series = run.begin_series(at.series(Variable::Time, group));
        Self { pairs: group.to_vec(), series, failures: Failures::default() }
    }
}

/// Of all repetitions of a group.
#[derive(Debug, Default)]
struct Failures {
    before: Vec<StepFailure>,
    /// Of the last repetition.
    last: Vec<StepFailure>,
}

impl Failures {
    /// Of one more repetition. A limit that ended an earlier one has not kept this one from being
    /// tried: it is no reason any more to end the run.
    fn add(&mut self, failures: Vec<StepFailure>) {
        for mut failure in std::mem::replace(&mut self.last, failures) {
            if failure.cause() == FailureCause::Limit {
                failure.failure.cause = FailureCause::CouldNotMeasure;
            }
            self.before.push(failure);
        }
    }

    fn into_all(mut self) -> Vec<StepFailure> {
        self.before.append(&mut self.last);
        self.before
    }
}

/// After these no later repetition would come to anything else, of any group.
fn ends_all(failures: &[StepFailure], bytes_left: Option<Bytes>) -> Option<StoppedBecause> {
    let has = |cause| failures.iter().any(|failure| failure.cause() == cause);
    let used_up = has(FailureCause::Limit) && bytes_left == Some(Bytes(0));
    (has(FailureCause::Interrupted) || used_up).then_some(StoppedBecause::Interrupted)
}

/// Pairs of which a node is gone are left out from now on, and groups without any other are over.
async fn end_lost(
    run: &mut Run<'_>,
    direction: Direction,
    going_on: &mut Vec<Repeated>,
) -> Vec<StepFailure> {
    for one in going_on.iter_mut() {
        one.pairs.retain(|pair| {
            let nodes = run.plan.pair(*pair);
            let ends = [nodes.sender(direction), nodes.receiver(direction)];
            ends.into_iter().all(|node| run.agent(node).is_ok())
        });
    }
    let lost: Vec<Repeated> = going_on.extract_if(.., |one| one.pairs.is_empty()).collect();
    end(run, lost, StoppedBecause::Failure).await
}

async fn end(run: &mut Run<'_>, all: Vec<Repeated>, why: StoppedBecause) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    for one in all {
        run.finish_series(one.series, why).await;
        failures.extend(one.failures.into_all());
    }
    failures
}

/// The repetition after `last` whose time is not past; `None` when the whole time is over.
fn next(frequency: Frequency, last: u32, elapsed: Duration) -> Option<u32> {
    if frequency.every.is_zero() {
        return None;
    }
    let begins = |repetition: u32| frequency.every.checked_mul(repetition);
    let mut repetition = last.checked_add(1)?;
    while begins(repetition)? < elapsed {
        repetition = repetition.checked_add(1)?;
    }
    (begins(repetition)? < frequency.during).then_some(repetition)
}

async fn wait(run: &Run<'_>, at: At<'_>, start: Instant, frequency: Frequency, repetition: u32) {
    let begins = start + frequency.every.saturating_mul(repetition);
    let rest = begins.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return;
    }
    let text = format!("nothing runs until repetition {}", repetition + 1);
    announce::anything(run, at, text, &[], milliseconds(rest)).await;
    sleep_until(begins).await;
}

/// Seconds since the first repetition began.
fn point(since: Duration, done: &Done) -> SeriesPoint {
    let seconds = since.as_secs_f64().round();
    SeriesPoint {
        value: Some(seconds),
        label: format!("{seconds} s"),
        measurement: done.measurement,
        remark: done.failures.first().map(|failure| failure.failure.text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::measurement::Failure;

    const HOURLY: Frequency =
        Frequency { every: Duration::from_secs(3600), during: Duration::from_secs(24 * 3600) };

    /// When each repetition begins, if each takes `taken` seconds.
    fn times(frequency: Frequency, taken: u64) -> Vec<u64> {
        let (mut begun, mut turn) = (Vec::new(), Some(0));
        while let Some(repetition) = turn {
            let begins = frequency.every * repetition;
            begun.push(begins.as_secs());
            turn = next(frequency, repetition, begins + Duration::from_secs(taken));
        }
        begun
    }

    #[test]
    fn every_hour_for_a_day_is_24_times_and_does_not_drift() {
        let begun = times(HOURLY, 60);
        assert_eq!(begun.len(), 24);
        assert_eq!(begun[..3], [0, 3600, 7200]);
    }

    #[test]
    fn what_takes_longer_than_its_distance_skips_the_times_that_are_past() {
        let begun = times(HOURLY, 5000);
        assert_eq!(begun[..3], [0, 7200, 14_400]);
        let exactly = times(HOURLY, 3600);
        assert_eq!(exactly[..3], [0, 3600, 7200]);
    }

    #[test]
    fn a_time_shorter_than_the_distance_is_one_test() {
        let once = Frequency { during: Duration::from_secs(10), ..HOURLY };
        assert_eq!(times(once, 1), [0]);
    }

    #[test]
    fn a_distance_of_nothing_ends() {
        let none = Frequency { every: Duration::ZERO, ..HOURLY };
        assert_eq!(next(none, 0, Duration::from_secs(1)), None);
    }

    fn failed(cause: FailureCause) -> Vec<StepFailure> {
        let (node, phase, text) = (None, String::new(), String::new());
        vec![StepFailure { pair: None, failure: Failure { node, phase, text, cause } }]
    }

    #[test]
    fn neither_a_lost_node_nor_a_tripped_guard_ends_the_series_of_all_pairs() {
        let left = Some(Bytes(1));
        for cause in [FailureCause::Unreachable, FailureCause::Limit, FailureCause::Busy] {
            assert_eq!(ends_all(&failed(cause), left), None, "{cause:?}");
            assert_eq!(ends_all(&failed(cause), None), None, "{cause:?}");
        }
        let interrupted = Some(StoppedBecause::Interrupted);
        assert_eq!(ends_all(&failed(FailureCause::Limit), Some(Bytes(0))), interrupted);
        assert_eq!(ends_all(&failed(FailureCause::Interrupted), left), interrupted);
    }

    #[test]
    fn only_a_limit_of_the_last_repetition_ends_the_run() {
        let causes = |all: &[FailureCause]| {
            let mut failures = Failures::default();
            all.iter().for_each(|cause| failures.add(failed(*cause)));
            failures.into_all().iter().map(StepFailure::cause).collect::<Vec<_>>()
        };
        let (limit, other) = (FailureCause::Limit, FailureCause::CouldNotMeasure);
        assert_eq!(causes(&[limit, other]), [other, other]);
        assert_eq!(causes(&[other, limit]), [other, limit]);
        let gone = FailureCause::Unreachable;
        assert_eq!(causes(&[gone, limit, limit]), [gone, other, limit]);
    }
}
