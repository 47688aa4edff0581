//! The words that Markdown, terminal and page share: facts as name and value, and sentences.

use super::format::{self, NONE, UNKNOWN};
use super::model::{Answer, BlockDevice, Facts, Hop, Node, Report, Route, Severity, Step};
use crate::plan::need::Transport;

mod results;

pub use results::{
    by_plateau, convergence, ids, known_to, level_rate, level_shift, manner, not_converged,
    point_label, point_rate, rate, series_manner, series_sentence, series_subject, steady_rate,
    variable,
};

/// What a name says, and its value for people.
pub type Fact = (&'static str, String);

/// How numbers are made, for a reader who doubts them.
pub const METHOD: [&str; 4] = [
    "Rates are what the receiving node got, by its own monotonic clock, in the time that all \
     streams of a test have in common.",
    "A rate is the mean of the steady part with the half-width of its confidence interval; the \
     ramp at the beginning is cut off.",
    "Data is random, sent and received by ordinary system calls with copies, as a database \
     process does.",
    "A role swap is a test direction only; no database switchover takes place.",
];

pub fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::Met => "Need met",
        Answer::Conditional => "Need met under conditions",
        Answer::NotMet => "Need not met",
        Answer::CannotTell => "Cannot tell",
        Answer::NotTested => "Not tested",
    }
}

pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "in order",
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// `assertion_failed` as `assertion failed`: names of the contract, for people.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

pub fn or_unknown(text: &str) -> String {
    if text.is_empty() { UNKNOWN } else { text }.to_owned()
}

pub fn or_none(list: &[String]) -> String {
    if list.is_empty() { NONE.to_owned() } else { list.join(", ") }
}

/// `completed, exit code 1`.
pub fn outcome(report: &Report) -> String {
    let codes: Vec<String> = report.run.exit_codes.iter().map(u8::to_string).collect();
    let all = if codes.len() > 1 { format!(" (of {})", codes.join(", ")) } else { String::new() };
    format!("{}, exit code {}{all}", words(&report.run.outcome), report.run.exit_code)
}

/// `0.1.0 (commit 0123456789ab), rules 1`.
pub fn product(report: &Report) -> String {
    let product = &report.redoline;
    format!(
        "{} (commit {}), rules of analysis {}",
        product.version, product.commit, product.analysis_version
    )
}

/// What the need says beside the rates.
pub fn need_facts(report: &Report) -> Vec<Fact> {
    let Some(need) = &report.need else {
        return Vec::new();
    };
    let transport = match need.transport {
        Transport::Async => "ASYNC",
        Transport::Sync => "SYNC (AFFIRM)",
        Transport::Fastsync => "FASTSYNC (SYNC NOAFFIRM)",
    };
    let mut facts = vec![
        ("Headroom over the peak redo rate", format::percent(Some(need.headroom_share))),
        ("Redo transport", transport.to_owned()),
    ];
    if let Some(size) = need.write_size_bytes {
        facts.push(("Average redo write size", format::bytes(Some(size))));
    }
    if need.local_write_us.is_some() {
        facts.push(("Average local log write", format::microseconds(need.local_write_us)));
    }
    if let Some(size) = need.database_size_bytes {
        facts.push(("Database size", format::bytes(Some(size))));
    }
    if let Some(time) = need.instantiate_within_seconds {
        facts.push(("Standby to be instantiated within", format::seconds(Some(time))));
    }
    facts
}

/// The runbook's limits; empty where it sets none.
pub fn limit_facts(report: &Report) -> Vec<Fact> {
    let limits = &report.limits;
    let mut facts = Vec::new();
    if limits.rate_bytes_per_second.is_some() {
        facts.push(("rate of each node", format::rate(limits.rate_bytes_per_second)));
    }
    if limits.bytes.is_some() {
        facts.push(("bytes of the whole run", format::bytes(limits.bytes)));
    }
    if limits.cpu_share.is_some() {
        facts.push(("CPU of a host", format::percent(limits.cpu_share)));
    }
    if limits.load_per_cpu.is_some() {
        facts.push(("load per CPU", format::number(limits.load_per_cpu)));
    }
    if let Some(window) = &limits.window {
        facts.push(("time of day", window.clone()));
    }
    facts
}

/// What the inventory says of the network.
pub fn declared_facts(report: &Report) -> Vec<Fact> {
    let configuration = &report.configuration;
    let bandwidth = configuration.declared_bandwidth_bytes_per_second;
    let nothing = || "not declared".to_owned();
    vec![
        ("bandwidth", bandwidth.map_or_else(nothing, |rate| format::rate(Some(rate)))),
        (
            "switches, routers and firewalls",
            match configuration.declared_devices.as_slice() {
                [] => nothing(),
                devices => devices.join(", "),
            },
        ),
        ("notes", configuration.declared_notes.clone().unwrap_or_else(nothing)),
    ]
}

