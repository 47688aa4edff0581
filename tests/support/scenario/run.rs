//! The events of a run over a scenario's path.

use std::collections::BTreeMap;

use redoline_proto::encoding::{Compression, CompressionMethod, Encoding, TlsCipher};
use redoline_proto::facts::{HostFacts, Interface, Route, TcpSettings};
use redoline_proto::handshake::ClockOffset;
use redoline_proto::storage::StoragePattern;
use redoline_proto::transfer::{Acknowledge, Acknowledgements, Payload, RedoWrite, SocketRequest};
use redoline_proto::units::BytesPerSecond;

use super::path::{Path, Test, size};
use super::planted::{INTERFACE, latency};
use super::setup::setup;
use super::{Blocked, Network, Scenario, optional, storage};
use crate::analysis::plateau::{Decision, Ladder};
use crate::analysis::throughput::summarise;
use crate::plan::node::{Direction, NodeId, PairId};
use crate::plan::step::{Nodes, Until};
use crate::record::event::{Event, FORMAT, Moment, RunOutcome, StepFailure, StepOutcome};
use crate::record::measurement::{
    EndRecord, Failure, FailureCause, Measurement, MeasurementId, PairTransfer,
    Path as RecordedPath, Series, SeriesKind, SeriesPoint, StoppedBecause, Throughput,
    TransferRequest, Variable,
};
use crate::record::setup::{Setup, StepSetup};

mod repeated;

const TOLERANCE: f64 = 0.03;
/// 2026-03-01 09:00:00 UTC.
const BEGIN_MS: i64 = 1_772_355_600_000;

pub struct Run<'a> {
    scenario: &'a Scenario,
    paths: BTreeMap<bool, Path>,
    moments: Vec<Moment>,
    now_ms: i64,
    measurements: u32,
    series: u32,
    recommended: Vec<u32>,
    lost: Vec<NodeId>,
}

struct Ask {
    num_conn: u32,
    buffer: Option<u64>,
    label: String,
    mtu: Option<u32>,
    seconds: i64,
    nodes: Nodes,
    encoding: Option<Encoding>,
    /// SYNC: the mode and the message.
    sync: Option<(&'static str, u64)>,
    both: bool,
    interface_mtu: Option<u32>,
    /// `duration: auto`, which ended after `seconds`.
    auto: bool,
    /// Of the link, what others leave.
    free: f64,
}

impl Ask {
    fn of(num_conn: u32, seconds: i64) -> Self {
        let (buffer, label, mtu, nodes) = (None, "auto".to_owned(), None, Nodes::Each);
        let (encoding, sync, both) = (None, None, false);
        let (interface_mtu, auto, free) = (None, false, 1.0);
        Self {
            num_conn,
            buffer,
            label,
            mtu,
            seconds,
            nodes,
            encoding,
            sync,
            both,
            interface_mtu,
            auto,
            free,
        }
    }
}

impl<'a> Run<'a> {
    pub fn of(scenario: &'a Scenario) -> Self {
        let forth = Path::of(&scenario.network, &scenario.hosts);
        let merged = scenario.back.clone().map(|back| merged(back, &scenario.network));
        let back = Path::of(merged.as_ref().unwrap_or(&scenario.network), &scenario.hosts);
        Self {
            scenario,
            paths: BTreeMap::from([(true, forth), (false, back)]),
            moments: Vec::new(),
            now_ms: BEGIN_MS,
            measurements: 0,
            series: 0,
            recommended: vec![1; scenario.pairs],
            lost: Vec::new(),
        }
    }

    pub fn events(mut self) -> Vec<Moment> {
        let setup = setup(self.scenario);
        self.push(Event::RunStarted {
            format: FORMAT,
            run_id: "20260301-090000-orders".to_owned(),
            version: "0.1.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            setup: Box::new(setup.clone()),
        });
        for (node, named) in setup.nodes.iter().enumerate() {
            let clock = self.clock(NodeId(node), &named.name);
            let agent = "redoline-agent 0.1.0 in /var/tmp, removed after the run".to_owned();
            self.push(Event::NodeReady {
                node: NodeId(node),
                clock,
                agent,
                accepted_host_key: None,
            });
            let facts = Box::new(self.facts(node, &setup));
            self.push(Event::NodeFacts { node: NodeId(node), facts });
        }
        let until = self.scenario.interrupted_after.unwrap_or(setup.steps.len());
        for (number, step) in setup.steps.iter().enumerate().take(until) {
            self.lose(number, &setup);
            self.push(Event::StepStarted { step: number });
            let outcome = self.step(number, step);
            self.push(Event::StepFinished { step: number, outcome });
        }
        for (node, named) in setup.nodes.iter().enumerate() {
            let left_behind = self.scenario.left_behind.get(&named.name).cloned();
            self.push(Event::NodeReleased { node: NodeId(node), left_behind });
        }
        let outcome = match self.scenario.interrupted_after {
            Some(_) => RunOutcome::Interrupted,
            None => RunOutcome::Completed,
        };
        self.push(Event::RunFinished { outcome });
        self.moments
    }

