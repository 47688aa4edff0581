//! Groups of bars with error bars, one group per label: sweeps.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::Axis;
use super::{Area, Drawn, Entry, FONT_SIZE, GREY, MESH, colour, drawn, short, text_style};
use crate::report::format;

/// A chart of bars; `y` starts at zero.
#[derive(Clone, Debug)]
pub struct BarChart {
    pub x_label: String,
    pub y_label: String,
    pub labels: Vec<String>,
    pub sets: Vec<BarSet>,
}

/// Bars of one colour; `bars` are in the order of the chart's labels.
#[derive(Clone, Debug)]
pub struct BarSet {
    pub name: String,
    pub bars: Vec<Option<Bar>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Bar {
    pub y: f64,
    pub half_width: Option<f64>,
}

/// Of the space of a label, what its bars take.
const GROUP_WIDTH: f64 = 0.7;

impl BarChart {
    /// `None` when no bar can be drawn.
    pub fn svg(&self, id: &str, title: &str) -> Option<String> {
        let any = self.sets.iter().any(|set| set.bars.iter().any(|bar| drawable(*bar).is_some()));
        if !any {
            return None;
        }
        let entry = |(index, set): (usize, &BarSet)| Entry::Bar { name: short(&set.name), index };
        let legend: Vec<Entry> = self.sets.iter().enumerate().map(entry).collect();
        drawn(id, title, &legend, |area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let bars = || self.sets.iter().flat_map(|set| &set.bars).filter_map(|bar| drawable(*bar));
        let highest = bars().map(|bar| bar.y + bar.half_width.unwrap_or(0.0)).fold(0.0, f64::max);
        let count = self.labels.len() as f64;
        let middles: Vec<f64> = (0..self.labels.len()).map(|index| index as f64 + 0.5).collect();
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(Axis::new(0.0..count, middles), Axis::from_zero(highest * 1.08))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(MESH)
            .axis_style(GREY)
            .label_style(("sans-serif", FONT_SIZE))
            .axis_desc_style(("sans-serif", FONT_SIZE))
            .x_desc(self.x_label.as_str())
            .y_desc(self.y_label.as_str())
            .x_label_formatter(&|x| self.label_at(*x))
            .y_label_formatter(&|y| format::number(Some(*y)))
            .draw()?;
        let width = GROUP_WIDTH / self.sets.len().max(1) as f64;
        for (index, set) in self.sets.iter().enumerate() {
            for (place, bar) in set.bars.iter().enumerate().take(self.labels.len()) {
                let left =
                    place as f64 + (1.0 - GROUP_WIDTH) / 2.0 + width * index as f64 + width * 0.04;
                let right = left + width * 0.92;
                let middle = f64::midpoint(left, right);
                let Some(bar) = drawable(*bar) else {
                    let style = text_style(HPos::Center).color(&GREY);
                    let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
                    let text = Text::new("no value", (middle, 0.0), style);
                    chart.draw_series(std::iter::once(text))?;
                    continue;
                };
                let corners = [(left, 0.0), (right, bar.y)];
                chart.draw_series(std::iter::once(Rectangle::new(
                    corners,
                    colour(index).filled(),
                )))?;
                if let Some(half) = bar.half_width {
                    let (low, high) = ((bar.y - half).max(0.0), bar.y + half);
                    let error = ErrorBar::new_vertical(middle, low, bar.y, high, BLACK, 10);
                    chart.draw_series(std::iter::once(error))?;
                }
            }
        }
        Ok(())
    }

    fn label_at(&self, x: f64) -> String {
        self.labels.get(x.floor() as usize).map(|label| short(label)).unwrap_or_default()
    }
}

fn drawable(bar: Option<Bar>) -> Option<Bar> {
    let bar = bar.filter(|bar| bar.y.is_finite() && bar.y >= 0.0)?;
    Some(Bar { half_width: bar.half_width.filter(|width| width.is_finite()), ..bar })
}
