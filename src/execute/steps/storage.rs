//! Storage reads: node by node, one point after the other, on one target.

use std::time::Duration;

use redoline_proto::storage::{
    StorageEvent, StorageJob, StoragePattern, StoragePoint, StoragePrepared, StorageResult,
    StorageTarget,
};
use redoline_proto::units::{Bytes, BytesPerSecond, milliseconds};
use tokio::time::timeout;

use super::At;
use crate::agents::client::StorageEvents;
use crate::execute::failure;
use crate::execute::run::Run;
use crate::plan::node::NodeId;
use crate::plan::step::StorageReadSpec;
use crate::record::event::{Event, StepFailure};
use crate::record::measurement::{
    Failure, FailureCause, Measurement, MeasurementId, Series, SeriesPoint, StoppedBecause,
    StorageRead, Variable,
};

const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Between two events; the whole step has a deadline of its own.
const EVENT_DEADLINE: Duration = Duration::from_secs(600);
/// Between a point's end and its result.
const POINT_MARGIN: Duration = Duration::from_secs(15);
const SAMPLE: Duration = Duration::from_millis(100);

pub async fn run(run: &mut Run<'_>, at: At<'_>, spec: &StorageReadSpec) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    for node in &spec.nodes {
        if let Err(failure) = read_node(run, at, spec, *node).await {
            let stop = failure.cause == FailureCause::Limit;
            let failure = StepFailure { pair: None, failure };
            run.note(std::slice::from_ref(&failure)).await;
            failures.push(failure);
            if stop {
                break;
            }
        }
    }
    failures
}

/// What is known of one node's reads so far.
#[derive(Default)]
struct Reading {
    prepared: Option<StoragePrepared>,
    /// One for each pattern of several points; a single point is no series.
    series: Vec<(StoragePattern, u32)>,
}

async fn read_node(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &StorageReadSpec,
    node: NodeId,
) -> Result<(), Failure> {
    run.may_start()?;
    let points = points(spec);
    let prepare_deadline = spec.prepare_deadline();
    announce(run, at, spec, node, &points).await;
    let (job, _) = run.next_job();
    let job = StorageJob {
        job,
        target: spec.target.clone(),
        points: points.clone(),
        sample: SAMPLE,
        guard: run.guard(),
        seed: rand::random(),
        prepare_deadline,
        rate: None,
    };
    let agent = run.agent(node)?;
    let phase = "read storage";
    let mut events = agent
        .client
        .read_storage(job, ANSWER_DEADLINE)
        .await
        .map_err(|error| failure::of_agent(agent, phase, &error))?;
    let each = points.iter().map(|point| Duration::from_millis(point.duration_ms) + POINT_MARGIN);
    let whole = prepare_deadline + each.sum::<Duration>();
    let mut reading = Reading::default();
    let heard = timeout(whole, hear_out(run, at, spec, node, &mut events, &mut reading)).await;
    let outcome = heard.unwrap_or_else(|_| {
        let text = format!("no result within {} s", whole.as_secs());
        Err(failure::could_not_measure(Some(node), phase, text))
    });
    let why = match outcome.is_ok() {
        true => StoppedBecause::AllValues,
        false => StoppedBecause::Failure,
    };
    for (_, series) in reading.series {
        run.finish_series(series, why).await;
    }
    outcome
}

async fn hear_out(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &StorageReadSpec,
    node: NodeId,
    events: &mut StorageEvents,
    reading: &mut Reading,
) -> Result<(), Failure> {
    let phase = "read storage";
    loop {
        let event = match events.next(EVENT_DEADLINE).await {
            Ok(event) => event,
            Err(error) => return Err(failure::of_agent(run.agent(node)?, phase, &error)),
        };
        match event {
            Some(StorageEvent::Prepared(prepared)) => reading.prepared = Some(prepared),
            Some(StorageEvent::Progress(progress)) => {
                tracing::debug!(node = node.0, text = %progress.text, "storage is prepared");
            }
            Some(StorageEvent::Result(result)) => {
                let Some(prepared) = reading.prepared.clone() else {
                    let text = "the agent answered out of order";
                    return Err(failure::could_not_measure(Some(node), phase, text));
                };
                keep(run, at, spec, node, prepared, *result, &mut reading.series).await;
            }
            Some(StorageEvent::End { stopped: None }) => return Ok(()),
            Some(StorageEvent::End { stopped: Some(stopped) }) => {
                return Err(failure::of_stop(node, phase, &stopped));
            }
            None => {
                let text = "the agent ended the test without a word";
                return Err(failure::could_not_measure(Some(node), phase, text));
            }
        }
    }
}

