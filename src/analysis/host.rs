//! Findings about the nodes themselves: settings, clocks, what was left behind.

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::bdp::BufferNeed;
use super::case::{Case, DIRECTIONS};
use super::finding::{Confidence, Detail, End, Finding, FindingId, Severity, Unit};
use super::words::{milliseconds, rate};
use crate::plan::node::{Direction, NodeId, PairId};

/// Clocks further apart than this make logs and lags hard to compare.
const SKEW_NS: u64 = 1_000_000_000;

/// About the settings that the network's rate depends on.
pub fn network_findings(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = maximum_below_need(case).into_iter().collect();
    findings.extend(DIRECTIONS.into_iter().filter_map(|direction| bbr_without_fq(case, direction)));
    findings.extend(slow_interfaces(case));
    findings
}

/// Interfaces that are slower than what has to cross them, by their own word.
fn slow_interfaces(case: &Case<'_>) -> Option<Finding> {
    let slow: Vec<(NodeId, BytesPerSecond, BytesPerSecond, &'static str)> = case
        .pairs()
        .flat_map(|pair| {
            let (primary, standby) = case.setup().ends(pair, Direction::PrimaryToStandby);
            [(primary, standby), (standby, primary)]
                .into_iter()
                .filter_map(move |(node, peer)| slow_interface(case, pair, node, peer))
        })
        .collect();
    let (node, speed, wanted, what) = *slow.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let sentence = format!(
        "The redo interface of {} runs at {speed}, below {what} ({wanted}): a port that negotiated \
         less than it can, or the wrong interface.",
        case.name(node),
    );
    let id = FindingId::NicSpeedLow;
    Some(
        Finding::new(id, Severity::Warning, Confidence::Measured, sentence)
            .nodes(slow.iter().map(|one| one.0))
            .value(speed.0, Unit::BytesPerSecond)
            .detail(Detail::Limit(speed)),
    )
}

/// Its speed, and what it should carry: a thread's redo, or the node's part of the declared bandwidth.
fn slow_interface(
    case: &Case<'_>,
    pair: PairId,
    node: NodeId,
    peer: NodeId,
) -> Option<(NodeId, BytesPerSecond, BytesPerSecond, &'static str)> {
    let interface = case.interface(node, peer).filter(|_| !case.is_virtual(node, peer))?;
    let speed = interface.speed_mbit_per_s.filter(|speed| *speed > 0)?;
    let speed = BytesPerSecond(speed as f64 * 125_000.0);
    // A rate above it was measured: the number is the driver's fiction.
    let carried =
        DIRECTIONS.into_iter().filter_map(|way| Some(case.best_alone(pair, way)?.steady.rate.0));
    if carried.fold(0.0, f64::max) > speed.0 {
        return None;
    }
    let pairs = case.pair_count().max(1) as f64;
    let part = case.setup().declared_bandwidth().map(|rate| BytesPerSecond(rate.0 / pairs));
    let needed = case.required(pair).map(|rate| (rate, "what the databases need"));
    let declared = part.map(|rate| (rate, "its part of the declared bandwidth"));
    let (wanted, what) =
        needed.into_iter().chain(declared).find(|(wanted, _)| wanted.0 > speed.0)?;
    Some((node, speed, wanted, what))
}

/// About the nodes, whatever was measured.
pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let nodes = || (0..case.setup().nodes.len()).map(NodeId);
    let skewed = nodes().filter_map(|node| clock_skew(case, node));
    skewed.chain(left_behind(case)).chain(perhaps_left_behind(case)).collect()
}

/// A node whose auto-tuned buffers cannot grow to 3 × BDP.
struct Low {
    node: NodeId,
    end: End,
    most: Bytes,
    need: BufferNeed,
    direction: Direction,
}

/// What auto-tuning may grow a buffer to is below 3 × BDP, in either direction.
fn maximum_below_need(case: &Case<'_>) -> Option<Finding> {
    let low: Vec<Low> =
        DIRECTIONS.into_iter().flat_map(|direction| too_low(case, direction)).collect();
    let lowest = low.iter().min_by_key(|one| one.most)?;
    let need = low.iter().map(|one| one.need).max_by_key(|need| need.buffer())?;
    let mut finding = Finding::new(
        FindingId::BufferMaximumBelowNeed,
        Severity::Warning,
        Confidence::Measured,
        below_need_sentence(case, lowest),
    )
    .nodes(low.iter().map(|one| one.node))
    .value(lowest.most.0 as f64, Unit::Bytes)
    .detail(Detail::Buffers(need));
    if low.iter().all(|one| one.direction == lowest.direction) {
        finding = finding.direction(lowest.direction);
    }
    for id in low.iter().filter_map(|one| one.need.measurement) {
        finding = finding.evidence(id, &["steady.bytes_per_second", "rtt_us.min"]);
    }
    Some(finding)
}

