//! The summary printed after a run: verdict, needs, rates, findings and first recommendations.

use super::format;
use super::model::{Answer, Latency, Measurement, Report, Series, Severity};
use super::summary::{self, Judged, NeedRow};
use super::text::clean;
use super::{parameters, tables, wording};

/// How many of the less severe findings and of the recommendations a summary shows.
const SHOWN: usize = 5;

/// Whether escape sequences for colours may be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Style {
    Plain,
    Ansi,
}

/// The summary; lines of prose are at most `width` characters long, rows of tables may be longer.
pub fn render(report: &Report, style: Style, width: usize) -> String {
    let mut page = Page { style, width: width.max(40), text: String::new() };
    verdict(&mut page, report);
    needs(&mut page, report);
    paths(&mut page, report);
    single_streams(&mut page, report);
    aggregates(&mut page, report);
    shares(&mut page, report);
    acknowledgements(&mut page, report);
    codings(&mut page, report);
    storage(&mut page, report);
    failed_steps(&mut page, report);
    findings(&mut page, report);
    recommendations(&mut page, report);
    missing(&mut page, report);
    page.text
}

fn verdict(page: &mut Page, report: &Report) {
    let colour = match report.verdict.answer {
        Answer::Met => Colour::Green,
        Answer::Conditional | Answer::CannotTell => Colour::Yellow,
        Answer::NotMet => Colour::Red,
        Answer::NotTested => Colour::None,
    };
    let title = format!(
        "{}: {}",
        clean(&report.configuration.name),
        wording::answer(report.verdict.answer)
    );
    page.line(&page.paint(&title, colour));
    page.prose("", &report.verdict.sentence);
    if report.configuration.demo {
        page.prose("", "Demo on loopback: no statement about a network.");
    }
    if !report.run.complete {
        let outcome = wording::words(&report.run.outcome);
        page.prose("", &format!("The run is not complete: {outcome}."));
    }
}

fn needs(page: &mut Page, report: &Report) {
    let rows = summary::need_rows(report);
    for direction in summary::DIRECTIONS {
        let of_direction: Vec<_> =
            rows.iter().filter(|row| row.direction == direction).map(need_row).collect();
        page.table(&format!("Need and measured, {direction}"), &of_direction);
    }
}

fn need_row(row: &NeedRow) -> Vec<Cell> {
    let colour = match row.judged {
        Judged::Met => Colour::Green,
        Judged::NotMet => Colour::Red,
        Judged::CannotTell => Colour::Yellow,
        Judged::NotTested | Judged::NotJudged => Colour::None,
    };
    let measured = row.measured_bytes_per_second.map_or_else(
        || format::NONE.to_owned(),
        |rate| format::rate_with_half_width(Some(rate), row.half_width_bytes_per_second),
    );
    vec![
        plain(clean(&row.subject)),
        plain(format!("needs {}", format::mib_rate(Some(row.need_bytes_per_second)))),
        plain(measured),
        (row.judged.label().to_owned(), colour),
    ]
}

fn paths(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = report
        .measurements
        .iter()
        .filter_map(|measurement| match measurement {
            Measurement::Path(path) => Some(path),
            _ => None,
        })
        .map(|path| {
            vec![
                plain(clean(&tables::way(path))),
                plain(format!("RTT {}", tables::idle(path))),
                plain(format!("loaded {}", tables::loaded(path))),
                plain(format!("loss {}", format::percent(path.loss_ratio))),
                plain(format!("path MTU {}", tables::mtus(path))),
            ]
        })
        .collect();
    page.table("Path: RTT p50 / p99 / max idle and loaded, loss, path MTU there / back", &rows);
}

/// Tests of several pairs or directions at a time.
fn shares(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::throughputs(report)
        .filter_map(|test| Some((test, wording::manner(test)?)))
        .map(|(test, manner)| {
            let shares: Vec<String> = test
                .pairs
                .iter()
                .filter(|_| test.pairs.len() > 1)
                .map(|ends| format!("{} {}", ends.pair, format::percent(ends.share)))
                .collect();
            let jain =
                test.pair_fairness.map(|index| format!(" (Jain {})", tables::index(Some(index))));
            vec![
                plain(clean(&manner)),
                plain(test.direction.to_string()),
                plain(format!("num_conn {}", test.num_conn)),
                plain(wording::steady_rate(test)),
                plain(clean(&shares.join(", ")) + &jain.unwrap_or_default()),
            ]
        })
        .collect();
    page.table("At the same time", &rows);
}

