//! Rates that a node holds, not the network: processors, quotas, interrupts, processes that wait.

use super::case::{Alone, Case};
use super::cause::SINGLE;
use super::finding::{Confidence, End, Finding, FindingId, Severity, Unit};
use super::flow::{Flow, QUOTA, busy_beside_queue, ends, full_core, full_thread, queue_stands};
use super::throughput::{Cpu, PairSummary, Summary};
use super::words::{count, percent, steady};
use crate::plan::node::{Direction, NodeId};

/// A core is full of interrupts when so much of it is busy, and so much of that with softirq.
const CORE_BUSY: f64 = 0.9;
const INTERRUPTS_MUCH: f64 = 0.7;
/// The others are idle when they are busy for less than this share.
const OTHERS_IDLE: f64 = 0.5;

pub fn findings(case: &Case<'_>, direction: Direction, flows: &[Flow<'_>]) -> Vec<Finding> {
    let mut findings = processor(case, direction);
    findings.extend(slow_reader(case, direction, flows));
    findings.extend(interrupts(case, direction));
    findings
}

/// Of the tests that results rest on: single streams, best levels, and all nodes together.
fn processor(case: &Case<'_>, direction: Direction) -> Vec<Finding> {
    let mut tests: Vec<Alone<'_>> = Vec::new();
    for pair in case.pairs() {
        tests.extend(case.single(pair, direction));
        tests.extend(case.best_alone(pair, direction));
    }
    tests.extend(case.together(direction).into_iter().flat_map(parts));
    let mut full: Vec<Finding> =
        tests.into_iter().filter_map(|test| cpu_finding(case, direction, test)).collect();
    full.sort_by_key(|finding| std::cmp::Reverse(finding.confidence));
    let mut findings: Vec<Finding> = Vec::new();
    for finding in full {
        if !findings.iter().any(|known| known.nodes == finding.nodes) {
            findings.push(finding);
        }
    }
    findings
}

/// Each pair's part of a test.
fn parts(test: &Summary) -> impl Iterator<Item = Alone<'_>> {
    test.pairs.iter().filter_map(move |pair| {
        Some(Alone {
            id: test.id,
            num_conn: test.request.num_conn,
            summary: test,
            pair,
            steady: pair.steady.as_ref()?,
        })
    })
}

fn cpu_finding(case: &Case<'_>, direction: Direction, test: Alone<'_>) -> Option<Finding> {
    let (sender, receiver) = case.setup().ends(test.pair.pair, direction);
    let node = |end| if end == End::Sender { sender } else { receiver };
    let name = |end| case.name(node(end));
    let with = match test.summary.pairs.len() {
        1 => count(test.num_conn, "connection"),
        _ => format!("{}, all nodes at once", count(test.num_conn, "connection")),
    };
    let (node, value, confidence, sentence) = if let Some((end, cpu)) = full_thread(test.pair) {
        let sentence = format!(
            "A thread on {} {} with {with}: the processor held the rate, not the network.",
            name(end),
            occupation(&cpu),
        );
        (node(end), cpu.busiest_thread, Confidence::Likely, sentence)
    } else if let Some((end, cpu)) = busy_beside_queue(test.pair) {
        let sentence = format!(
            "A thread on {} {} with {with}, and a queue stood on the way at that rate: the processor \
             or the network held it. What tells them apart: the same test on the same way with more \
             connections, which use more threads.",
            name(end),
            occupation(&cpu),
        );
        (node(end), cpu.busiest_thread, Confidence::Possible, sentence)
    } else {
        // Where a queue stands in the network, the network holds the rate.
        let (end, cpu) = full_core(test.pair).filter(|_| !queue_stands(test.pair))?;
        let share = cpu.busiest_core?;
        let sentence = format!(
            "A core on {} was busy to {} while interrupts or other virtual machines took processor \
             time: that may have held the rate.",
            case.name(node(end)),
            percent(share)
        );
        (node(end), share, Confidence::Possible, sentence)
    };
    Some(
        Finding::new(FindingId::CpuLimited, Severity::Warning, confidence, sentence)
            .direction(direction)
            .pairs([test.pair.pair])
            .nodes([node])
            .value(value, Unit::Cores)
            .evidence(test.id, &["cpu_cores", "host_cpu_cores"])
            .evidence(test.id, SINGLE),
    )
}

