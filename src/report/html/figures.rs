//! From the measurements of a report to its figures: charts with captions and their numbers.

use serde::Serialize;

use super::super::format;
use super::super::model::{Measurement, Point, Report, Sample, Series, Throughput};
use super::super::summary;
use super::super::wording;
use super::chart::{Bar, BarChart, BarSet, Dot, Line, LineChart, Markers, XScale};

const MIB: f64 = 1_048_576.0;

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
    pub measurement: Option<String>,
}

/// All figures: rates over time first, then series in the order of the report.
pub fn all(report: &Report) -> Vec<Figure> {
    let mut figures: Vec<Figure> = summary::tested_directions(report)
        .into_iter()
        .filter_map(|direction| rates_over_time(report, direction, summary::need_rows(report)))
        .collect();
    for group in groups(report) {
        figures.push(series_figure(report, &group));
    }
    figures
}

fn rates_over_time(
    report: &Report,
    direction: crate::plan::node::Direction,
    needs: Vec<summary::NeedRow>,
) -> Option<Figure> {
    let tests: Vec<(String, &Throughput)> = report
        .configuration
        .pairs
        .iter()
        .filter_map(|pair| summary::single_stream(report, &pair.name, direction))
        .map(|(test, ends)| (format!("{} to {}", ends.sender, ends.receiver), test))
        .collect();
    if tests.is_empty() {
        return None;
    }
    let lines: Vec<(String, Vec<(f64, f64)>)> =
        tests.iter().map(|(name, test)| (name.clone(), per_second(&test.samples))).collect();
    let levels: Vec<(String, f64)> = needs
        .into_iter()
        .filter(|row| row.direction == direction && row.subject.starts_with("thread "))
        .map(|row| {
            let thread = row.subject.split(',').next().unwrap_or_default().to_owned();
            let need = format::network_rate(Some(row.need_bytes_per_second), None);
            (format!("need of {thread}: {need}"), row.need_bytes_per_second)
        })
        .collect();
    let highest = lines.iter().flat_map(|line| &line.1).map(|point| point.1).fold(0.0, f64::max);
    let (divisor, unit) = format::rate_scale(highest);
    let scaled = |rate: f64| rate * 8.0 / divisor;
    let dot = |&(x, y): &(f64, f64)| Dot { x, y: scaled(y), half_width: None, recommended: false };
    let chart = LineChart {
        x_label: "seconds since the test began".to_owned(),
        y_label: format!("received, {unit}"),
        x_scale: XScale::Linear,
        markers: Markers::None,
        lines: lines
            .iter()
            .map(|(name, points)| Line {
                name: name.clone(),
                dots: points.iter().map(dot).collect(),
            })
            .collect(),
        levels: levels.into_iter().map(|(name, rate)| (name, scaled(rate))).collect(),
    };
    let title = format!("One stream over time, {direction}");
    let id = slug(&format!("rates {direction}"));
    let charts: Vec<String> = chart.svg(&format!("{id}-chart"), &title).into_iter().collect();
    let mut sentences: Vec<String> = tests
        .iter()
        .map(|(name, test)| format!("{name} ({}): {}.", test.id, wording::steady_rate(test)))
        .collect();
    if charts.is_empty() {
        sentences.push("No rate was recorded over time.".to_owned());
    }
    Some(Figure { id, title, charts, sentences, columns: vec![], rows: vec![] })
}

/// Rates in bytes per second against seconds, over about a second each; at most 200 points.
pub fn per_second(samples: &[Sample]) -> Vec<(f64, f64)> {
    const MOST: f64 = 200.0;
    let end_ms = samples.iter().map(|sample| sample.at_ms + sample.interval_ms);
    let end_ms = end_ms.filter(|end| end.is_finite()).fold(0.0, f64::max);
    let width_ms = (end_ms / 20.0).min(1000.0).max(end_ms / MOST);
    let mut points = Vec::new();
    let (mut bytes, mut begin_ms, mut covered_ms) = (0.0, None, 0.0);
    for sample in samples.iter().filter(|s| s.at_ms.is_finite() && s.interval_ms > 0.0) {
        let begin = *begin_ms.get_or_insert(sample.at_ms);
        bytes += sample.bytes as f64;
        covered_ms += sample.interval_ms;
        // A tenth of an interval is left for times that are not exact.
        if covered_ms >= width_ms - sample.interval_ms * 0.1 {
            points.push(((begin + covered_ms / 2.0) / 1e3, bytes / covered_ms * 1e3));
            (bytes, begin_ms, covered_ms) = (0.0, None, 0.0);
        }
    }
    points
}

