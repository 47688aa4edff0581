//! Rates of single streams over the time of their tests.

use super::super::super::format;
use super::super::super::model::{Report, Sample, Throughput};
use super::super::super::{summary, wording};
use super::super::chart::{Dot, Line, LineChart, Markers, XScale};
use super::{Figure, slug};
use crate::plan::node::Direction;

/// One stream of each pair, with the needs of the threads as levels; `None` where none was measured.
pub(super) fn over_time(
    report: &Report,
    direction: Direction,
    needs: Vec<summary::NeedRow>,
) -> Option<Figure> {
    let tests: Vec<(String, &Throughput)> = summary::pairs(report)
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
    let dot = |&(x, y): &(f64, f64)| Dot::plain(x, scaled(y));
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
                runs: vec![],
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
