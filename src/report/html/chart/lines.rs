//! Lines with markers and error bars: ladders, rates over time, storage against slots.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::{Axis, thinned};
use super::{
    Area, Drawn, Entry, FONT_SIZE, GREY, MESH, XScale, colour, draw_frame, draw_marker, draw_ring,
    draw_run, drawn, relative, short, text_style,
};
use crate::report::format;

/// A chart of lines; `y` starts at zero.
#[derive(Clone, Debug)]
pub struct LineChart {
    pub x_label: String,
    pub y_label: String,
    pub x_scale: XScale,
    pub markers: Markers,
    pub lines: Vec<Line>,
    /// Levels to compare with, as dashed lines.
    pub levels: Vec<(String, f64)>,
}

/// Whether single points matter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Markers {
    /// Each point is a measurement.
    Each,
    /// The points are so many that the line says it.
    None,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub dots: Vec<Dot>,
    /// Single measurements that a dot is the mean of.
    pub runs: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub half_width: Option<f64>,
    pub recommended: bool,
    /// What the documented procedure would recommend.
    pub documented: bool,
}

impl Dot {
    pub fn plain(x: f64, y: f64) -> Self {
        Self { x, y, half_width: None, recommended: false, documented: false }
    }
}

impl LineChart {
    /// `None` when no point can be drawn.
    pub fn svg(&self, id: &str, title: &str) -> Option<String> {
        let lines: Vec<(usize, &Line, Vec<Dot>)> = self
            .lines
            .iter()
            .enumerate()
            .map(|(index, line)| (index, line, self.drawable(line)))
            .filter(|(_, _, dots)| !dots.is_empty())
            .collect();
        if lines.is_empty() {
            return None;
        }
        let levels: Vec<&(String, f64)> =
            self.levels.iter().filter(|level| level.1.is_finite() && level.1 >= 0.0).collect();
        let legend = self.legend(&lines);
        drawn(id, title, &legend, |area| self.draw(area, &lines, &levels))
    }

    /// The dots with their places on the scale from left to right, without what is not a number.
    fn drawable(&self, line: &Line) -> Vec<Dot> {
        let mut dots: Vec<Dot> = line
            .dots
            .iter()
            .filter(|dot| dot.y.is_finite() && dot.y >= 0.0)
            .filter_map(|dot| Some(Dot { x: self.x_scale.place(dot.x)?, ..*dot }))
            .map(|dot| Dot { half_width: dot.half_width.filter(|width| width.is_finite()), ..dot })
            .collect();
        dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        dots
    }

    /// Where single measurements are on the scale, without what is not a number.
    fn runs(&self, line: &Line) -> Vec<(f64, f64)> {
        let drawable = line.runs.iter().filter(|(_, y)| y.is_finite() && *y >= 0.0);
        drawable.filter_map(|(x, y)| Some((self.x_scale.place(*x)?, *y))).collect()
    }

    fn legend(&self, lines: &[(usize, &Line, Vec<Dot>)]) -> Vec<Entry> {
        let marked = self.markers == Markers::Each;
        let mut legend: Vec<Entry> = lines
            .iter()
            .map(|(index, line, _)| Entry::Line { name: short(&line.name), index: *index, marked })
            .collect();
        if lines.iter().any(|(_, _, dots)| dots.iter().any(|dot| dot.recommended)) {
            legend.push(Entry::Recommended);
        }
        if lines.iter().any(|(_, _, dots)| dots.iter().any(|dot| dot.documented)) {
            legend.push(Entry::Documented);
        }
        if lines.iter().any(|(_, line, _)| !self.runs(line).is_empty()) {
            legend.push(Entry::Run);
        }
        legend
    }

    fn draw(
        &self,
        area: &Area<'_>,
        lines: &[(usize, &Line, Vec<Dot>)],
        levels: &[&(String, f64)],
    ) -> Drawn {
        let dots = || lines.iter().flat_map(|(_, _, dots)| dots);
        let highest = dots()
            .map(|dot| dot.y + dot.half_width.unwrap_or(0.0))
            .chain(levels.iter().map(|level| level.1))
            .chain(lines.iter().flat_map(|(_, line, _)| self.runs(line)).map(|run| run.1))
            .fold(0.0, f64::max);
        let x_axis = self.x_axis(dots().map(|dot| dot.x).collect());
        let ends = x_axis.ends();
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(x_axis, Axis::from_zero(highest * 1.02))?;
        let scale = self.x_scale;
        chart
            .configure_mesh()
            .bold_line_style(MESH)
            .axis_style(GREY)
            .label_style(("sans-serif", FONT_SIZE))
            .axis_desc_style(("sans-serif", FONT_SIZE))
            .x_desc(self.x_label.as_str())
            .y_desc(self.y_label.as_str())
            .x_label_formatter(&|place| format::number(Some(scale.value(*place))))
            .y_label_formatter(&|y| format::number(Some(*y)))
            .draw()?;
        for level in levels {
            let ends = ends.map(|x| (x, level.1));
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, GREY.stroke_width(2)))?;
            // On the side of the level where fewer of the points are.
            let above = dots().filter(|dot| dot.y > level.1).count() * 2 > dots().count();
            let (vertical, shift) = if above { (VPos::Top, 3) } else { (VPos::Bottom, -3) };
            let style = text_style(HPos::Right).pos(Pos::new(HPos::Right, vertical));
            let (x, y) = relative(area, chart.backend_coord(&ends[1]));
            area.draw(&Text::new(short(&level.0), (x - 6, y + shift), style))?;
        }
        for (index, _, dots) in lines {
            let style = colour(*index).stroke_width(2);
            chart.draw_series(LineSeries::new(dots.iter().map(|dot| (dot.x, dot.y)), style))?;
            chart.draw_series(dots.iter().filter_map(|dot| error_bar(dot, *index)))?;
        }
        for (index, line, dots) in lines {
            for run in self.runs(line) {
                draw_run(area, relative(area, chart.backend_coord(&run)))?;
            }
            for dot in dots {
                let at = relative(area, chart.backend_coord(&(dot.x, dot.y)));
                if self.markers == Markers::Each || dots.len() == 1 {
                    draw_marker(area, at, *index)?;
                }
                if dot.recommended {
                    draw_ring(area, at)?;
                }
                if dot.documented {
                    draw_frame(area, at)?;
                }
            }
        }
        Ok(())
    }

    /// Ticks at the points where they are measurements, else at round numbers.
    fn x_axis(&self, places: Vec<f64>) -> Axis {
        let lowest = places.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if self.markers == Markers::None {
            return Axis::from_zero(highest);
        }
        let margin = ((highest - lowest) * 0.04).max(0.5);
        Axis::new(lowest - margin..highest + margin, thinned(places, 14))
    }
}

type Bars = ErrorBar<f64, f64, plotters::element::ErrorBarOrientV<f64, f64>>;

fn error_bar(dot: &Dot, index: usize) -> Option<Bars> {
    let half_width = dot.half_width?;
    let low = (dot.y - half_width).max(0.0);
    Some(ErrorBar::new_vertical(dot.x, low, dot.y, dot.y + half_width, colour(index), 8))
}