async fn keep(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &StorageReadSpec,
    node: NodeId,
    prepared: StoragePrepared,
    result: StorageResult,
    series: &mut Vec<(StoragePattern, u32)>,
) {
    let id = run.next_measurement();
    add_point(run, at, spec, node, (id, &result.point), series);
    let rate = Bytes(result.bytes).over(Duration::from_nanos(result.elapsed_ns));
    if let Some(rate) = rate {
        let (pair, node, direction) = (None, Some(node), None);
        run.events.show(Event::Live { step: at.index, pair, node, direction, rate });
    }
    remember(run, at, node, &result, rate);
    let target = spec.target.clone();
    let read = StorageRead { id, step: at.index, node, target, prepared, result };
    run.measured(Measurement::StorageRead(Box::new(read))).await;
}

/// What expressions will see; the best rate of all points counts.
fn remember(
    run: &mut Run<'_>,
    at: At<'_>,
    node: NodeId,
    result: &StorageResult,
    rate: Option<BytesPerSecond>,
) {
    let Some(register) = at.register else { return };
    let known = run.results.node_mut(register, node);
    known.device_read_ratio = result.device_read_ratio;
    if result.latency.count == 0 {
        return;
    }
    match result.point.pattern {
        StoragePattern::SingleBlock if known.single_block_p50_us.is_none() => {
            known.single_block_p50_us = Some(result.latency.p50_us);
            known.single_block_p99_us = Some(result.latency.p99_us);
        }
        StoragePattern::SingleBlock => (),
        StoragePattern::DirectPath => {
            let rate = rate.map(|rate| rate.0);
            if rate > known.direct_path_bytes_per_second {
                known.direct_path_bytes_per_second = rate;
            }
        }
    }
}

/// To the series of its pattern, which begins with its first point: one that is cut short is kept.
fn add_point(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &StorageReadSpec,
    node: NodeId,
    (id, point): (MeasurementId, &StoragePoint),
    series: &mut Vec<(StoragePattern, u32)>,
) {
    let (variable, planned) = match point.pattern {
        StoragePattern::SingleBlock => (Variable::Sessions, spec.sessions.len()),
        StoragePattern::DirectPath => (Variable::Slots, spec.slots.len()),
    };
    if planned < 2 {
        return;
    }
    let begun = series.iter().find(|(pattern, _)| *pattern == point.pattern);
    let number = match begun {
        Some((_, number)) => *number,
        None => {
            let empty = Series { direction: None, node: Some(node), ..at.series(variable, &[]) };
            let number = run.begin_series(empty);
            series.push((point.pattern, number));
            number
        }
    };
    let point = SeriesPoint {
        value: Some(point.outstanding.into()),
        label: point.outstanding.to_string(),
        measurement: Some(id),
        remark: None,
    };
    run.add_point(number, point);
}

fn points(spec: &StorageReadSpec) -> Vec<StoragePoint> {
    let duration_ms = milliseconds(spec.duration);
    let of = |pattern: StoragePattern| {
        let (values, request) = match pattern {
            StoragePattern::SingleBlock => (&spec.sessions, spec.block),
            StoragePattern::DirectPath => (&spec.slots, spec.request),
        };
        values.iter().map(move |outstanding| StoragePoint {
            pattern,
            request_bytes: request.0,
            outstanding: *outstanding,
            duration_ms,
        })
    };
    spec.patterns.iter().copied().flat_map(of).collect()
}

async fn announce(
    run: &Run<'_>,
    at: At<'_>,
    spec: &StorageReadSpec,
    node: NodeId,
    points: &[StoragePoint],
) {
    let what = match &spec.target {
        StorageTarget::File(path) => format!("file {path}"),
        StorageTarget::Device(path) => format!("device {path}"),
        StorageTarget::Scratch { dir, size } => format!("scratch file of {size} in {dir}"),
    };
    run.events
        .send(Event::TestStarted {
            step: at.index,
            text: format!("reads of a {what}, {} points", points.len()),
            pairs: Vec::new(),
            node: Some(node),
            expected_ms: points.iter().map(|point| point.duration_ms).sum(),
        })
        .await;
}
