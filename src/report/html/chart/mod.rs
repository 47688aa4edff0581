//! Points to inline SVG; no chart without points, and nothing that is not a finite number in one.

mod bars;
mod lines;
mod scale;

pub use bars::{Bar, BarChart, BarSet};
pub use lines::{Dot, Line, LineChart, Markers};
pub use scale::XScale;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::text;

const WIDTH: u32 = 760;
const PLOT_HEIGHT: u32 = 300;
const LEGEND_ROW: u32 = 22;
/// plotters divides by 1.24 for SVG: this is 12 px.
const FONT_SIZE: f64 = 15.0;
const GREY: RGBColor = RGBColor(90, 98, 110);
const MESH: RGBColor = RGBColor(224, 228, 234);

/// Okabe and Ito's palette, without the yellow that white paper swallows: told apart also by
/// people who see fewer colours.
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

/// Runs `draw` on a white area and gives the SVG an id, a title and a description.
fn drawn(
    id: &str,
    title: &str,
    legend: &[Entry],
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Option<String> {
    let mut svg = String::new();
    let legend_height = legend_rows(legend).len() as u32 * LEGEND_ROW + 6;
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, PLOT_HEIGHT + legend_height))
            .into_drawing_area();
        root.fill(&WHITE).ok()?;
        let (top, plot) = root.split_vertically(legend_height);
        draw_legend(&top, legend).ok()?;
        draw(&plot).ok()?;
        root.present().ok()?;
    }
    Some(accessible(&svg, id, title))
}

/// Inside HTML the namespace is known, and what looks like an address would alarm a reader.
fn accessible(svg: &str, id: &str, title: &str) -> String {
    let opening = format!(
        "<svg role=\"img\" aria-labelledby=\"{id}-title\" id=\"{id}\"",
        id = text::html(id)
    );
    let svg = svg.replacen("<svg", &opening, 1);
    let svg = svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let title = format!("><title id=\"{}-title\">{}</title>", text::html(id), text::html(title));
    svg.replacen('>', &title, 1)
}

/// What stands in a legend.
enum Entry {
    Line {
        name: String,
        index: usize,
        marked: bool,
    },
    Bar {
        name: String,
        index: usize,
    },
    Recommended,
    /// By the documented procedure.
    Documented,
    /// One of several measurements of a value.
    Run,
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Line { name, .. } | Self::Bar { name, .. } => name,
            Self::Recommended => "recommended",
            Self::Documented => "recommended by plateau",
            Self::Run => "single run",
        }
    }

    /// The width of text can only be estimated without fonts; this is on the safe side.
    fn width(&self) -> i32 {
        54 + 7 * self.name().chars().count() as i32
    }
}

/// Entries in rows that fit, each with its place from the left.
fn legend_rows(entries: &[Entry]) -> Vec<Vec<(i32, &Entry)>> {
    let mut rows: Vec<Vec<(i32, &Entry)>> = Vec::new();
    let mut x = i32::MAX;
    for entry in entries {
        if x.saturating_add(entry.width()) > WIDTH as i32 - 10 {
            rows.push(Vec::new());
            x = 64;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, entry));
        }
        x += entry.width();
    }
    rows
}

fn draw_legend(area: &Area<'_>, entries: &[Entry]) -> Drawn {
    for (index, row) in legend_rows(entries).into_iter().enumerate() {
        let y = 6 + (index as u32 * LEGEND_ROW + LEGEND_ROW / 2) as i32;
        for (x, entry) in row {
            draw_entry(area, entry, x, y)?;
            let style = text_style(HPos::Left);
            area.draw(&Text::new(entry.name().to_owned(), (x + 32, y), style))?;
        }
    }
    Ok(())
}

fn draw_entry(area: &Area<'_>, entry: &Entry, x: i32, y: i32) -> Drawn {
    let middle = (x + 13, y);
    match entry {
        Entry::Line { index, marked, .. } => {
            let style = colour(*index).stroke_width(2);
            area.draw(&PathElement::new(vec![(x, y), (x + 26, y)], style))?;
            if *marked {
                draw_marker(area, middle, *index)?;
            }
            Ok(())
        }
        Entry::Bar { index, .. } => {
            let corners = [(x + 6, y - 6), (x + 20, y + 6)];
            area.draw(&Rectangle::new(corners, colour(*index).filled()))
        }
        Entry::Recommended => draw_ring(area, middle),
        Entry::Documented => draw_frame(area, middle),
        Entry::Run => draw_run(area, middle),
    }
}

/// Each line has a shape of its own, so that colour is not needed to tell them apart.
fn draw_marker(area: &Area<'_>, (x, y): (i32, i32), index: usize) -> Drawn {
    let style = colour(index).filled();
    let corners = match index % 5 {
        0 => return area.draw(&Circle::new((x, y), 4, style)),
        1 => vec![(x - 4, y - 4), (x + 4, y - 4), (x + 4, y + 4), (x - 4, y + 4)],
        2 => vec![(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)],
        3 => vec![(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)],
        _ => vec![(x - 5, y - 4), (x + 5, y - 4), (x, y + 5)],
    };
    area.draw(&Polygon::new(corners, style))
}

fn draw_ring(area: &Area<'_>, at: (i32, i32)) -> Drawn {
    area.draw(&Circle::new(at, 9, BLACK.stroke_width(2)))
}

/// A square around a marker and the ring that may be there.
fn draw_frame(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    let corners = [(x - 11, y - 11), (x + 11, y + 11)];
    area.draw(&Rectangle::new(corners, GREY.stroke_width(2)))
}

fn draw_run(area: &Area<'_>, at: (i32, i32)) -> Drawn {
    area.draw(&Circle::new(at, 3, GREY.stroke_width(1)))
}

fn text_style(horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE)
        .into_font()
        .color(&RGBColor(40, 46, 56))
        .pos(Pos::new(horizontal, VPos::Center))
}

/// `backend_coord` counts from the corner of the whole picture.
fn relative(area: &Area<'_>, (x, y): (i32, i32)) -> (i32, i32) {
    let (left, top) = area.get_base_pixel();
    (x - left, y - top)
}

/// A name that cannot push others out of the picture.
fn short(name: &str) -> String {
    const LONGEST: usize = 40;
    let name = text::clean(name);
    if name.chars().count() <= LONGEST {
        return name;
    }
    let start: String = name.chars().take(LONGEST - 1).collect();
    format!("{start}…")
}
