//! Advice about socket buffers and the settings that bound them.

use redoline_proto::facts::TcpSettings;
use redoline_proto::units::Bytes;

use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::bdp::{BufferNeed, RateSource, usable};
use crate::analysis::finding::{Detail, Finding, FindingId, Setting};
use crate::analysis::words::{percent, rate};
use crate::plan::node::NodeId;

/// To about here MAA doubles a maximum from 16 MiB on, measuring each time.
const USUAL: Bytes = Bytes(128 * Bytes::MIB);
/// Beyond it, two connections may fill what a small host has for all of TCP.
const LARGE: Bytes = Bytes(512 * Bytes::MIB);

pub(super) fn raise_maximum(ground: &Ground<'_>) -> Option<Draft> {
    let need = ground
        .findings
        .iter()
        .filter_map(|finding| needed(finding))
        .max_by(|a, b| a.buffer().cmp(&b.buffer()))?;
    let fixed = ground.findings.iter().any(|finding| is_fixed(finding));
    let most = need.setting();
    let (mut commands, mut undo) = (Vec::new(), Vec::new());
    for node in ground.all_nodes() {
        let Some(facts) = ground.case.facts(node) else { continue };
        let (lines, before) = buffer_lines(&facts.tcp, most, fixed);
        if !lines.is_empty() {
            undo.push(format!("{}: {}", ground.case.name(node), before.join("; ")));
            commands.push(Command { nodes: vec![node], kind: CommandKind::Sysctl, lines });
        }
    }
    let tns = oracle_net(ground, need);
    // What a socket can use ends where the setting does.
    let beyond = match need.buffer().0 > most.0 {
        true => " A TCP window ends at 1 GiB, so one stream cannot use more than that.",
        false => "",
    };
    let held = ground.findings.iter().find_map(|finding| match &finding.detail {
        Detail::Window(bound) => Some(bound.stream),
        _ => None,
    });
    let effect = match held {
        Some(stream) if need.source == RateSource::Measured => format!(
            "A single stream can rise from {} to what the path carries ({}), unless something else \
             holds it then.",
            rate(stream),
            rate(need.rate)
        ),
        Some(stream) => format!(
            "A single stream can rise from {}, unless something else holds it then: {}.",
            rate(stream),
            need.reach()
        ),
        None => format!("Buffers can grow to what {} over this round trip take.", rate(need.rate)),
    };
    Some(Draft {
        action: format!(
            "Raise the maximum of the socket buffers to {most} on both sides: 3 × BDP is {} ({} × \
             {:.1} ms; the rate is {}).{beyond} Put the lines into /etc/sysctl.d/ and load them with \
             sysctl --system; redo transport takes them up when its destination is deferred and \
             enabled again.{} Oracle Net needs no sizes of its own then; where they are set \
             (SEND_BUF_SIZE, RECV_BUF_SIZE), auto-tuning is off, net.core bounds them, and they have \
             to be as large. A larger SDU helps SYNC transport only.",
            need.buffer(),
            rate(need.rate),
            need.min_rtt.as_secs_f64() * 1e3,
            need.source,
            granted(ground)
        ),
        commands: merged(commands).into_iter().chain([tns]).collect(),
        expected_effect: effect,
        how_to_verify: ground.again(),
        how_to_undo: format!("Set the former values again. {}", undo.join(". ")),
        risk: format!(
            "{} Each connection with a long round trip, of any program, may use up to {most} of memory \
             in each direction, within net.ipv4.tcp_mem.",
            risk(ground, &ground.all_nodes(), most)
        ),
        needs_root: true,
        licence: None,
    })
}

/// What was asked for, granted and usable at both ends of the test that the finding rests on.
fn granted(ground: &Ground<'_>) -> String {
    let tests = ground.findings.iter().flat_map(|finding| {
        let pair = finding.pairs.first().copied();
        finding.evidence.iter().map(move |evidence| (evidence.measurement, pair))
    });
    let found = tests.into_iter().find_map(|(id, pair)| {
        let test = ground.analysis.throughputs.iter().find(|test| test.id == id)?;
        let pair = match pair {
            Some(pair) => test.pair(pair)?,
            None => test.pairs.first()?,
        };
        Some((test, pair))
    });
    let Some((test, pair)) = found else { return String::new() };
    let socket = &test.request.socket;
    let asked = |own: Option<u64>| {
        own.or(socket.socket_buffer_bytes)
            .map_or_else(|| "nothing (auto-tuned)".to_owned(), |bytes| Bytes(bytes).to_string())
    };
    let end = |name: &str, own: Option<u64>, granted: Option<Bytes>| {
        let granted = granted?;
        Some(format!(
            "{name}: {} asked, {granted} granted, at least {} of it usable",
            asked(own),
            usable(granted)
        ))
    };
    let ends = [
        end("sender", socket.send_buffer_bytes, pair.granted.send_buffer),
        end("receiver", socket.receive_buffer_bytes, pair.granted.receive_buffer),
    ];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    let forced = match pair.kernel.buffer_forced {
        true => " The test set it past the system's maximum, as root; databases cannot.",
        false => "",
    };
    match ends.is_empty() {
        true => String::new(),
        false => format!(" Measured at the {}.{forced}", ends.join("; at the ")),
    }
}