fn acknowledgements(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::throughputs(report)
        .filter(|test| test.mode != "async")
        .flat_map(|test| test.pairs.iter().map(move |ends| (test, ends)))
        .map(|(test, ends)| {
            let of = |value: fn(&Latency) -> Option<f64>| {
                format::microseconds(ends.latency_us.as_ref().and_then(value))
            };
            let shares =
                test.disk_share.map(|disk| format!("disk {}", format::percent(Some(disk))));
            vec![
                plain(format!("{} to {}", clean(&ends.sender), clean(&ends.receiver))),
                plain(clean(&parameters::mode(&test.mode))),
                plain(format::bytes(Some(test.message_bytes))),
                plain(format!("mean {}", of(|latency| latency.mean))),
                plain(format!("p99 {}", of(|latency| latency.p99))),
                plain(format!("{} messages/s", format::number(ends.messages_per_second))),
                plain(shares.unwrap_or_default()),
                plain(format!("commit longer by {}", tables::commit(test))),
            ]
        })
        .collect();
    page.table("SYNC acknowledgements", &rows);
}

fn codings(page: &mut Page, report: &Report) {
    for series in &report.series {
        let Some(sentence) = tables::model_of(&series.variable) else { continue };
        let rows: Vec<Vec<Cell>> = series
            .points
            .iter()
            .map(|point| {
                let cores = point.measurement.as_ref().and_then(|id| {
                    let test = summary::throughputs(report).find(|test| test.id == *id)?;
                    let ends = [test.cpu_cores.sender, test.cpu_cores.receiver];
                    Some(format!("{} CPU cores", ends.map(format::number).join(" / ")))
                });
                vec![
                    plain(clean(&point.label)),
                    plain(wording::point_rate(series, point)),
                    plain(cores.unwrap_or_default()),
                ]
            })
            .collect();
        let subject = clean(&wording::series_subject(report, series));
        page.table(&subject, &rows);
        page.prose("  ", sentence);
    }
}

fn single_streams(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::single_streams(report)
        .iter()
        .filter(|row| row.measurement.is_some())
        .map(|row| {
            vec![
                plain(format!("{} to {}", clean(&row.sender), clean(&row.receiver))),
                plain(format::rate_with_half_width(
                    row.bytes_per_second,
                    row.half_width_bytes_per_second,
                )),
                plain(format!("RTT {}", format::microseconds(row.rtt_us.map(|us| us as f64)))),
                plain(row.not_converged.clone().unwrap_or_default()),
            ]
        })
        .collect();
    page.table("One stream", &rows);
}

fn aggregates(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::ladders(report)
        .filter_map(|series| {
            let best = series.best.as_ref()?;
            let recommended = series.recommended.as_ref();
            Some(vec![
                plain(clean(&series.pairs.join(", "))),
                plain(ladder_direction(report, series)),
                plain(format!("best {}", format::rate(best.bytes_per_second))),
                plain(format!("at num_conn {}", clean(&best.label))),
                plain(recommended.map_or_else(String::new, |point| {
                    format!("recommended num_conn {}", clean(&point.label))
                })),
                plain(series.plateau_recommended.map_or_else(String::new, |num_conn| {
                    format!("by plateau {}", format::number(Some(num_conn)))
                })),
            ])
        })
        .collect();
    page.table("More streams", &rows);
}

fn ladder_direction(report: &Report, series: &Series) -> String {
    let direction = series.direction.map(|direction| direction.to_string()).unwrap_or_default();
    match wording::series_manner(report, series) {
        Some(manner) => format!("{direction}, {}", clean(&manner)),
        None => direction,
    }
}

fn storage(page: &mut Page, report: &Report) {
    let rows: Vec<Vec<Cell>> = summary::best_reads(report)
        .iter()
        .map(|read| {
            vec![
                plain(clean(&read.node)),
                plain(wording::words(&clean(&read.pattern))),
                plain(format::mib_rate(read.bytes_per_second)),
                plain(format!("{} reads/s", format::number(read.iops))),
                plain(format!("p99 {}", format::microseconds(read.latency_us.p99))),
                plain(match (read.slots, read.sessions) {
                    (Some(slots), _) => format!("with {slots} slots"),
                    (None, Some(sessions)) => format!("with {sessions} sessions"),
                    (None, None) => String::new(),
                }),
            ]
        })
        .collect();
    page.table("Storage, highest rate of each pattern", &rows);
}

fn failed_steps(page: &mut Page, report: &Report) {
    let failed: Vec<_> = report
        .steps
        .iter()
        .filter(|step| matches!(step.outcome.as_str(), "failed" | "assertion_failed"))
        .collect();
    if failed.is_empty() {
        return;
    }
    page.title("Steps that failed");
    for step in failed {
        let reason = step.messages.first().map_or("", String::as_str);
        page.item(&format!("{}.", step.number), Colour::Red, &format!("{}: {reason}", step.name));
    }
}

