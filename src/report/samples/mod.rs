//! Reports to test renderers with: a whole run, a broken one, a demo, and one of every kind of test.

mod advice;
mod frame;
mod network;
mod storage;
mod topology;
mod wide;

use super::model::*;
use crate::plan::node::Direction;
use advice::{finding, findings, recommendations};
use frame::frame;
use network::{add_network_tests, failed_test, test};
use storage::add_storage_tests;
use topology::bare_facts;

pub use wide::{hostile, wide};

const MBIT: f64 = 125_000.0;
const MIB: f64 = 1_048_576.0;
const OUT: Direction = Direction::PrimaryToStandby;
const BACK: Direction = Direction::StandbyToPrimary;

/// Two pairs over an emulated WAN in both directions; a per-flow limit keeps single streams down.
pub fn whole() -> Report {
    let mut report = frame();
    for (index, direction) in [OUT, BACK].into_iter().enumerate() {
        add_network_tests(&mut report, direction, index as u32);
    }
    add_storage_tests(&mut report);
    report.findings = findings();
    report.recommendations = recommendations();
    report.verdict = Verdict {
        answer: Answer::NotMet,
        sentence: "The network does not carry the redo of thread 2: one stream reaches 57.9 \
                   Mbit/s where 74.8 Mbit/s are needed. Each connection is held at the same rate \
                   while the aggregate still rises with more of them."
            .to_owned(),
        findings: vec!["need-not-met".to_owned(), "per-flow-limit".to_owned()],
    };
    report
}

/// A run that was stopped: one node never answered, and what peers said is hostile.
pub fn broken() -> Report {
    let evil = "ash1<script>alert(1)</script>\u{1b}[31m|`x`\r\n# h";
    let mut report = frame();
    report.run.complete = false;
    report.run.outcome = "interrupted".to_owned();
    report.run.exit_code = 130;
    report.run.exit_codes = vec![130, 3];
    report.run.missing = vec![
        format!("Node {evil} took no part: connection refused."),
        "Storage was not read.".to_owned(),
    ];
    report.need = None;
    report.limits = Limits {
        rate_bytes_per_second: None,
        bytes: None,
        cpu_share: None,
        load_per_cpu: None,
        window: None,
    };
    report.configuration.declared_bandwidth_bytes_per_second = None;
    report.configuration.declared_devices = vec![];
    report.configuration.declared_notes = None;
    report.configuration.pairs[0].standby = evil.to_owned();
    report.configuration.pairs[0].name = format!("phx1-{evil}");
    let nodes = &mut report.topology.nodes;
    nodes[0].facts = Some(bare_facts(evil));
    nodes[1].facts = None;
    nodes[2].name = evil.to_owned();
    nodes[2].facts = None;
    nodes[2].agent = None;
    nodes[2].clock_offset_ms = None;
    nodes[2].clock_offset_error_ms = None;
    nodes[2].lost = Some("connect: connection refused; is sshd running on port 22?".to_owned());
    nodes[3].facts = None;
    nodes[3].nothing_left = Some(false);
    nodes[3].left_behind = Some("/tmp/.redoline-3f".to_owned());
    report.steps.truncate(3);
    report.steps[1].outcome = "failed".to_owned();
    report.steps[1].messages = vec![format!("transfer, node {evil}: connection reset by peer")];
    report.steps[2].outcome = "not_reached".to_owned();
    report.steps[2].started = None;
    report.steps[2].ended = None;
    report.measurements = vec![Measurement::Throughput(Box::new(failed_test(evil)))];
    report.series = vec![Series {
        id: "s1".to_owned(),
        step: 3,
        kind: "ladder".to_owned(),
        variable: "num_conn".to_owned(),
        unit: "connections".to_owned(),
        direction: Some(OUT),
        pairs: vec![format!("phx1-{evil}")],
        node: None,
        points: vec![Point {
            value: Some(2.0),
            label: "2".to_owned(),
            measurement: None,
            bytes_per_second: None,
            half_width_bytes_per_second: None,
            remark: Some(format!("{evil} did not answer")),
        }],
        best: None,
        recommended: None,
        tolerance: Some(0.03),
        until: None,
        plateau_recommended: None,
        plateau_remark: None,
        stopped_because: "failure".to_owned(),
    }];
    report.verdict = Verdict {
        answer: Answer::NotTested,
        sentence: "Nothing was measured.".to_owned(),
        findings: vec![],
    };
    report
}

/// The built-in inventory on loopback, one pair, no need.
pub fn demo() -> Report {
    let mut report = frame();
    report.configuration.demo = true;
    report.configuration.name = "demo".to_owned();
    report.configuration.pairs.truncate(1);
    report.topology.nodes.remove(3);
    report.topology.nodes.remove(1);
    report.need = None;
    report.run.remarks =
        vec!["All nodes are this machine: loopback, no statement about a network.".to_owned()];
    report.steps.truncate(2);
    report.measurements = vec![Measurement::Throughput(Box::new(test(
        "m1",
        2,
        OUT,
        &[(0, 21_000.0 * MBIT, 180.0 * MBIT)],
        1,
    )))];
    report.verdict = Verdict {
        answer: Answer::NotTested,
        sentence: "No need is stated, so none was judged.".to_owned(),
        findings: vec!["need-unknown".to_owned()],
    };
    report.findings = vec![finding("need-unknown", Severity::Info, None, &[], None, &[])];
    report.findings[0].sentence = "The runbook states no need.".to_owned();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_survives_json() {
        for report in [whole(), broken(), demo(), wide()] {
            let text = crate::report::json::render(&report).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        }
    }

    #[test]
    fn every_sample_is_valid_by_the_published_schema() {
        let schema = crate::report::json::schema();
        let validator = jsonschema::draft7::new(&schema).unwrap();
        for report in [whole(), broken(), demo(), wide()] {
            let value = serde_json::to_value(&report).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }

    #[test]
    fn the_schema_refuses_a_field_that_is_absent_instead_of_null() {
        let validator = jsonschema::draft7::new(&crate::report::json::schema()).unwrap();
        let mut value = serde_json::to_value(demo()).unwrap();
        value.as_object_mut().unwrap().remove("need");
        assert!(!validator.is_valid(&value));
        let mut value = serde_json::to_value(demo()).unwrap();
        value["measurements"][0].as_object_mut().unwrap().remove("steady");
        assert!(!validator.is_valid(&value));
    }

    #[test]
    fn the_schema_says_its_draft() {
        let schema = crate::report::json::schema();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    }
}
