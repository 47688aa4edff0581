//! Nodes, addresses and settings as tables.

use super::super::format::{self, NONE, UNKNOWN};
use super::super::model::{BlockDevice, Facts, Interface, Node, Report, Route};
use super::super::text::markdown as plain;
use super::super::wording;
use super::table;

pub(super) fn section(report: &Report) -> String {
    let mut text = "## Topology\n\n".to_owned();
    for (name, value) in wording::declared_facts(report) {
        text.push_str(&format!("- Declared {name}: {}\n", plain(&value)));
    }
    text.push('\n');
    let nodes: Vec<_> = report.topology.nodes.iter().map(node_row).collect();
    let head = [
        "Node",
        "Role",
        "Thread",
        "Redo address",
        "Access",
        "Host",
        "System",
        "Kernel",
        "CPUs",
        "Memory",
        "Clock offset",
        "State",
    ];
    text.push_str(&table(&head, &nodes));
    let head =
        ["Node", "Interface", "Addresses", "MTU", "Speed", "Driver", "State", "Qdisc", "Offloads"];
    text.push_str(&per_node(report, "Interfaces", &head, |facts| {
        facts.interfaces.iter().map(interface_row).collect()
    }));
    text.push_str(&tcp_settings(report));
    let head = ["Node", "To", "Interface", "Source", "Gateway", "MTU", "Hops"];
    text.push_str(&per_node(report, "Routes", &head, |facts| {
        facts.routes.iter().map(route_row).collect()
    }));
    let head = [
        "Node",
        "Device",
        "Size",
        "Kind",
        "Scheduler",
        "Largest request",
        "Hardware limit",
        "Queue",
        "Mounted on",
    ];
    text.push_str(&per_node(report, "Block devices", &head, |facts| {
        facts.block_devices.iter().map(device_row).collect()
    }));
    let head = ["Node", "Oracle homes", "Grid home", "Users"];
    text.push_str(&per_node(report, "Oracle software", &head, |facts| {
        vec![vec![
            some(&plain(&facts.oracle_homes.join(", "))),
            facts.grid_home.as_deref().map_or(NONE.to_owned(), plain),
            some(&plain(&facts.oracle_users.join(", "))),
        ]]
    }));
    text
}

/// Settings as rows and nodes as columns, since they are compared.
fn tcp_settings(report: &Report) -> String {
    let known: Vec<(&Node, Vec<wording::Fact>)> = report
        .topology
        .nodes
        .iter()
        .filter_map(|node| Some((node, wording::tcp_facts(node.facts.as_ref()?))))
        .collect();
    let Some((_, names)) = known.first() else {
        return String::new();
    };
    let mut head = vec!["Setting".to_owned()];
    head.extend(known.iter().map(|(node, _)| plain(&node.name)));
    let row = |index: usize, name: &str| {
        let mut row = vec![plain(name)];
        row.extend(known.iter().map(|(_, facts)| plain(&facts[index].1)));
        row
    };
    let rows: Vec<_> = names.iter().enumerate().map(|(i, (name, _))| row(i, name)).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    format!("\n### TCP settings\n\n{}", table(&head, &rows))
}

/// A table over the nodes whose facts are known; the first cell is the node.
fn per_node(
    report: &Report,
    title: &str,
    head: &[&str],
    rows_of: impl Fn(&Facts) -> Vec<Vec<String>>,
) -> String {
    let mut rows = Vec::new();
    for node in &report.topology.nodes {
        for mut row in node.facts.as_ref().map(&rows_of).unwrap_or_default() {
            row.insert(0, plain(&node.name));
            rows.push(row);
        }
    }
    if rows.is_empty() { String::new() } else { format!("\n### {title}\n\n{}", table(head, &rows)) }
}

fn node_row(node: &Node) -> Vec<String> {
    let fact = |value: fn(&Facts) -> String| {
        node.facts.as_ref().map_or(UNKNOWN.to_owned(), |facts| plain(&value(facts)))
    };
    vec![
        plain(&node.name),
        format!("{}, {}", node.role, plain(&node.cluster)),
        node.thread.map_or(NONE.to_owned(), |thread| thread.to_string()),
        plain(&node.redo_address),
        plain(&node.access),
        fact(|facts| facts.hostname.clone()),
        fact(|facts| wording::or_unknown(&facts.os_release)),
        fact(|facts| facts.kernel.clone()),
        fact(|facts| format::count(facts.cpus.map(u64::from))),
        fact(|facts| format::bytes(facts.memory_bytes)),
        wording::clock_offset(node),
        plain(&wording::node_state(node)),
    ]
}

fn interface_row(interface: &Interface) -> Vec<String> {
    vec![
        plain(&interface.name),
        some(&plain(&interface.addresses.join(", "))),
        format::count(interface.mtu_bytes.map(u64::from)),
        wording::link_speed(interface.speed_mbit_per_second),
        plain(&format::text(interface.driver.as_deref())),
        plain(&format::text(interface.state.as_deref())),
        plain(&format::text(interface.qdisc.as_deref())),
        some(&plain(&interface.offloads.join(", "))),
    ]
}

fn route_row(route: &Route) -> Vec<String> {
    vec![
        format!("{} ({})", plain(&route.peer), plain(&route.peer_address)),
        plain(&format::text(route.interface.as_deref())),
        plain(&format::text(route.source_address.as_deref())),
        route.gateway.as_deref().map_or(NONE.to_owned(), plain),
        format::count(route.mtu_bytes.map(u64::from)),
        plain(&wording::hops(route)),
    ]
}

fn device_row(device: &BlockDevice) -> Vec<String> {
    vec![
        plain(&device.name),
        format::bytes(device.size_bytes),
        plain(&wording::device_kind(device)),
        plain(&format::text(device.scheduler.as_deref())),
        wording::kib(device.max_sectors_kib),
        wording::kib(device.max_hw_sectors_kib),
        format!(
            "{} requests, depth {}",
            format::count(device.nr_requests.map(u64::from)),
            format::count(device.queue_depth.map(u64::from))
        ),
        some(&plain(&device.mount_points.join(", "))),
    ]
}

fn some(text: &str) -> String {
    if text.is_empty() { NONE.to_owned() } else { text.to_owned() }
}
