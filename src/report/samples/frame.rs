//! What every sample begins with: a run of two pairs without a measurement.

use std::collections::BTreeMap;

use super::super::model::*;
use super::topology::nodes;
use super::{BACK, MBIT, OUT};
use crate::plan::need::Transport;

pub(super) fn frame() -> Report {
    Report {
        schema_version: SCHEMA_VERSION.to_owned(),
        redoline: Product {
            version: "0.1.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            analysis_version: 1,
        },
        run: Run {
            id: "20261130-183005-orders".to_owned(),
            started: "2026-11-30T18:30:05Z".to_owned(),
            ended: "2026-11-30T18:52:41Z".to_owned(),
            complete: true,
            outcome: "completed".to_owned(),
            exit_code: 1,
            exit_codes: vec![1],
            missing: vec![],
            remarks: vec![
                "The host key of ash2 was in no known_hosts file and was accepted, as \
                           asked for."
                    .to_owned(),
            ],
        },
        runbook: Runbook {
            name: "Pre-migration assessment".to_owned(),
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        },
        configuration: Configuration {
            name: "orders".to_owned(),
            primary_cluster: "orders-phx".to_owned(),
            standby_cluster: "orders-ash".to_owned(),
            demo: false,
            declared_bandwidth_bytes_per_second: Some(500.0 * MBIT),
            declared_devices: vec!["phx-fw1".to_owned(), "wan-r7".to_owned()],
            declared_notes: Some("MPLS, QoS class gold".to_owned()),
            pairs: (1..=2)
                .map(|i| Pair {
                    name: format!("phx{i}-ash{i}"),
                    primary: format!("phx{i}"),
                    standby: format!("ash{i}"),
                    crossed: false,
                })
                .collect(),
        },
        need: Some(Need {
            threads_bytes_per_second: BTreeMap::from([(1, 40.0 * MBIT), (2, 57.5 * MBIT)]),
            total_bytes_per_second: Some(97.5 * MBIT),
            headroom_share: 0.3,
            transport: Transport::Async,
            write_size_bytes: Some(20_480),
            local_write_us: None,
            database_size_bytes: Some(1 << 40),
            instantiate_within_seconds: Some(28_800.0),
        }),
        limits: Limits {
            rate_bytes_per_second: Some(400.0 * MBIT),
            bytes: Some(500 << 30),
            cpu_share: Some(0.8),
            load_per_cpu: None,
            window: Some("22:00-05:00".to_owned()),
        },
        topology: Topology { nodes: nodes() },
        steps: steps(),
        measurements: vec![],
        series: vec![],
        findings: vec![],
        recommendations: vec![],
        verdict: Verdict { answer: Answer::NotTested, sentence: String::new(), findings: vec![] },
    }
}

pub(super) fn steps() -> Vec<Step> {
    let rows = [
        ("Topology", "topology", OUT, None),
        ("One stream, as redo transport uses", "throughput", OUT, Some("single")),
        ("Streams until the aggregate stops rising", "throughput", OUT, Some("ladder")),
        ("All nodes at once", "throughput", OUT, Some("together")),
        ("Socket buffers", "sweep", OUT, Some("buffers")),
        ("Roles swapped for the tests", "swap_roles", BACK, None),
        ("One stream, as redo transport uses", "throughput", BACK, Some("single")),
        ("Streams until the aggregate stops rising", "throughput", BACK, Some("ladder")),
        ("All nodes at once", "throughput", BACK, Some("together")),
        ("Socket buffers", "sweep", BACK, Some("buffers")),
        ("How Oracle reads", "storage_read", BACK, None),
    ];
    rows.iter()
        .enumerate()
        .map(|(index, (name, action, direction, register))| Step {
            number: index as u32 + 1,
            name: (*name).to_owned(),
            action: (*action).to_owned(),
            direction: *direction,
            register: register.map(str::to_owned),
            outcome: "passed".to_owned(),
            messages: match *action {
                "swap_roles" => vec!["test direction only; no database switchover".to_owned()],
                _ => vec![],
            },
            started: Some(format!("2026-11-30T18:{:02}:05Z", 30 + 2 * index)),
            ended: Some(format!("2026-11-30T18:{:02}:55Z", 31 + 2 * index)),
            scope: None,
        })
        .collect()
}
