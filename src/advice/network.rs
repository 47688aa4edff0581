//! Advice about the way between the nodes.

use redoline_proto::units::BytesPerSecond;

use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::finding::{Confidence, Detail, Finding, FindingId, PerFlow};
use crate::analysis::words::{list, rate};
use crate::plan::node::{Direction, NodeId, Role};

impl Ground<'_> {
    /// The step that a finding rests on, for `--only`.
    fn step(&self, finding: &Finding) -> Option<&str> {
        let id = finding.evidence.first()?.measurement;
        let test = self.analysis.throughputs.iter().find(|one| one.id == id).map(|one| one.step);
        let path = || self.analysis.paths.iter().find(|one| one.id == id).map(|one| one.step);
        self.case.setup().steps.get(test.or_else(path)?).map(|step| &*step.name)
    }

    /// How to see whether a change worked.
    pub(super) fn again(&self) -> String {
        let only = self
            .findings
            .iter()
            .find_map(|finding| self.step(finding))
            .map_or(String::new(), |step| format!(" --only \"{step}\""));
        self.run_of(&only)
    }

    /// The same where a step that the run had no test of has to be added first.
    pub(super) fn again_with_more(&self) -> String {
        format!("Add the step to the runbook; {}", self.run_of(""))
    }

    fn run_of(&self, only: &str) -> String {
        format!(
            "redoline run RUNBOOK -i INVENTORY{only}, and compare with run {}",
            self.case.record.run_id
        )
    }

    pub(super) fn devices(&self) -> String {
        let devices = &self.case.setup().network.devices;
        match devices.is_empty() {
            true => String::new(),
            false => format!(" Declared on the way: {}.", list(devices)),
        }
    }

    /// The highest rate that a thread's stream needs, with headroom.
    fn required_per_stream(&self) -> Option<BytesPerSecond> {
        let need = self.case.setup().need.as_ref()?;
        let rates = need.threads.values().map(|peak| need.with_headroom(*peak));
        rates.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    pub(super) fn ends(&self, finding: &Finding) -> Vec<NodeId> {
        let setup = self.case.setup();
        let pairs = finding.pairs.iter().map(|pair| setup.pairs[pair.0]);
        let mut nodes: Vec<NodeId> = pairs.flat_map(|pair| [pair.primary, pair.standby]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    pub(super) fn primaries(&self) -> Vec<NodeId> {
        let setup = self.case.setup();
        self.all_nodes()
            .into_iter()
            .filter(|node| setup.nodes[node.0].role == Role::Primary)
            .collect()
    }

    pub(super) fn standbys(&self) -> Vec<NodeId> {
        let setup = self.case.setup();
        self.all_nodes()
            .into_iter()
            .filter(|node| setup.nodes[node.0].role == Role::Standby)
            .collect()
    }

    /// By which factor redo would have to shrink for the needs that are missed where surely the network,
    /// and not a node, holds the rate.
    pub(super) fn shrink_factor(&self) -> Option<f64> {
        let findings = &self.analysis.findings;
        let held_by_network = |finding: &Finding, required: BytesPerSecond| {
            let here = findings.iter().filter(|one| one.direction == finding.direction);
            here.filter(|one| is_sure(one)).any(|one| match (one.id, &one.detail) {
                (FindingId::PerFlowLimit | FindingId::LossLimited, _) => true,
                (FindingId::LinkLimited, Detail::Limit(carried)) => carried.0 < required.0,
                _ => false,
            })
        };
        let missed = findings.iter().filter(|finding| finding.id == FindingId::NeedNotMet);
        missed
            .flat_map(|finding| finding.needs.iter().map(move |need| (finding, need)))
            .filter(|(finding, need)| held_by_network(finding, need.required))
            .filter_map(|(_, need)| Some(need.required.0 / need.measured?.0))
            .max_by(f64::total_cmp)
            .filter(|factor| factor.is_finite())
    }

    /// All nodes of all pairs: a role change turns senders into receivers.
    pub(super) fn all_nodes(&self) -> Vec<NodeId> {
        (0..self.case.setup().nodes.len()).map(NodeId).collect()
    }
}

pub(super) fn ask(line: String) -> Command {
    Command { nodes: Vec::new(), kind: CommandKind::Network, lines: vec![line] }
}

/// Sure enough for a circuit, a licence, or a change of the network.
fn is_sure(finding: &Finding) -> bool {
    finding.confidence >= Confidence::Likely
}

/// The surest.
fn per_flow<'a>(ground: &Ground<'a>) -> Option<(&'a Finding, PerFlow)> {
    let limits = ground.findings.iter().rev().filter_map(|finding| match finding.detail {
        Detail::PerFlow(limit) => Some((*finding, limit)),
        _ => None,
    });
    limits.max_by_key(|(finding, _)| finding.confidence)
}

pub(super) fn lift_per_flow(ground: &Ground<'_>) -> Option<Draft> {
    let (finding, limit) = per_flow(ground)?;
    let required = ground.required_per_stream();
    let target = required.unwrap_or(limit.aggregate);
    let why = match required {
        Some(_) => "what the busiest redo thread needs with headroom",
        None => "what the path carries in all",
    };
    let ways: Vec<String> = ground
        .findings
        .iter()
        .flat_map(|finding| finding.pairs.iter().map(move |pair| (pair, finding.direction)))
        .filter_map(|(pair, direction)| Some(ground.case.way(*pair, direction?)))
        .collect();
    if !is_sure(finding) {
        return Some(look_for_per_flow(ground, &ways, limit));
    }
    let tcp = format!(
        "Please let a single TCP connection between the redo addresses of {} carry at least {} \
         ({why}). Measured: one connection {}, {} together {}. Look for a shaper, policer or QoS \
         class that works per flow.{}",
        list(&ways),
        rate(target),
        rate(limit.stream),
        limit.num_conn,
        rate(limit.aggregate),
        ground.devices()
    );
    Some(Draft {
        action: format!(
            "Have the limit per flow lifted to at least {}, or the redo traffic exempted from it \
             (a QoS class or a path of its own). Each redo thread is shipped by one connection, so \
             more connections do not help it; they do help instantiation.",
            rate(target)
        ),
        commands: vec![ask(tcp)],
        expected_effect: format!(
            "One stream can rise from {} to as much as the path has free ({} in all).",
            rate(limit.stream),
            rate(limit.aggregate)
        ),
        how_to_verify: ground.again(),
        how_to_undo: "The network team restores the former limit.".to_owned(),
        risk: "A single stream can then take what other traffic on the path uses today; a class \
               for redo with a guaranteed share avoids that."
            .to_owned(),
        needs_root: false,
        licence: None,
    })
}

/// Something else fits, too: nobody is asked to change anything.
fn look_for_per_flow(ground: &Ground<'_>, ways: &[String], limit: PerFlow) -> Draft {
    Draft {
        action: "Find out first whether the network limits each flow: what else fits is named in the \
                 finding. Each redo thread is shipped by one connection, so more connections do not \
                 help it; they do help instantiation."
            .to_owned(),
        commands: vec![ask(format!(
            "Is there a shaper, policer or QoS class that works per flow between the redo addresses of \
             {}? Measured: one connection {}, {} together {}.{}",
            list(ways),
            rate(limit.stream),
            limit.num_conn,
            rate(limit.aggregate),
            ground.devices()
        ))],
        expected_effect: "A cause instead of a guess.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "Nothing is changed.".to_owned(),
        risk: "None: it only asks.".to_owned(),
        ..Draft::default()
    }
}

/// What exceeds the path in a direction: a need, or a copy that has to be in time.
fn beyond(
    ground: &Ground<'_>,
    link: &Finding,
) -> Option<(Direction, BytesPerSecond, BytesPerSecond)> {
    let (direction, Detail::Limit(carried)) = (link.direction?, &link.detail) else { return None };
    let here = || ground.analysis.findings.iter().filter(|one| one.direction == Some(direction));
    let missed = here()
        .filter(|finding| finding.id == FindingId::NeedNotMet)
        .flat_map(|finding| finding.needs.iter().map(|need| need.required));
    let copies = here().filter_map(|finding| match (&finding.detail, finding.id) {
        (
            Detail::Instantiation { busy_seconds, goal_seconds, .. },
            FindingId::InstantiationTooSlow,
        ) => Some(BytesPerSecond(carried.0 * busy_seconds / goal_seconds)),
        _ => None,
    });
    let target = missed.chain(copies).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (target.0 > carried.0).then_some((direction, *carried, target))
}

pub(super) fn more_bandwidth(ground: &Ground<'_>) -> Option<Draft> {
    let sure = ground.findings.iter().filter(|link| is_sure(link));
    let short: Vec<_> = sure.filter_map(|link| beyond(ground, link)).collect();
    if short.is_empty() {
        return None;
    }
    let wishes: Vec<String> = short
        .iter()
        .map(|(direction, carried, target)| {
            format!("from {direction} {} instead of {}", rate(*target), rate(*carried))
        })
        .collect();
    Some(Draft {
        action: format!(
            "The path itself is full; it takes {}. Have its bandwidth raised, or reduce what has \
             to cross it.",
            list(&wishes)
        ),
        commands: vec![ask(format!(
            "Please provide at least this much TCP payload: {}.{}",
            list(&wishes),
            ground.devices()
        ))],
        expected_effect: "The rate follows the path's bandwidth until the next limit.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "None needed.".to_owned(),
        risk: "None for the databases; cost of the circuit.".to_owned(),
        needs_root: false,
        licence: None,
    })
}

pub(super) fn find_losses(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    let nodes = ground.ends(finding);
    Some(Draft {
        action: "Find where packets are lost. Start with the error and drop counters of both \
                 nodes' interfaces, then have the network team look at each device on the way."
            .to_owned(),
        commands: vec![
            Command { nodes, kind: CommandKind::Shell, lines: vec!["ip -s -s link".to_owned()] },
            ask(format!(
                "Please look for drops and errors on the way. {}{}",
                finding.sentence,
                ground.devices()
            )),
        ],
        expected_effect: "The rate of a stream grows with one over the square root of the loss: a \
                          quarter of the losses doubles it."
            .to_owned(),
        how_to_verify: format!(
            "{}. Whether a limit per flow is the cause instead: add congestion_control: bbr to the \
             step; it gets past random loss, but not past a limit.",
            ground.again()
        ),
        how_to_undo: "Nothing is changed.".to_owned(),
        risk: "None: it only looks.".to_owned(),
        needs_root: false,
        licence: None,
    })
}

/// Where the network and not a node holds the rate, less redo is a way out.
pub(super) fn compress_redo(ground: &Ground<'_>) -> Option<Draft> {
    let factor = ground.shrink_factor()?;
    Some(Draft {
        action: format!(
            "If the network cannot be changed: redo transport compression (COMPRESSION=ENABLE in \
             LOG_ARCHIVE_DEST_n). It has to shrink the redo by a factor of {factor:.1} to meet the \
             need; redo of encrypted tablespaces hardly shrinks.",
        ),
        commands: Vec::new(),
        expected_effect: "The required rate falls by the factor that the redo shrinks by; measure \
                          it on archived logs first (gzip -1 shows the order of it)."
            .to_owned(),
        how_to_verify: "Transport lag in V$DATAGUARD_STATS at peak time.".to_owned(),
        how_to_undo: "The former value of the destination.".to_owned(),
        risk: "Processor time on the primary, which can lengthen the transport lag.".to_owned(),
        needs_root: false,
        licence: Some("Oracle Advanced Compression"),
    })
}

pub(super) fn jumbo(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    let Detail::Mtu(mtu) = finding.detail else { return None };
    Some(Draft {
        action: format!(
            "Use an MTU of {mtu} on the redo interfaces of all nodes, once every device on the way \
             is known to carry it in both directions."
        ),
        commands: vec![ask(format!(
            "Please confirm an MTU of {mtu} on every hop between the redo addresses, in both \
             directions, and that ICMP \"fragmentation needed\" is not filtered.{}",
            ground.devices()
        ))],
        expected_effect: finding.sentence.clone(),
        how_to_verify: ground.again(),
        how_to_undo: "Set the former MTU on the interfaces.".to_owned(),
        risk: "A hop with a smaller MTU that drops silently stops the redo altogether.".to_owned(),
        needs_root: true,
        licence: None,
    })
}

pub(super) fn directions(ground: &Ground<'_>) -> Option<Draft> {
    let sentences: Vec<&str> = ground.findings.iter().map(|finding| &*finding.sentence).collect();
    Some(Draft {
        action: "Find out why the directions differ: routes, QoS classes and circuits are often \
                 set up per direction. After a role change the slower one carries the redo."
            .to_owned(),
        commands: vec![ask(format!(
            "Please compare route, shaping and utilisation of both directions. {}{}",
            sentences.join(" "),
            ground.devices()
        ))],
        expected_effect: "Both directions carry what the better one does.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "Nothing is changed.".to_owned(),
        risk: "None: it only looks.".to_owned(),
        needs_root: false,
        licence: None,
    })
}

pub(super) fn declared(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    let Detail::Limit(declared) = finding.detail else { return None };
    Some(Draft {
        action: format!(
            "Ask where the difference to the declared {declared} goes: other traffic, a smaller \
             circuit on one section, or a device that cannot forward so much."
        ),
        commands: vec![ask(format!("{}{}", finding.sentence, ground.devices()))],
        expected_effect: format!("The path would carry close to {declared}."),
        how_to_verify: ground.again(),
        how_to_undo: "Nothing is changed.".to_owned(),
        risk: "None: it only asks.".to_owned(),
        needs_root: false,
        licence: None,
    })
}

pub(super) fn lift_limit(ground: &Ground<'_>) -> Option<Draft> {
    let limit = ground.findings.iter().find_map(|finding| match finding.detail {
        Detail::Limit(limit) => Some(limit),
        _ => None,
    })?;
    let need = ground.required_per_stream().filter(|need| need.0 > limit.0);
    let target = match need {
        // A node of several pairs divides its limit among them.
        Some(need) => {
            let of_node = ground.case.setup().limits.rate.unwrap_or(limit);
            let whole = BytesPerSecond(need.0 * (of_node.0 / limit.0).max(1.0));
            format!(" to more than {}", rate(whole))
        }
        None => String::new(),
    };
    Some(Draft {
        action: format!(
            "To learn what the path carries, raise limits.rate{target} in the runbook and measure \
             again, at a time that allows it."
        ),
        expected_effect: format!("The result is no longer held at {}.", rate(limit)),
        how_to_verify: ground.again(),
        how_to_undo: "Set limits.rate again.".to_owned(),
        risk: "The test takes bandwidth from others on the path while it runs.".to_owned(),
        ..Draft::default()
    })
}

/// By what is open: pairs that were left out, a copy that all pairs at once decide, a need, or only the
/// steadiness of a rate.
pub(super) fn measure_again(ground: &Ground<'_>) -> Option<Draft> {
    let open = |copy: bool| {
        let unjudged = |one: &&&Finding| one.id == FindingId::NeedCannotBeJudged;
        ground.findings.iter().filter(unjudged).any(|one| one.needs.is_empty() == copy)
    };
    let (action, how_to_verify) = match (ground.case.limited_to(), open(false), open(true)) {
        (Some(limited), ..) => (
            format!(
                "Measure all pairs of the configuration: this run was {limited}, so what all \
                 threads need together could not be judged."
            ),
            ground.run_of(""),
        ),
        (None, false, true) => (
            "Measure all nodes at once (nodes: together) with as many connections as a pair alone \
             was best with: what they carry together says how long a copy takes."
                .to_owned(),
            ground.again_with_more(),
        ),
        (None, true, _) => (
            "Measure again, longer and while the path is quiet; an open need is judged when its \
             interval is narrow enough and nothing of it is left out."
                .to_owned(),
            ground.again(),
        ),
        (None, false, false) => (
            "Measure again, longer and while the path is quiet: a rate that moves says little \
             about another time of day."
                .to_owned(),
            ground.again(),
        ),
    };
    let expected_effect = match open(false) || open(true) {
        true => "An answer for what could not be judged.",
        false => "A rate that holds for the whole test, or the knowledge that none does.",
    };
    Some(Draft {
        action,
        expected_effect: expected_effect.to_owned(),
        how_to_verify,
        how_to_undo: "Nothing is changed.".to_owned(),
        risk: "The test takes bandwidth from others on the path while it runs.".to_owned(),
        ..Draft::default()
    })
}
