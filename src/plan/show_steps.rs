//! The steps of a plan as text: every parameter that has an effect.

use redoline_proto::encoding::Encoding;
use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::transfer::Payload;
use redoline_proto::units::Bytes;

use super::Plan;
use super::cost::StepCost;
use super::node::{Direction, NodeId, PairId};
use super::show::time_text;
use super::step::{
    Action, BufferSize, InterfaceMtuSpec, Mode, Nodes, NumConn, PathSpec, Step, StorageReadSpec,
    TestTime, ThroughputSpec, Until, Vary,
};

/// What a step does, line by line.
pub fn details(plan: &Plan, step: &Step, cost: &StepCost) -> Vec<String> {
    match &step.action {
        Action::Topology(spec) => {
            let deadline = time_text(spec.deadline);
            vec![format!("topology on all nodes; answers are awaited for {deadline}")]
        }
        Action::Path(spec) => path(plan, spec, step.direction),
        Action::Throughput(spec) => throughput(plan, spec, step.direction, None),
        Action::Sweep(spec) => throughput(plan, &spec.throughput, step.direction, Some(&spec.vary)),
        Action::InterfaceMtu(spec) => interface_mtu(plan, spec, step.direction),
        Action::SwapRoles => vec![format!(
            "from here on {}: test direction only; no database switchover",
            step.direction
        )],
        Action::StorageRead(spec) => storage(plan, spec, cost),
        Action::Assert(spec) => {
            let mut lines: Vec<String> =
                spec.that.iter().map(|that| format!("asserts {}", that.text())).collect();
            if !spec.pairs.iter().copied().eq(plan.own_pairs()) {
                lines.push(format!("for {}", pair_names(plan, &spec.pairs)));
            }
            lines.extend(spec.message.as_ref().map(|message| format!("else: {message}")));
            lines
        }
    }
}

fn pair_names(plan: &Plan, pairs: &[PairId]) -> String {
    let names: Vec<String> = pairs.iter().map(|id| plan.pair_name(*id)).collect();
    names.join(", ")
}

fn in_turn(pairs: &[PairId]) -> &'static str {
    if pairs.len() > 1 { ", one after the other" } else { "" }
}

fn path(plan: &Plan, spec: &PathSpec, direction: Direction) -> Vec<String> {
    let sizes: Vec<String> = spec.packet_sizes.iter().map(u32::to_string).collect();
    let sizes = match sizes.as_slice() {
        [] => "of the interface's MTU".to_owned(),
        sizes => format!("of the interface's MTU and of {} B", sizes.join(", ")),
    };
    vec![
        format!("path {direction}: {}{}", pair_names(plan, &spec.pairs), in_turn(&spec.pairs)),
        format!(
            "{} small packets, one every {}; then packets {sizes} that may not be fragmented, and \
             if they are lost the largest that gets through",
            spec.probes,
            time_text(spec.spacing)
        ),
        format!(
            "then one stream for {}; probes are given up after {}",
            time_text(spec.load),
            time_text(spec.deadline)
        ),
    ]
}

fn interface_mtu(plan: &Plan, spec: &InterfaceMtuSpec, direction: Direction) -> Vec<String> {
    let mut lines: Vec<String> = held(plan, spec).into_iter().collect();
    lines.extend(throughput(plan, &spec.throughput, direction, None));
    lines.push(format!("three times: at the MTU as it is, at {}, and as it was", spec.mtu));
    lines
}

/// What an action changes on the hosts for its time.
pub fn change(plan: &Plan, action: &Action) -> Option<String> {
    match action {
        Action::InterfaceMtu(spec) => held(plan, spec),
        _ => None,
    }
}

fn held(plan: &Plan, spec: &InterfaceMtuSpec) -> Option<String> {
    let pairs = spec.throughput.pairs.iter().map(|id| plan.pair(*id));
    let mut nodes: Vec<NodeId> = pairs.flat_map(|pair| [pair.primary, pair.standby]).collect();
    nodes.sort();
    nodes.dedup();
    let names: Vec<String> = nodes
        .iter()
        .map(|id| plan.node(*id))
        .map(|node| format!("{} on {}", node.redo.bind, node.name))
        .collect();
    let (last, others) = names.split_last()?;
    let names = match others {
        [] => last.clone(),
        others => format!("{} and {last}", others.join(", ")),
    };
    Some(format!(
        "changes the MTU of the interfaces that hold {names} to {}, and restores it",
        spec.mtu
    ))
}

