//! A plan as text: what `check` prints and what a person agrees to before a run.

use std::fmt::Write;
use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

use super::access::{AGENT_DIRS, Access, HostKeyPolicy};
use super::cost::{Cost, StepCost, TimeRange};
use super::need::{Limits, Need, Transport};
use super::node::{Node, PairId, RedoAddress, Role};
use super::show_steps::{self, details};
use super::step::{OnError, Step};
use super::{AgentAfterRun, Plan, ReportFormat};

/// Everything the run would do, on which host, and what it may cost.
pub fn show(plan: &Plan, cost: &Cost) -> String {
    let mut text = String::new();
    head(&mut text, plan);
    nodes(&mut text, plan);
    pairs(&mut text, plan);
    need(&mut text, plan.need.as_ref());
    steps(&mut text, plan, cost);
    on_each_host(&mut text, plan);
    changes(&mut text, plan);
    limits(&mut text, &plan.limits);
    totals(&mut text, plan, cost);
    leaves_behind(&mut text, plan);
    text
}

/// Writing to a String cannot fail.
fn line(text: &mut String, content: impl std::fmt::Display) {
    _ = writeln!(text, "{content}");
}

fn head(text: &mut String, plan: &Plan) {
    let configuration = &plan.configuration;
    line(text, format_args!("{}", plan.name));
    line(
        text,
        format_args!(
            "Configuration {}: {} (primary) and {} (standby)",
            configuration.name, configuration.primary_cluster, configuration.standby_cluster
        ),
    );
    if configuration.demo {
        line(text, "Loopback: no network is between the nodes; no statement about a network");
    }
    let network = &configuration.network;
    if let Some(bandwidth) = network.bandwidth {
        line(text, format_args!("Declared bandwidth: {bandwidth}"));
    }
    if !network.devices.is_empty() {
        line(text, format_args!("On the way: {}", network.devices.join(", ")));
    }
    if let Some(notes) = &network.notes {
        line(text, format_args!("Notes: {notes}"));
    }
}

fn nodes(text: &mut String, plan: &Plan) {
    line(text, "\nNodes");
    for role in [Role::Primary, Role::Standby] {
        for node in plan.nodes.iter().filter(|node| node.role == role) {
            let thread = node.thread.map_or(String::new(), |thread| format!(", thread {thread}"));
            line(text, format_args!("  {} ({role}{thread})", node.name));
            line(text, format_args!("    reached    {}", access(&node.access)));
            line(text, format_args!("    measured   {}", redo(node.redo)));
            line(text, format_args!("    data port  {}, open only while a test runs", ports(node)));
        }
    }
}

fn access(access: &Access) -> String {
    let Access::Ssh(ssh) = access else { return "as a child process on this machine".to_owned() };
    let mut ways = Vec::new();
    if let Some(key) = &ssh.key {
        ways.push(format!("key {}", key.display()));
    } else {
        ways.push("keys of the SSH agent".to_owned());
    }
    if ssh.password.is_some() {
        ways.push("password".to_owned());
    }
    let policy = match ssh.host_key_policy {
        HostKeyPolicy::Strict => "unknown host keys refused",
        HostKeyPolicy::AcceptNew => "unknown host keys accepted and noted",
    };
    format!("ssh {}@{} port {} ({}; {policy})", ssh.user, ssh.host, ssh.port, ways.join(", "))
}

fn redo(redo: RedoAddress) -> String {
    if redo == RedoAddress::plain(redo.address) {
        return redo.address.to_string();
    }
    format!("{} (bound to {}, seen as {})", redo.address, redo.bind, redo.seen_as)
}

fn ports(node: &Node) -> String {
    let ports = node.data_ports;
    if ports.first == ports.last {
        return ports.first.to_string();
    }
    format!("one of {} to {}", ports.first, ports.last)
}

fn pairs(text: &mut String, plan: &Plan) {
    line(text, "\nPairs");
    for id in 0..plan.pairs.len() {
        let id = PairId(id);
        let crossed = if plan.is_crossed(id) { " (only for all to one)" } else { "" };
        line(text, format_args!("  {}{crossed}", plan.pair_name(id)));
    }
    if plan.pairs.is_empty() {
        line(text, "  none");
    }
    for remark in &plan.remarks {
        line(text, format_args!("  Note: {remark}"));
    }
}

