//! Does to a lab what a row says.

use anyhow::Result;
use redoline_lab::lab::DATA_PORT;
use redoline_lab::node::REDO_INTERFACE;
use redoline_lab::{Background, Inventory, Lab, LabNode, Spawned};

use super::row::{NodeRow, PortRow, Row};

/// What goes on until it is dropped.
pub struct Planted {
    background: Vec<Background>,
    going_on: Vec<Spawned>,
}

/// Every node's, so that a row does not depend on the machine's own settings: no buffer is too small
/// for any row unless the row says so.
const SYSCTLS: [(&str, &str); 2] =
    [("net.ipv4.tcp_rmem", "4096 131072 33554432"), ("net.ipv4.tcp_wmem", "4096 16384 33554432")];

/// Part of every agent's command line.
const AGENT: &str = "redoline-agent-";

pub fn plant(lab: &Lab, row: &Row) -> Result<Planted> {
    for node in lab.nodes() {
        for (key, value) in SYSCTLS {
            node.sysctl(key, value)?;
        }
    }
    let mut planted = Planted { background: Vec::new(), going_on: Vec::new() };
    for (name, what) in &row.on {
        let nodes: Vec<&LabNode> = match name.as_str() {
            "all" => lab.nodes().iter().collect(),
            name => vec![lab.node(name)?],
        };
        for node in nodes {
            planted.going_on.extend(plant_on(lab, node, what)?);
        }
    }
    for one in &row.background {
        let (from, to) = (lab.node(&one.from)?, lab.node(&one.to)?);
        planted.background.push(lab.background(from, to, one.rate)?);
    }
    Ok(planted)
}

fn plant_on(lab: &Lab, node: &LabNode, what: &NodeRow) -> Result<Vec<Spawned>> {
    for (key, value) in &what.sysctls {
        node.sysctl(key, value)?;
    }
    if let Some(rate_bps) = what.nic_rate {
        let rate = format!("{rate_bps}bit");
        let shaper = ["tc", "qdisc", "add", "dev", REDO_INTERFACE, "root", "tbf", "rate", &rate];
        node.run(&[&shaper[..], &["burst", "32kb", "latency", "50ms"]].concat())?;
    }
    match what.data_port {
        Some(PortRow::Reject) => node.reject_port(DATA_PORT)?,
        Some(PortRow::Drop) => node.drop_port(DATA_PORT)?,
        None => {}
    }
    if what.misroute {
        lab.misroute(node)?;
    }
    if let Some(rules) = &what.nft {
        node.nft(rules)?;
    }
    let mut going_on = Vec::new();
    if let Some(share) = what.cpu {
        // Not sshd as well, or to copy the agent would take most of the test's time.
        going_on.push(lab.limit_cpu_of(node, AGENT, share)?);
    }
    if let Some(share) = what.held_except {
        going_on.push(hold(lab, node, share)?);
    }
    Ok(going_on)
}

/// Holds the node's agents for a while in each tenth of a second: they read as slowly as processes
/// that have something else to do, and the network does not notice who is to blame.
fn hold(lab: &Lab, node: &LabNode, running: f64) -> Result<Spawned> {
    let (held_s, running_s) = (0.1 * (1.0 - running), 0.1 * running);
    // The brackets keep the pattern from finding the shell that has it in its arguments.
    let script = format!(
        "while :; do agents=$(pgrep -f '[r]edoline-agent-') && kill -STOP $agents; sleep {held_s}; \
         [ -n \"$agents\" ] && kill -CONT $agents; sleep {running_s}; done"
    );
    node.spawn(&["sh", "-c", &script], &lab.dir().join("hold.log"))
}

/// Lets redo take the nodes' IPv6 addresses.
pub fn use_ipv6(lab: &Lab, inventory: &mut Inventory) {
    for (line, node) in inventory.nodes.iter_mut().zip(lab.nodes()) {
        if let Some(redo) = node.redo6() {
            line.redo = redo.into();
        }
    }
}
