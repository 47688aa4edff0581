//! The same test with the interfaces as they are, at another MTU, and as they are again: what comes
//! back with the second of the outer two is the interface's, what does not is the path's drift.

use std::time::Duration;

use super::At;
use super::carried;
use super::measure::{Measured, Parameters, measure};
use super::register::register;
use super::throughput::{groups, late_num_conn, parameters};
use crate::execute::run::Run;
use crate::plan::node::{NodeId, PairId};
use crate::plan::step::{InterfaceMtuSpec, NumConn, ThroughputSpec};
use crate::record::event::StepFailure;
use crate::record::measurement::{FailureCause, SeriesPoint, StoppedBecause, Variable};

/// A path that swallows large packets is not to take the patience of a whole test.
const STALL_DEADLINE: Duration = Duration::from_secs(4);
/// Beyond the test itself: connecting, probing, draining. The agents restore the MTU after it,
/// whatever happens.
const HOLD_MARGIN: Duration = Duration::from_secs(90);

pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &InterfaceMtuSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    for group in groups(spec.throughput.nodes, pairs) {
        let of_group = of_group(run, at, spec, &group).await;
        let stop = of_group.iter().any(|failure| failure.cause() == FailureCause::Limit);
        run.note(&of_group).await;
        failures.extend(of_group);
        if stop {
            break;
        }
    }
    failures
}

/// What is found on the way through the three points.
#[derive(Default)]
struct Found {
    best: Option<Measured>,
    failures: Vec<StepFailure>,
}

async fn of_group(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &InterfaceMtuSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let (num_conn, failures) = num_conn(run, at, &spec.throughput, pairs);
    let Some(num_conn) = num_conn.filter(|_| failures.is_empty()) else { return failures };
    let series = run.begin_series(at.series(Variable::InterfaceMtu, pairs));
    let as_it_is = current_mtu(run, at, pairs);
    let mut found = Found::default();
    let mut go_on = outer(run, at, spec, pairs, num_conn, (series, as_it_is), &mut found).await;
    if go_on {
        let inner = inner(run, at, spec, pairs, num_conn).await;
        let released = run.release_holds().await;
        go_on = take_inner(run, series, spec.mtu, inner, released, &mut found);
    }
    if go_on {
        outer(run, at, spec, pairs, num_conn, (series, as_it_is), &mut found).await;
    }
    if let Some(best) = &found.best {
        register(run, at, pairs, best, |result| result);
    }
    let why = match found.failures.is_empty() {
        true => StoppedBecause::AllValues,
        false => StoppedBecause::Failure,
    };
    run.finish_series(series, why).await;
    found.failures
}

/// As it is. False when there is nothing to compare with.
async fn outer(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &InterfaceMtuSpec,
    pairs: &[PairId],
    num_conn: u32,
    (series, mtu): (u32, Option<u32>),
    found: &mut Found,
) -> bool {
    let measured = test(run, at, &spec.throughput, pairs, num_conn, None).await;
    take(run, series, mtu, measured, found)
}

/// What the point at the new MTU came to; the outer `Err` says why there is nothing to measure.
type Inner = Result<Result<Measured, Vec<StepFailure>>, String>;

/// At the new MTU, held on both ends until the step lets go of it.
async fn inner(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &InterfaceMtuSpec,
    pairs: &[PairId],
    num_conn: u32,
) -> Inner {
    let mtu = spec.mtu;
    let failed = |failure| Ok(Err(vec![failure]));
    if let Err(failure) = hold(run, at, spec, pairs).await {
        return failed(failure);
    }
    let back = spec.throughput.both_directions;
    match carried::why_not(run, at, pairs, mtu, back).await {
        Ok(None) => (),
        Ok(Some(why_not)) => return Err(why_not),
        Err(failure) => return failed(failure),
    }
    let patience = spec.throughput.network_timeout.unwrap_or(STALL_DEADLINE);
    let throughput = ThroughputSpec {
        network_timeout: Some(patience.min(STALL_DEADLINE)),
        ..spec.throughput.clone()
    };
    Ok(test(run, at, &throughput, pairs, num_conn, Some(mtu)).await)
}

