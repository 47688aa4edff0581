//! How pairs that sent at a time shared what they got together.

use super::super::format::{self, NONE, UNKNOWN};
use super::super::model::{PairEnds, Report, Throughput};
use super::super::wording;
use super::{Row, Table, tests};

pub(super) fn table(report: &Report, step: u32) -> Option<Table> {
    let rows: Vec<Row> = tests(report, step)
        .filter(|test| test.pairs.len() > 1)
        .flat_map(|test| test.pairs.iter().map(|ends| row(test, ends)))
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: format!("How the pairs of step {step} shared the sum"),
        head: vec!["Id", "Manner", "Way", "num_conn", "Rate", "Share", "Jain of pairs", "Jain of streams"],
        rows,
        notes: vec![
            "Jain's index: 1 when all get the same, 1/n when one of n gets all. All rates are of the \
             window common to all streams."
                .to_owned(),
        ],
    })
}

fn row(test: &Throughput, ends: &PairEnds) -> Row {
    let streams = match test.num_conn {
        1 => NONE.to_owned(),
        _ => index(test.stream_fairness),
    };
    Row::of([
        test.id.clone(),
        wording::manner(test).unwrap_or_else(|| NONE.to_owned()),
        format!("{} to {}", ends.sender, ends.receiver),
        test.num_conn.to_string(),
        format::rate_with_half_width(ends.bytes_per_second, ends.half_width_bytes_per_second),
        format::percent(ends.share),
        index(test.pair_fairness),
        streams,
    ])
}

/// To three decimals: 0.98 and 1 are not the same.
pub fn index(index: Option<f64>) -> String {
    index.map_or_else(|| UNKNOWN.to_owned(), |index| format!("{index:.3}"))
}