/// By the size that a single connection may take, and of which share of the smallest node's memory.
fn risk(ground: &Ground<'_>, nodes: &[NodeId], size: Bytes) -> String {
    let level = match size {
        size if size <= USUAL => return "Low.".to_owned(),
        size if size <= LARGE => "Moderate",
        _ => "High",
    };
    let memory =
        nodes.iter().filter_map(|node| Some((*node, ground.case.facts(*node)?.memory_bytes?)));
    let smallest = memory.filter(|(_, bytes)| *bytes > 0).min_by_key(|(_, bytes)| *bytes);
    let share = smallest.map_or(String::new(), |(node, bytes)| {
        let share = percent(100.0 * size.0 as f64 / bytes as f64);
        format!(
            ", and 100 such connections may take {share} of the memory of {}",
            ground.case.name(node)
        )
    });
    format!("{level}: {size} are more than the {USUAL} that maxima are usually raised to{share}.")
}

/// The sizes that Oracle Net would need, where it sets any.
fn oracle_net(ground: &Ground<'_>, need: BufferNeed) -> Command {
    let size = need.buffer().min(need.setting()).0;
    Command {
        nodes: ground.all_nodes(),
        kind: CommandKind::TnsnamesOra,
        lines: vec![
            format!(
                "# only where sizes are set; needs net.core.wmem_max and rmem_max of {size} or more"
            ),
            format!("(DESCRIPTION=(SEND_BUF_SIZE={size})(RECV_BUF_SIZE={size})(ADDRESS=…)…)"),
        ],
    }
}

fn needed(finding: &Finding) -> Option<BufferNeed> {
    match &finding.detail {
        Detail::Window(bound) => bound.need,
        Detail::Buffers(need) => Some(*need),
        _ => None,
    }
}

/// Buffers that are asked for are bounded by net.core, not by net.ipv4.
fn is_fixed(finding: &Finding) -> bool {
    match &finding.detail {
        Detail::Window(bound) => {
            matches!(bound.setting, Setting::CoreWmem | Setting::CoreRmem | Setting::Requested)
        }
        _ => finding.id == FindingId::BufferCapped,
    }
}

/// New lines and the former ones; minimum and default stay, and no maximum is lowered.
fn buffer_lines(tcp: &TcpSettings, most: Bytes, fixed: bool) -> (Vec<String>, Vec<String>) {
    let tuned = [
        ("net.ipv4.tcp_wmem", tcp.wmem_min_bytes, tcp.wmem_default_bytes, tcp.wmem_max_bytes),
        ("net.ipv4.tcp_rmem", tcp.rmem_min_bytes, tcp.rmem_default_bytes, tcp.rmem_max_bytes),
    ];
    let (mut lines, mut former) = (Vec::new(), Vec::new());
    for (key, least, usual, now) in tuned {
        let (Some(least), Some(usual), Some(now)) = (least, usual, now) else { continue };
        if now < most.0 {
            lines.push(format!("{key} = {least} {usual} {}", most.0));
            former.push(format!("{key} = {least} {usual} {now}"));
        }
    }
    if fixed {
        let (core, before) = core_lines(tcp, most);
        lines.extend(core);
        former.extend(before);
    }
    (lines, former)
}

/// Of what bounds buffers that are asked for; no maximum is lowered.
fn core_lines(tcp: &TcpSettings, most: Bytes) -> (Vec<String>, Vec<String>) {
    let core = [
        ("net.core.wmem_max", tcp.core_wmem_max_bytes),
        ("net.core.rmem_max", tcp.core_rmem_max_bytes),
    ];
    let below = core.into_iter().filter_map(|(key, now)| Some((key, now?)));
    below
        .filter(|(_, now)| *now < most.0)
        .map(|(key, now)| (format!("{key} = {}", most.0), format!("{key} = {now}")))
        .unzip()
}

/// Nodes with the same lines share a command.
fn merged(commands: Vec<Command>) -> Vec<Command> {
    let mut merged: Vec<Command> = Vec::new();
    for command in commands {
        let same = merged
            .iter_mut()
            .find(|known| known.lines == command.lines && known.kind == command.kind);
        match same {
            Some(known) => known.nodes.extend(command.nodes),
            None => merged.push(command),
        }
    }
    merged
}

pub(super) fn fixed(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    let Detail::FixedBuffer(bytes) = finding.detail else { return None };
    let size = bytes.0;
    let nodes = ground.ends(finding);
    let (mut core, mut undo) = (Vec::new(), Vec::new());
    for node in nodes.iter().copied() {
        let Some(facts) = ground.case.facts(node) else { continue };
        let (lines, before) = core_lines(&facts.tcp, bytes);
        if !lines.is_empty() {
            undo.push(format!(" {}: {}.", ground.case.name(node), before.join("; ")));
            core.push(Command { nodes: vec![node], kind: CommandKind::Sysctl, lines });
        }
    }
    let tns = Command {
        nodes: nodes.clone(),
        kind: CommandKind::TnsnamesOra,
        lines: vec![format!(
            "(DESCRIPTION=(SEND_BUF_SIZE={size})(RECV_BUF_SIZE={size})(ADDRESS=…)…)"
        )],
    };
    let former = match undo.is_empty() {
        true => String::new(),
        false => format!(" Set the former maxima again.{}", undo.concat()),
    };
    Some(Draft {
        action: format!(
            "Set the socket buffers of the Data Guard connections to {bytes} in Oracle Net, on \
             both sides. Prefer a higher maximum for auto-tuning where that reaches the same rate: \
             a fixed buffer switches auto-tuning off."
        ),
        commands: merged(core).into_iter().chain([tns]).collect(),
        expected_effect: finding.sentence.clone(),
        how_to_verify: ground.again(),
        how_to_undo: format!(
            "Put the former SEND_BUF_SIZE and RECV_BUF_SIZE, or none, back into the connect \
             descriptors and restart redo transport.{former}"
        ),
        risk: format!(
            "{} Every connection of these descriptors takes up to {bytes} per side.",
            risk(ground, &nodes, bytes)
        ),
        needs_root: !undo.is_empty(),
        licence: None,
    })
}