fn need(text: &mut String, need: Option<&Need>) {
    let Some(need) = need else {
        line(text, "\nNeed: none stated, so none is judged");
        return;
    };
    let transport = match need.transport {
        Transport::Async => "ASYNC",
        Transport::Sync => "SYNC AFFIRM",
        Transport::Fastsync => "SYNC NOAFFIRM (FASTSYNC)",
    };
    line(text, format_args!("\nNeed ({transport}, {} headroom added)", need.headroom));
    for (thread, rate) in &need.threads {
        line(text, format_args!("  thread {thread}: {}", with_headroom(need, *rate)));
    }
    if let Some(total) = need.total {
        line(text, format_args!("  all threads: {}", with_headroom(need, total)));
    }
    if let Some(size) = need.write_size {
        line(text, format_args!("  average redo write size: {size}"));
    }
    if let Some(time) = need.local_write {
        line(text, format_args!("  average local redo write: {}", time_text(time)));
    }
    match (need.database_size, need.instantiate_within) {
        (Some(size), Some(time)) => {
            let rate = size.over(time).map_or(String::new(), |rate| format!(": {rate}"));
            line(text, format_args!("  instantiation: {size} within {}{rate}", time_text(time)));
        }
        (Some(size), None) => line(text, format_args!("  database size: {size}")),
        _ => {}
    }
}

/// Redo is spoken of in bytes and networks in bits, so both stand here.
fn with_headroom(need: &Need, rate: BytesPerSecond) -> String {
    let both =
        |rate: BytesPerSecond| format!("{}/s ({rate})", rate.bytes_in(Duration::from_secs(1)));
    format!("{}, judged against {}", both(rate), both(need.with_headroom(rate)))
}

fn steps(text: &mut String, plan: &Plan, cost: &Cost) {
    line(text, "\nSteps");
    let (own, finally) = cost.steps.split_at(plan.steps.len());
    for (index, (step, cost)) in plan.steps.iter().zip(own).enumerate() {
        one_step(text, plan, step, cost, &format!("{}.", index + 1));
    }
    if !plan.finally.is_empty() {
        line(text, "\nAt the end, also after a failure");
        for (index, (step, cost)) in plan.finally.iter().zip(finally).enumerate() {
            one_step(text, plan, step, cost, &format!("{}.", index + 1));
        }
    }
}

fn one_step(text: &mut String, plan: &Plan, step: &Step, cost: &StepCost, number: &str) {
    let left_out = if step.excluded { " – left out" } else { "" };
    line(text, format_args!("{number:>4} {}{left_out}", step.name));
    if step.excluded {
        return;
    }
    for detail in details(plan, step, cost) {
        line(text, format_args!("     {detail}"));
    }
    let mut holds = Vec::new();
    if let Some(when) = &step.when {
        holds.push(format!("only when {}", when.text()));
    }
    if let Some(register) = &step.register {
        holds.push(format!("registered as {register}"));
    }
    if step.on_error == OnError::Stop {
        holds.push("ends the run if it fails".to_owned());
    }
    if !holds.is_empty() {
        line(text, format_args!("     {}", holds.join("; ")));
    }
    if cost.time.max > Duration::ZERO {
        let time = range_text(cost.time);
        let timeout = time_text(step.timeout);
        let bytes = match cost.bytes {
            Some(bytes) if bytes.0 > 0 => format!(", sends at most {bytes}"),
            _ => String::new(),
        };
        line(text, format_args!("     takes {time}{bytes}; given up after {timeout}"));
    }
}

fn on_each_host(text: &mut String, plan: &Plan) {
    line(text, "\nOn each host");
    if plan.nodes.iter().any(|node| matches!(node.access, Access::Ssh(_))) {
        line(
            text,
            "  over SSH: /bin/sh with uname, getconf, df, find, cat, wc, sha256sum, chmod, mv and rm, to",
        );
        line(text, "  see where programs may run, put the agent's executable there, and start it");
        for (directory, names) in agent_directories(plan) {
            line(text, format_args!("  {directory}: {}", names.join(", ")));
        }
    }
    if plan.nodes.iter().any(|node| matches!(node.access, Access::Local)) {
        line(text, "  on this machine: the agent is this program itself, as a child process");
    }
    line(
        text,
        "  the agent opens no port for control; its data port takes connections only with the",
    );
    line(text, "  running test's token, from the expected address, and closes after the test");
}

