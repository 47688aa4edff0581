//! Throughput: each pair alone or all together, at one number of connections or up a ladder.

use redoline_proto::units::BytesPerSecond;

use super::At;
use super::measure::{Measured, Parameters, measure, no_value};
use super::socket;
use crate::analysis::plateau::{Decision, Ladder};
use crate::execute::results::PairResult;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::{LadderSpec, Nodes, NumConn, ThroughputSpec};
use crate::record::event::StepFailure;
use crate::record::measurement::{
    FailureCause, Series, SeriesKind, SeriesPoint, StoppedBecause, Variable,
};
use redoline_proto::transfer::NUM_CONN_MAX;

/// Runs the step on `pairs`; the failures are of those that gave no (whole) result.
pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let groups: Vec<Vec<PairId>> = match spec.nodes {
        Nodes::Each => pairs.iter().map(|pair| vec![*pair]).collect(),
        Nodes::Together => vec![pairs.to_vec()],
    };
    let mut failures = Vec::new();
    for group in groups {
        let of_group = match &spec.num_conn {
            NumConn::Ladder(ladder) => climb(run, at, spec, &group, *ladder).await,
            NumConn::Fixed(count) => at_one_level(run, at, spec, &group, *count).await,
            NumConn::Later(_) => match late_num_conn(run, at, spec, &group) {
                Ok(count) => at_one_level(run, at, spec, &group, count).await,
                Err(failure) => vec![failure],
            },
        };
        let stop = of_group.iter().any(|failure| failure.cause() == FailureCause::Limit);
        run.note(&of_group).await;
        failures.extend(of_group);
        if stop {
            break;
        }
    }
    failures
}

async fn at_one_level(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    num_conn: u32,
) -> Vec<StepFailure> {
    let parameters = match parameters(run, at, spec, pairs, num_conn) {
        Ok(parameters) => parameters,
        Err(failure) => return vec![failure],
    };
    match measure(run, at, spec, pairs, &parameters).await {
        Ok(measured) => {
            register(run, at, pairs, &measured, |result| result);
            measured.failures
        }
        Err(failures) => failures,
    }
}

/// Up the ladder until three consecutive levels do not rise.
async fn climb(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    ladder: LadderSpec,
) -> Vec<StepFailure> {
    let mut rule = Ladder::new(ladder.tolerance);
    let mut points = Vec::new();
    let mut best: Option<Measured> = None;
    let mut failures = Vec::new();
    let mut stopped_because = StoppedBecause::Maximum;
    for num_conn in (ladder.from..=ladder.max).step_by(ladder.step as usize) {
        let level = match parameters(run, at, spec, pairs, num_conn) {
            Ok(parameters) => measure(run, at, spec, pairs, &parameters).await,
            Err(failure) => Err(vec![failure]),
        };
        let measured = match level {
            Ok(measured) if measured.failures.is_empty() => measured,
            Ok(measured) => {
                points.push(point(num_conn, Some(&measured), "a pair failed"));
                failures = measured.failures;
                stopped_because = why(&failures);
                break;
            }
            Err(of_level) => {
                points.push(point(num_conn, None, "it could not be measured"));
                failures = of_level;
                stopped_because = why(&failures);
                break;
            }
        };
        points.push(point(num_conn, Some(&measured), ""));
        let Some(reached) = rate(&measured) else { continue };
        if best.as_ref().and_then(rate).is_none_or(|highest| highest.0 < reached.0) {
            best = Some(measured);
        }
        if rule.push(num_conn, reached) == Decision::Plateau {
            stopped_because = StoppedBecause::Plateau;
            break;
        }
    }
    if let Some(measured) = &best {
        register(run, at, pairs, measured, |result| PairResult {
            recommended_num_conn: rule.recommended().map(|level| level.num_conn),
            best_num_conn: rule.best().map(|level| level.num_conn),
            ..result
        });
    }
    let series = Series {
        id: run.next_series(),
        step: at.index,
        kind: SeriesKind::Ladder,
        variable: Variable::NumConn,
        direction: Some(at.direction),
        pair: match pairs {
            [pair] => Some(*pair),
            _ => None,
        },
        node: None,
        points,
        tolerance: Some(ladder.tolerance),
        stopped_because,
    };
    run.finished_series(series).await;
    failures
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

fn rate(measured: &Measured) -> Option<BytesPerSecond> {
    measured.summary.rate()
}

fn point(num_conn: u32, measured: Option<&Measured>, remark: &str) -> SeriesPoint {
    SeriesPoint {
        value: Some(num_conn.into()),
        label: num_conn.to_string(),
        measurement: measured.map(|measured| measured.id),
        remark: (!remark.is_empty()).then(|| remark.to_owned()),
    }
}

/// The value of `num_conn: "{{ … }}"`, resolved for each pair; together, the highest is used.
fn late_num_conn(
    run: &Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
) -> Result<u32, StepFailure> {
    let NumConn::Later(expression) = &spec.num_conn else {
        return Err(no_value("num_conn", "it is no expression", pairs[0]));
    };
    let mut highest = None;
    for pair in pairs {
        let context = run.results.context(*pair, run.plan.pair(*pair), at.direction);
        let value = expression.evaluate(&context);
        let count = value
            .map_err(|error| no_value("num_conn", error.to_string(), *pair))?
            .as_usize()
            .and_then(|count| u32::try_from(count).ok())
            .filter(|count| (1..=NUM_CONN_MAX).contains(count))
            .ok_or_else(|| {
                let text = format!("`{}` is not 1 to {NUM_CONN_MAX}", expression.text());
                no_value("num_conn", text, *pair)
            })?;
        highest = highest.max(Some(count));
    }
    highest.ok_or_else(|| no_value("num_conn", "the step has no pair", PairId(0)))
}

/// Buffers that are a multiple of the BDP are those of the pair with the largest.
pub fn parameters(
    run: &Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    num_conn: u32,
) -> Result<Parameters, StepFailure> {
    let mut chosen: Option<redoline_proto::transfer::SocketRequest> = None;
    for pair in pairs {
        let socket = socket::request(run, at, spec, *pair)
            .map_err(|text| no_value("socket buffer", text, *pair))?;
        let larger = |chosen: &redoline_proto::transfer::SocketRequest| {
            chosen.socket_buffer_bytes < socket.socket_buffer_bytes
        };
        if chosen.as_ref().is_none_or(larger) {
            chosen = Some(socket);
        }
    }
    Ok(Parameters {
        nodes: spec.nodes,
        num_conn,
        socket: chosen.unwrap_or_default(),
        socket_buffer: spec.socket_buffer.to_string(),
        mtu: spec.mtu,
    })
}

/// Keeps what expressions will see of each pair.
pub fn register(
    run: &mut Run<'_>,
    at: At<'_>,
    pairs: &[PairId],
    measured: &Measured,
    complete: impl Fn(PairResult) -> PairResult,
) {
    let Some(register) = at.register else { return };
    let total = rate(measured).map(|rate| rate.0);
    for (pair, of_pair) in pairs.iter().zip(&measured.summary.pairs) {
        let steady = of_pair.steady.as_ref();
        let result = PairResult {
            bytes_per_second: steady.map(|steady| steady.rate.0),
            half_width_bytes_per_second: steady
                .and_then(|steady| steady.half_width)
                .map(|half_width| half_width.0),
            total_bytes_per_second: total,
            min_rtt_us: of_pair.rtt.min.and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
            retransmitted_bytes: of_pair.counts.retransmitted,
            recommended_num_conn: None,
            best_num_conn: None,
        };
        run.results.add_pair(register, at.direction, *pair, complete(result));
    }
}
