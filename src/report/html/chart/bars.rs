//! Groups of bars with error bars, one group per label: sweeps.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::Axis;
use super::{
    Area, Drawn, Entry, FONT_SIZE, GREY, MESH, colour, drawn, relative, short, text_style,
};
use crate::report::format;

/// A chart of bars; `y` starts at zero.
#[derive(Clone, Debug)]
pub struct BarChart {
    pub x_label: String,
    pub y_label: String,
    pub labels: Vec<String>,
    /// That no bar can exceed: 100 of shares in percent.
    pub y_most: Option<f64>,
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
        let highest = self.y_most.map_or(highest * 1.08, |most| (highest * 1.08).min(most));
        let count = self.labels.len() as f64;
        let middles: Vec<f64> = (0..self.labels.len()).map(|index| index as f64 + 0.5).collect();
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(Axis::new(0.0..count, middles), Axis::from_zero(highest))?;
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
        for (index, set) in self.sets.iter().enumerate() {
            for (place, bar) in set.bars.iter().enumerate().take(self.labels.len()) {
                let (left, right) = self.sides(place, index);
                let at = |x: f64, y: f64| relative(area, chart.backend_coord(&(x, y)));
                let middle = f64::midpoint(left, right);
                let Some(bar) = drawable(*bar) else {
                    draw_absence(area, at(middle, 0.0))?;
                    continue;
                };
                let corners = [at(left, bar.y), at(right, 0.0)];
                area.draw(&Rectangle::new(corners, colour(index).filled()))?;
                if let Some(half) = bar.half_width {
                    let low = at(middle, (bar.y - half).max(0.0));
                    draw_interval(area, low, at(middle, bar.y + half))?;
                }
            }
        }
        Ok(())
    }

    /// Left and right end of a bar; a single one does not fill the space of its label.
    fn sides(&self, place: usize, set: usize) -> (f64, f64) {
        let sets = self.sets.len().max(2) as f64;
        let width = GROUP_WIDTH / sets;
        let used = width * self.sets.len() as f64;
        let left = place as f64 + (1.0 - used) / 2.0 + width * set as f64;
        (left + width * 0.04, left + width * 0.96)
    }

    fn label_at(&self, x: f64) -> String {
        self.labels.get(x.floor() as usize).map(|label| short(label)).unwrap_or_default()
    }
}

fn draw_absence(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    let style = text_style(HPos::Center).color(&GREY).pos(Pos::new(HPos::Center, VPos::Bottom));
    area.draw(&Text::new("no value", (x, y - 4), style))
}

/// A line between the ends of the interval, with caps.
fn draw_interval(area: &Area<'_>, low: (i32, i32), high: (i32, i32)) -> Drawn {
    let style = BLACK.stroke_width(2);
    for line in [
        [low, high],
        [(low.0 - 5, low.1), (low.0 + 5, low.1)],
        [(high.0 - 5, high.1), (high.0 + 5, high.1)],
    ] {
        area.draw(&PathElement::new(line, style))?;
    }
    Ok(())
}

fn drawable(bar: Option<Bar>) -> Option<Bar> {
    let bar = bar.filter(|bar| bar.y.is_finite() && bar.y >= 0.0)?;
    Some(Bar { half_width: bar.half_width.filter(|width| width.is_finite()), ..bar })
}