/// Series of the same step, variable and direction belong into one figure.
fn groups(report: &Report) -> Vec<Vec<&Series>> {
    let mut groups: Vec<Vec<&Series>> = Vec::new();
    for series in &report.series {
        let same = |known: &&Series| {
            known.step == series.step
                && known.variable == series.variable
                && known.direction == series.direction
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(series),
            None => groups.push(vec![series]),
        }
    }
    groups
}

fn series_figure(report: &Report, group: &[&Series]) -> Figure {
    let storage = group.iter().any(|series| series.node.is_some());
    let ladder = group.iter().any(|series| series.kind == "ladder");
    let id = group_id(group);
    let (title, charts) = match (storage, ladder) {
        (true, _) => storage_charts(report, group, &id),
        (false, true) => ladder_chart(group, &id),
        (false, false) => sweep_chart(group, &id),
    };
    let mut sentences: Vec<String> =
        group.iter().map(|series| wording::series_sentence(series)).collect();
    if charts.is_empty() {
        sentences.push("No chart: no point of it was measured.".to_owned());
    }
    let columns = group.iter().map(|series| place(series)).collect();
    Figure { id, title, charts, sentences, columns, rows: rows(group) }
}

/// Unique, since a group is what has the same step, variable and direction.
fn group_id(group: &[&Series]) -> String {
    group.first().map_or_else(String::new, |series| {
        let direction = series.direction.map(|direction| direction.to_string());
        let direction = direction.unwrap_or_default();
        slug(&format!("step {} {} {direction}", series.step, series.variable))
    })
}

/// For the id of an element: letters, digits and hyphens.
fn slug(text: &str) -> String {
    let hyphened = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.trim().chars().map(hyphened).collect()
}

fn ladder_chart(group: &[&Series], id: &str) -> (String, Vec<String>) {
    let (divisor, unit) = format::rate_scale(highest_rate(group));
    let title = titled("Aggregate rate against num_conn", group);
    let chart = LineChart {
        x_label: "num_conn: connections at a time".to_owned(),
        y_label: format!("aggregate, {unit}"),
        x_scale: XScale::Linear,
        markers: Markers::Each,
        lines: group.iter().map(|series| rate_line(series, 8.0 / divisor)).collect(),
        levels: vec![],
    };
    let charts = chart.svg(&format!("{id}-chart"), &title).into_iter().collect();
    (title, charts)
}

fn sweep_chart(group: &[&Series], id: &str) -> (String, Vec<String>) {
    let (divisor, unit) = format::rate_scale(highest_rate(group));
    let variable = group.first().map_or(String::new(), |s| wording::variable(&s.variable));
    let title = titled(&format!("Rate by {variable}"), group);
    let labels = labels(group);
    let bar = |point: &Point| {
        Some(Bar {
            y: point.bytes_per_second? * 8.0 / divisor,
            half_width: point.half_width_bytes_per_second.map(|width| width * 8.0 / divisor),
        })
    };
    let set = |series: &&Series| BarSet {
        name: place(series),
        bars: labels.iter().map(|label| find(series, label).and_then(bar)).collect(),
    };
    let sets = group.iter().map(set).collect();
    let chart = BarChart {
        x_label: variable,
        y_label: format!("rate, {unit}"),
        labels: labels.clone(),
        sets,
    };
    let charts = chart.svg(&format!("{id}-chart"), &title).into_iter().collect();
    (title, charts)
}

/// Rate and latency have no axis in common: one chart each.
fn storage_charts(report: &Report, group: &[&Series], id: &str) -> (String, Vec<String>) {
    let variable = group.first().map_or(String::new(), |s| wording::variable(&s.variable));
    let title = titled(&format!("Storage reads against {variable}"), group);
    let chart = |y_label: &str, lines: Vec<Line>| LineChart {
        x_label: variable.clone(),
        y_label: y_label.to_owned(),
        x_scale: XScale::Log2,
        markers: Markers::Each,
        lines,
        levels: vec![],
    };
    let rates = group.iter().map(|series| rate_line(series, 1.0 / MIB)).collect();
    let latencies = group.iter().map(|series| latency_line(report, series)).collect();
    let charts = [
        chart("rate, MiB/s", rates).svg(&format!("{id}-rate"), &format!("{title}: rate")),
        chart("p99 latency, ms", latencies)
            .svg(&format!("{id}-latency"), &format!("{title}: p99 latency")),
    ];
    (title, charts.into_iter().flatten().collect())
}

