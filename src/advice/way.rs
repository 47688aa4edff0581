//! Advice about the way that packets take: their sizes, ports, interfaces, queues and order.

use redoline_proto::units::Bytes;

use super::network::ask;
use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::finding::{Detail, Finding};
use crate::analysis::ports::Refusal;
use crate::analysis::words::{list, rate};
use crate::plan::node::NodeId;

const UNCHANGED: &str = "Nothing is changed.";
const LOOKS: &str = "None: it only looks.";

impl Ground<'_> {
    /// Both ends' redo addresses of each way that a finding is about: sender, receiver.
    fn ways(&self) -> Vec<(NodeId, NodeId)> {
        let setup = self.case.setup();
        let mut ways = Vec::new();
        for finding in self.findings {
            let Some(direction) = finding.direction else { continue };
            for pair in &finding.pairs {
                let way = setup.ends(*pair, direction);
                if !ways.contains(&way) {
                    ways.push(way);
                }
            }
        }
        ways
    }

    fn address(&self, node: NodeId) -> &str {
        &self.case.setup().nodes[node.0].redo_address
    }

    /// `phx1 (198.51.100.11) to ash1 (203.0.113.11)`.
    fn addressed_ways(&self) -> String {
        let ways: Vec<String> = self
            .ways()
            .into_iter()
            .map(|(from, to)| {
                format!(
                    "{} ({}) to {} ({})",
                    self.case.name(from),
                    self.address(from),
                    self.case.name(to),
                    self.address(to)
                )
            })
            .collect();
        list(&ways)
    }

    fn senders(&self) -> Vec<NodeId> {
        let mut senders: Vec<NodeId> = self.ways().into_iter().map(|(sender, _)| sender).collect();
        senders.sort_unstable();
        senders.dedup();
        senders
    }

    /// One line for each way, at its sender.
    fn at_senders(&self, line: impl Fn(&str, &str, &str) -> String) -> Vec<Command> {
        self.ways()
            .into_iter()
            .map(|(sender, receiver)| {
                let peer = self.case.interface(sender, receiver);
                let interface = peer.map_or("INTERFACE", |interface| &*interface.name);
                let line = line(self.address(sender), self.address(receiver), interface);
                Command { nodes: vec![sender], kind: CommandKind::Shell, lines: vec![line] }
            })
            .collect()
    }
}

fn packet(finding: &Finding) -> Option<u32> {
    match finding.detail {
        Detail::Mtu(bytes) => Some(bytes),
        _ => None,
    }
}

fn is_ipv6(address: &str) -> bool {
    address.contains(':')
}

/// Payload of an ICMP echo that makes a packet of so many bytes.
fn echo_payload(address: &str, packet: u32) -> u32 {
    packet.saturating_sub(if is_ipv6(address) { 48 } else { 28 })
}

pub(super) fn mend_path_mtu(ground: &Ground<'_>) -> Option<Draft> {
    let largest = ground.findings.iter().filter_map(|finding| packet(finding)).min();
    let tried = largest.unwrap_or(1400);
    let mut commands = vec![ask(format!(
        "Please let ICMP \"fragmentation needed\" (type 3 code 4; ICMPv6 type 2) pass on every hop \
         of {}, or clamp the MSS of TCP there, and find the hop whose MTU is smaller than those of \
         its neighbours.{}",
        ground.addressed_ways(),
        ground.devices()
    ))];
    commands.extend(ground.at_senders(|own, peer, _| {
        format!("ping -M do -c 3 -s {} -I {own} {peer}", echo_payload(peer, tried))
    }));
    let workaround = largest.map(|largest| {
        ground.at_senders(|_, peer, interface| {
            let length = if is_ipv6(peer) { 128 } else { 32 };
            format!("ip route add {peer}/{length} via GATEWAY dev {interface} mtu lock {largest}")
        })
    });
    commands.extend(workaround.into_iter().flatten());
    Some(Draft {
        action: format!(
            "Have the black hole mended in the network: a smaller MTU on the way must be told to \
             the senders. Until then bound the packets at the senders{}, by a host route with a \
             locked MTU (the last commands; GATEWAY as `ip route get` names it), or let the kernel \
             find out (net.ipv4.tcp_mtu_probing = 1), which costs seconds of silence per \
             connection.",
            largest.map_or(String::new(), |bytes| format!(" to {bytes} bytes"))
        ),
        commands,
        expected_effect: "Connections no longer hang at their first large message.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "ip route del with the same destination.".to_owned(),
        risk:
            "A host route applies to all traffic to that address and is lost at the next restart \
               of the network, unless it is made permanent."
                .to_owned(),
        needs_root: true,
        licence: None,
    })
}