    fn push(&mut self, event: Event) {
        self.now_ms += 100;
        self.moments.push(Moment { unix_ms: self.now_ms, event });
    }

    fn lose(&mut self, step: usize, setup: &Setup) {
        let Some(lost) = self.scenario.lost.as_ref().filter(|lost| lost.step == step + 1) else {
            return;
        };
        let node = setup.nodes.iter().position(|node| node.name == lost.node).unwrap();
        self.lost.push(NodeId(node));
        let failure = unreachable(NodeId(node));
        self.push(Event::NodeLost { node: NodeId(node), failure });
    }

    fn clock(&self, node: NodeId, name: &str) -> ClockOffset {
        let ahead = self.scenario.clock_ahead.get(name).copied().unwrap_or(0.002);
        ClockOffset {
            offset_ns: (node.0 as i64 + 1) * 12_345_678_901,
            error_ns: 180_000,
            unix_offset_ns: (ahead * 1e9) as i64,
        }
    }

    fn facts(&self, node: usize, setup: &Setup) -> HostFacts {
        let path = &self.paths[&true];
        let hosts = &self.scenario.hosts;
        let driver = if self.scenario.demo { "loopback" } else { "ixgbe" };
        let pair = setup.pairs[node % self.scenario.pairs];
        let peer = if pair.primary.0 == node { pair.standby } else { pair.primary };
        let name = if self.scenario.demo { "lo" } else { INTERFACE };
        HostFacts {
            hostname: setup.nodes[node].name.clone(),
            os_release: "Oracle Linux Server 8.10".to_owned(),
            kernel: "5.15.0-300.163.18.el8uek.x86_64".to_owned(),
            architecture: "x86_64".to_owned(),
            cpus: Some(32),
            memory_bytes: Some(512 << 30),
            load_1min: Some(1.2),
            tcp: TcpSettings {
                rmem_min_bytes: Some(4096),
                rmem_default_bytes: Some(131_072),
                rmem_max_bytes: Some(path.receive_max),
                wmem_min_bytes: Some(4096),
                wmem_default_bytes: Some(16_384),
                wmem_max_bytes: Some(path.send_max),
                core_rmem_max_bytes: Some(path.core_max),
                core_wmem_max_bytes: Some(path.core_max),
                congestion_control: Some(path.congestion_control.clone()),
                default_qdisc: Some("fq_codel".to_owned()),
                ..TcpSettings::default()
            },
            interfaces: std::iter::once(Interface {
                name: name.to_owned(),
                addresses: vec![format!("{}/24", setup.nodes[node].redo_address)],
                mtu_bytes: Some(path.planted.interface_mtu),
                speed_mbit_per_s: hosts.speed_mbit,
                bond_members: hosts.bond_members.clone(),
                driver: Some(hosts.driver.clone().unwrap_or_else(|| driver.to_owned())),
                qdisc: Some(hosts.qdisc.clone().unwrap_or_else(|| "fq_codel".to_owned())),
                ..Interface::default()
            })
            .chain(hosts.bond_members.iter().map(|member| Interface {
                name: member.clone(),
                speed_mbit_per_s: hosts.member_mbit,
                ..Interface::default()
            }))
            .collect(),
            routes: vec![Route {
                peer: setup.node_name(peer).to_owned(),
                peer_address: setup.nodes[peer.0].redo_address.clone(),
                interface: Some(name.to_owned()),
                ..Route::default()
            }],
            user: "oracle".to_owned(),
            ..HostFacts::default()
        }
    }

