//! Findings and recommendations of the whole run.

use super::super::model::*;
use super::{BACK, MBIT, OUT};
use crate::plan::node::Direction;

pub(super) fn finding(
    id: &str,
    severity: Severity,
    direction: Option<Direction>,
    nodes: &[&str],
    value: Option<(f64, &str)>,
    evidence: &[(&str, &str)],
) -> Finding {
    Finding {
        id: id.to_owned(),
        severity,
        direction,
        pairs: vec![],
        nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
        value: value.map(|value| value.0),
        unit: value.map(|value| value.1.to_owned()),
        confidence: "measured".to_owned(),
        evidence: evidence
            .iter()
            .map(|(measurement, field)| Evidence {
                measurement: (*measurement).to_owned(),
                fields: vec![(*field).to_owned()],
            })
            .collect(),
        needs: vec![],
        sentence: String::new(),
    }
}

/// The need that a finding of `findings` judges; `None` for those about something else.
pub(super) fn need_of(finding: &Finding) -> Option<JudgedNeed> {
    let of = |thread: u32, mbit: f64, (measured, half_width): (f64, f64)| JudgedNeed {
        thread: Some(thread).filter(|thread| *thread > 0),
        direction: finding.direction.unwrap_or(OUT),
        pair: (thread > 0).then(|| format!("phx{thread}-ash{thread}")),
        required_bytes_per_second: mbit * MBIT,
        measured_bytes_per_second: Some(measured * MBIT),
        half_width_bytes_per_second: Some(half_width * MBIT),
        measurement: finding.evidence.first().map(|evidence| evidence.measurement.clone()),
    };
    match (finding.id.as_str(), finding.nodes.first().map(String::as_str)) {
        ("need-met", Some(_)) => Some(of(1, 52.0, (57.9, 0.4))),
        ("need-met", None) => Some(of(0, 127.0, (235.0, 3.0))),
        ("need-not-met", _) => Some(of(2, 74.8, (57.6, 0.5))),
        ("need-cannot-be-judged", _) => Some(of(2, 74.8, (57.6, 0.5))),
        _ => None,
    }
}

pub(super) fn findings() -> Vec<Finding> {
    use Severity::{Critical, Info, Ok, Warning};
    let steady = "steady.bytes_per_second";
    let rate = |mbit: f64| Some((mbit * MBIT, "bytes_per_second"));
    let rows = [
        (
            finding("need-met", Ok, Some(OUT), &["phx1", "ash1"], rate(57.9), &[("m1", steady)]),
            "One stream from phx1 to ash1 carries 57.9 Mbit/s; thread 1 needs 52 Mbit/s with \
             headroom.",
        ),
        (
            finding(
                "need-not-met",
                Critical,
                Some(OUT),
                &["phx2", "ash2"],
                rate(57.6),
                &[("m2", steady)],
            ),
            "One stream from phx2 to ash2 carries 57.6 Mbit/s; thread 2 needs 74.8 Mbit/s with \
             headroom.",
        ),
        (
            finding("need-met", Ok, Some(OUT), &[], rate(235.0), &[("m15", steady)]),
            "All nodes together carry 235 Mbit/s; 127 Mbit/s are needed.",
        ),
        (
            finding(
                "need-cannot-be-judged",
                Warning,
                Some(BACK),
                &["ash2", "phx2"],
                None,
                &[("m21", "steady.half_width_bytes_per_second")],
            ),
            "The rate from ash2 to phx2 varied too much to compare it with the need of thread 2.",
        ),
        (
            finding(
                "per-flow-limit",
                Critical,
                Some(OUT),
                &[],
                rate(57.8),
                &[("m1", steady), ("m3", "streams"), ("m5", "limited.busy_ms")],
            ),
            "Every connection is held at about 58 Mbit/s while the aggregate rises to 190 Mbit/s \
             with 6 of them: a device on the path limits single flows.",
        ),
        (
            finding(
                "request-split",
                Warning,
                None,
                &["phx1", "ash1"],
                Some((2.0, "requests")),
                &[("m39", "device_requests_per_read")],
            ),
            "A read of 1 MiB is split into 2 device requests (max_sectors_kb is 512).",
        ),
        (
            finding(
                "mtu-reduced",
                Info,
                Some(OUT),
                &[],
                Some((1500.0, "bytes")),
                &[("m1", "path_mtu_bytes")],
            ),
            "The interfaces have an MTU of 9000 bytes; the path carries 1500.",
        ),
    ];
    rows.into_iter()
        .map(|(finding, sentence)| Finding {
            sentence: sentence.to_owned(),
            needs: need_of(&finding).into_iter().collect(),
            ..finding
        })
        .collect()
}

pub(super) fn recommendations() -> Vec<Recommendation> {
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    vec![
        Recommendation {
            id: "lift-per-flow-limit".to_owned(),
            findings: vec!["per-flow-limit".to_owned(), "need-not-met".to_owned()],
            action: "Ask the network team to lift the limit for single flows between the redo \
                     addresses."
                .to_owned(),
            commands: vec![Command {
                nodes: vec![],
                kind: "request".to_owned(),
                lines: lines(&["198.51.100.0/24 <-> 203.0.113.0/24, tcp port 1522"]),
            }],
            expected_effect: "One stream rises from 57.9 Mbit/s towards the 190 Mbit/s that six \
                              reach together."
                .to_owned(),
            how_to_verify: "Repeat step 2 and compare the two reports.".to_owned(),
            how_to_undo: "Restore the former policy.".to_owned(),
            risk: "Redo may then crowd out other traffic of the same class.".to_owned(),
            needs_root: false,
            licence: None,
        },
        Recommendation {
            id: "raise-max-sectors".to_owned(),
            findings: vec!["request-split".to_owned()],
            action: "Let the kernel send reads of 1 MiB to the storage in one request.".to_owned(),
            commands: vec![
                Command {
                    nodes: vec!["phx1".to_owned(), "ash1".to_owned()],
                    kind: "sysfs".to_owned(),
                    lines: lines(&["echo 1024 > /sys/block/dm-3/queue/max_sectors_kb"]),
                },
                Command {
                    nodes: vec!["phx1".to_owned()],
                    kind: "udev".to_owned(),
                    lines: lines(&[
                        "# /etc/udev/rules.d/99-oracle-queue.rules",
                        "ACTION==\"add|change\", KERNEL==\"dm-3\", \
                         ATTR{queue/max_sectors_kb}=\"1024\"",
                    ]),
                },
            ],
            expected_effect: "Half the requests at the device for the same bytes.".to_owned(),
            how_to_verify: "Device requests per read is 1 in step 11.".to_owned(),
            how_to_undo: "echo 512 > /sys/block/dm-3/queue/max_sectors_kb".to_owned(),
            risk: "Low; holds until the device is removed.".to_owned(),
            needs_root: true,
            licence: Some("Advanced Compression, only where redo is compressed".to_owned()),
        },
    ]
}
