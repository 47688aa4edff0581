//! From the measurements of a report to its figures: charts with captions and their numbers.

mod latency;
mod rates;
mod series;

use serde::Serialize;

use super::super::model::Report;
use super::super::summary;

/// A title, what it says in words, charts where there are points, and the numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub id: String,
    pub title: String,
    /// Inline SVG, already escaped.
    pub charts: Vec<String>,
    pub sentences: Vec<String>,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// A value of the variable and what each series has for it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub label: String,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    pub text: String,
    pub measurements: Vec<String>,
}

/// All figures: rates over time first, then series in the order of the report, then latencies.
pub fn all(report: &Report) -> Vec<Figure> {
    let mut figures: Vec<Figure> = summary::tested_directions(report)
        .into_iter()
        .filter_map(|direction| rates::over_time(report, direction, summary::need_rows(report)))
        .collect();
    for group in series::groups(report) {
        figures.push(series::figure(report, &group));
    }
    figures.extend(latency::figures(report));
    figures
}

/// For the id of an element: letters, digits and hyphens.
fn slug(text: &str) -> String {
    let hyphened = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.trim().chars().map(hyphened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn each_step_and_direction_has_one_figure_for_all_its_pairs() {
        let figures = all(&samples::whole());
        let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "One stream over time, primary to standby",
                "One stream over time, standby to primary",
                "Aggregate rate against num_conn, primary to standby (step 3)",
                "Rate by socket buffer, primary to standby (step 5)",
                "Aggregate rate against num_conn, standby to primary (step 8)",
                "Rate by socket buffer, standby to primary (step 10)",
                "Storage reads against I/O slots (step 11)",
                "Storage reads against sessions (step 11)",
            ]
        );
    }

    #[test]
    fn sync_knee_repetition_and_codings_have_figures_of_their_own() {
        let figures = all(&samples::wide());
        let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
        insta::assert_snapshot!(titles.join("\n"));
    }

    #[test]
    fn a_series_without_points_is_a_sentence() {
        let figures = all(&samples::broken());
        assert!(figures.iter().all(|figure| figure.charts.is_empty()));
        assert!(figures[1].sentences.iter().any(|sentence| sentence.contains("No chart")));
    }
}