    fn step(&mut self, number: usize, step: &StepSetup) -> StepOutcome {
        let words: Vec<String> =
            self.scenario.steps[number].split_whitespace().map(str::to_owned).collect();
        let mut failures = Vec::new();
        let pairs: Vec<PairId> = step.pairs.clone();
        match words[0].as_str() {
            "together" => {
                let asked = words.get(1).map(|text| text.parse().unwrap());
                let num_conn = asked.unwrap_or(self.recommended[0]);
                let ask = Ask { nodes: Nodes::Together, ..Ask::of(num_conn, 20) };
                failures.extend(self.measure(number, step.direction, &pairs, &ask).1);
            }
            "hours" => self.hours(number, step.direction, &pairs, &words[1..]),
            "storage" => self.storage(number, &step.nodes),
            "swap" | "topology" => (),
            word => {
                // `ladder 32 first`: `pairs: first`.
                let first = words.iter().any(|word| word == "first");
                for pair in pairs.into_iter().take(if first { 1 } else { usize::MAX }) {
                    if let Some(failure) = self.gone(pair) {
                        failures.push(StepFailure { pair: Some(pair), failure });
                        continue;
                    }
                    match word {
                        "single" => {
                            let buffer = words.get(1).map(|text| size(text));
                            let ask = Ask { buffer, ..Ask::of(1, 20) };
                            failures.extend(self.measure(number, step.direction, &[pair], &ask).1);
                        }
                        "connections" => {
                            let ask = Ask::of(words[1].parse().unwrap(), 20);
                            self.measure(number, step.direction, &[pair], &ask);
                        }
                        // A probe, and a long confirmation.
                        "short" | "long" => {
                            let seconds = if word == "short" { 5 } else { 120 };
                            self.measure(number, step.direction, &[pair], &Ask::of(1, seconds));
                        }
                        "auto" => {
                            let seconds = words[1].parse().unwrap();
                            let ask = Ask { auto: true, ..Ask::of(1, seconds) };
                            self.measure(number, step.direction, &[pair], &ask);
                        }
                        "interface_mtu" => {
                            self.interface_mtu(number, step.direction, pair, &words[1..]);
                        }
                        "both" => {
                            let ask = Ask { both: true, ..Ask::of(1, 20) };
                            self.measure(number, step.direction, &[pair], &ask);
                        }
                        "path" => failures.extend(self.probe(number, step.direction, pair)),
                        "sync" | "fastsync" => {
                            let mode = if word == "sync" { "sync" } else { "fastsync" };
                            for text in &words[1..] {
                                let sync = Some((mode, size(text)));
                                let ask = Ask { sync, ..Ask::of(1, 10) };
                                self.measure(number, step.direction, &[pair], &ask);
                            }
                        }
                        "encryption" | "compression" => {
                            self.codes(number, step.direction, pair, &words);
                        }
                        "ladder" => {
                            let max = words.get(1).map_or(32, |text| text.parse().unwrap());
                            self.ladder(number, step.direction, pair, max);
                        }
                        "buffers" => self.buffers(number, step.direction, pair, &words[1..]),
                        "mtu" => self.mtus(number, step.direction, pair, &words[1..]),
                        other => panic!("unknown step `{other}`"),
                    }
                }
            }
        }
        match failures.is_empty() {
            true => StepOutcome::Passed,
            false => StepOutcome::Failed { failures },
        }
    }

    fn gone(&self, pair: PairId) -> Option<Failure> {
        let ends = [NodeId(pair.0), NodeId(self.scenario.pairs + pair.0)];
        self.lost.iter().find(|node| ends.contains(node)).map(|node| unreachable(*node))
    }

    /// `ladder`, and `ladder 6` with that maximum.
    fn ladder(&mut self, step: usize, direction: Direction, pair: PairId, max: u32) {
        let mut ladder = Ladder::new(TOLERANCE);
        let mut points = Vec::new();
        let mut stopped_because = StoppedBecause::Maximum;
        for num_conn in (2..=max).step_by(2) {
            let (measured, _) = self.measure(step, direction, &[pair], &Ask::of(num_conn, 10));
            let rate = summarise(&measured).rate().unwrap();
            points.push(point(Some(f64::from(num_conn)), &num_conn.to_string(), measured.id));
            if ladder.push(num_conn, rate) == Decision::Plateau {
                stopped_because = StoppedBecause::Plateau;
                break;
            }
        }
        self.recommended[pair.0] = ladder.recommended().unwrap().num_conn;
        let series = (SeriesKind::Ladder, Variable::NumConn, Some(TOLERANCE));
        self.finish(step, Some(direction), (Some(pair), None), series, points, stopped_because);
    }

