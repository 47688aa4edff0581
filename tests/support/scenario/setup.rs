//! What a scenario's run sets out to do.

use redoline_proto::units::{Bytes, Share};

use super::{NeedText, Scenario, optional, quantity, time};
use crate::plan::need::{Limits, Need};
use crate::plan::node::{DeclaredNetwork, Direction, NodeId, PairId, Role};
use crate::record::setup::{NodeSetup, PairSetup, Setup, StepSetup};

pub fn setup(scenario: &Scenario) -> Setup {
    let pairs = scenario.pairs;
    let node = |index: usize| {
        let (role, n) = match index < pairs {
            true => (Role::Primary, index + 1),
            false => (Role::Standby, index - pairs + 1),
        };
        let primary = role == Role::Primary;
        let (site, net) = if primary { ("phx", "198.51.100") } else { ("ash", "203.0.113") };
        let (name, address, access) = match scenario.demo {
            true => (
                format!("demo-{role}{n}"),
                format!("127.0.{}.{n}", if primary { 1 } else { 2 }),
                "local".to_owned(),
            ),
            false => (
                format!("{site}{n}"),
                format!("{net}.{}", 10 + n),
                format!("ssh oracle@192.0.2.{} port 22", if primary { 10 + n } else { 20 + n }),
            ),
        };
        NodeSetup {
            name,
            role,
            cluster: if scenario.demo { format!("demo-{role}") } else { format!("orders-{site}") },
            thread: primary.then_some(n as u32),
            redo_address: address,
            access,
        }
    };
    let nodes: Vec<NodeSetup> = (0..2 * pairs).map(node).collect();
    Setup {
        runbook: scenario.scenario.clone(),
        runbook_sha256: "ab".repeat(32),
        configuration: if scenario.demo { "demo" } else { "orders" }.to_owned(),
        primary_cluster: nodes[0].cluster.clone(),
        standby_cluster: nodes[pairs].cluster.clone(),
        demo: scenario.demo,
        network: DeclaredNetwork {
            bandwidth: optional(scenario.declared.as_ref()),
            devices: if scenario.demo {
                Vec::new()
            } else {
                vec!["phx-fw1".to_owned(), "wan-r7".to_owned()]
            },
            notes: None,
        },
        pairs: (0..pairs)
            .map(|pair| PairSetup { primary: NodeId(pair), standby: NodeId(pairs + pair) })
            .collect(),
        crossed_from: None,
        left_out: scenario.left_out.clone(),
        need: scenario.need.as_ref().map(need),
        limits: Limits { rate: optional(scenario.limit.as_ref()), ..Limits::default() },
        steps: steps(scenario),
        finally_from: scenario.steps.len(),
        remarks: Vec::new(),
        nodes,
    }
}

fn steps(scenario: &Scenario) -> Vec<StepSetup> {
    let mut direction = Direction::PrimaryToStandby;
    scenario
        .steps
        .iter()
        .map(|text| {
            let word = text.split_whitespace().next().unwrap();
            let (name, action) = match word {
                "single" => ("One stream, as redo transport uses", "throughput"),
                "connections" => ("A number of streams", "throughput"),
                "ladder" => ("Streams until the aggregate stops rising", "throughput"),
                "together" => ("All nodes at once", "throughput"),
                "buffers" => ("Socket buffers", "sweep"),
                "mtu" => ("MTU", "sweep"),
                "swap" => ("Roles swapped for the tests", "swap_roles"),
                "short" => ("A short test", "throughput"),
                "long" => ("A long test", "throughput"),
                "both" => ("Both directions at once", "throughput"),
                "path" => ("The path", "path"),
                "sync" | "fastsync" => ("Synchronous transport", "sweep"),
                "encryption" => ("Encryption", "sweep"),
                "compression" => ("Compression", "sweep"),
                "auto" => ("A stream until its rate is known", "throughput"),
                "hours" => ("All nodes at once, every hour", "throughput"),
                "interface_mtu" => ("With and without jumbo frames", "interface_mtu"),
                "storage" => ("How Oracle reads", "storage_read"),
                "topology" => ("Topology", "topology"),
                other => panic!("unknown step `{other}`"),
            };
            if word == "swap" {
                direction = direction.swapped();
            }
            let about_pairs = matches!(action, "throughput" | "sweep" | "path" | "interface_mtu");
            let count = scenario.pairs;
            StepSetup {
                name: name.to_owned(),
                action: action.to_owned(),
                direction,
                register: about_pairs.then(|| word.to_owned()),
                excluded: false,
                pairs: (0..if about_pairs { count } else { 0 }).map(PairId).collect(),
                nodes: if word == "storage" { readers(text, count) } else { Vec::new() },
            }
        })
        .collect()
}

/// `storage` reads on all nodes, `storage 0 2` on the first and the third.
fn readers(step: &str, pairs: usize) -> Vec<NodeId> {
    let named: Vec<NodeId> =
        step.split_whitespace().skip(1).map(|text| NodeId(text.parse().unwrap())).collect();
    if named.is_empty() { (0..2 * pairs).map(NodeId).collect() } else { named }
}

fn need(text: &NeedText) -> Need {
    Need {
        threads: text.threads.iter().map(|(thread, rate)| (*thread, quantity(rate))).collect(),
        total: optional(text.total.as_ref()),
        write_size: None,
        local_write: text.local_write.as_deref().map(time),
        headroom: optional(text.headroom.as_ref()).unwrap_or(Share(0.3)),
        transport: text.transport,
        database_size: optional::<Bytes>(text.database_size.as_ref()),
        instantiate_within: text.instantiate_within.as_deref().map(time),
    }
}
