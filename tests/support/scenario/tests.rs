use std::collections::BTreeSet;

use super::Scenario;
use crate::advice::rules::RULES;
use crate::report::build::build;
use crate::report::model::{Answer, Report};

fn answer(report: &Report) -> &'static str {
    match report.verdict.answer {
        Answer::Met => "met",
        Answer::Conditional => "conditional",
        Answer::NotMet => "not_met",
        Answer::CannotTell => "cannot_tell",
        Answer::NotTested => "not_tested",
    }
}

/// What of a scenario's expectation does not hold.
fn complaints(scenario: &Scenario, report: &Report) -> Vec<String> {
    let expect = &scenario.expect;
    let found: BTreeSet<&str> = report.findings.iter().map(|finding| &*finding.id).collect();
    let advised: Vec<&str> = report.recommendations.iter().map(|one| &*one.id).collect();
    let mut complaints = Vec::new();
    for id in &expect.findings {
        if !found.contains(id.as_str()) {
            complaints.push(format!("`{id}` was not found"));
        }
    }
    for (ids, confidence) in [(&expect.likely, "likely"), (&expect.possible, "possible")] {
        let unlike = |id: &&String| {
            report.findings.iter().any(|one| one.id == **id && one.confidence != confidence)
        };
        complaints
            .extend(ids.iter().filter(unlike).map(|id| format!("`{id}` is not {confidence}")));
    }
    for id in &expect.absent {
        if found.contains(id.as_str()) {
            complaints.push(format!("`{id}` was found"));
        }
    }
    for id in found.iter().filter(|_| expect.nothing_else) {
        if !expect.findings.iter().any(|expected| expected == id) {
            complaints.push(format!("`{id}` was found as well"));
        }
    }
    for id in &expect.recommendations {
        if !advised.contains(&id.as_str()) {
            complaints.push(format!("`{id}` was not recommended, but {advised:?}"));
        }
    }
    for id in advised.iter().filter(|_| expect.only_recommended) {
        if !expect.recommendations.iter().any(|expected| expected == id) {
            complaints.push(format!("`{id}` was recommended as well"));
        }
    }
    if answer(report) != expect.verdict {
        complaints.push(format!("the verdict is {}", answer(report)));
    }
    if report.run.exit_code != expect.exit_code {
        complaints.push(format!("the exit codes are {:?}", report.run.exit_codes));
    }
    for piece in &expect.says {
        if !report.verdict.sentence.contains(piece) {
            complaints.push(format!("the verdict does not say \"{piece}\""));
        }
    }
    complaints
}

#[test]
fn every_scenario_leads_to_what_its_file_expects() {
    let mut failed = Vec::new();
    for name in Scenario::names() {
        let scenario = Scenario::named(&name);
        let report = build(&scenario.record());
        let complaints = complaints(&scenario, &report);
        if !complaints.is_empty() {
            let sentences: Vec<String> = report
                .findings
                .iter()
                .map(|finding| {
                    format!("    {} ({}): {}", finding.id, finding.confidence, finding.sentence)
                })
                .collect();
            failed.push(format!(
                "{name}: {}\n  {}\n{}",
                complaints.join("; "),
                report.verdict.sentence,
                sentences.join("\n")
            ));
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn every_rule_of_the_advice_fires_in_some_scenario() {
    let advised: BTreeSet<String> = Scenario::names()
        .iter()
        .flat_map(|name| build(&Scenario::named(name).record()).recommendations)
        .map(|one| one.id)
        .collect();
    for rule in RULES {
        assert!(advised.contains(rule.id), "no scenario leads to `{}`", rule.id);
    }
}

#[test]
fn every_finding_names_measurements_that_exist() {
    for name in Scenario::names() {
        let report = serde_json::to_value(build(&Scenario::named(&name).record())).unwrap();
        let known: BTreeSet<&str> = report["measurements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|measurement| measurement["id"].as_str().unwrap())
            .collect();
        for finding in report["findings"].as_array().unwrap() {
            for evidence in finding["evidence"].as_array().unwrap() {
                let id = evidence["measurement"].as_str().unwrap();
                assert!(known.contains(id), "{name}: {}: {id}", finding["id"]);
            }
        }
    }
}

#[test]
fn no_advice_about_a_network_follows_from_loopback() {
    let report = build(&Scenario::named("demo").record());
    assert_eq!(report.recommendations, Vec::new());
    assert!(report.run.remarks[0].contains("no statement about a network"));
}

#[test]
fn complete_reports_are_as_they_were() {
    for (name, scenario) in
        [("lab-a", "per-flow-limit"), ("lab-b", "send-buffer"), ("demo", "demo")]
    {
        let report = build(&Scenario::named(scenario).record());
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/reports"),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_json_snapshot!(name, report);
        });
    }
}

#[test]
fn a_run_that_ends_after_any_event_still_gives_a_report() {
    for name in ["lost-node", "storage", "tuning"] {
        let events = Scenario::named(name).events();
        for length in 1..events.len() {
            let record = crate::record::run::RunRecord::fold(&events[..length]).unwrap();
            let report = build(&record);
            assert!(!report.run.complete, "{name}, {length} events");
            assert!(!report.run.missing.is_empty(), "{name}, {length} events");
            assert_ne!(report.run.exit_code, 0, "{name}, {length} events");
        }
    }
}

#[test]
fn every_report_follows_its_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Report)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in Scenario::names() {
        let report = serde_json::to_value(build(&Scenario::named(&name).record())).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

#[test]
fn what_is_missing_is_said_in_sentences() {
    let missing = |name| build(&Scenario::named(name).record()).run.missing.join("\n");
    insta::assert_snapshot!(missing("interrupted"), @r#"
    The run was interrupted.
    Step 3 "Roles swapped for the tests" was not reached.
    Step 4 "One stream, as redo transport uses" was not reached.
    Step 5 "Streams until the aggregate stops rising" was not reached.
    "#);
    insta::assert_snapshot!(missing("lost-node"), @r#"
    Node ash2 took no further part: the SSH session ended and could not be opened again within 30 s.
    Step 3 "All nodes at once" failed: phx2-ash2: ash2, control: the SSH session ended and could not be opened again within 30 s.
    "#);
    assert_eq!(missing("need-met"), "");
}