    fn buffers(&mut self, step: usize, direction: Direction, pair: PairId, sizes: &[String]) {
        let points = sizes
            .iter()
            .map(|text| {
                let buffer = (text != "auto").then(|| size(text));
                let ask = Ask { buffer, label: text.clone(), ..Ask::of(1, 10) };
                let (measured, _) = self.measure(step, direction, &[pair], &ask);
                point(buffer.map(|bytes| bytes as f64), text, measured.id)
            })
            .collect();
        let series = (SeriesKind::Sweep, Variable::SocketBuffer, None);
        let all = StoppedBecause::AllValues;
        self.finish(step, Some(direction), (Some(pair), None), series, points, all);
    }

    fn mtus(&mut self, step: usize, direction: Direction, pair: PairId, mtus: &[String]) {
        let points = mtus
            .iter()
            .map(|text| {
                let mtu: u32 = text.parse().unwrap();
                let ask = Ask { mtu: Some(mtu), ..Ask::of(1, 10) };
                let (measured, _) = self.measure(step, direction, &[pair], &ask);
                point(Some(f64::from(mtu)), text, measured.id)
            })
            .collect();
        let series = (SeriesKind::Sweep, Variable::Mtu, None);
        let all = StoppedBecause::AllValues;
        self.finish(step, Some(direction), (Some(pair), None), series, points, all);
    }

    fn codes(&mut self, step: usize, direction: Direction, pair: PairId, words: &[String]) {
        let points = words[1..]
            .iter()
            .map(|text| {
                let encoding = match text.as_str() {
                    "none" => None,
                    "aes-256-gcm" => Some(Encoding::Tls(TlsCipher::Aes256Gcm)),
                    "zlib-6" => Some(Encoding::Compression(Compression {
                        method: CompressionMethod::Zlib,
                        level: 6,
                    })),
                    other => panic!("unknown encoding `{other}`"),
                };
                let ask = Ask { encoding, ..Ask::of(1, 10) };
                let (measured, _) = self.measure(step, direction, &[pair], &ask);
                point(None, text, measured.id)
            })
            .collect();
        let variable = match words[0].as_str() {
            "encryption" => Variable::Encryption,
            _ => Variable::Compression,
        };
        let series = (SeriesKind::Sweep, variable, None);
        let all = StoppedBecause::AllValues;
        self.finish(step, Some(direction), (Some(pair), None), series, points, all);
    }

    fn probe(&mut self, step: usize, direction: Direction, pair: PairId) -> Option<StepFailure> {
        self.measurements += 1;
        let id = MeasurementId(self.measurements);
        let forth = direction == Direction::PrimaryToStandby;
        let (path, back) = (&self.paths[&forth], &self.paths[&!forth]);
        let probe =
            path.planted.probe(path.rtt_us + path.jitter_us, (path.mtu, back.mtu), path.loss);
        let ask = Ask::of(1, 2);
        let stream = self.transfer(direction, pair, 1, &ask, None);
        let failure = stream.failure.clone().filter(|_| path.planted.blocked.is_some());
        let step_failure = failure.clone().map(|failure| StepFailure { pair: Some(pair), failure });
        let stream = Some(stream);
        let probe = Some(probe);
        let measured = RecordedPath { id, step, direction, pair, probe, stream, failure: None };
        self.now_ms += 4000;
        self.push(Event::Measured { measurement: Measurement::Path(Box::new(measured)) });
        step_failure
    }

    fn storage(&mut self, step: usize, nodes: &[NodeId]) {
        let Some(text) = self.scenario.storage.clone() else { return };
        for node in nodes.iter().copied() {
            let standby = node.0 >= self.scenario.pairs;
            let disks = if standby { &text.standby } else { &text.primary };
            let second = node.0 % self.scenario.pairs > 0;
            for (pattern, variable, values) in [
                (StoragePattern::SingleBlock, Variable::Sessions, &storage::SESSIONS[..]),
                (StoragePattern::DirectPath, Variable::Slots, &storage::SLOTS[..]),
            ] {
                let mut points = Vec::new();
                for outstanding in values {
                    self.measurements += 1;
                    let id = self.measurements;
                    let asked = (pattern, *outstanding);
                    let read = storage::read(disks, id, step, node, second, asked);
                    let value = f64::from(*outstanding);
                    points.push(point(Some(value), &outstanding.to_string(), read.id));
                    let measurement = Measurement::StorageRead(Box::new(read));
                    self.push(Event::Measured { measurement });
                }
                let series = (SeriesKind::Sweep, variable, None);
                let all = StoppedBecause::AllValues;
                self.finish(step, None, (None, Some(node)), series, points, all);
            }
        }
    }

