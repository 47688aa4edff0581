//! Ladders and sweeps in numbers: each point's rate, the best, and what is recommended.

use redoline_proto::storage::StoragePattern;
use redoline_proto::units::BytesPerSecond;

use super::storage::StorageSummary;
use super::throughput::Summary;
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::measurement::{MeasurementId, Series, SeriesKind, StoppedBecause, Variable};

/// What a level of a ladder without its own tolerance must rise by.
pub const TOLERANCE: f64 = 0.03;
/// A storage series is at its knee where it gives this share of its best.
pub const KNEE_SHARE: f64 = 0.95;

#[derive(Clone, Debug, PartialEq)]
pub struct SeriesResult {
    pub id: u32,
    pub step: usize,
    pub kind: SeriesKind,
    pub variable: Variable,
    pub direction: Option<Direction>,
    pub pair: Option<PairId>,
    pub node: Option<NodeId>,
    /// Of a storage series.
    pub pattern: Option<StoragePattern>,
    pub points: Vec<Point>,
    pub best: Option<Point>,
    /// The smallest value within the tolerance of the best; `None` for buffers and MTUs, where
    /// small is not what one looks for.
    pub recommended: Option<Point>,
    pub tolerance: Option<f64>,
    pub stopped_because: StoppedBecause,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub value: Option<f64>,
    pub label: String,
    pub measurement: Option<MeasurementId>,
    pub rate: Option<BytesPerSecond>,
    pub half_width: Option<BytesPerSecond>,
    pub remark: Option<String>,
}

pub fn results(
    series: &[Series],
    throughputs: &[Summary],
    storage: &[StorageSummary],
) -> Vec<SeriesResult> {
    series.iter().map(|series| result(series, throughputs, storage)).collect()
}

fn result(series: &Series, throughputs: &[Summary], storage: &[StorageSummary]) -> SeriesResult {
    let points: Vec<Point> = series
        .points
        .iter()
        .map(|point| {
            let (rate, half_width) = point
                .measurement
                .and_then(|id| measured(id, throughputs, storage))
                .map_or((None, None), |(rate, half)| (Some(rate), half));
            let summary = throughputs.iter().find(|one| Some(one.id) == point.measurement);
            let not_testable = summary.and_then(|summary| summary.not_testable.clone());
            Point {
                value: point.value,
                label: point.label.clone(),
                measurement: point.measurement,
                rate,
                half_width,
                remark: not_testable.or_else(|| point.remark.clone()),
            }
        })
        .collect();
    let real: Vec<Point> =
        points.iter().filter(|point| !from_a_cache(point, storage)).cloned().collect();
    let best = best(&real).cloned();
    let share = match series.variable {
        Variable::NumConn => Some(1.0 - series.tolerance.unwrap_or(TOLERANCE)),
        Variable::Slots | Variable::Sessions => Some(KNEE_SHARE),
        Variable::SocketBuffer
        | Variable::Mtu
        | Variable::InterfaceMtu
        | Variable::MessageLength
        | Variable::Encryption
        | Variable::Compression
        | Variable::Time => None,
    };
    let recommended = share.and_then(|share| smallest(&real, share)).cloned();
    let pattern = series
        .points
        .iter()
        .filter_map(|point| point.measurement)
        .find_map(|id| storage.iter().find(|read| read.id == id).map(|read| read.pattern));
    SeriesResult {
        id: series.id,
        step: series.step,
        kind: series.kind,
        variable: series.variable,
        direction: series.direction,
        pair: series.pair,
        node: series.node,
        pattern,
        points,
        best,
        recommended,
        tolerance: series.tolerance,
        stopped_because: series.stopped_because,
    }
}

/// What did not come from the disks is shown, but recommends nothing.
fn from_a_cache(point: &Point, storage: &[StorageSummary]) -> bool {
    storage.iter().any(|read| Some(read.id) == point.measurement && read.suspect())
}

/// A level at which a pair failed has no rate.
fn measured(
    id: MeasurementId,
    throughputs: &[Summary],
    storage: &[StorageSummary],
) -> Option<(BytesPerSecond, Option<BytesPerSecond>)> {
    let throughput = throughputs
        .iter()
        .find(|summary| summary.id == id && summary.complete())
        .and_then(|summary| summary.steady.as_ref())
        .map(|steady| (steady.rate, steady.half_width));
    throughput.or_else(|| {
        let read = storage.iter().find(|read| read.id == id)?;
        Some((read.rate?, read.half_width))
    })
}

/// Of equal rates the one with the smallest value, as the ladder that is climbed takes it.
fn best(points: &[Point]) -> Option<&Point> {
    let rate = |point: &Point| point.rate.map_or(0.0, |rate| rate.0);
    let value = |point: &Point| point.value.unwrap_or(0.0);
    points
        .iter()
        .filter(|point| point.rate.is_some())
        .max_by(|a, b| rate(a).total_cmp(&rate(b)).then_with(|| value(b).total_cmp(&value(a))))
}

fn smallest(points: &[Point], share: f64) -> Option<&Point> {
    let enough = best(points)?.rate?.0 * share;
    points
        .iter()
        .filter(|point| point.value.is_some() && point.rate.is_some_and(|rate| rate.0 >= enough))
        .min_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)))
}