/// `used 97 % of a core`, `used 20 % of a core and was kept from running in 78 % of the time`.
fn occupation(cpu: &Cpu) -> String {
    let used = format!("used {} of a core", percent(cpu.busiest_thread));
    let kept = cpu.kept().unwrap_or_default().min(1.0);
    let why = match cpu.throttled.is_some_and(|sum| sum >= QUOTA) {
        true => " by the quota of its control group",
        false => " by other processes",
    };
    match kept >= QUOTA {
        true => format!("{used} and was kept from running{why} in {} of the time", percent(kept)),
        false => used,
    }
}

/// A receiver whose process does not take what arrived.
fn slow_reader(case: &Case<'_>, direction: Direction, flows: &[Flow<'_>]) -> Option<Finding> {
    let slow: Vec<&Flow<'_>> =
        flows.iter().filter(|flow| flow.reads_slowly() && !flow.at_limit()).collect();
    let slowest = slow.iter().min_by(|a, b| a.rate().0.total_cmp(&b.rate().0))?;
    let waited = slowest.single.pair.limited.receive_window_share()?;
    let sentence = format!(
        "One stream from {} carries {}: the receiver's window held it in {} of the time, although \
         what was under way fits it and no queue stood on the way. The process on {} reads more \
         slowly than data arrive, and not for want of processor time: it waits for something else, \
         or was stopped. A larger buffer would not help.",
        case.way(slowest.pair, direction),
        steady(slowest.single.steady),
        percent(waited.min(1.0)),
        case.name(slowest.receiver),
    );
    let mut finding =
        Finding::new(FindingId::SlowReader, Severity::Warning, Confidence::Likely, sentence)
            .direction(direction)
            .value(slowest.rate().0, Unit::BytesPerSecond);
    for flow in slow {
        finding = finding
            .pairs([flow.pair])
            .nodes([flow.receiver])
            .evidence(flow.single.id, SINGLE)
            .evidence(
                flow.single.id,
                &["limited.receive_window_ms", "granted.receive_buffer_bytes"],
            )
            .evidence(flow.single.id, &["cpu_cores"]);
    }
    Some(finding)
}

/// One core is full of interrupts while others have nothing to do.
fn interrupts(case: &Case<'_>, direction: Direction) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for test in case.counting(direction) {
        for pair in &test.pairs {
            for (end, cpu) in ends(pair) {
                let (sender, receiver) = case.setup().ends(pair.pair, direction);
                let node = if end == End::Sender { sender } else { receiver };
                let Some(share) = on_one_core(&cpu, case.facts(node).and_then(|f| f.cpus)) else {
                    continue;
                };
                let fields: &[&str] = &["host_cpu_cores", "cpu_cores"];
                if let Some(known) = findings.iter_mut().find(|known| known.nodes == [node]) {
                    known.add_evidence(test.id, fields);
                    continue;
                }
                findings.push(
                    interrupt_finding(case, (direction, node), pair, end, share)
                        .evidence(test.id, fields),
                );
            }
        }
    }
    findings
}

/// The busiest core's share of soft interrupts, where it is full of them and the others are not busy.
fn on_one_core(cpu: &Cpu, cores: Option<u32>) -> Option<f64> {
    let (core, interrupts) = (cpu.busiest_core?, cpu.busiest_core_softirq?);
    let others = f64::from(cores?.checked_sub(1).filter(|others| *others > 0)?);
    let idle = (cpu.host? - core) / others <= OTHERS_IDLE;
    (core >= CORE_BUSY && interrupts >= INTERRUPTS_MUCH && idle).then_some(interrupts)
}

fn interrupt_finding(
    case: &Case<'_>,
    (direction, node): (Direction, NodeId),
    pair: &PairSummary,
    end: End,
    share: f64,
) -> Finding {
    let host = if end == End::Sender { &pair.host.sender } else { &pair.host.receiver };
    let dropped = host.softnet.filter(|net| net.dropped > 0).map_or(String::new(), |net| {
        format!(" Its kernel dropped {} packets for want of time.", net.dropped)
    });
    let sentence = format!(
        "One core of {} spent {} of its time on network interrupts while the others had little to \
         do: packets of these connections all arrive on one queue of the interface.{dropped}",
        case.name(node),
        percent(share),
    );
    let id = FindingId::InterruptsOnOneCore;
    Finding::new(id, Severity::Warning, Confidence::Measured, sentence)
        .direction(direction)
        .nodes([node])
        .value(share, Unit::Share)
}
