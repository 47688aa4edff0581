//! The report for tickets: the verdict first, then its reasons, then how it was measured.

mod measured;
mod topology;

use super::format;
use super::model::{Finding, Recommendation, Report};
use super::summary::{self, NeedRow};
use super::text::{fenced, markdown as plain};
use super::wording;

/// The whole report as Markdown; ends with a line break.
pub fn render(report: &Report) -> String {
    let mut text = heading(report);
    for section in [
        needs(report),
        findings(report),
        recommendations(report),
        topology::section(report),
        measured::section(report),
        method(report),
    ] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(&section);
        }
    }
    text
}

fn heading(report: &Report) -> String {
    let verdict = &report.verdict;
    let mut text = format!(
        "# {}: {}\n\n{}\n",
        plain(&report.configuration.name),
        wording::answer(verdict.answer),
        plain(&verdict.sentence)
    );
    if report.configuration.demo {
        text.push_str("\nDemo on loopback: no statement about a network.\n");
    }
    text.push_str(&list("What is missing", &report.run.missing));
    text.push('\n');
    text.push_str(&table(
        &["Run", &plain(&report.run.id)],
        &[
            vec![
                "Time".to_owned(),
                format!(
                    "{} to {}",
                    plain(&format::moment(&report.run.started)),
                    plain(&format::moment(&report.run.ended))
                ),
            ],
            vec!["Outcome".to_owned(), plain(&wording::outcome(report))],
            vec!["Runbook".to_owned(), plain(&report.runbook.name)],
            vec!["Runbook's SHA-256".to_owned(), plain(&report.runbook.sha256)],
            vec![
                "Clusters".to_owned(),
                format!(
                    "{} (primary), {} (standby)",
                    plain(&report.configuration.primary_cluster),
                    plain(&report.configuration.standby_cluster)
                ),
            ],
            vec!["Redoline".to_owned(), plain(&wording::product(report))],
        ],
    ));
    text
}

fn needs(report: &Report) -> String {
    let rows: Vec<Vec<String>> = summary::need_rows(report).iter().map(need_row).collect();
    if report.need.is_none() {
        return "## Need and measured\n\nThe runbook states no need, so none was judged.\n"
            .to_owned();
    }
    let mut text = "## Need and measured\n\n".to_owned();
    if !rows.is_empty() {
        text.push_str(&table(
            &["Need", "Direction", "Needed, with headroom", "Measured", "Answer", "Evidence"],
            &rows,
        ));
        text.push('\n');
    }
    for (name, value) in wording::need_facts(report) {
        text.push_str(&format!("- {name}: {}\n", plain(&value)));
    }
    text
}

fn need_row(row: &NeedRow) -> Vec<String> {
    vec![
        plain(&row.subject),
        row.direction.to_string(),
        format::rate(Some(row.need_bytes_per_second)),
        format::rate_with_half_width(
            row.measured_bytes_per_second,
            row.half_width_bytes_per_second,
        ),
        row.judged.label().to_owned(),
        row.measurement.as_deref().map_or(format::NONE.to_owned(), plain),
    ]
}

fn findings(report: &Report) -> String {
    if report.findings.is_empty() {
        return "## Findings\n\nNone.\n".to_owned();
    }
    let mut text = "## Findings\n\n".to_owned();
    for finding in summary::findings_by_severity(report) {
        text.push_str(&finding_line(finding));
    }
    text
}

fn finding_line(finding: &Finding) -> String {
    let evidence: Vec<String> = finding
        .evidence
        .iter()
        .map(|evidence| {
            format!("{} ({})", plain(&evidence.measurement), plain(&evidence.fields.join(", ")))
        })
        .collect();
    let mut facts = vec![plain(&finding.id), plain(&finding.confidence)];
    facts.extend(finding.direction.map(|direction| direction.to_string()));
    if !evidence.is_empty() {
        facts.push(format!("evidence: {}", evidence.join(", ")));
    }
    format!(
        "- **{}**: {} ({})\n",
        wording::severity(finding.severity),
        plain(&finding.sentence),
        facts.join("; ")
    )
}

fn recommendations(report: &Report) -> String {
    if report.recommendations.is_empty() {
        return String::new();
    }
    let mut text = "## Recommendations\n".to_owned();
    for (index, recommendation) in report.recommendations.iter().enumerate() {
        text.push('\n');
        text.push_str(&card(index + 1, recommendation));
    }
    text
}

fn card(number: usize, recommendation: &Recommendation) -> String {
    let mut text = format!("### {number}. {}\n\n", plain(&recommendation.action));
    for command in &recommendation.commands {
        let place = if command.nodes.is_empty() {
            "For the network team".to_owned()
        } else {
            format!("On {}", plain(&command.nodes.join(", ")))
        };
        text.push_str(&format!(
            "{place} ({}):\n\n{}\n",
            plain(&command.kind),
            fenced(&command.lines)
        ));
    }
    let licence = recommendation.licence.as_deref().unwrap_or("none");
    let because = match recommendation.findings.is_empty() {
        true => "how the run ended".to_owned(),
        false => recommendation.findings.join(", "),
    };
    for (name, value) in [
        ("Expected effect", recommendation.expected_effect.as_str()),
        ("How to verify", &recommendation.how_to_verify),
        ("How to undo", &recommendation.how_to_undo),
        ("Risk", &recommendation.risk),
        ("Needs root", if recommendation.needs_root { "yes" } else { "no" }),
        ("Licence needed", licence),
        ("Because of", &because),
    ] {
        text.push_str(&format!("- {name}: {}\n", plain(value)));
    }
    text
}

fn method(report: &Report) -> String {
    let mut text = "## How it was measured\n\n".to_owned();
    for sentence in wording::METHOD {
        text.push_str(&format!("- {sentence}\n"));
    }
    for (name, value) in wording::limit_facts(report) {
        text.push_str(&format!("- Limit, {name}: {}\n", plain(&value)));
    }
    for remark in &report.run.remarks {
        text.push_str(&format!("- {}\n", plain(remark)));
    }
    text
}

fn list(title: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = items.iter().map(|item| format!("- {}\n", plain(item))).collect();
    format!("\n**{title}**\n\n{}", lines.concat())
}

/// Cells are already escaped.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::report::samples;

    #[test]
    fn a_whole_run_reads_from_verdict_to_method() {
        insta::assert_snapshot!(render(&samples::whole()));
    }

    #[test]
    fn a_broken_run_says_what_is_missing() {
        insta::assert_snapshot!(render(&samples::broken()));
    }

    #[test]
    fn a_demo_says_that_it_is_no_statement_about_a_network() {
        insta::assert_snapshot!(render(&samples::demo()));
    }

    #[test]
    fn every_kind_of_test_has_its_tables() {
        insta::assert_snapshot!(render(&samples::wide()));
    }

    #[test]
    fn hostile_names_break_neither_tables_nor_terminals() {
        for text in [render(&samples::broken()), render(&samples::hostile())] {
            assert!(!text.contains("<script"), "{text}");
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            for line in text.lines().filter(|line| line.starts_with("| ")) {
                assert!(line.ends_with(" |"), "{line}");
            }
        }
    }
}
