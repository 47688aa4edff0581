//! A ladder of connections: measures what its rule asks for, until the rule has enough.

use super::At;
use super::measure::{Measured, Parameters, measure};
use super::register::register;
use super::throughput::parameters;
use crate::analysis::climb::Climb;
use crate::analysis::knee::{Ending, Next};
use crate::analysis::level::Level;
use crate::execute::results::PairResult;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::{LadderSpec, ThroughputSpec, Until};
use crate::record::event::StepFailure;
use crate::record::measurement::{
    FailureCause, Series, SeriesKind, SeriesPoint, StoppedBecause, Variable,
};

/// Measurements of the levels, in the order taken.
type Taken = Vec<(u32, Measured)>;

/// A level that failed in part ends the ladder: the levels above it would be compared with less.
pub async fn climb(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    ladder: LadderSpec,
) -> Vec<StepFailure> {
    let mut climb = begin(ladder);
    let mut taken: Taken = Vec::new();
    let mut failures = Vec::new();
    let series = run.begin_series(series_of(at, pairs, ladder));
    while let Some(next) = climb.next() {
        let num_conn = next.num_conn();
        let level = match parameters(run, at, spec, pairs, num_conn) {
            Ok(parameters) => {
                let parameters = Parameters { note: note(next), ..parameters };
                measure(run, at, spec, pairs, &parameters).await
            }
            Err(failure) => Err(vec![failure]),
        };
        match level {
            Ok(measured) if measured.failures.is_empty() => {
                let why = measured.summary.not_testable.clone();
                run.add_point(series, point(num_conn, Some(&measured), why));
                climb.push(measured.rate(), measured.half_width());
                taken.push((num_conn, measured));
            }
            Ok(measured) => {
                let remark = Some("a pair failed".to_owned());
                run.add_point(series, point(num_conn, Some(&measured), remark));
                failures = measured.failures;
                break;
            }
            Err(of_level) => {
                let remark = Some("it could not be measured".to_owned());
                run.add_point(series, point(num_conn, None, remark));
                failures = of_level;
                break;
            }
        }
    }
    keep(run, at, pairs, &climb, &taken);
    run.finish_series(series, stopped_because(&climb, ladder, &failures)).await;
    failures
}

fn begin(ladder: LadderSpec) -> Climb {
    let LadderSpec { until, from, step, max, tolerance } = ladder;
    match until {
        Until::Plateau => Climb::plateau(from, step, max, tolerance),
        Until::Knee => Climb::knee(from, max, tolerance),
    }
}

fn note(next: Next) -> Option<String> {
    match next {
        Next::Level(_) => None,
        Next::Again { pass, .. } => Some(format!("a contender again, pass {pass}")),
    }
}

/// What expressions see: of the best level, the mean of its runs.
fn keep(run: &mut Run<'_>, at: At<'_>, pairs: &[PairId], climb: &Climb, taken: &Taken) {
    let Some(best) = climb.best() else { return };
    let first =
        taken.iter().find(|(num_conn, one)| *num_conn == best.num_conn && one.rate().is_some());
    let Some((_, measured)) = first else { return };
    let recommended = climb.recommended().map(|level| level.num_conn);
    let alone = pairs.len() == 1;
    register(run, at, pairs, measured, |result| result_of(result, best, recommended, alone));
}

fn result_of(result: PairResult, best: Level, recommended: Option<u32>, alone: bool) -> PairResult {
    let result = PairResult {
        total_bytes_per_second: Some(best.rate.0),
        recommended_num_conn: recommended,
        best_num_conn: Some(best.num_conn),
        ..result
    };
    match alone {
        false => result,
        true => PairResult {
            bytes_per_second: Some(best.rate.0),
            half_width_bytes_per_second: best.half_width.map(|half| half.0),
            ..result
        },
    }
}

