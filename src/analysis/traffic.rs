//! What crossed the interfaces of the nodes meanwhile: the test by another one, and others' traffic.

use redoline_proto::facts::Interface;
use redoline_proto::transfer::InterfaceUse;
use redoline_proto::units::BytesPerSecond;

use super::case::{Case, DIRECTIONS, is_plain};
use super::finding::{Confidence, End, Finding, FindingId, Severity, Unit};
use super::flow::queue_stands;
use super::throughput::{PairSummary, Summary};
use super::words::{percent, rate};
use crate::plan::node::{Direction, NodeId};

/// Less than this says nothing of which interface carried it.
const ENOUGH_BYTES: u64 = 1 << 20;
/// An interface with less than this share of a test's bytes did not carry it.
const CARRIED: f64 = 0.5;
/// Others are named from this share of what the interface carried, and at 1 Mbit/s or more.
const OTHERS: f64 = 0.05;
const OTHERS_RATE: f64 = 125_000.0;
/// From this share on they may have held a rate that the network held.
const OTHERS_MUCH: f64 = 0.10;
/// An interface that is used to this share of its speed may be what holds a rate.
const NEAR_SPEED: f64 = 0.7;
/// Ethernet header and what drivers count with it.
const FRAME: u64 = 18;
const TIMESTAMPS: u64 = super::mtu::TIMESTAMPS;
/// Devices that never send to a network; an address on them is reached by way of another.
const INNER: [&str; 3] = ["lo", "dummy", "docker"];

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for direction in DIRECTIONS {
        let seen = sightings(case, direction);
        findings.extend(wrong_interface(case, direction, &seen));
        findings.extend(background(case, direction, &seen));
    }
    findings
}

/// One end's host during one test.
struct Sighting<'a> {
    test: &'a Summary,
    pair: &'a PairSummary,
    node: NodeId,
    end: End,
    /// Of the test, through this host: payload, and with all headers at most.
    payload: f64,
    most: f64,
    interfaces: &'a [InterfaceUse],
    seconds: f64,
    /// The interface with the redo address.
    expected: Option<&'a Interface>,
}

fn sightings<'a>(case: &Case<'a>, direction: Direction) -> Vec<Sighting<'a>> {
    let tests = case.throughputs.iter().filter(|test| {
        test.direction == direction && is_plain(test) && test.request.socket.device.is_none()
    });
    let mut seen = Vec::new();
    for test in tests {
        for pair in &test.pairs {
            let (sender, receiver) = case.setup().ends(pair.pair, direction);
            for (node, end) in [(sender, End::Sender), (receiver, End::Receiver)] {
                seen.extend(sighting(case, test, pair, (node, end)));
            }
        }
    }
    seen
}

fn sighting<'a>(
    case: &Case<'a>,
    test: &'a Summary,
    pair: &'a PairSummary,
    (node, end): (NodeId, End),
) -> Option<Sighting<'a>> {
    let host = if end == End::Sender { &pair.host.sender } else { &pair.host.receiver };
    if host.interfaces.is_empty() {
        return None;
    }
    // A node may have its part in several pairs of the test.
    let of_node = test.pairs.iter().filter(|one| {
        let (sender, receiver) = case.setup().ends(one.pair, test.direction);
        node == if end == End::Sender { sender } else { receiver }
    });
    let (mut payload, mut most) = (0.0, 0.0);
    for one in of_node {
        let bytes = match end {
            End::Sender => one.counts.sent.or(one.counts.written),
            End::Receiver => one.counts.received,
        }? as f64;
        let mss = one.mss.map_or(536, |mss| mss.0.max(1));
        let headers = case.headers(one.pair) + TIMESTAMPS + FRAME;
        payload += bytes;
        most += bytes * (1.0 + headers as f64 / mss as f64);
    }
    let expected = case
        .redo_interface(node)
        .filter(|one| !INNER.iter().any(|inner| one.name.starts_with(inner)));
    Some(Sighting {
        test,
        pair,
        node,
        end,
        payload,
        most,
        interfaces: &host.interfaces,
        seconds: host.seconds?,
        expected,
    })
}

