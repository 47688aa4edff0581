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
    complaints.extend(wrong_values(scenario, report));
    let sentences = report.findings.iter().map(|finding| &*finding.sentence);
    let texts = [
        ("finding", &expect.sentences, sentences.collect::<Vec<_>>().join("\n")),
        ("remark", &expect.remarks, report.run.remarks.join("\n")),
        ("missing part", &expect.missing, report.run.missing.join("\n")),
    ];
    for (what, pieces, text) in &texts {
        for piece in pieces.iter().filter(|piece| !text.contains(piece.as_str())) {
            complaints.push(format!("no {what} says \"{piece}\" in {text}"));
        }
    }
    let whole = serde_json::to_string(report).unwrap();
    for piece in expect.nowhere.iter().filter(|piece| whole.contains(piece.as_str())) {
        complaints.push(format!("the report has \"{piece}\""));
    }
    for piece in &expect.says {
        if !report.verdict.sentence.contains(piece) {
            complaints.push(format!("the verdict does not say \"{piece}\""));
        }
    }
    complaints
}

fn wrong_values(scenario: &Scenario, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, expected) in &scenario.expect.values {
        let expected =
            expected.split_once(' ').map(|(value, unit)| (value.parse::<f64>().unwrap(), unit));
        for finding in report.findings.iter().filter(|finding| finding.id == *id) {
            let found = finding.value.zip(finding.unit.as_deref());
            let right = match (expected, found) {
                (None, None) => true,
                (Some((value, unit)), Some((found, of))) => {
                    unit == of && (found / value - 1.0).abs() < 0.03
                }
                _ => false,
            };
            if !right {
                wrong.push(format!("the value of `{id}` is {found:?}, not {expected:?}"));
            }
        }
    }
    wrong
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
        let record = Scenario::named(&name).record();
        let known: BTreeSet<String> =
            record.measurements.iter().map(|measurement| measurement.id().to_string()).collect();
        let report = serde_json::to_value(build(&record)).unwrap();
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

/// Numbers of nodes, pairs and steps under `value`, each made one that no setup has.
fn damage(value: &mut serde_json::Value, key: &str, seen: &mut usize, which: usize) {
    use serde_json::Value;
    let of_ids = ["node", "pair", "step", "primary", "standby", "pairs", "nodes"].contains(&key);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                damage(value, key, seen, which);
            }
        }
        Value::Array(items) => {
            for item in items {
                damage(item, key, seen, which);
            }
        }
        Value::Number(_) if of_ids => {
            if *seen == which {
                *value = 99.into();
            }
            *seen += 1;
        }
        _ => (),
    }
}

#[test]
fn a_damaged_file_of_events_leads_to_an_error_or_a_warning() {
    use crate::record::run::RunRecord;
    let scenario = Scenario {
        steps: ["topology", "single", "together", "storage"].map(str::to_owned).to_vec(),
        storage: Scenario::named("storage").storage,
        lost: Scenario::named("lost-node").lost,
        ..Scenario::named("need-met")
    };
    let events = scenario.events();
    let mut damaged = 0;
    for (number, moment) in events.iter().enumerate() {
        for which in 0.. {
            let mut value = serde_json::to_value(moment).unwrap();
            let mut seen = 0;
            damage(&mut value, "", &mut seen, which);
            if which >= seen {
                break;
            }
            let mut broken = events.clone();
            broken[number] = serde_json::from_value(value).unwrap();
            damaged += 1;
            match RunRecord::fold(&broken) {
                Ok(record) => {
                    let remarks = build(&record).run.remarks.join("\n");
                    assert!(remarks.contains("is not one of the run"), "{number} {which}");
                }
                Err(error) => assert!(number == 0, "{number} {which}: {error}"),
            }
        }
    }
    assert!(damaged > 50, "{damaged}");
}

