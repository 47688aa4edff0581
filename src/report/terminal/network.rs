//! Tables of network tests beside plain streams: paths, several at a time, SYNC, codings.

use super::page::{Cell, Page, plain};
use crate::report::model::{Latency, Measurement, Report};
use crate::report::text::clean;
use crate::report::{format, parameters, summary, tables, wording};

pub(super) fn paths(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = report
        .measurements
        .iter()
        .filter_map(|measurement| match measurement {
            Measurement::Path(path) => Some(path),
            _ => None,
        })
        .map(|path| {
            vec![
                plain(clean(&tables::way(path))),
                plain(format!("RTT {}", tables::idle(path))),
                plain(format!("loaded {}", tables::loaded(path))),
                plain(format!("loss {}", format::percent(path.loss_ratio))),
                plain(format!("path MTU {}", tables::mtus(path))),
            ]
        })
        .collect();
    page.table("Path: RTT p50 / p99 / max idle and loaded, loss, path MTU there / back", &rows);
}

/// Tests of several pairs or directions at a time.
pub(super) fn shares(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::throughputs(report)
        .filter_map(|test| Some((test, wording::manner(test)?)))
        .map(|(test, manner)| {
            let shares: Vec<String> = test
                .pairs
                .iter()
                .filter(|_| test.pairs.len() > 1)
                .map(|ends| format!("{} {}", ends.pair, format::percent(ends.share)))
                .collect();
            let jain =
                test.pair_fairness.map(|index| format!(" (Jain {})", tables::index(Some(index))));
            vec![
                plain(clean(&match test.mode.as_str() {
                    "async" => manner,
                    mode => format!("{manner}, {}", parameters::mode(mode)),
                })),
                plain(test.direction.to_string()),
                plain(format!("num_conn {}", test.num_conn)),
                plain(wording::steady_rate(test)),
                plain(clean(&shares.join(", ")) + &jain.unwrap_or_default()),
            ]
        })
        .collect();
    page.table("At the same time", &rows);
}

pub(super) fn acknowledgements(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::throughputs(report)
        .filter(|test| test.mode != "async")
        .flat_map(|test| test.pairs.iter().map(move |ends| (test, ends)))
        .map(|(test, ends)| {
            let of = |value: fn(&Latency) -> Option<f64>| {
                format::microseconds(ends.latency_us.as_ref().and_then(value))
            };
            let shares =
                test.disk_share.map(|disk| format!("disk {}", format::percent(Some(disk))));
            vec![
                plain(format!("{} to {}", clean(&ends.sender), clean(&ends.receiver))),
                plain(clean(&parameters::mode(&test.mode))),
                plain(format::bytes(Some(test.message_bytes))),
                plain(clean(&wording::manner(test).unwrap_or_else(|| "alone".to_owned()))),
                plain(format!("mean {}", of(|latency| latency.mean))),
                plain(format!("p99 {}", of(|latency| latency.p99))),
                plain(format!("{} messages/s", format::number(ends.messages_per_second))),
                plain(shares.unwrap_or_default()),
                plain(format!("commit longer by {}", tables::commit(test))),
            ]
        })
        .collect();
    page.table("SYNC acknowledgements", &rows);
}

pub(super) fn codings(page: &mut Page, report: &Report) {
    for series in &report.series {
        let Some(sentence) = tables::model_of(&series.variable) else { continue };
        let rows: Vec<Vec<Cell>> = series
            .points
            .iter()
            .map(|point| {
                let cores = point.measurement.as_ref().and_then(|id| {
                    let test = summary::throughputs(report).find(|test| test.id == *id)?;
                    let ends = [test.cpu_cores.sender, test.cpu_cores.receiver];
                    Some(format!("{} CPU cores", ends.map(format::number).join(" / ")))
                });
                vec![
                    plain(clean(&point.label)),
                    plain(wording::point_rate(series, point)),
                    plain(cores.unwrap_or_default()),
                ]
            })
            .collect();
        let subject = clean(&wording::series_subject(report, series));
        page.table(&subject, &rows);
        page.prose("  ", sentence);
    }
}