fn stopped_because(climb: &Climb, ladder: LadderSpec, failures: &[StepFailure]) -> StoppedBecause {
    if !failures.is_empty() {
        return why(failures);
    }
    match (climb.ending(), ladder.until) {
        (Some(Ending::NoRise), Until::Plateau) => StoppedBecause::Plateau,
        (Some(Ending::NoRise), Until::Knee) => StoppedBecause::Knee,
        (Some(Ending::Maximum) | None, _) => StoppedBecause::Maximum,
    }
}

fn why(failures: &[StepFailure]) -> StoppedBecause {
    let interrupted = |failure: &StepFailure| {
        matches!(failure.cause(), FailureCause::Limit | FailureCause::Interrupted)
    };
    match failures.iter().any(interrupted) {
        true => StoppedBecause::Interrupted,
        false => StoppedBecause::Failure,
    }
}

fn series_of(at: At<'_>, pairs: &[PairId], ladder: LadderSpec) -> Series {
    Series {
        kind: SeriesKind::Ladder,
        tolerance: Some(ladder.tolerance),
        until: ladder.until,
        ..at.series(Variable::NumConn, pairs)
    }
}

fn point(num_conn: u32, measured: Option<&Measured>, remark: Option<String>) -> SeriesPoint {
    SeriesPoint {
        value: Some(num_conn.into()),
        label: num_conn.to_string(),
        measurement: measured.map(|measured| measured.id),
        remark,
    }
}

#[cfg(test)]
mod tests {
    use redoline_proto::units::BytesPerSecond;

    use super::*;
    use crate::record::measurement::Failure;

    fn ladder(until: Until) -> LadderSpec {
        LadderSpec { until, from: 1, step: 1, max: 16, tolerance: 0.03 }
    }

    /// Each connection carries 10, all together `most`.
    fn climbed(until: Until, most: f64) -> Climb {
        let mut climb = begin(ladder(until));
        while let Some(next) = climb.next() {
            let rate = (f64::from(next.num_conn()) * 10.0).min(most);
            climb.push(Some(BytesPerSecond(rate)), None);
        }
        climb
    }

    #[test]
    fn a_ladder_says_by_which_rule_it_ended() {
        let because = |until, most| stopped_because(&climbed(until, most), ladder(until), &[]);
        assert_eq!(because(Until::Plateau, 60.0), StoppedBecause::Plateau);
        assert_eq!(because(Until::Knee, 60.0), StoppedBecause::Knee);
        assert_eq!(because(Until::Plateau, 1e9), StoppedBecause::Maximum);
        assert_eq!(because(Until::Knee, 1e9), StoppedBecause::Maximum);
    }

    #[test]
    fn a_contender_that_fails_ends_a_climb_that_was_over_as_a_failure() {
        let failure = |cause| StepFailure {
            pair: None,
            failure: Failure { node: None, phase: String::new(), text: String::new(), cause },
        };
        let because = |cause| {
            stopped_because(&climbed(Until::Knee, 60.0), ladder(Until::Knee), &[failure(cause)])
        };
        assert_eq!(because(FailureCause::CouldNotMeasure), StoppedBecause::Failure);
        assert_eq!(because(FailureCause::Limit), StoppedBecause::Interrupted);
    }

    #[test]
    fn one_pair_is_registered_with_the_mean_of_all_runs_of_its_best_level() {
        let best = Level {
            num_conn: 6,
            rate: BytesPerSecond(60.0),
            half_width: Some(BytesPerSecond(2.0)),
            runs: 3,
        };
        let first = PairResult { bytes_per_second: Some(63.0), ..PairResult::default() };
        let alone = result_of(first.clone(), best, Some(4), true);
        assert_eq!(alone.bytes_per_second, Some(60.0));
        assert_eq!(alone.half_width_bytes_per_second, Some(2.0));
        assert_eq!((alone.recommended_num_conn, alone.best_num_conn), (Some(4), Some(6)));
        let together = result_of(first, best, Some(4), false);
        assert_eq!(together.bytes_per_second, Some(63.0), "its own share");
        assert_eq!(together.total_bytes_per_second, Some(60.0));
    }
}
