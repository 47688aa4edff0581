//! Throughput: each pair alone or all together, at one number of connections or up a ladder.

use redoline_proto::transfer::{NUM_CONN_MAX, SocketRequest};

use super::At;
use super::climb::climb;
use super::frequency;
use super::measure::{Parameters, measure, no_value};
use super::register::register;
use super::socket;
use crate::execute::run::Run;
use crate::plan::expression::Expression;
use crate::plan::node::PairId;
use crate::plan::step::{Nodes, NumConn, ThroughputSpec};
use crate::record::event::StepFailure;
use crate::record::measurement::{FailureCause, MeasurementId};

/// Runs the step on `pairs`; the failures are of those that gave no (whole) result.
pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let groups = groups(spec.nodes, pairs);
    if let Some(frequency) = spec.frequency {
        return frequency::run(run, at, spec, frequency, &groups).await;
    }
    let mut failures = Vec::new();
    for group in groups {
        let of_group = run_group(run, at, spec, &group).await.failures;
        let stop = of_group.iter().any(|failure| failure.cause() == FailureCause::Limit);
        run.note(&of_group).await;
        failures.extend(of_group);
        if stop {
            break;
        }
    }
    failures
}

/// The pairs that send at a time.
pub fn groups(nodes: Nodes, pairs: &[PairId]) -> Vec<Vec<PairId>> {
    match nodes {
        Nodes::Each => pairs.iter().map(|pair| vec![*pair]).collect(),
        Nodes::Together | Nodes::AllToOne => vec![pairs.to_vec()],
    }
}

/// What a group came to; a ladder has measurements in its own series.
#[derive(Debug, Default)]
pub struct Done {
    pub measurement: Option<MeasurementId>,
    pub failures: Vec<StepFailure>,
}

/// A pair whose values are not known is left out; the others of its group go on.
pub async fn run_group(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
) -> Done {
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
            return Done { measurement: None, failures };
        }
        NumConn::Fixed(count) => Some(*count),
        NumConn::Later(expression) => {
            let (count, unknown) = late_num_conn(run, at, expression, &able);
            able.retain(|pair| unknown.iter().all(|failure| failure.pair != Some(*pair)));
            failures.extend(unknown);
            count
        }
    };
    let Some(count) = num_conn else { return Done { measurement: None, failures } };
    let done = at_one_level(run, at, spec, &able, count).await;
    failures.extend(done.failures);
    Done { failures, ..done }
}

async fn at_one_level(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    num_conn: u32,
) -> Done {
    if pairs.is_empty() {
        return Done::default();
    }
    let parameters = match parameters(run, at, spec, pairs, num_conn) {
        Ok(parameters) => parameters,
        Err(failure) => return Done { measurement: None, failures: vec![failure] },
    };
    match measure(run, at, spec, pairs, &parameters).await {
        Ok(measured) => {
            register(run, at, pairs, &measured, |result| result);
            Done { measurement: Some(measured.id), failures: measured.failures }
        }
        Err(failures) => Done { measurement: None, failures },
    }
}

/// The value of `num_conn: "{{ … }}"`, resolved for each pair; together, the highest is used. The
/// failures are of pairs for which it has none.
pub fn late_num_conn(
    run: &Run<'_>,
    at: At<'_>,
    expression: &Expression,
    pairs: &[PairId],
) -> (Option<u32>, Vec<StepFailure>) {
    let mut highest = None;
    let mut failures = Vec::new();
    for pair in pairs {
        let context = run.context(*pair, at.direction);
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
    let mut chosen: Option<SocketRequest> = None;
    for pair in pairs {
        let socket = socket::request(run, at, spec, *pair)
            .map_err(|text| no_value("socket buffer", text, *pair))?;
        let larger =
            |chosen: &SocketRequest| chosen.socket_buffer_bytes < socket.socket_buffer_bytes;
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
        interface_mtu: None,
        note: None,
    })
}
