//! Ladders and sweeps in numbers: each point's rate, the best, and what is recommended.

use redoline_proto::storage::StoragePattern;
use redoline_proto::units::BytesPerSecond;

use super::level::mean_of_runs;
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
    let real = of_all_runs(&real);
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

/// A value that was measured several times is one point with the mean of its runs, as the climb takes
/// it; the measurement is the first.
fn of_all_runs(points: &[Point]) -> Vec<Point> {
    let mut pooled: Vec<Point> = Vec::new();
    for point in points {
        let same = |other: &&Point| other.value == point.value && other.label == point.label;
        if pooled.iter().any(|seen| same(&seen)) {
            continue;
        }
        let runs: Vec<_> = points
            .iter()
            .filter(same)
            .filter_map(|run| run.rate.map(|rate| (rate, run.half_width)))
            .collect();
        let first = points.iter().filter(same).find(|run| run.rate.is_some()).unwrap_or(point);
        let (rate, half_width) = match runs.is_empty() {
            true => (None, None),
            false => {
                let (rate, half_width) = mean_of_runs(&runs);
                (Some(rate), half_width)
            }
        };
        pooled.push(Point { rate, half_width, ..first.clone() });
    }
    pooled
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

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: f64, measurement: u32, rate: Option<f64>) -> Point {
        Point {
            value: Some(value),
            label: value.to_string(),
            measurement: Some(MeasurementId(measurement)),
            rate: rate.map(BytesPerSecond),
            half_width: None,
            remark: None,
        }
    }

    #[test]
    fn contenders_that_were_measured_again_count_by_the_mean_of_their_runs() {
        let runs = [(2.0, 100.0), (4.0, 99.0), (2.0, 80.0), (4.0, 99.0), (4.0, 99.0), (2.0, 80.0)];
        let points: Vec<Point> =
            (0..).zip(runs).map(|(id, (value, rate))| point(value, id, Some(rate))).collect();
        let pooled = of_all_runs(&points);
        assert_eq!(pooled.len(), 2);
        assert_eq!(best(&pooled).map(|point| point.measurement), Some(Some(MeasurementId(1))));
        assert_eq!(smallest(&pooled, 0.97).and_then(|point| point.value), Some(4.0));
    }

    #[test]
    fn a_value_of_which_no_run_gave_a_rate_has_none() {
        let pooled =
            of_all_runs(&[point(2.0, 1, None), point(4.0, 2, None), point(4.0, 3, Some(5.0))]);
        let rates: Vec<_> = pooled.iter().map(|point| point.rate.map(|rate| rate.0)).collect();
        assert_eq!(rates, [None, Some(5.0)]);
        assert_eq!(pooled[1].measurement, Some(MeasurementId(3)));
    }
}
