//! What encryption and compression cost: the same stream with and without, as a model of both.

use redoline_proto::units::Bytes;

use super::case::Case;
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::series::{Point, SeriesResult};
use super::steady::Steady;
use super::throughput::{PairSummary, Summary};
use super::words::{percent, steady};
use crate::record::measurement::Variable;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    case.series.iter().flat_map(|series| of_series(case, series)).collect()
}

/// A measured point of the sweep.
struct Coded<'a> {
    label: &'a str,
    summary: &'a Summary,
    pair: &'a PairSummary,
    steady: &'a Steady,
}

fn of_series(case: &Case<'_>, series: &SeriesResult) -> Vec<Finding> {
    let id = match series.variable {
        Variable::Encryption => FindingId::EncryptionCost,
        Variable::Compression => FindingId::CompressionCost,
        _ => return Vec::new(),
    };
    let coded = |point: &'_ Point| {
        let id = point.measurement?;
        case.throughputs.iter().find(|summary| summary.id == id)
    };
    let points: Vec<Coded<'_>> = series
        .points
        .iter()
        .filter_map(|point| {
            let summary = coded(point)?;
            let pair = summary.pairs.first().filter(|_| summary.pairs.len() == 1)?;
            Some(Coded { label: &point.label, summary, pair, steady: pair.steady.as_ref()? })
        })
        .collect();
    let Some(none) = points.iter().find(|point| point.summary.request.encoding.is_none()) else {
        return Vec::new();
    };
    let with = points.iter().filter(|point| point.summary.request.encoding.is_some());
    with.map(|point| finding(case, id, none, point)).collect()
}

fn finding(case: &Case<'_>, id: FindingId, none: &Coded<'_>, with: &Coded<'_>) -> Finding {
    let direction = with.summary.direction;
    let ratio = with.steady.rate.0 / none.steady.rate.0;
    let model = match id {
        FindingId::EncryptionCost => "TLS 1.3 as a model of Oracle Net encryption, not the thing",
        _ => "a model of redo transport compression, not the thing",
    };
    let shrunk = wire_share(with.pair).filter(|_| id == FindingId::CompressionCost);
    let shrunk = shrunk.map_or(String::new(), |share| {
        let asked = with.summary.request.compressible_share;
        let of = asked.map_or(String::new(), |share| {
            format!(" of a payload made to be {} compressible", percent(share))
        });
        format!(" {} of the bytes crossed the network{of}.", percent(share))
    });
    let cost = cost(none.pair, none.steady).zip(cost(with.pair, with.steady)).map_or(
        String::new(),
        |(without, with)| {
            format!(
                " Processor time for 100 MiB of redo: {} at the sender and {} at the receiver, \
                 against {} and {} without.",
                milliseconds_of(with.0),
                milliseconds_of(with.1),
                milliseconds_of(without.0),
                milliseconds_of(without.1),
            )
        },
    );
    let sentence = format!(
        "From {} one stream carries {} with {} and {} without, {} of it{} ({model}).{shrunk}{cost}",
        case.way(with.pair.pair, direction),
        steady(with.steady),
        with.label,
        steady(none.steady),
        percent(ratio),
        interval(none.steady, with.steady),
    );
    let (sender, receiver) = case.setup().ends(with.pair.pair, direction);
    let fields: &[&str] = &["steady", "cpu_cores", "encoding", "received_bytes", "acked_bytes"];
    Finding::new(id, Severity::Info, Confidence::Measured, sentence)
        .direction(direction)
        .pairs([with.pair.pair])
        .nodes([sender, receiver])
        .value(ratio, Unit::Ratio)
        .also(
            format!("{} {direction}", with.label),
            format!("{} ({})", case.way(with.pair.pair, direction), percent(ratio)),
        )
        .evidence(with.summary.id, fields)
        .evidence(none.summary.id, fields)
        .detail(Detail::Coding { ratio, wire_share: wire_share(with.pair) })
}

/// ` ± 2 %`, from both half-widths as independent errors.
fn interval(none: &Steady, with: &Steady) -> String {
    let relative = |steady: &Steady| Some(steady.half_width?.0 / steady.rate.0);
    relative(none).zip(relative(with)).map_or(String::new(), |(a, b)| {
        let half = a.hypot(b) * with.rate.0 / none.rate.0;
        format!(" ± {}", percent(half))
    })
}

/// Core seconds of the test's threads for a byte, at the sender and at the receiver.
fn cost(pair: &PairSummary, steady: &Steady) -> Option<(f64, f64)> {
    let (sender, receiver) = (pair.cpu.sender?.threads, pair.cpu.receiver?.threads);
    (steady.rate.0 > 0.0).then(|| (sender / steady.rate.0, receiver / steady.rate.0))
}

fn milliseconds_of(seconds_per_byte: f64) -> String {
    let bytes = 100 * Bytes::MIB;
    format!("{:.0} ms", seconds_per_byte * bytes as f64 * 1e3)
}

/// What crossed the network of what was received, after decoding.
fn wire_share(pair: &PairSummary) -> Option<f64> {
    let received = pair.counts.received.filter(|bytes| *bytes > 0)?;
    Some(pair.counts.acked? as f64 / received as f64)
}