fn findings(page: &mut Page, report: &Report) {
    let all = summary::findings_by_severity(report);
    let critical = all.iter().filter(|finding| finding.severity == Severity::Critical).count();
    let worth: Vec<_> = all
        .iter()
        .filter(|finding| finding.severity != Severity::Ok)
        .take(critical.max(SHOWN))
        .collect();
    if worth.is_empty() {
        return;
    }
    page.title("Findings");
    for finding in worth {
        let colour = match finding.severity {
            Severity::Critical => Colour::Red,
            Severity::Warning => Colour::Yellow,
            Severity::Info | Severity::Ok => Colour::None,
        };
        let label = format!("{:<8}", wording::severity(finding.severity));
        page.item(&label, colour, &finding.sentence);
    }
    let hidden = all.len() - critical.max(SHOWN).min(all.len());
    if hidden > 0 {
        page.prose("  ", &format!("The report has {} findings in all.", all.len()));
    }
}

fn recommendations(page: &mut Page, report: &Report) {
    if report.recommendations.is_empty() {
        return;
    }
    page.title("Recommendations");
    for (index, recommendation) in report.recommendations.iter().take(SHOWN).enumerate() {
        page.item(&format!("{}.", index + 1), Colour::None, &recommendation.action);
    }
    if report.recommendations.len() > SHOWN {
        let count = report.recommendations.len();
        page.prose("  ", &format!("The report has {count} recommendations in all."));
    }
}

fn missing(page: &mut Page, report: &Report) {
    if report.run.missing.is_empty() {
        return;
    }
    page.title("What is missing");
    for sentence in &report.run.missing {
        page.item("-", Colour::None, sentence);
    }
}

type Cell = (String, Colour);

fn plain(text: String) -> Cell {
    (text, Colour::None)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Colour {
    None,
    Red,
    Yellow,
    Green,
    Bold,
}

/// Text that grows line by line.
struct Page {
    style: Style,
    width: usize,
    text: String,
}

impl Page {
    fn paint(&self, text: &str, colour: Colour) -> String {
        let code = match colour {
            Colour::None => return text.to_owned(),
            _ if self.style == Style::Plain => return text.to_owned(),
            Colour::Red => "1;31",
            Colour::Yellow => "1;33",
            Colour::Green => "1;32",
            Colour::Bold => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn title(&mut self, text: &str) {
        self.line("");
        self.line(&self.paint(text, Colour::Bold));
    }

    /// A paragraph, broken between words; `text` may come from anywhere.
    fn prose(&mut self, indent: &str, text: &str) {
        for line in wrapped(&clean(text), self.width - indent.len()) {
            self.line(&format!("{indent}{line}"));
        }
    }

    /// A paragraph with a hanging label.
    fn item(&mut self, label: &str, colour: Colour, text: &str) {
        let indent = label.chars().count() + 3;
        let lines = wrapped(&clean(text), self.width.saturating_sub(indent).max(20));
        for (index, line) in lines.iter().enumerate() {
            if index == 0 {
                self.line(&format!("  {} {line}", self.paint(label, colour)));
            } else {
                self.line(&format!("{}{line}", " ".repeat(indent)));
            }
        }
    }

    /// Columns as wide as their widest cell; nothing without rows.
    fn table(&mut self, title: &str, rows: &[Vec<Cell>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns == 0 {
            return;
        }
        let width = |column: usize| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.0.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.title(title);
        for row in rows {
            let mut line = String::new();
            for ((text, colour), width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width - text.chars().count());
                line.push_str(&format!("  {}{padding}", self.paint(text, *colour)));
            }
            self.line(&line);
        }
    }
}

/// Lines of at most `width` characters; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_whole_run_is_summed_up() {
        insta::assert_snapshot!(render(&samples::whole(), Style::Plain, 100));
    }

    #[test]
    fn a_broken_run_is_summed_up() {
        insta::assert_snapshot!(render(&samples::broken(), Style::Plain, 100));
    }

    #[test]
    fn a_demo_is_summed_up() {
        insta::assert_snapshot!(render(&samples::demo(), Style::Plain, 100));
    }

    #[test]
    fn every_kind_of_test_is_summed_up() {
        insta::assert_snapshot!(render(&samples::wide(), Style::Plain, 100));
    }

    #[test]
    fn colours_are_the_only_escape_sequences() {
        let hostile = samples::broken();
        assert!(!render(&hostile, Style::Plain, 80).contains('\u{1b}'));
        let coloured = render(&samples::whole(), Style::Ansi, 80);
        assert!(coloured.contains("\u{1b}[1;31mnot met\u{1b}[0m"), "{coloured}");
        let without = |text: &str| {
            ["1;31", "1;33", "1;32", "1", "0"]
                .iter()
                .fold(text.to_owned(), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""))
        };
        assert_eq!(without(&coloured), render(&samples::whole(), Style::Plain, 80));
    }

    #[test]
    fn prose_keeps_to_the_width() {
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrapped("incomprehensible b", 4), ["incomprehensible", "b"]);
    }
}
