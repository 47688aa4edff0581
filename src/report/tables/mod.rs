//! Tables that Markdown and page share: paths, acknowledgements, codings, and how pairs share.
//!
//! Cells are not escaped: they hold what peers said.

mod coding;
mod path;
mod share;
mod sync;

use serde::Serialize;

use super::model::{Report, Throughput};
use super::summary;

pub use coding::model_of;
pub use path::{idle, loaded, mtus, way};
pub use share::index;
pub use sync::{commit, p999};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    pub caption: String,
    pub head: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// Sentences below it.
    pub notes: Vec<String>,
}

/// The first cell names the row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The measurement that stands nowhere else on a page.
    pub anchor: Option<String>,
    pub cells: Vec<String>,
}

impl Row {
    fn of(cells: impl IntoIterator<Item = String>) -> Self {
        Self { anchor: None, cells: cells.into_iter().collect() }
    }
}

/// Those of a step (its number), without empty ones.
pub fn of_step(report: &Report, step: u32) -> Vec<Table> {
    let mut tables = path::tables(report, step);
    tables.extend(sync::tables(report, step));
    tables.extend(share::table(report, step));
    tables.extend(coding::tables(report, step));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn tests(report: &Report, step: u32) -> impl Iterator<Item = &Throughput> {
    summary::throughputs(report).filter(move |test| test.step == step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for report in [samples::whole(), samples::broken(), samples::demo(), samples::wide()] {
            for step in &report.steps {
                for table in of_step(&report, step.number) {
                    for row in &table.rows {
                        assert_eq!(row.cells.len(), table.head.len(), "{}", table.caption);
                    }
                }
            }
        }
    }

    #[test]
    fn plain_tests_of_single_pairs_need_none_of_these_tables() {
        let report = samples::demo();
        assert!(report.steps.iter().all(|step| of_step(&report, step.number).is_empty()));
    }
}