fn throughput(
    plan: &Plan,
    spec: &ThroughputSpec,
    direction: Direction,
    vary: Option<&Vary>,
) -> Vec<String> {
    let how = match spec.nodes {
        Nodes::Each => in_turn(&spec.pairs),
        Nodes::Together if spec.pairs.len() > 1 => ", all at once",
        Nodes::Together => "",
        Nodes::AllToOne => ", all at once to the first receiver",
    };
    let both = if spec.both_directions { " and the other way at the same time" } else { "" };
    let pairs = pair_names(plan, &spec.pairs);
    let mut lines = vec![format!("throughput {direction}{both}: {pairs}{how}")];
    lines.extend(vary.map(|vary| format!("at {}", varied(vary))));
    lines.extend(transport(&spec.mode));
    let one = vary.is_none() && !matches!(spec.num_conn, NumConn::Ladder(_));
    let interval = time_text(spec.interval);
    lines.push(format!(
        "{}, {}, counters read every {interval}",
        num_conn(&spec.num_conn),
        length(spec.time, one)
    ));
    lines.extend(spec.frequency.map(|frequency| {
        format!(
            "every {} for {}: {} times",
            time_text(frequency.every),
            time_text(frequency.during),
            frequency.tests()
        )
    }));
    lines.push(messages(spec, vary));
    lines.push(sockets(spec, vary));
    lines.extend(encoding(spec.encoding));
    lines
}

fn transport(mode: &Mode) -> Option<String> {
    match mode {
        Mode::Async => None,
        Mode::Fastsync => Some(
            "SYNC NOAFFIRM: one message at a time, acknowledged once it is in the receiver's memory"
                .to_owned(),
        ),
        Mode::Sync(write) => Some(format!(
            "SYNC AFFIRM: one message at a time, acknowledged once it is written to a new file of \
             {} in {}, removed at the end",
            Bytes(write.file_bytes),
            write.dir
        )),
    }
}

fn length(time: TestTime, one: bool) -> String {
    match time {
        TestTime::Fixed(duration) if one => format!("for {}", time_text(duration)),
        TestTime::Fixed(duration) => format!("for {} each", time_text(duration)),
        TestTime::Auto { target, max } => format!(
            "{}until the rate is known to ± {} %, at most {}",
            if one { "" } else { "each " },
            percent(target),
            time_text(max)
        ),
    }
}

/// 0.025 as `2.5`.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn messages(spec: &ThroughputSpec, vary: Option<&Vary>) -> String {
    let payload = match (spec.payload, spec.compressible) {
        (Payload::Random, None) => "random bytes".to_owned(),
        (Payload::Random, Some(share)) => {
            format!("random bytes of which {share} can be compressed away")
        }
        (Payload::Zeros, _) => "zeros".to_owned(),
    };
    let mut text = match vary {
        Some(Vary::MessageLength(_)) => format!("messages of {payload}"),
        _ => format!("{} messages of {payload}", spec.message),
    };
    if let Some(delay) = spec.delay {
        text.push_str(&format!(", {} between two", time_text(delay)));
    }
    if let Some(rate) = spec.pacing {
        text.push_str(&format!(", each stream paced to {rate}"));
    }
    if let Some(timeout) = spec.network_timeout {
        text.push_str(&format!(", ended after {} without an answer", time_text(timeout)));
    }
    text
}