fn too_low(case: &Case<'_>, direction: Direction) -> Vec<Low> {
    let mut low = Vec::new();
    for pair in case.pairs() {
        let Some(need) = case.buffer_need(pair, direction) else { continue };
        let (sender, receiver) = case.setup().ends(pair, direction);
        for (node, end) in [(sender, End::Sender), (receiver, End::Receiver)] {
            let tcp = case.facts(node).map(|facts| &facts.tcp);
            let most = match end {
                End::Sender => tcp.and_then(|tcp| tcp.wmem_max_bytes),
                End::Receiver => tcp.and_then(|tcp| tcp.rmem_max_bytes),
            };
            if let Some(most) = most.map(Bytes).filter(|most| *most < need.possible()) {
                low.push(Low { node, end, most, need, direction });
            }
        }
    }
    low
}

fn below_need_sentence(case: &Case<'_>, low: &Low) -> String {
    let setting = match low.end {
        End::Sender => "net.ipv4.tcp_wmem",
        End::Receiver => "net.ipv4.tcp_rmem",
    };
    format!(
        "The maximum of {setting} on {} is {}; a stream from {} needs {} (3 × BDP: {} × {}; the \
         rate is {}).",
        case.name(low.node),
        low.most,
        low.direction,
        low.need.buffer(),
        rate(low.need.rate),
        milliseconds(low.need.min_rtt),
        low.need.source,
    )
}

fn bbr_without_fq(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let mut found: Option<Finding> = None;
    for summary in case.throughputs.iter().filter(|summary| summary.direction == direction) {
        for pair in &summary.pairs {
            let (sender, receiver) = case.setup().ends(pair.pair, direction);
            let bbr =
                pair.congestion_control.sender.as_deref().is_some_and(|cc| cc.starts_with("bbr"));
            let Some(qdisc) = case.qdisc(sender, receiver).filter(|qdisc| bbr && *qdisc != "fq")
            else {
                continue;
            };
            let finding = found.take().unwrap_or_else(|| {
                Finding::new(
                    FindingId::BbrWithoutFq,
                    Severity::Info,
                    Confidence::Measured,
                    format!(
                        "{} sends with bbr over the queueing discipline {qdisc}: without fq each \
                         socket paces by a timer of its own, which costs processor time and rate.",
                        case.name(sender)
                    ),
                )
                .direction(direction)
            });
            found =
                Some(finding.nodes([sender]).evidence(summary.id, &["congestion_control.sender"]));
        }
    }
    found
}

fn clock_skew(case: &Case<'_>, node: NodeId) -> Option<Finding> {
    let clock = case.record.nodes.get(&node)?.clock?;
    let apart = clock.unix_offset_ns.unsigned_abs();
    if apart.saturating_sub(clock.error_ns.unsigned_abs()) <= SKEW_NS {
        return None;
    }
    let seconds = clock.unix_offset_ns as f64 / 1e9;
    let sentence = format!(
        "The clock of {} is {:.1} s {} the controller's: times in logs of different nodes cannot \
         be compared. No rate depends on it.",
        case.name(node),
        seconds.abs(),
        if seconds > 0.0 { "ahead of" } else { "behind" }
    );
    Some(
        Finding::new(FindingId::ClockSkew, Severity::Warning, Confidence::Measured, sentence)
            .nodes([node])
            .value(seconds, Unit::Seconds),
    )
}

fn left_behind(case: &Case<'_>) -> Vec<Finding> {
    case.record
        .nodes
        .iter()
        .filter_map(|(node, record)| Some((*node, record.left_behind.as_ref()?)))
        .map(|(node, what)| {
            let sentence = format!("On {} was left behind: {what}.", case.name(node));
            Finding::new(
                FindingId::AgentLeftBehind,
                Severity::Warning,
                Confidence::Measured,
                sentence,
            )
            .nodes([node])
        })
        .collect()
}

/// Nodes that had an agent and that nobody saw it removed from.
fn perhaps_left_behind(case: &Case<'_>) -> Option<Finding> {
    let unknown: Vec<NodeId> = case
        .record
        .nodes
        .iter()
        .filter(|(_, record)| record.agent.is_some() && !record.released)
        .map(|(node, _)| *node)
        .collect();
    if unknown.is_empty() || case.loopback() {
        return None;
    }
    let sentence = format!(
        "Whether the agent was removed from {} is not known: the run ended before it was said. An \
         agent without its controller ends and removes itself within seconds.",
        case.names(&unknown)
    );
    Some(
        Finding::new(FindingId::AgentLeftBehind, Severity::Info, Confidence::Possible, sentence)
            .nodes(unknown),
    )
}
