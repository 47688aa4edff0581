//! The summary printed after a run: verdict, needs, rates, findings and first recommendations.

mod network;
mod page;

use super::format;
use super::model::{Answer, Report, Series, Severity};
use super::summary::{self, Judged, NeedRow};
use super::text::clean;
use super::wording;
use network::{acknowledgements, codings, paths, shares};
use page::{Cell, Colour, Page, plain};

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
                plain(format!("RTT min {}", format::microseconds(row.rtt_us.map(|us| us as f64)))),
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
                plain(format!("best {}", wording::point_rate(series, best))),
                plain(format!("at num_conn {}", clean(&best.label))),
                plain(recommended.map_or_else(String::new, |point| {
                    format!("recommended num_conn {}", clean(&point.label))
                })),
                plain(wording::by_plateau(series).map_or_else(String::new, |by_plateau| {
                    format!("by the documented procedure (plateau) {}", clean(&by_plateau))
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
                    (None, Some(1)) => "with 1 session".to_owned(),
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
        let reasons = step.messages.join("; ");
        page.item(&format!("{}.", step.number), Colour::Red, &format!("{}: {reasons}", step.name));
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
    fn a_failed_step_names_every_pair_that_failed() {
        let mut report = samples::broken();
        let failed = report.steps.iter_mut().find(|step| step.outcome == "failed").unwrap();
        failed.messages = vec!["phx1-ash1 broke".to_owned(), "phx2-ash2 broke".to_owned()];
        let text = render(&report, Style::Plain, 100);
        assert!(text.contains("phx1-ash1 broke; phx2-ash2 broke"), "{text}");
    }

    #[test]
    fn labels_say_which_round_trip_and_which_procedure() {
        let text = render(&samples::wide(), Style::Plain, 100);
        assert!(text.contains("RTT min "), "{text}");
        assert!(!text.contains("  by plateau "), "{text}");
    }

    #[test]
    fn colours_are_the_only_escape_sequences() {
        for hostile in [samples::broken(), samples::hostile()] {
            let text = render(&hostile, Style::Plain, 80);
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
        let coloured = render(&samples::whole(), Style::Ansi, 80);
        assert!(coloured.contains("\u{1b}[1;31mnot met\u{1b}[0m"), "{coloured}");
        let without = |text: &str| {
            ["1;31", "1;33", "1;32", "1", "0"]
                .iter()
                .fold(text.to_owned(), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""))
        };
        assert_eq!(without(&coloured), render(&samples::whole(), Style::Plain, 80));
    }
}