pub(super) fn reduced_mtu(ground: &Ground<'_>) -> Option<Draft> {
    let path = ground.findings.iter().filter_map(|finding| packet(finding)).min()?;
    let own = ground.ways().into_iter().filter_map(|(from, to)| {
        ground.case.interface(from, to).and_then(|interface| interface.mtu_bytes)
    });
    // An ordinary tunnel is no reason to ask anybody.
    own.max().filter(|own| *own > 1500).map(|own| Draft {
        action: format!(
            "The interfaces have an MTU of {own} and the way carries {path}. If jumbo frames are \
             meant to reach the other site, ask where they end; if not, nothing has to be done as \
             long as the routers may say so (ICMP)."
        ),
        commands: vec![ask(format!(
            "Which hop of {} has an MTU of {path}?{}",
            ground.addressed_ways(),
            ground.devices()
        ))],
        expected_effect: "Larger packets cost less processor time; the rate may not change."
            .to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "None: it only asks.".to_owned(),
        ..Draft::default()
    })
}

pub(super) fn mss_clamp(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    let (mss, _) = finding.value?;
    Some(Draft {
        action: format!(
            "Ask whether the MSS clamp to {} is meant: behind a tunnel it is right, elsewhere it is \
             left over and costs {:.0} % more packets than segments of 1448 bytes.",
            Bytes(mss as u64).0,
            (1448.0 / mss - 1.0).max(0.0) * 100.0
        ),
        commands: vec![ask(format!(
            "Which device of {} rewrites the MSS of TCP connections, and why?{}",
            ground.addressed_ways(),
            ground.devices()
        ))],
        expected_effect: "Fewer packets and less processor time for the same redo.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "The network team sets the clamp again.".to_owned(),
        risk: "Without a clamp that hides a smaller MTU, connections can hang: check with a path \
               step afterwards."
            .to_owned(),
        ..Draft::default()
    })
}

pub(super) fn forget_path_mtu(ground: &Ground<'_>) -> Option<Draft> {
    let peers = ground.at_senders(|_, peer, _| format!("ip route get {peer}"));
    let flush = Command {
        nodes: ground.senders(),
        kind: CommandKind::Shell,
        lines: vec!["ip route flush cache".to_owned()],
    };
    Some(Draft {
        action: "Look at what the senders remember, and let it expire (10 minutes after the last \
                 message about it) or flush it before measuring again; find out which path was used \
                 when it was learnt."
            .to_owned(),
        commands: peers.into_iter().chain([flush]).collect(),
        expected_effect: "Tests and redo send packets as large as the path carries.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "None needed: the kernel learns again what is so.".to_owned(),
        risk: "None: only learnt entries are dropped, no routes.".to_owned(),
        needs_root: true,
        ..Draft::default()
    })
}

