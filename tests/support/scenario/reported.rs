//! From recorded runs to the measurements of their reports.

use serde_json::Value;

use super::Scenario;
use crate::report::build::build;
use crate::report::model::{Measurement, Path, Report, Throughput};
use crate::report::{csv, html, json, markdown, summary};

fn report(scenario: &str) -> Report {
    build(&Scenario::named(scenario).record())
}

fn throughput(report: &Report, fits: impl Fn(&Throughput) -> bool) -> &Throughput {
    summary::throughputs(report).find(|test| fits(test)).unwrap()
}

fn paths(report: &Report) -> Vec<&Path> {
    report
        .measurements
        .iter()
        .filter_map(|measurement| match measurement {
            Measurement::Path(path) => Some(&**path),
            _ => None,
        })
        .collect()
}

#[test]
fn a_sync_test_tells_what_of_an_acknowledgement_is_network_and_what_disk() {
    let report = report("sync-near");
    let test = throughput(&report, |test| test.mode == "sync");
    let mean = test.latency_us.as_ref().unwrap().mean.unwrap();
    let write = test.write_latency_us.as_ref().unwrap().mean.unwrap();
    let network = test.network_latency_mean_us.unwrap();
    assert!((network + write - mean).abs() < 1e-6);
    let shares = test.network_share.unwrap() + test.disk_share.unwrap();
    assert!((shares - 1.0).abs() < 1e-5, "{shares}");
    let commit = test.commit_overhead_us.as_ref().unwrap();
    assert_eq!(commit.local_write, Some(500.0));
    assert_eq!((commit.low, commit.high), (Some(mean - 500.0), mean));
    assert!(test.messages_per_second.is_some());
    assert_eq!(test.pairs[0].latency_us, test.latency_us);
}

#[test]
fn an_async_test_says_nothing_of_acknowledgements() {
    let report = report("sync-near");
    let test = throughput(&report, |test| test.mode == "async");
    assert_eq!((&test.latency_us, &test.commit_overhead_us), (&None, &None));
    assert_eq!((test.network_share, test.disk_share), (None, None));
}

#[test]
fn a_black_hole_is_a_path_with_what_passes_and_what_is_lost() {
    let report = report("black-hole");
    let (there, back) = (paths(&report)[0], paths(&report)[1]);
    assert_eq!(there.path_mtu_bytes, Some(1400));
    assert!(there.sizes.iter().any(|size| size.outcome == "lost"), "{:?}", there.sizes);
    assert_eq!(there.load_bytes_per_second, None, "its stream carried nothing");
    assert_eq!(there.rtt_us.loaded_p50, None, "so nothing was loaded");
    assert!(there.rtt_us.idle.is_some());
    assert_ne!(there.direction, back.direction);
}

#[test]
fn a_good_path_tells_its_round_trip_idle_and_loaded() {
    let report = report("bufferbloat");
    let path = paths(&report)[0];
    let idle = path.rtt_us.idle.as_ref().unwrap().p50.unwrap();
    assert!(path.rtt_us.loaded_p50.unwrap() as f64 > 2.0 * idle, "{:?}", path.rtt_us);
    assert!(path.rtt_us.loaded_p50 <= path.rtt_us.loaded_p99);
    assert!(path.rtt_us.loaded_p99 <= path.rtt_us.loaded_max);
    assert!(path.load_bytes_per_second.is_some());
}

#[test]
fn pairs_that_send_together_have_their_shares_of_the_sum() {
    let report = report("two-pairs-window");
    let test = throughput(&report, |test| test.nodes == "together");
    let shares: f64 = test.pairs.iter().map(|ends| ends.share.unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-4, "{shares}");
    assert!(test.pair_fairness.is_some());
    let alone = throughput(&report, |test| test.pairs.len() == 1);
    assert_eq!((alone.pairs[0].share, alone.pair_fairness), (None, None));
}

#[test]
fn a_buffer_that_the_system_cut_down_names_what_did_it() {
    let report = report("send-buffer");
    let bound = summary::throughputs(&report)
        .flat_map(|test| &test.granted.ends)
        .find_map(|end| end.bound_by.as_deref());
    assert!(bound.is_some_and(|name| name.starts_with("net.")), "{bound:?}");
}

#[test]
fn every_scenario_makes_a_valid_report_in_every_format() {
    let validator = jsonschema::draft7::new(&json::schema()).unwrap();
    for name in Scenario::names() {
        let report = report(&name);
        let value = serde_json::to_value(&report).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        let page = html::render(&report).unwrap();
        for text in [page, markdown::render(&report), csv::render(&report)] {
            assert!(!text.contains("NaN") && !text.contains("Some("), "{name}");
        }
    }
}

#[test]
fn every_field_that_a_finding_names_is_in_its_measurement() {
    let mut missing = Vec::new();
    for name in Scenario::names() {
        let report = serde_json::to_value(report(&name)).unwrap();
        for finding in report["findings"].as_array().unwrap() {
            for evidence in finding["evidence"].as_array().unwrap() {
                let of_id = |one: &&Value| one["id"] == evidence["measurement"];
                let mut measurements = report["measurements"].as_array().unwrap().iter();
                let measurement = measurements.find(of_id).unwrap();
                for field in evidence["fields"].as_array().unwrap() {
                    let field = field.as_str().unwrap();
                    if !names_a_field(measurement, field) {
                        missing.push(format!("{}: {field}", finding["id"]));
                    }
                }
            }
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// `limited.send_buffer_ms`, `samples[]`; what is null has no parts to look into.
fn names_a_field(measurement: &Value, field: &str) -> bool {
    let mut at = measurement;
    for part in field.split('.') {
        if at.is_null() {
            return true;
        }
        let (name, list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        let Some(next) = at.get(name) else { return false };
        at = match list {
            true => next.get(0).unwrap_or(&Value::Null),
            false => next,
        };
    }
    true
}