fn rate_line(series: &Series, factor: f64) -> Line {
    let dot = |point: &Point| {
        Some(Dot {
            x: point.value?,
            y: point.bytes_per_second? * factor,
            half_width: point.half_width_bytes_per_second.map(|width| width * factor),
            recommended: is_recommended(series, point),
        })
    };
    Line { name: place(series), dots: series.points.iter().filter_map(dot).collect() }
}

fn latency_line(report: &Report, series: &Series) -> Line {
    let dot = |point: &Point| {
        let id = point.measurement.as_ref()?;
        let read = report.measurements.iter().find_map(|measurement| match measurement {
            Measurement::StorageRead(read) if read.id == *id => Some(read),
            _ => None,
        })?;
        Some(Dot {
            x: point.value?,
            y: read.latency_us.p99? / 1e3,
            half_width: None,
            recommended: is_recommended(series, point),
        })
    };
    Line { name: place(series), dots: series.points.iter().filter_map(dot).collect() }
}

fn is_recommended(series: &Series, point: &Point) -> bool {
    series.recommended.as_ref().is_some_and(|recommended| recommended.label == point.label)
}

fn rows(group: &[&Series]) -> Vec<Row> {
    labels(group)
        .into_iter()
        .map(|label| Row {
            cells: group.iter().map(|series| cell(series, find(series, &label))).collect(),
            label,
        })
        .collect()
}

fn cell(series: &Series, point: Option<&Point>) -> Cell {
    let Some(point) = point else {
        return Cell { text: format::NONE.to_owned(), measurement: None };
    };
    let text = match (&point.remark, point.bytes_per_second) {
        (Some(remark), None) => remark.clone(),
        (Some(remark), Some(_)) => format!("{} ({remark})", wording::point_rate(series, point)),
        (None, _) => wording::point_rate(series, point),
    };
    Cell { text, measurement: point.measurement.clone() }
}

/// The labels of all series, in the order in which they first appear.
fn labels(group: &[&Series]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for point in group.iter().flat_map(|series| &series.points) {
        if !labels.contains(&point.label) {
            labels.push(point.label.clone());
        }
    }
    labels
}

fn find<'a>(series: &'a Series, label: &str) -> Option<&'a Point> {
    series.points.iter().find(|point| point.label == label)
}

fn place(series: &Series) -> String {
    series.node.clone().unwrap_or_else(|| series.pairs.join(", "))
}

fn titled(what: &str, group: &[&Series]) -> String {
    match group.first() {
        None => what.to_owned(),
        Some(series) => match series.direction {
            Some(direction) => format!("{what}, {direction} (step {})", series.step),
            None => format!("{what} (step {})", series.step),
        },
    }
}

fn highest_rate(group: &[&Series]) -> f64 {
    group
        .iter()
        .flat_map(|series| &series.points)
        .filter_map(|point| point.bytes_per_second)
        .filter(|rate| rate.is_finite())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn intervals_are_brought_to_seconds() {
        let sample = |index: u32| Sample {
            at_ms: f64::from(index) * 100.0,
            interval_ms: 100.0,
            bytes: 1000,
        };
        let points = per_second(&(0..600).map(sample).collect::<Vec<_>>());
        assert_eq!(points.len(), 60);
        assert!(points.iter().all(|point| (point.1 - 10_000.0).abs() < 1e-6), "{points:?}");
        let day = per_second(&(0..90_000).map(sample).collect::<Vec<_>>());
        assert!(day.len() <= 200, "{}", day.len());
        assert!(per_second(&[]).is_empty());
    }

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
    fn a_series_without_points_is_a_sentence() {
        let figures = all(&samples::broken());
        assert!(figures.iter().all(|figure| figure.charts.is_empty()));
        assert!(figures[1].sentences.iter().any(|sentence| sentence.contains("No chart")));
    }
}
