//! `frequency: P/T`: the same test every P for T, by a schedule that does not drift.

use std::time::Duration;

use redoline_proto::units::milliseconds;
use tokio::time::{Instant, sleep_until};

use super::At;
use super::announce;
use super::throughput::{Done, run_group};
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::{Frequency, ThroughputSpec};
use crate::record::event::StepFailure;
use crate::record::measurement::{FailureCause, SeriesPoint, StoppedBecause, Variable};

/// The first at once; each of `groups` has a series of its own. Nothing runs between two times.
pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    frequency: Frequency,
    groups: &[Vec<PairId>],
) -> Vec<StepFailure> {
    let start = Instant::now();
    let series: Vec<u32> =
        groups.iter().map(|group| run.begin_series(at.series(Variable::Time, group))).collect();
    let mut failures = Vec::new();
    let mut turn = Some(0);
    while let Some(repetition) = turn {
        wait(run, at, start, frequency, repetition).await;
        for (group, series) in groups.iter().zip(&series) {
            let since = start.elapsed();
            let done = run_group(run, at, spec, group).await;
            run.add_point(*series, point(since, &done));
            run.note(&done.failures).await;
            failures.extend(done.failures);
        }
        turn = next(frequency, repetition, start.elapsed()).filter(|_| !is_over(&failures));
    }
    let why = match is_over(&failures) {
        true => StoppedBecause::Interrupted,
        false => StoppedBecause::AllValues,
    };
    for series in series {
        run.finish_series(series, why).await;
    }
    failures
}

/// After these no later test would come to anything else.
fn is_over(failures: &[StepFailure]) -> bool {
    failures.iter().any(|failure| failure.cause() != FailureCause::CouldNotMeasure)
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
}