pub fn tcp_facts(facts: &Facts) -> Vec<Fact> {
    let tcp = &facts.tcp;
    let number = |value: Option<u32>| format::count(value.map(u64::from));
    vec![
        ("net.ipv4.tcp_rmem", three_sizes(&tcp.tcp_rmem_bytes)),
        ("net.ipv4.tcp_wmem", three_sizes(&tcp.tcp_wmem_bytes)),
        ("net.core.rmem_max", format::bytes(tcp.rmem_max_bytes)),
        ("net.core.wmem_max", format::bytes(tcp.wmem_max_bytes)),
        ("net.ipv4.tcp_congestion_control", format::text(tcp.congestion_control.as_deref())),
        ("available", or_none(&tcp.congestion_controls_available)),
        ("net.core.default_qdisc", format::text(tcp.default_qdisc.as_deref())),
        ("net.ipv4.tcp_mtu_probing", number(tcp.mtu_probing)),
        ("net.ipv4.tcp_window_scaling", number(tcp.window_scaling)),
        ("net.ipv4.tcp_timestamps", number(tcp.timestamps)),
        ("net.ipv4.tcp_sack", number(tcp.sack)),
    ]
}

fn three_sizes(sizes: &[Option<u64>]) -> String {
    if sizes.iter().all(Option::is_none) {
        return UNKNOWN.to_owned();
    }
    sizes.iter().map(|size| format::bytes(*size)).collect::<Vec<_>>().join(" · ")
}

/// `0.8 ms ± 0.2 ms`.
pub fn clock_offset(node: &Node) -> String {
    match (node.clock_offset_ms, node.clock_offset_error_ms) {
        (Some(offset), Some(error)) => format!(
            "{} ± {}",
            format::milliseconds(Some(offset)),
            format::milliseconds(Some(error))
        ),
        (offset, _) => format::milliseconds(offset),
    }
}

/// Whether the node took part and what is left on it.
pub fn node_state(node: &Node) -> String {
    let mut state = match (&node.lost, &node.agent) {
        (Some(reason), _) => format!("lost: {reason}"),
        (None, Some(_)) => "took part".to_owned(),
        (None, None) => "never answered".to_owned(),
    };
    if let Some(left) = &node.left_behind {
        state.push_str(&format!("; left behind: {left}"));
    }
    if node.agent.is_some() && node.nothing_left.is_none() {
        state.push_str("; whether anything is left is unknown");
    }
    if let Some(key) = &node.accepted_host_key {
        state.push_str(&format!("; host key accepted: {key}"));
    }
    state
}

/// `25 Gbit/s`.
pub fn link_speed(mbit_per_second: Option<u64>) -> String {
    format::network_rate(mbit_per_second.map(|mbit| mbit as f64 * 125_000.0), None)
}

/// `1: 198.51.100.1 (310 µs) → 2: no answer`.
pub fn hops(route: &Route) -> String {
    let mut texts: Vec<String> = route.hops.iter().map(hop).collect();
    if !route.hops_complete {
        texts.push("incomplete".to_owned());
    }
    let mut text = texts.join(" → ");
    if let Some(remark) = &route.hops_remark {
        text.push_str(&format!(" ({remark})"));
    }
    text
}

fn hop(hop: &Hop) -> String {
    match (&hop.address, hop.rtt_us) {
        (None, _) => format!("{}: no answer", hop.ttl),
        (Some(address), None) => format!("{}: {address}", hop.ttl),
        (Some(address), Some(us)) => {
            format!("{}: {address} ({})", hop.ttl, format::microseconds(Some(us as f64)))
        }
    }
}

/// `LUN C-Mode, not rotational, of sdb, sdc`.
pub fn device_kind(device: &BlockDevice) -> String {
    let mut texts = Vec::new();
    texts.extend(device.model.clone());
    texts.extend(
        device
            .rotational
            .map(|rotational| if rotational { "rotational" } else { "not rotational" }.to_owned()),
    );
    if !device.members.is_empty() {
        texts.push(format!("of {}", device.members.join(", ")));
    }
    or_unknown(&texts.join(", "))
}

pub fn kib(kib: Option<u64>) -> String {
    format::bytes(kib.and_then(|kib| kib.checked_mul(1024)))
}

/// Where a step measures: its direction; where none applies, its nodes, or both clusters.
pub fn step_place(step: &Step) -> String {
    match step.action.as_str() {
        "topology" | "storage_read" => {
            step.scope.clone().unwrap_or_else(|| "both clusters".to_owned())
        }
        _ => step.direction.to_string(),
    }
}