/// `released`: what is wrong with the interfaces since. Nobody knows at which MTU was measured then,
/// nor at which the next test would be.
fn take_inner(
    run: &mut Run<'_>,
    series: u32,
    mtu: u32,
    inner: Inner,
    released: Vec<StepFailure>,
    found: &mut Found,
) -> bool {
    let all_well = released.is_empty();
    let go_on = match inner {
        Ok(Ok(_)) if !all_well => {
            let remark = released.first().map(|failure| failure.failure.text.clone());
            run.add_point(series, point(Some(mtu), None, remark));
            false
        }
        Ok(measured) => take(run, series, Some(mtu), measured, found),
        Err(why_not) => {
            run.add_point(series, point(Some(mtu), None, Some(why_not)));
            false
        }
    };
    found.failures.extend(released);
    go_on && all_well
}

fn take(
    run: &mut Run<'_>,
    series: u32,
    mtu: Option<u32>,
    measured: Result<Measured, Vec<StepFailure>>,
    found: &mut Found,
) -> bool {
    match measured {
        Ok(measured) => {
            run.add_point(series, point(mtu, Some(&measured), None));
            found.failures.extend(measured.failures.iter().cloned());
            let rate = |one: &Measured| one.rate().map(|rate| rate.0);
            if rate(&measured) > found.best.as_ref().and_then(rate) {
                found.best = Some(measured);
            }
        }
        Err(failures) => {
            let remark = failures.first().map(|failure| failure.failure.text.clone());
            run.add_point(series, point(mtu, None, remark));
            found.failures.extend(failures);
        }
    }
    found.failures.is_empty()
}

async fn test(
    run: &mut Run<'_>,
    at: At<'_>,
    throughput: &ThroughputSpec,
    pairs: &[PairId],
    num_conn: u32,
    interface_mtu: Option<u32>,
) -> Result<Measured, Vec<StepFailure>> {
    let parameters =
        parameters(run, at, throughput, pairs, num_conn).map_err(|failure| vec![failure])?;
    let parameters = Parameters { interface_mtu, ..parameters };
    measure(run, at, throughput, pairs, &parameters).await
}

/// Receivers first: from then on each takes what its sender may send.
async fn hold(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &InterfaceMtuSpec,
    pairs: &[PairId],
) -> Result<(), StepFailure> {
    let deadline = spec.throughput.time.longest() + HOLD_MARGIN;
    let nodes = pairs.iter().map(|pair| run.plan.pair(*pair));
    let (receivers, senders): (Vec<NodeId>, Vec<NodeId>) =
        nodes.map(|nodes| (nodes.receiver(at.direction), nodes.sender(at.direction))).unzip();
    let mut held: Vec<NodeId> = Vec::new();
    for node in receivers.into_iter().chain(senders) {
        if held.contains(&node) {
            continue;
        }
        run.hold_mtu(node, spec.mtu, deadline)
            .await
            .map_err(|failure| StepFailure { pair: None, failure })?;
        held.push(node);
    }
    Ok(())
}

/// Of the first pair's sender, as its facts say.
fn current_mtu(run: &Run<'_>, at: At<'_>, pairs: &[PairId]) -> Option<u32> {
    let node = run.plan.pair(*pairs.first()?).sender(at.direction);
    let address = run.plan.node(node).redo.bind.to_string();
    let interfaces = &run.facts.get(&node)?.interfaces;
    interfaces.iter().find(|one| one.addresses.contains(&address))?.mtu_bytes
}

/// `check` refuses a ladder here.
fn num_conn(
    run: &Run<'_>,
    at: At<'_>,
    throughput: &ThroughputSpec,
    pairs: &[PairId],
) -> (Option<u32>, Vec<StepFailure>) {
    match &throughput.num_conn {
        NumConn::Fixed(count) => (Some(*count), Vec::new()),
        NumConn::Later(expression) => late_num_conn(run, at, expression, pairs),
        NumConn::Ladder(_) => (Some(1), Vec::new()),
    }
}

fn point(mtu: Option<u32>, measured: Option<&Measured>, remark: Option<String>) -> SeriesPoint {
    SeriesPoint {
        value: mtu.map(f64::from),
        label: mtu.map_or_else(|| "as it is".to_owned(), |mtu| mtu.to_string()),
        measurement: measured.map(|measured| measured.id),
        remark,
    }
}
