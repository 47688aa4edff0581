//! Advice about nodes and their storage.

use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::case::Case;
use crate::analysis::words::list;
use crate::plan::node::NodeId;
use crate::record::event::StepOutcome;
use crate::record::measurement::{Failure, FailureCause};

impl Ground<'_> {
    fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> =
            self.findings.iter().flat_map(|finding| finding.nodes.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn sentences(&self) -> String {
        let sentences: Vec<&str> = self.findings.iter().map(|finding| &*finding.sentence).collect();
        sentences.join(" ")
    }

    fn shell(&self, lines: &[&str]) -> Vec<Command> {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        vec![Command { nodes: self.nodes(), kind: CommandKind::Shell, lines }]
    }
}

const LOOKS: &str = "None: it only looks.";
const UNCHANGED: &str = "Nothing is changed.";

/// Of [`ended_by_limit`].
pub(super) const ENDED: &str = "quieten-the-host";
/// How agents begin to say that `limits.cpu` ended a test.
const BUSY: &str = "the host's processors were";

/// Measuring again, however long, ends the same way as long as the host is as busy.
pub(super) fn ended_by_limit(case: Case<'_>) -> Option<Draft> {
    let limit = case.setup().limits.cpu?;
    let steps = case.record.steps.iter().filter_map(|step| match &step.outcome {
        Some(StepOutcome::Failed { failures }) => Some(failures.iter().map(|one| &one.failure)),
        _ => None,
    });
    let pairs = case.record.throughputs().flat_map(|test| &test.pairs);
    let all = steps.flatten().chain(pairs.filter_map(|pair| pair.failure.as_ref()));
    let ended: Vec<&Failure> =
        all.filter(|one| one.cause == FailureCause::Limit && one.text.contains(BUSY)).collect();
    let first = ended.first()?;
    let mut nodes: Vec<NodeId> = ended.iter().filter_map(|one| one.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let place = match nodes.is_empty() {
        true => "the busy node".to_owned(),
        false => case.names(&nodes),
    };
    let lines = ["mpstat -P ALL 1 10", "ps -eo pcpu,pid,comm --sort=-pcpu | head"];
    Some(Draft {
        action: format!(
            "limits.cpu ({limit}) ended the run: {}. Find out what else uses the processors of \
             {place}, measure at a quieter hour, or raise limits.cpu where the host can spare it; \
             the rest of the run was not measured.",
            first.text
        ),
        commands: vec![Command {
            nodes,
            kind: CommandKind::Shell,
            lines: lines.map(str::to_owned).to_vec(),
        }],
        expected_effect: "The run goes on to its end.".to_owned(),
        how_to_verify: format!(
            "redoline run RUNBOOK -i INVENTORY, and compare with run {}",
            case.record.run_id
        ),
        how_to_undo: "Set limits.cpu again.".to_owned(),
        risk: "With a higher limit the test takes more processor time from the database."
            .to_owned(),
        ..Draft::default()
    })
}

pub(super) fn free_processor(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Find out what uses the processors of {}: other processes, interrupts on one core, or \
             the hypervisor. A database process that ships redo meets the same limit.",
            ground.case.names(&ground.nodes())
        ),
        commands: ground.shell(&["mpstat -P ALL 1 10", "cat /proc/interrupts"]),
        expected_effect: "The rate rises until the network or the next limit holds it.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: LOOKS.to_owned(),
        ..Draft::default()
    })
}

pub(super) fn look_at_reader(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Find out what the receiving process on {} waits for: a debugger or tracer, memory that \
             is paged in, a disk, or a stop signal. It is the test's own agent here; what slows it \
             may slow the database's receiver (RFS) as well.",
            ground.case.names(&ground.nodes())
        ),
        commands: ground.shell(&["vmstat 1 10", "ps -eo pid,stat,wchan:20,comm --sort=stat"]),
        expected_effect: "The rate rises until the network or the next limit holds it.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: LOOKS.to_owned(),
        ..Draft::default()
    })
}

pub(super) fn spread_interrupts(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Spread the interrupts of the redo interface on {} over several cores: more receive \
             queues (ethtool -L), irqbalance, or receive packet steering (rps_cpus). One connection \
             stays on one core whatever is set.",
            ground.case.names(&ground.nodes())
        ),
        commands: ground.shell(&[
            "cat /proc/interrupts",
            "cat /proc/net/softnet_stat",
            "ethtool -l INTERFACE",
        ]),
        expected_effect: "Several connections together are no longer held by one core.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "Set the former number of queues, or the former rps_cpus.".to_owned(),
        risk: "Changing the queues of an interface interrupts its traffic for a moment.".to_owned(),
        needs_root: true,
        ..Draft::default()
    })
}

