//! What encryption and compression cost: the same stream with and without.

use super::super::format::{self, NONE, UNKNOWN};
use super::super::model::{Point, Report, Series, Throughput};
use super::super::summary;
use super::{Row, Table};

const MIB: f64 = 1_048_576.0;

pub const ENCRYPTION_IS_A_MODEL: &str = "TLS 1.3 is a model of Oracle Net encryption, not the thing \
                                         itself: it shows what such ciphers cost these processors \
                                         on this network.";
pub const COMPRESSION_IS_A_MODEL: &str = "This is a model of redo transport compression, not the \
                                          thing itself: how far real redo shrinks, and what it \
                                          costs the database, depends on the redo.";

pub(super) fn tables(report: &Report, step: u32) -> Vec<Table> {
    report
        .series
        .iter()
        .filter(|series| series.step == step)
        .filter_map(|series| Some((series, model_of(&series.variable)?)))
        .map(|(series, sentence)| table(report, series, sentence))
        .collect()
}

/// What has to be said with every number of it.
pub fn model_of(variable: &str) -> Option<&'static str> {
    match variable {
        "encryption" => Some(ENCRYPTION_IS_A_MODEL),
        "compression" => Some(COMPRESSION_IS_A_MODEL),
        _ => None,
    }
}

fn table(report: &Report, series: &Series, sentence: &str) -> Table {
    let test_of = |point: &Point| {
        let id = point.measurement.as_ref()?;
        summary::throughputs(report).find(|test| test.id == *id)
    };
    let plain = series.points.iter().find(|point| point.label == "none");
    let without = plain.and_then(|point| point.bytes_per_second);
    Table {
        caption: format!("Cost of {} on {}", series.variable, series.pairs.join(", ")),
        head: vec![
            "Value",
            "Id",
            "Rate of redo",
            "Of the rate without",
            "Bytes on the network",
            "CPU cores, sender / receiver",
            "Cores for 100 MiB/s of redo, sender / receiver",
        ],
        rows: series.points.iter().map(|point| row(point, test_of(point), without)).collect(),
        notes: vec![sentence.to_owned()],
    }
}

fn row(point: &Point, test: Option<&Throughput>, without: Option<f64>) -> Row {
    let rate = match (&point.remark, point.bytes_per_second) {
        (Some(remark), None) => remark.clone(),
        (_, rate) => format::rate_with_half_width(rate, point.half_width_bytes_per_second),
    };
    let of = point.bytes_per_second.zip(without).map(|(rate, without)| rate / without);
    let cores = |cost: fn(&Throughput, f64) -> f64| {
        test.map_or_else(
            || NONE.to_owned(),
            |test| {
                let ends = [test.cpu_cores.sender, test.cpu_cores.receiver];
                ends.map(|cores| format::number(cores.map(|cores| cost(test, cores)))).join(" / ")
            },
        )
    };
    Row::of([
        point.label.clone(),
        point.measurement.clone().unwrap_or_else(|| NONE.to_owned()),
        rate,
        format::percent(of),
        format::percent(test.and_then(wire_share)),
        cores(|_, cores| cores),
        match point.bytes_per_second {
            None => UNKNOWN.to_owned(),
            Some(_) => cores(|test, cores| 100.0 * cores / mib_per_second(test)),
        },
    ])
}

/// A test without a rate makes this not a number, which is shown as unknown.
fn mib_per_second(test: &Throughput) -> f64 {
    test.steady.as_ref().map_or(f64::NAN, |steady| steady.bytes_per_second / MIB)
}

/// What crossed the network of what was received after decoding.
fn wire_share(test: &Throughput) -> Option<f64> {
    let received = test.received_bytes.filter(|bytes| *bytes > 0)?;
    Some(test.acked_bytes? as f64 / received as f64)
}
