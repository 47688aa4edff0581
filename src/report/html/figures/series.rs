//! Ladders, sweeps and repeated tests as charts with their numbers.

use super::super::super::model::{Measurement, Point, Report, Series};
use super::super::super::summary::{self, Level};
use super::super::super::{format, tables, wording};
use super::super::chart::{Bar, BarChart, BarSet, Dot, Line, LineChart, Markers, XScale};
use super::{Cell, Figure, Row, slug};

const MIB: f64 = 1_048_576.0;

/// Series of the same step, variable and direction belong into one figure.
pub(super) fn groups(report: &Report) -> Vec<Vec<&Series>> {
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

pub(super) fn figure(report: &Report, group: &[&Series]) -> Figure {
    let storage = group.iter().any(|series| series.node.is_some());
    let ladder = group.iter().any(|series| series.kind == "ladder");
    let id = group_id(group);
    let over_time = group.iter().any(|series| series.variable == "time");
    let (title, charts) = match (storage, ladder, over_time) {
        (true, _, _) => storage_charts(report, group, &id),
        (false, true, _) => ladder_chart(group, &id),
        (false, false, true) => time_chart(group, &id),
        (false, false, false) => sweep_chart(group, &id),
    };
    let mut sentences: Vec<String> =
        group.iter().map(|series| wording::series_sentence(report, series)).collect();
    let coding = group.first().and_then(|series| tables::model_of(&series.variable));
    sentences.extend(coding.map(str::to_owned));
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

/// A knee climbs in steps of √2, so that every doubling is as wide as the one before.
fn ladder_chart(group: &[&Series], id: &str) -> (String, Vec<String>) {
    let (divisor, unit) = format::rate_scale(highest_rate(group));
    let title = titled("Aggregate rate against num_conn", group);
    let knee = group.iter().any(|series| series.until.as_deref() == Some("knee"));
    let chart = LineChart {
        x_label: "num_conn: connections at a time".to_owned(),
        y_label: format!("aggregate, {unit}"),
        x_scale: if knee { XScale::Log2 } else { XScale::Linear },
        markers: Markers::Each,
        lines: group.iter().map(|series| rate_line(series, 8.0 / divisor)).collect(),
        levels: vec![],
    };
    let charts = chart.svg(&format!("{id}-chart"), &title).into_iter().collect();
    (title, charts)
}

/// The same test again and again.
fn time_chart(group: &[&Series], id: &str) -> (String, Vec<String>) {
    let (divisor, unit) = format::rate_scale(highest_rate(group));
    let title = titled("Rate of repeated tests over time", group);
    let points = group.iter().flat_map(|series| &series.points);
    let last = points.filter_map(|point| point.value).fold(0.0, f64::max);
    let (seconds, name) = match last {
        last if last >= 2.0 * 3600.0 => (3600.0, "hours"),
        last if last >= 2.0 * 60.0 => (60.0, "minutes"),
        _ => (1.0, "seconds"),
    };
    let line = |series: &&Series| {
        let line = rate_line(series, 8.0 / divisor);
        let dots = line.dots.into_iter().map(|dot| Dot { x: dot.x / seconds, ..dot }).collect();
        Line { dots, ..line }
    };
    let chart = LineChart {
        x_label: format!("{name} since the first test"),
        y_label: format!("rate, {unit}"),
        x_scale: XScale::Linear,
        markers: Markers::Each,
        lines: group.iter().map(line).collect(),
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
    let bar = |level: &Level<'_>| {
        Some(Bar {
            y: level.bytes_per_second? * 8.0 / divisor,
            half_width: level.half_width_bytes_per_second.map(|width| width * 8.0 / divisor),
        })
    };
    let set = |series: &&Series| {
        let levels = summary::levels(series);
        let of_label = |label: &String| levels.iter().find(|level| level.label == label);
        BarSet {
            name: place(series),
            bars: labels.iter().map(|label| of_label(label).and_then(bar)).collect(),
        }
    };
    let sets = group.iter().map(set).collect();
    let chart = BarChart {
        x_label: variable,
        y_label: format!("rate, {unit}"),
        labels: labels.clone(),
        y_most: None,
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

/// Through the means of the levels; levels with several runs show these as well.
fn rate_line(series: &Series, factor: f64) -> Line {
    let levels = summary::levels(series);
    let dot = |level: &Level<'_>| {
        Some(Dot {
            x: level.value?,
            y: level.bytes_per_second? * factor,
            half_width: level.half_width_bytes_per_second.map(|width| width * factor),
            recommended: is_recommended(series, level.label),
            documented: series.plateau_recommended.is_some()
                && series.plateau_recommended == level.value,
        })
    };
    let run = |run: &&Point| Some((run.value?, run.bytes_per_second? * factor));
    let repeated = levels.iter().filter(|level| level.runs.len() > 1);
    Line {
        name: place(series),
        dots: levels.iter().filter_map(dot).collect(),
        runs: repeated.flat_map(|level| level.runs.iter().filter_map(run)).collect(),
    }
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
            recommended: is_recommended(series, &point.label),
            documented: false,
        })
    };
    Line { name: place(series), dots: series.points.iter().filter_map(dot).collect(), runs: vec![] }
}

fn is_recommended(series: &Series, label: &str) -> bool {
    series.recommended.as_ref().is_some_and(|recommended| recommended.label == label)
}

fn rows(group: &[&Series]) -> Vec<Row> {
    let shown = |label: &str| {
        let points = group.iter().flat_map(|series| series.points.iter().map(|one| (*series, one)));
        let first = points.into_iter().find(|(_, point)| point.label == label);
        first
            .map_or_else(|| label.to_owned(), |(series, point)| wording::point_label(series, point))
    };
    let levels: Vec<(&Series, Vec<Level<'_>>)> =
        group.iter().map(|series| (*series, summary::levels(series))).collect();
    labels(group)
        .into_iter()
        .map(|label| Row {
            cells: levels
                .iter()
                .map(|(series, levels)| {
                    cell(series, levels.iter().find(|level| level.label == label))
                })
                .collect(),
            label: shown(&label),
        })
        .collect()
}

fn cell(series: &Series, level: Option<&Level<'_>>) -> Cell {
    let Some(level) = level else {
        return Cell { text: format::NONE.to_owned(), measurements: vec![] };
    };
    Cell {
        text: wording::level_rate(series, level),
        measurements: level.runs.iter().filter_map(|run| run.measurement.clone()).collect(),
    }
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