    fn finish(
        &mut self,
        step: usize,
        direction: Option<Direction>,
        (pair, node): (Option<PairId>, Option<NodeId>),
        (kind, variable, tolerance): (SeriesKind, Variable, Option<f64>),
        points: Vec<SeriesPoint>,
        stopped_because: StoppedBecause,
    ) {
        self.series += 1;
        let id = self.series;
        let series = Series {
            id,
            step,
            kind,
            variable,
            direction,
            pair,
            node,
            points,
            tolerance,
            until: Until::Plateau,
            stopped_because,
        };
        self.push(Event::SeriesFinished { series });
    }

    fn measure(
        &mut self,
        step: usize,
        direction: Direction,
        pairs: &[PairId],
        ask: &Ask,
    ) -> (Throughput, Vec<StepFailure>) {
        self.measurements += 1;
        let id = MeasurementId(self.measurements);
        let limit = optional::<BytesPerSecond>(self.scenario.limit.as_ref());
        let transfers: Vec<PairTransfer> = pairs
            .iter()
            .map(|pair| self.transfer(direction, *pair, pairs.len(), ask, limit))
            .collect();
        let failures = transfers
            .iter()
            .filter_map(|transfer| {
                Some(StepFailure { pair: Some(transfer.pair), failure: transfer.failure.clone()? })
            })
            .collect();
        let throughput = Throughput {
            id,
            step,
            direction,
            request: TransferRequest {
                nodes: ask.nodes,
                num_conn: ask.num_conn,
                duration_ms: if ask.auto { 60_000 } else { ask.seconds as u64 * 1000 },
                auto_target: ask.auto.then_some(0.025),
                mode: ask.sync.map_or("async", |(mode, _)| mode).to_owned(),
                acknowledge: ask.sync.map(|(mode, message_bytes)| Acknowledge {
                    message_bytes,
                    write: (mode == "sync")
                        .then(|| RedoWrite { dir: "/u02/scratch".to_owned(), file_bytes: 1 << 30 }),
                }),
                delay_us: None,
                network_timeout_ms: None,
                encoding: ask.encoding,
                compressible_share: ask.encoding.map(|_| 0.5),
                both_directions: ask.both,
                interface_mtu_bytes: ask.interface_mtu,
                interval_ms: 1000,
                message_bytes: ask.sync.map_or(1 << 20, |(_, bytes)| bytes),
                payload: Payload::Random,
                socket_buffer: ask.label.clone(),
                mtu_bytes: ask.mtu,
                socket: SocketRequest {
                    socket_buffer_bytes: ask.buffer,
                    mss_bytes: ask.mtu.map(|mtu| mtu - 40),
                    ..SocketRequest::default()
                },
                rate_limit: limit,
            },
            pairs: transfers,
        };
        self.now_ms += ask.seconds * 1000;
        self.push(Event::Measured {
            measurement: Measurement::Throughput(Box::new(throughput.clone())),
        });
        (throughput, failures)
    }