pub(super) fn open_port(ground: &Ground<'_>) -> Option<Draft> {
    let (refusal, port) = ground.findings.iter().find_map(|finding| match finding.detail {
        Detail::Port { refusal, port } => Some((refusal, port)),
        _ => None,
    })?;
    let port = port.map_or_else(|| "DATA_PORT".to_owned(), |port| port.to_string());
    let rules: Vec<String> = ground
        .ways()
        .into_iter()
        .map(|(from, to)| {
            format!(
                "from {} to {}, TCP destination port {port}, connections opened from that side",
                ground.address(from),
                ground.address(to)
            )
        })
        .collect();
    let mut commands = vec![ask(format!(
        "Please permit {}; only while tests run, if that is your rule.{}",
        list(&rules),
        ground.devices()
    ))];
    commands.extend(ground.ways().into_iter().map(|(from, to)| {
        let family = if is_ipv6(ground.address(from)) { "ipv6" } else { "ipv4" };
        Command {
            nodes: vec![to],
            kind: CommandKind::Shell,
            lines: vec![format!(
                "firewall-cmd --timeout=2h --add-rich-rule='rule family={family} source \
                 address={} port port={port} protocol=tcp accept'",
                ground.address(from)
            )],
        }
    }));
    let why = match refusal {
        Refusal::Rejected => "rejects the connection",
        Refusal::Dropped => "drops it",
    };
    Some(Draft {
        action: format!(
            "Have the port opened for exactly these addresses, or choose another one with \
             `data_port` in the inventory: the database's own listener port proves most, while the \
             listener is not up. Something on the way or on the receiver {why}. Do not stop the \
             receiver's firewall: a rule for one port and one source is enough, and the one below \
             goes away by itself."
        ),
        commands,
        expected_effect: "The pair can be measured. That redo's own port is open is another \
                          question."
            .to_owned(),
        how_to_verify: ground.again(),
        how_to_undo:
            "The rule of firewall-cmd ends after two hours; --remove-rich-rule ends it at \
                      once."
                .to_owned(),
        risk: "The port answers only while a test runs, and only to holders of its one-time token."
            .to_owned(),
        needs_root: true,
        licence: None,
    })
}

pub(super) fn correct_route(ground: &Ground<'_>) -> Option<Draft> {
    let sentences: Vec<&str> = ground.findings.iter().map(|finding| &*finding.sentence).collect();
    let nodes: Vec<NodeId> =
        ground.findings.iter().flat_map(|finding| finding.nodes.iter().copied()).collect();
    let mut commands = ground.at_senders(|own, peer, _| format!("ip route get {peer} from {own}"));
    commands.push(Command {
        nodes,
        kind: CommandKind::Shell,
        lines: vec!["ip rule; ip route show table all".to_owned()],
    });
    Some(Draft {
        action: format!(
            "Correct the route to the peer's redo address, or give the inventory the address that \
             redo will really use, and measure again: {} A source address does not choose the \
             interface; only a route, or a rule for that source, does.",
            sentences.join(" ")
        ),
        commands,
        expected_effect: "The way that is measured is the one that redo takes.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "Restore the former route.".to_owned(),
        risk: "A wrong route cuts off whoever works over it: change it from the console."
            .to_owned(),
        needs_root: true,
        licence: None,
    })
}

pub(super) fn without_others(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    let (others, _) = finding.value?;
    let others = rate(redoline_proto::units::BytesPerSecond(others));
    let nodes = finding.nodes.clone();
    Some(Draft {
        action: format!(
            "Find out who sent {others} beside the test, and measure again without it, or accept \
             that redo has to share with it: then this rate is the one that counts."
        ),
        commands: vec![Command {
            nodes,
            kind: CommandKind::Shell,
            lines: vec!["ss -tnpi state established".to_owned(), "ip -s link".to_owned()],
        }],
        expected_effect:
            "A rate that belongs to the path alone; `frequency: 1 h/24 h` shows how it \
                          moves with the time of day."
                .to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: LOOKS.to_owned(),
        ..Draft::default()
    })
}