impl Sighting<'_> {
    fn carried(&self, interface: &InterfaceUse) -> u64 {
        match self.end {
            End::Sender => interface.sent_bytes,
            End::Receiver => interface.received_bytes,
        }
    }

    fn expected_bytes(&self) -> Option<u64> {
        let name = &*self.expected?.name;
        self.interfaces.iter().find(|one| one.name == name).map(|one| self.carried(one))
    }

    /// Another interface that carried the test, and the share of its bytes that went there.
    fn elsewhere(&self) -> Option<(&str, f64)> {
        let expected = self.expected_bytes()? as f64;
        let name = &*self.expected?.name;
        if self.payload < ENOUGH_BYTES as f64 || expected >= CARRIED * self.payload {
            return None;
        }
        let others = self.interfaces.iter().filter(|one| one.name != name && one.name != "lo");
        let most = others.max_by_key(|one| self.carried(one))?;
        let share = (self.carried(most) as f64 / self.payload).min(1.0);
        (share >= CARRIED).then_some((&*most.name, share))
    }

    /// What others sent the same way through the interface of the test: rate, and share of all.
    fn others(&self) -> Option<(BytesPerSecond, f64, &str)> {
        let usual =
            self.expected_bytes().is_some_and(|bytes| bytes as f64 >= CARRIED * self.payload);
        let interface = match self.expected.filter(|_| usual) {
            Some(expected) => self.interfaces.iter().find(|one| one.name == expected.name),
            None => self.interfaces.iter().max_by_key(|one| self.carried(one)),
        }?;
        let all = self.carried(interface) as f64;
        if self.payload < ENOUGH_BYTES as f64 || all <= self.most || self.seconds <= 0.0 {
            return None;
        }
        let others = all - self.most;
        let rate = others / self.seconds;
        let share = others / all;
        let named = share >= OTHERS && rate >= OTHERS_RATE;
        named.then_some((BytesPerSecond(rate), share, &interface.name))
    }

    /// The network, or the interface itself, may have held the rate.
    fn could_hold(&self, case: &Case<'_>, others: BytesPerSecond) -> bool {
        let (sender, receiver) = case.setup().ends(self.pair.pair, self.test.direction);
        let peer = if self.end == End::Sender { receiver } else { sender };
        let speed = self
            .expected
            .filter(|_| !case.is_virtual(self.node, peer))
            .and_then(|interface| interface.speed_mbit_per_s);
        let own = self.payload / self.seconds;
        let near =
            speed.is_some_and(|speed| own + others.0 >= NEAR_SPEED * speed as f64 * 125_000.0);
        let lost = self.pair.kernel.lost_share.is_some_and(|share| share > 0.0);
        near || lost || queue_stands(self.pair)
    }
}

fn wrong_interface(case: &Case<'_>, direction: Direction, seen: &[Sighting<'_>]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for one in seen {
        let Some(((other, share), expected)) = one.elsewhere().zip(one.expected) else { continue };
        let field = "hosts[].interfaces[]";
        if let Some(known) = findings.iter_mut().find(|known| known.nodes == [one.node]) {
            known.add_evidence(one.test.id, &[field]);
            continue;
        }
        let verb = if one.end == End::Sender { "left" } else { "reached" };
        let sentence = format!(
            "{} of what was sent from {direction} {verb} {} by {other}, although {} has the redo \
             address: what was measured is another way than the one that was meant.",
            percent(share),
            case.name(one.node),
            expected.name,
        );
        let id = FindingId::WrongInterface;
        findings.push(
            Finding::new(id, Severity::Warning, Confidence::Measured, sentence)
                .direction(direction)
                .pairs([one.pair.pair])
                .nodes([one.node])
                .value(share, Unit::Share)
                .evidence(one.test.id, &[field, "received_bytes"]),
        );
    }
    findings
}

/// The strongest of a direction, with every node that saw it.
fn background(case: &Case<'_>, direction: Direction, seen: &[Sighting<'_>]) -> Option<Finding> {
    let busy: Vec<_> = seen.iter().filter_map(|one| Some((one, one.others()?))).collect();
    let (worst, (others, share, interface)) =
        busy.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1)).copied()?;
    let held = busy
        .iter()
        .any(|(one, (others, share, _))| *share >= OTHERS_MUCH && one.could_hold(case, *others));
    let way = if worst.end == End::Sender { "out of" } else { "into" };
    let sentence = format!(
        "While the test ran from {direction}, others moved {} {way} {} ({interface}), {} of what \
         crossed it.{}",
        rate(others),
        case.name(worst.node),
        percent(share),
        match held {
            true => " They may have taken from what the test got.",
            false => "",
        }
    );
    let severity = if held { Severity::Warning } else { Severity::Info };
    let id = FindingId::BackgroundTraffic;
    let mut finding = Finding::new(id, severity, Confidence::Measured, sentence)
        .direction(direction)
        .value(others.0, Unit::BytesPerSecond);
    for (one, _) in busy {
        if !finding.pairs.contains(&one.pair.pair) {
            finding = finding.pairs([one.pair.pair]);
        }
        finding = finding
            .nodes([one.node])
            .evidence(one.test.id, &["hosts[].interfaces[]", "received_bytes"]);
    }
    Some(finding)
}