fn sockets(spec: &ThroughputSpec, vary: Option<&Vary>) -> String {
    let mut parameters = Vec::new();
    if !matches!(vary, Some(Vary::SocketBuffer(_))) {
        parameters.push(match spec.socket_buffer {
            BufferSize::Auto => "socket buffers tuned by the system".to_owned(),
            size => format!("socket buffers {size}"),
        });
    }
    parameters.extend(spec.send_buffer.map(|size| format!("send buffer {size}")));
    parameters.extend(spec.receive_buffer.map(|size| format!("receive buffer {size}")));
    parameters.push(match &spec.congestion_control {
        None => "the system's congestion control".to_owned(),
        Some(name) => format!("congestion control {name}"),
    });
    parameters.extend(spec.mtu.map(|mtu| format!("segments for an MTU of {mtu}")));
    parameters.extend(spec.dscp.map(|dscp| format!("DSCP {dscp}")));
    parameters.extend(spec.device.as_ref().map(|device| format!("leaving through {device}")));
    parameters.extend(spec.source_port_base.map(|port| format!("from port {port} on")));
    parameters.join(", ")
}

fn encoding(encoding: Option<Encoding>) -> Option<String> {
    encoding.map(|encoding| match encoding {
        Encoding::Tls(cipher) => {
            format!("encrypted with TLS 1.3 {cipher}: a model of Oracle Net encryption")
        }
        Encoding::Compression(_) => {
            format!("compressed with {encoding}: a model of redo transport compression")
        }
    })
}

fn varied(vary: &Vary) -> String {
    let values: Vec<String> = match vary {
        Vary::SocketBuffer(sizes) => sizes.iter().map(BufferSize::to_string).collect(),
        Vary::Mtu(sizes) => sizes.iter().map(u32::to_string).collect(),
        Vary::MessageLength(sizes) => sizes.iter().map(Bytes::to_string).collect(),
        Vary::Encryption(ciphers) => ciphers.iter().map(|one| named(one.as_ref())).collect(),
        Vary::Compression(methods) => {
            methods.iter().map(|one| named(one.map(Encoding::Compression).as_ref())).collect()
        }
    };
    format!("{} {}", vary.key(), values.join(", "))
}

/// `none`, or what is done.
fn named(what: Option<&impl std::fmt::Display>) -> String {
    what.map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn num_conn(num_conn: &NumConn) -> String {
    let ladder = match num_conn {
        NumConn::Fixed(1) => return "1 connection".to_owned(),
        NumConn::Fixed(count) => return format!("{count} connections"),
        NumConn::Later(expression) => return format!("connections: {}", expression.text()),
        NumConn::Ladder(ladder) => ladder,
    };
    let tolerance = percent(ladder.tolerance);
    match ladder.until {
        Until::Plateau => format!(
            "{} connections, then {} more at a time, until three levels do not rise by {tolerance} \
             %, at most {}",
            ladder.from, ladder.step, ladder.max
        ),
        Until::Knee => {
            let first: Vec<String> = ladder.levels().take(5).map(|n| n.to_string()).collect();
            let more = if ladder.levels().count() > 5 { ", …" } else { "" };
            format!(
                "{}{more} connections, until two of at least four levels do not rise by \
                 {tolerance} %, at most {}; then the two best again, twice",
                first.join(", "),
                ladder.max
            )
        }
    }
}

fn storage(plan: &Plan, spec: &StorageReadSpec, cost: &StepCost) -> Vec<String> {
    let names: Vec<&str> =
        spec.nodes.iter().map(|id: &NodeId| plan.node(*id).name.as_str()).collect();
    let target = match &spec.target {
        StorageTarget::File(path) => format!("file {path}, read only"),
        StorageTarget::Device(path) => format!("device {path}, read only"),
        StorageTarget::Scratch { dir, size } => {
            format!("a scratch file of {size} in {dir}, removed at the end")
        }
    };
    let mut lines = vec![format!("storage_read on {}: {target}", names.join(", "))];
    let length = time_text(spec.duration);
    for pattern in &spec.patterns {
        lines.push(match pattern {
            StoragePattern::SingleBlock => format!(
                "single_block: {} reads, {} at a time, for {length} each",
                spec.block,
                counts(&spec.sessions)
            ),
            StoragePattern::DirectPath => format!(
                "direct_path: {} reads, {} outstanding, for {length} each",
                spec.request,
                counts(&spec.slots)
            ),
        });
    }
    if cost.scratch.0 > 0 {
        lines.push(format!("writes {} in all before it reads", cost.scratch));
    }
    lines
}

fn counts(counts: &[u32]) -> String {
    let texts: Vec<String> = counts.iter().map(u32::to_string).collect();
    texts.join(", ")
}