pub(super) fn shorten_queue(ground: &Ground<'_>) -> Option<Draft> {
    let sentences: Vec<&str> = ground.findings.iter().map(|finding| &*finding.sentence).collect();
    Some(Draft {
        action: "Have the queue before the bottleneck bounded to a few milliseconds (active queue \
                 management: fq_codel, CAKE, WRED), or put redo into a class of its own. On the \
                 nodes, buffers beyond 3 × BDP only make it longer."
            .to_owned(),
        commands: vec![ask(format!(
            "Please look at the queue length of the device that limits this path. {}{}",
            sentences.join(" "),
            ground.devices()
        ))],
        expected_effect: "The same rate, with a round trip close to the idle one.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "The network team restores the former queue.".to_owned(),
        risk: "A queue that is too short costs rate: measure both.".to_owned(),
        ..Draft::default()
    })
}

pub(super) fn one_way(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action:
            "Have each flow kept on one way: load balancing by flow (addresses and ports), not \
                 by packet; on bonds no balance-rr."
                .to_owned(),
        commands: vec![ask(format!(
            "Packets of one connection overtake each other on {}. Please look for balancing by \
             packet.{}",
            ground.addressed_ways(),
            ground.devices()
        ))],
        expected_effect: "No segments sent again for nothing; steadier rates.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: "The network team restores the former balancing.".to_owned(),
        risk: "A single flow then has one way's bandwidth, not the sum of all.".to_owned(),
        ..Draft::default()
    })
}

pub(super) fn spread_flows(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first()?;
    Some(Draft {
        action: "Hash flows by addresses and ports on both sides of the bond \
                 (xmit_hash_policy=layer3+4 on the nodes, the same on the switch), and use more \
                 RMAN channels than links. A redo thread is one flow: it always gets one link."
            .to_owned(),
        commands: vec![
            Command {
                nodes: finding.nodes.clone(),
                kind: CommandKind::Shell,
                lines: vec!["grep -H . /proc/net/bonding/*".to_owned()],
            },
            ask(format!("{}{}", finding.sentence, ground.devices())),
        ],
        expected_effect: "Several flows use all links; one flow stays as it is.".to_owned(),
        how_to_verify: format!(
            "{}. With `source_port` other than now, to see whether the spread was luck",
            ground.again()
        ),
        how_to_undo: "Set the former xmit_hash_policy.".to_owned(),
        risk: "Changing a bond interrupts its traffic for a moment.".to_owned(),
        needs_root: true,
        licence: None,
    })
}

pub(super) fn sustained(ground: &Ground<'_>) -> Option<Draft> {
    let (rate_after, credit) = ground.findings.iter().find_map(|finding| match finding.detail {
        Detail::Credit { sustained, credit } => Some((sustained, credit)),
        _ => None,
    })?;
    let rest = credit.0 as f64 / rate_after.0.max(1.0);
    Some(Draft {
        action: format!(
            "Count with {}, what the path sustains, and not with what short tests show. Confirm it \
             with one test of several minutes, and let the path rest between tests, {rest:.0} s or \
             more here (the credit over the sustained rate, if it refills as fast as that).",
            rate(rate_after)
        ),
        commands: vec![ask(format!(
            "Please say whether a burst allowance of about {credit} applies on {} and which rate is \
             guaranteed.{}",
            ground.addressed_ways(),
            ground.devices()
        ))],
        expected_effect: "An answer that also holds at the end of a batch night.".to_owned(),
        how_to_verify: ground.again(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "A long test takes bandwidth from others on the path.".to_owned(),
        ..Draft::default()
    })
}

pub(super) fn find_cause(ground: &Ground<'_>) -> Option<Draft> {
    let sentences: Vec<&str> = ground.findings.iter().map(|finding| &*finding.sentence).collect();
    Some(Draft {
        action: format!("Measure what would tell the cause. {}", sentences.join(" ")),
        expected_effect: "A cause instead of a guess.".to_owned(),
        how_to_verify: ground.again_with_more(),
        how_to_undo: UNCHANGED.to_owned(),
        risk: "The tests take bandwidth from others on the path while they run.".to_owned(),
        ..Draft::default()
    })
}
