//! Throughput: each pair alone or all together, at one number of connections or up a ladder.

use redoline_proto::units::BytesPerSecond;

use super::At;
use super::measure::{Measured, Parameters, measure, no_value};
use super::socket;
use crate::analysis::plateau::{Decision, Ladder};
use crate::execute::results::PairResult;
use crate::execute::run::Run;
use crate::plan::expression::Expression;
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
        Nodes::Together | Nodes::AllToOne => vec![pairs.to_vec()],
    };
    let mut failures = Vec::new();
    for group in groups {
        let of_group = run_group(run, at, spec, &group).await;
        let stop = of_group.iter().any(|failure| failure.cause() == FailureCause::Limit);
        run.note(&of_group).await;
        failures.extend(of_group);
        if stop {
            break;
        }
    }
    failures
}

/// A pair whose values are not known is left out; the others of its group go on.
async fn run_group(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    let mut able = Vec::new();
    for pair in pairs {
        match socket::request(run, at, spec, *pair) {
            Ok(_) => able.push(*pair),
            Err(text) => failures.push(no_value("sockets", text, *pair)),
        }
    }
    let num_conn = match &spec.num_conn {
        NumConn::Ladder(ladder) => {
            if !able.is_empty() {
                failures.extend(climb(run, at, spec, &able, *ladder).await);
            }
            return failures;
        }
        NumConn::Fixed(count) => Some(*count),
        NumConn::Later(expression) => {
            let (count, unknown) = late_num_conn(run, at, expression, &able);
            able.retain(|pair| unknown.iter().all(|failure| failure.pair != Some(*pair)));
            failures.extend(unknown);
            count
        }
    };
    if let Some(count) = num_conn {
        failures.extend(at_one_level(run, at, spec, &able, count).await);
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
    if pairs.is_empty() {
        return Vec::new();
    }
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
    let mut best: Option<Measured> = None;
    let mut failures = Vec::new();
    let mut stopped_because = StoppedBecause::Maximum;
    run.begin_series(series_of(at, pairs, ladder));
    for num_conn in (ladder.from..=ladder.max).step_by(ladder.step as usize) {
        let level = match parameters(run, at, spec, pairs, num_conn) {
            Ok(parameters) => measure(run, at, spec, pairs, &parameters).await,
            Err(failure) => Err(vec![failure]),
        };
        let measured = match level {
            Ok(measured) if measured.failures.is_empty() => measured,
            Ok(measured) => {
                run.add_point(point(num_conn, Some(&measured), "a pair failed"));
                failures = measured.failures;
                stopped_because = why(&failures);
                break;
            }
            Err(of_level) => {
                run.add_point(point(num_conn, None, "it could not be measured"));
                failures = of_level;
                stopped_because = why(&failures);
                break;
            }
        };
        run.add_point(point(num_conn, Some(&measured), ""));
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
    run.finish_series(stopped_because).await;
    failures
}

fn series_of(at: At<'_>, pairs: &[PairId], ladder: LadderSpec) -> Series {
    Series {
        id: 0,
        step: at.index,
        kind: SeriesKind::Ladder,
        variable: Variable::NumConn,
        direction: Some(at.direction),
        pair: match pairs {
            [pair] => Some(*pair),
            _ => None,
        },
        node: None,
        points: Vec::new(),
        tolerance: Some(ladder.tolerance),
        until: ladder.until,
        stopped_because: StoppedBecause::Interrupted,
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

/// The value of `num_conn: "{{ … }}"`, resolved for each pair; together, the highest is used. The
/// failures are of pairs for which it has none.
fn late_num_conn(
    run: &Run<'_>,
    at: At<'_>,
    expression: &Expression,
    pairs: &[PairId],
) -> (Option<u32>, Vec<StepFailure>) {
    let mut highest = None;
    let mut failures = Vec::new();
    for pair in pairs {
        let context = run.results.context(*pair, run.plan.pair(*pair), at.direction);
        let count = expression.evaluate(&context).map(|value| {
            value.as_usize().and_then(|count| u32::try_from(count).ok()).filter(in_range)
        });
        match count {
            Ok(Some(count)) => highest = highest.max(Some(count)),
            Ok(None) => {
                let text = format!("`{}` is not 1 to {NUM_CONN_MAX}", expression.text());
                failures.push(no_value("num_conn", text, *pair));
            }
            Err(error) => failures.push(no_value("num_conn", error.to_string(), *pair)),
        }
    }
    (highest, failures)
}

fn in_range(count: &u32) -> bool {
    (1..=NUM_CONN_MAX).contains(count)
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