#[test]
fn a_test_without_a_completed_read_has_no_latency() {
    use crate::record::measurement::Measurement;
    let mut record = Scenario::named("storage").record();
    for measurement in &mut record.measurements {
        if let Measurement::StorageRead(read) = measurement {
            (read.result.reads, read.result.bytes) = (0, 0);
            read.result.latency = redoline_proto::storage::Latency::default();
        }
    }
    let report = serde_json::to_value(build(&record)).unwrap();
    let reads = report["measurements"].as_array().unwrap();
    for field in ["mean", "p50", "p90", "p99", "p999", "max"] {
        assert!(reads.iter().all(|read| read["latency_us"][field].is_null()), "{field}");
    }
    let ids = report["findings"].as_array().unwrap().iter().map(|finding| &finding["id"]);
    assert!(!ids.into_iter().any(|id| id == "read-latency-high"));
}

#[test]
fn what_is_left_on_a_node_is_known_or_not() {
    let events = Scenario::named("lost-node").events();
    let state = |events: &[crate::record::event::Moment]| {
        let record = crate::record::run::RunRecord::fold(events).unwrap();
        let nodes = build(&record).topology.nodes;
        nodes.iter().map(|node| node.nothing_left).collect::<Vec<_>>()
    };
    assert_eq!(state(&events), [Some(true), Some(true), Some(true), Some(false)]);
    assert_eq!(state(&events[..20]), [None; 4]);
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

#[test]
fn a_level_at_which_a_pair_failed_is_neither_best_nor_recommended() {
    use crate::record::measurement::{Series, SeriesKind, SeriesPoint, StoppedBecause, Variable};
    let mut record = Scenario::named("lost-node").record();
    // The last test lost a pair; the ones before did not.
    let ids: Vec<_> = record.throughputs().map(|test| test.id).collect();
    let point = |value: f64, id| SeriesPoint {
        value: Some(value),
        label: value.to_string(),
        measurement: Some(id),
        remark: None,
    };
    let (whole, failed) = (ids[0], ids[ids.len() - 1]);
    record.series = vec![Series {
        id: 1,
        step: 2,
        kind: SeriesKind::Ladder,
        variable: Variable::NumConn,
        direction: Some(crate::plan::node::Direction::PrimaryToStandby),
        pair: None,
        node: None,
        points: vec![point(2.0, whole), point(4.0, whole), point(6.0, failed)],
        tolerance: Some(0.03),
        until: crate::plan::step::Until::Plateau,
        stopped_because: StoppedBecause::Failure,
    }];
    let series = &build(&record).series[0];
    assert_eq!(series.points[2].bytes_per_second, None);
    // Of equal rates the fewest connections are the best.
    let value = |point: &Option<crate::report::model::Point>| point.as_ref().and_then(|p| p.value);
    assert_eq!((value(&series.best), value(&series.recommended)), (Some(2.0), Some(2.0)));
}

#[test]
fn a_run_of_two_pairs_in_both_directions_stays_readable() {
    for name in ["need-met", "link-full"] {
        let report = build(&Scenario::named(name).record());
        assert!(report.findings.len() <= 8, "{name}: {}", report.findings.len());
        // What was merged still judges every need on its own.
        let needs = report.findings.iter().map(|finding| finding.needs.len()).sum::<usize>();
        assert_eq!(needs, 6, "{name}");
        let rows = crate::report::summary::need_rows(&report);
        assert!(rows.iter().all(|row| row.measurement.is_some()), "{name}: {rows:?}");
        assert_eq!(rows.len(), 6);
    }
}

#[test]
fn rows_and_findings_rest_on_the_same_measurement() {
    let report = build(&Scenario::named("default-single").record());
    let rows = crate::report::summary::need_rows(&report);
    let first = rows.first().and_then(|row| row.measurement.clone());
    assert_eq!(first.as_deref(), Some("m1"));
    let streams = crate::report::summary::single_streams(&report);
    assert_eq!(streams[0].measurement.as_deref(), Some("m1"));
}

#[test]
fn what_came_from_a_cache_recommends_no_number_of_requests() {
    let report = build(&Scenario::named("from-cache").record());
    for series in &report.series {
        let standby = series.node.as_deref() == Some("ash1");
        assert_eq!(series.recommended.is_none(), standby, "{}", series.id);
        assert!(series.points.iter().all(|point| point.bytes_per_second.is_some()));
    }
}