    fn transfer(
        &self,
        direction: Direction,
        pair: PairId,
        sharing: usize,
        ask: &Ask,
        rate_limit: Option<BytesPerSecond>,
    ) -> PairTransfer {
        if let Some(failure) = self.gone(pair) {
            let (sender, receiver) = (EndRecord::default(), EndRecord::default());
            return PairTransfer { pair, sender, receiver, failure: Some(failure) };
        }
        let forth = direction == Direction::PrimaryToStandby;
        let (primary, standby) = (NodeId(pair.0), NodeId(self.scenario.pairs + pair.0));
        let (from, to) = if forth { (primary, standby) } else { (standby, primary) };
        let test = Test {
            pair: pair.0,
            sharing: sharing - self.lost.len().min(sharing - 1),
            num_conn: ask.num_conn,
            buffer: ask.buffer,
            mtu: ask.mtu.or(ask.interface_mtu),
            rate_limit,
            seconds: ask.seconds,
            // The second pair starts a little later.
            start_ns: (self.now_ms - BEGIN_MS) * 1_000_000
                + 1_000_000_000
                + pair.0 as i64 * 7_000_000,
            seed: u64::from(self.measurements) * 100 + pair.0 as u64,
            coded: ask.encoding.is_some(),
        };
        let path = &self.paths[&forth];
        let path = &Path { link: path.link * ask.free, ..path.clone() };
        if let Some(blocked) = path.planted.blocked {
            let failure = Some(blocked_port(from, blocked, pair));
            let (sender, receiver) = (EndRecord::default(), EndRecord::default());
            return PairTransfer { pair, sender, receiver, failure };
        }
        let clocks = (self.clock(from, ""), self.clock(to, ""));
        if path.planted.stuck(path.mtu) {
            let (sender, receiver) = path.stuck(test, clocks.0, clocks.1);
            return PairTransfer { pair, sender, receiver, failure: Some(stalled(from)) };
        }
        let (mut sender, receiver) = path.transfer(test, clocks.0, clocks.1);
        if let (Some((mode, _)), Some(end)) = (ask.sync, &mut sender.end) {
            let write = if mode == "sync" { path.planted.write_us } else { 0.0 };
            let total = path.rtt_us as f64 + 100.0 + write;
            let messages = (test.seconds as f64 * 1e6 / total) as u64;
            end.acknowledgements = Some(Acknowledgements {
                messages,
                total: latency(total, messages),
                write: (mode == "sync").then(|| latency(write, messages)),
            });
        }
        PairTransfer { pair, sender, receiver, failure: None }
    }
}

fn blocked_port(node: NodeId, blocked: Blocked, pair: PairId) -> Failure {
    let (phase, why) = match blocked {
        Blocked::Reject => ("data port refused", "connection refused"),
        Blocked::Drop => ("data port filtered", "no answer within 10 s"),
    };
    Failure {
        node: Some(node),
        phase: phase.to_owned(),
        text: format!("198.51.100.11 could not connect to 203.0.113.{}:5555: {why}", 11 + pair.0),
        cause: FailureCause::CouldNotMeasure,
    }
}

fn stalled(node: NodeId) -> Failure {
    Failure {
        node: Some(node),
        phase: "transfer".to_owned(),
        text: "no byte was acknowledged within 5 s".to_owned(),
        cause: FailureCause::CouldNotMeasure,
    }
}

fn unreachable(node: NodeId) -> Failure {
    Failure {
        node: Some(node),
        phase: "control".to_owned(),
        text: "the SSH session ended and could not be opened again within 30 s".to_owned(),
        cause: FailureCause::Unreachable,
    }
}

fn point(value: Option<f64>, label: &str, id: MeasurementId) -> SeriesPoint {
    SeriesPoint { value, label: label.to_owned(), measurement: Some(id), remark: None }
}

fn merged(back: Network, forth: &Network) -> Network {
    let or = |own: Option<String>, other: &Option<String>| own.or_else(|| other.clone());
    Network {
        rtt: or(back.rtt, &forth.rtt),
        jitter: or(back.jitter, &forth.jitter),
        competing: back.competing,
        link: or(back.link, &forth.link),
        per_flow: or(back.per_flow, &forth.per_flow),
        queue: or(back.queue, &forth.queue),
        loss: or(back.loss, &forth.loss),
        dropped: or(back.dropped, &forth.dropped),
        ramp_loss: or(back.ramp_loss, &forth.ramp_loss),
        noise: or(back.noise, &forth.noise),
        second_pair: or(back.second_pair, &forth.second_pair),
        jumbo_gain: or(back.jumbo_gain, &forth.jumbo_gain),
        falls_to: or(back.falls_to, &forth.falls_to),
        stall: or(back.stall, &forth.stall),
        mtu: back.mtu.or(forth.mtu),
        early: or(back.early, &forth.early),
        credit: or(back.credit, &forth.credit),
        mss: back.mss.or(forth.mss),
        background: or(back.background, &forth.background),
        overtaking: or(back.overtaking, &forth.overtaking),
        // A fault of one direction is none of the other.
        swallows: back.swallows,
        by_icmp: back.by_icmp,
        blocked: back.blocked,
        hash: back.hash,
    }
}
