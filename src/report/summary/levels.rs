//! Values of a series that were measured more than once, as one.

use redoline_proto::units::BytesPerSecond;

use super::super::model::{Point, Series};
use crate::analysis::level::mean_of_runs;

/// A value of a series with all its runs, and their mean: a knee measures contenders again.
#[derive(Clone, Debug, PartialEq)]
pub struct Level<'a> {
    pub label: &'a str,
    pub value: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub runs: Vec<&'a Point>,
}

/// In the order in which the values first appear.
pub fn levels(series: &Series) -> Vec<Level<'_>> {
    let mut levels: Vec<Level<'_>> = Vec::new();
    for point in &series.points {
        match levels.iter_mut().find(|level| level.label == point.label) {
            Some(level) => level.runs.push(point),
            None => levels.push(Level {
                label: &point.label,
                value: point.value,
                bytes_per_second: None,
                half_width_bytes_per_second: None,
                runs: vec![point],
            }),
        }
    }
    for level in &mut levels {
        let rate = |run: &&Point| {
            let half_width = run.half_width_bytes_per_second.map(BytesPerSecond);
            run.bytes_per_second.map(|rate| (BytesPerSecond(rate), half_width))
        };
        let runs: Vec<_> = level.runs.iter().filter_map(rate).collect();
        if !runs.is_empty() {
            let (rate, half_width) = mean_of_runs(&runs);
            level.bytes_per_second = Some(rate.0);
            level.half_width_bytes_per_second = half_width.map(|half_width| half_width.0);
        }
    }
    levels
}