/// What steps change on the hosts, once more where nobody can overlook it.
fn changes(text: &mut String, plan: &Plan) {
    let all = plan.steps.iter().chain(&plan.finally).filter(|step| !step.excluded);
    let mut changes: Vec<String> =
        all.filter_map(|step| show_steps::change(plan, &step.action)).collect();
    changes.dedup();
    if changes.is_empty() {
        return;
    }
    line(text, "\nCHANGED ON THE HOSTS AND RESTORED");
    for change in changes {
        line(text, format_args!("  {change}"));
    }
    line(text, "  needs root there; the agents restore it also when this machine is gone");
}

/// Where agents go, and on which nodes.
fn agent_directories(plan: &Plan) -> Vec<(String, Vec<&str>)> {
    let mut directories: Vec<(String, Vec<&str>)> = Vec::new();
    for node in plan.nodes.iter().filter(|node| matches!(node.access, Access::Ssh(_))) {
        let usual = AGENT_DIRS.join(", ");
        let directory = match &node.agent_dir {
            Some(first) => format!("to the first that works of {first}, {usual}"),
            None => format!("to the first that works of {usual}"),
        };
        match directories.iter_mut().find(|(known, _)| *known == directory) {
            Some((_, names)) => names.push(&node.name),
            None => directories.push((directory, vec![&node.name])),
        }
    }
    directories
}

fn limits(text: &mut String, limits: &Limits) {
    let mut all = Vec::new();
    all.extend(limits.rate.map(|rate| format!("{rate} per node")));
    all.extend(limits.bytes.map(|bytes| format!("{bytes} in all")));
    all.extend(limits.cpu.map(|cpu| format!("{cpu} of a host's CPU time")));
    all.extend(limits.load.map(|load| format!("load average {load} per CPU")));
    all.extend(limits.window.map(|window| {
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        format!("tests start only from {} to {}", time(window.from_minute), time(window.to_minute))
    }));
    match all.is_empty() {
        true => line(text, "\nLimits: none"),
        false => line(text, format_args!("\nLimits: {}", all.join("; "))),
    }
}

fn totals(text: &mut String, plan: &Plan, cost: &Cost) {
    line(text, format_args!("Time: {}, without reaching the nodes", range_text(cost.time)));
    match cost.bytes {
        Some(bytes) => {
            let least = cost.bytes_least.filter(|least| *least < bytes);
            let least = least.map_or(String::new(), |least| format!("{least} to "));
            line(text, format_args!("Sent over the network: {least}at most {bytes}"));
        }
        None => line(
            text,
            "Sent over the network: unknown; state limits.rate, limits.bytes or the network's bandwidth",
        ),
    }
    if let (Some(all), Some(limit)) = (cost.bytes_without_limit, plan.limits.bytes)
        && all > limit
    {
        line(
            text,
            format_args!("The steps could send {all}; the limit of {limit} would end the run"),
        );
    }
    if cost.scratch.0 > 0 {
        line(text, format_args!("Written to scratch files: {}", cost.scratch));
    }
    let formats: Vec<&str> = plan
        .formats
        .iter()
        .map(|format| match format {
            ReportFormat::Html => "html",
            ReportFormat::Markdown => "markdown",
            ReportFormat::Json => "json",
        })
        .collect();
    line(text, format_args!("Report: {}", formats.join(", ")));
}

fn leaves_behind(text: &mut String, plan: &Plan) {
    line(
        text,
        match plan.agent {
            AgentAfterRun::Remove => "Left on the nodes: nothing",
            AgentAfterRun::Keep => "Left on the nodes: the agent's executable, for the next run",
        },
    );
}

pub(super) fn range_text(range: TimeRange) -> String {
    let (min, max) = (time_text(range.min), time_text(range.max));
    if min == max { max } else { format!("{min} to {max}") }
}

/// To the second above a minute, to the minute above an hour.
pub(super) fn time_text(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 {
        let us = time.as_micros();
        return match us % 1000 {
            0 => format!("{} ms", us / 1000),
            _ => format!("{us} us"),
        };
    }
    if seconds < 60.0 {
        let text = format!("{seconds:.1}");
        return format!("{} s", text.trim_end_matches(".0"));
    }
    let whole = seconds.round() as u64;
    let part = |count: u64, unit: &str| match count {
        0 => String::new(),
        count => format!(" {count} {unit}"),
    };
    if whole < 3600 {
        return format!("{} min{}", whole / 60, part(whole % 60, "s"));
    }
    let minutes = whole / 60;
    format!("{} h{}", minutes / 60, part(minutes % 60, "min"))
}
