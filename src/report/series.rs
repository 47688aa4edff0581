//! Ladders and sweeps of a report.

use super::build::rate;
use super::model;
use crate::analysis::Analysis;
use crate::analysis::level::{self, Run};
use crate::analysis::plateau::{Documented, documented};
use crate::analysis::series::{Point, SeriesResult, TOLERANCE};
use crate::plan::node::PairId;
use crate::plan::step::Until;
use crate::record::measurement::{SeriesKind, StoppedBecause, Variable};
use crate::record::run::RunRecord;
use crate::record::setup::Setup;

/// The source document begins with two connections and adds two at each level.
const DOCUMENTED_STEP: u32 = 2;

pub fn series(record: &RunRecord, analysis: &Analysis) -> Vec<model::Series> {
    analysis
        .series
        .iter()
        .map(|result| {
            let raw = record.series.iter().find(|raw| raw.id == result.id);
            let until = raw.map(|raw| raw.until).filter(|_| is_of_connections(result));
            one(&record.setup, analysis, result, until)
        })
        .collect()
}

fn is_of_connections(series: &SeriesResult) -> bool {
    series.kind == SeriesKind::Ladder && series.variable == Variable::NumConn
}

fn one(
    setup: &Setup,
    analysis: &Analysis,
    series: &SeriesResult,
    until: Option<Until>,
) -> model::Series {
    let (plateau_recommended, plateau_remark) =
        if until == Some(Until::Knee) { plateau(series) } else { (None, None) };
    model::Series {
        id: format!("s{}", series.id),
        step: series.step as u32 + 1,
        kind: match series.kind {
            SeriesKind::Ladder => "ladder",
            SeriesKind::Sweep => "sweep",
        }
        .to_owned(),
        variable: variable(series.variable).to_owned(),
        unit: match series.variable {
            Variable::NumConn => "connections",
            Variable::SocketBuffer
            | Variable::Mtu
            | Variable::InterfaceMtu
            | Variable::MessageLength => "bytes",
            Variable::Encryption | Variable::Compression => "",
            Variable::Time => "seconds",
            Variable::Slots => "requests",
            Variable::Sessions => "sessions",
        }
        .to_owned(),
        direction: series.direction,
        pairs: pairs_of(analysis, series).iter().map(|pair| setup.pair_name(*pair)).collect(),
        node: series.node.map(|node| setup.node_name(node).to_owned()),
        points: series.points.iter().map(point).collect(),
        best: series.best.as_ref().map(point),
        recommended: series.recommended.as_ref().map(point),
        tolerance: series.tolerance,
        until: until.map(|until| match until {
            Until::Plateau => "plateau".to_owned(),
            Until::Knee => "knee".to_owned(),
        }),
        plateau_recommended,
        plateau_remark,
        stopped_because: match series.stopped_because {
            StoppedBecause::Plateau => "plateau",
            StoppedBecause::Knee => "knee",
            StoppedBecause::Maximum => "maximum",
            StoppedBecause::AllValues => "all_values",
            StoppedBecause::Failure => "failure",
            StoppedBecause::Interrupted => "interrupted",
        }
        .to_owned(),
    }
}

/// A ladder of all nodes together has no pair of its own: its measurements have them.
fn pairs_of(analysis: &Analysis, series: &SeriesResult) -> Vec<PairId> {
    if let Some(pair) = series.pair {
        return vec![pair];
    }
    let first = series.points.iter().find_map(|point| point.measurement);
    let summary = analysis.throughputs.iter().find(|summary| Some(summary.id) == first);
    summary.map_or_else(Vec::new, |one| one.pairs.iter().map(|pair| pair.pair).collect())
}

/// What the documented procedure, 2, 4, 6, … until three levels do not rise, would recommend from the
/// levels of a knee, else under which condition; beyond the highest of them nothing is known, unless
/// the runbook's maximum is there.
fn plateau(series: &SeriesResult) -> (Option<f64>, Option<String>) {
    let runs = series.points.iter().filter_map(|point| {
        let num_conn = point.value? as u32;
        Some(Run { num_conn, rate: point.rate?, half_width: point.half_width })
    });
    let levels = level::levels(&runs.collect::<Vec<Run>>());
    let Some(highest) = levels.last().map(|level| level.num_conn) else { return (None, None) };
    let max = match series.stopped_because {
        StoppedBecause::Maximum => highest,
        _ => u32::MAX,
    };
    let tolerance = series.tolerance.unwrap_or(TOLERANCE);
    match documented(&levels, DOCUMENTED_STEP, DOCUMENTED_STEP, max, tolerance) {
        Documented::Recommends(num_conn) => (Some(num_conn.into()), None),
        Documented::Unless { num_conn, above } => {
            (None, Some(format!("{num_conn}, if nothing above {above} exceeds it")))
        }
        Documented::CannotTell { num_conn } => {
            (None, Some(format!("not told, since it rests on what {num_conn} connections give")))
        }
    }
}

pub(super) fn variable(variable: Variable) -> &'static str {
    match variable {
        Variable::NumConn => "num_conn",
        Variable::SocketBuffer => "socket_buffer",
        Variable::Mtu => "mtu",
        Variable::InterfaceMtu => "interface_mtu",
        Variable::MessageLength => "message_length",
        Variable::Encryption => "encryption",
        Variable::Compression => "compression",
        Variable::Time => "time",
        Variable::Slots => "slots",
        Variable::Sessions => "sessions",
    }
}

fn point(point: &Point) -> model::Point {
    model::Point {
        value: point.value,
        label: point.label.clone(),
        measurement: point.measurement.map(|id| id.to_string()),
        bytes_per_second: point.rate.map(rate),
        half_width_bytes_per_second: point.half_width.map(rate),
        remark: point.remark.clone(),
    }
}