pub(super) fn interface_speed(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Look at what the redo interfaces of {} negotiated and what they can: cable, switch \
             port, autonegotiation; or give redo a faster interface. {}",
            ground.case.names(&ground.nodes()),
            ground.sentences()
        ),
        commands: ground.shell(&["ethtool INTERFACE"]),
        expected_effect: "The interface no longer bounds what the path could carry.".to_owned(),
        how_to_verify: "redoline shows the new speed in the topology; then the same steps again."
            .to_owned(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "Renegotiating drops the link for seconds.".to_owned(),
        needs_root: true,
        ..Draft::default()
    })
}

pub(super) fn compare_nodes(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Compare the nodes of {} with the others of their clusters: sysctl settings, interface \
             speed and offloads, route, bonding. {}",
            ground.case.names(&ground.nodes()),
            ground.sentences()
        ),
        commands: ground.shell(&["sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem", "ip route"]),
        expected_effect: "The slow pair carries what the others carry.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: LOOKS.to_owned(),
        ..Draft::default()
    })
}

pub(super) fn fair_queue(ground: &Ground<'_>) -> Option<Draft> {
    let nodes = ground.nodes();
    let former: Vec<String> = nodes
        .iter()
        .filter_map(|node| {
            let qdisc = ground.case.facts(*node)?.tcp.default_qdisc.as_deref()?;
            Some(format!("{}: net.core.default_qdisc = {qdisc}", ground.case.name(*node)))
        })
        .collect();
    Some(Draft {
        action: "Where bbr is used, give the redo interface the queueing discipline fq.".to_owned(),
        commands: vec![Command {
            nodes,
            kind: CommandKind::Sysctl,
            lines: vec!["net.core.default_qdisc = fq".to_owned()],
        }],
        expected_effect: "Less processor time per connection at high rates.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: format!("Set the former value again. {}", list(&former)),
        risk: "The setting holds for interfaces that come up after it; other traffic on them is \
               queued fairly too."
            .to_owned(),
        needs_root: true,
        ..Draft::default()
    })
}

pub(super) fn state_need(_: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: "State the need in the runbook: the peak redo rate of each thread and of all \
                 together, from V$ARCHIVED_LOG over the busiest time, not from AWR's averages."
            .to_owned(),
        expected_effect: "The report answers whether the network carries the redo.".to_owned(),
        how_to_verify: "redoline check shows the need that a run would judge.".to_owned(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "None.".to_owned(),
        ..Draft::default()
    })
}

pub(super) fn slow_storage(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Have the storage of {} looked at: paths, queue depths, other users of the same disks. \
             {}",
            ground.case.names(&ground.nodes()),
            ground.sentences()
        ),
        commands: ground.shell(&["iostat -x 1 10", "multipath -ll"]),
        expected_effect: "Redo apply and a standby that takes over read at the primary's pace."
            .to_owned(),
        how_to_verify: "The same storage_read step again, at the same time of day.".to_owned(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: LOOKS.to_owned(),
        ..Draft::default()
    })
}

pub(super) fn read_from_disks(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Measure the storage of {} again with a file larger than every cache on the way, on \
             the disks that the database uses.",
            ground.case.names(&ground.nodes())
        ),
        expected_effect: "Numbers that say something about the disks.".to_owned(),
        how_to_verify: "device_read_ratio of the new measurement is close to 1.".to_owned(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "The test reads from the disks while it runs.".to_owned(),
        ..Draft::default()
    })
}

pub(super) fn set_clocks(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Have the clocks of {} set by the site's time service.",
            ground.case.names(&ground.nodes())
        ),
        commands: ground.shell(&["chronyc tracking"]),
        expected_effect: "Times in alert logs and lags of both sites can be compared.".to_owned(),
        how_to_verify: "chronyc tracking shows an offset below 1 s.".to_owned(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "Step a database node's clock only with its instance down: Clusterware evicts nodes \
               whose clock jumps."
            .to_owned(),
        needs_root: true,
        ..Draft::default()
    })
}

pub(super) fn clean_up(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Remove what the run may have left on {}: redoline clean -i INVENTORY.",
            ground.case.names(&ground.nodes())
        ),
        expected_effect: "Nothing of the run is left on the nodes.".to_owned(),
        how_to_verify: "redoline clean says for each node that nothing is left.".to_owned(),
        how_to_undo: "The next run brings the agent again.".to_owned(),
        risk: "None: it removes only files that a run made.".to_owned(),
        ..Draft::default()
    })
}
