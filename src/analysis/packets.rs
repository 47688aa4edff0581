//! Which sizes of packets a way carries: black holes, reduced path MTUs, clamped segments, old memories.

use std::fmt::Write as _;

use redoline_proto::path::{PathProbe, ProbeWay, SizeOutcome};
use redoline_proto::units::Bytes;

use super::case::{Case, DIRECTIONS, is_plain};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::mtu::{SLACK, TIMESTAMPS};
use super::path::PathSummary;
use super::throughput::PairSummary;
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::measurement::{FailureCause, Measurement, MeasurementId, PairTransfer};

/// With more than this share of small probes lost, that large ones are lost says nothing of sizes.
const LOSSY: f64 = 0.3;
/// `net.ipv4.tcp_mtu_probing = 2`: the kernel begins with small segments and grows them.
const ALWAYS_PROBES: u32 = 2;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for direction in DIRECTIONS {
        for way in case.pairs().map(|pair| Way::of(case, pair, direction)) {
            let hole = way.black_hole();
            findings.extend(match hole.is_some() {
                true => hole,
                false => way.reduced(),
            });
            findings.extend(way.clamped());
            findings.extend(way.remembered());
        }
    }
    findings
}

/// All that was measured of the way from one end of a pair to the other.
struct Way<'a> {
    case: &'a Case<'a>,
    pair: PairId,
    direction: Direction,
    sender: NodeId,
    receiver: NodeId,
    /// The last one that reached the other end.
    probe: Option<(MeasurementId, &'a PathProbe)>,
    /// Streams that nothing was asked of, of tests and of path measurements.
    streams: Vec<(MeasurementId, &'a PairSummary)>,
}

impl<'a> Way<'a> {
    fn of(case: &'a Case<'a>, pair: PairId, direction: Direction) -> Self {
        let (sender, receiver) = case.setup().ends(pair, direction);
        let paths = || case.paths_of(pair, direction);
        let reached = |path: &'a PathSummary| {
            let probe = path.probe.as_ref().filter(|probe| probe.way.is_some())?;
            let lossy = path.loss_share().is_none_or(|share| share > LOSSY);
            (!lossy && probe.answered > 0).then_some((path.id, probe))
        };
        let tests = case.throughputs.iter().filter(|test| {
            let asked = test.request.mtu_bytes.is_some() || test.request.socket.mss_bytes.is_some();
            test.direction == direction && is_plain(test) && !asked
        });
        let of_tests = tests.filter_map(|test| Some((test.id, test.pair(pair)?)));
        let of_paths = paths().filter_map(|path| Some((path.id, path.stream.as_ref()?)));
        Self {
            case,
            pair,
            direction,
            sender,
            receiver,
            probe: paths().filter_map(reached).last(),
            streams: of_paths.chain(of_tests).collect(),
        }
    }

    fn finding(
        &self,
        id: FindingId,
        severity: Severity,
        confidence: Confidence,
        sentence: String,
    ) -> Finding {
        Finding::new(id, severity, confidence, sentence)
            .direction(self.direction)
            .pairs([self.pair])
            .nodes([self.sender, self.receiver])
    }

    fn name(&self) -> String {
        self.case.way(self.pair, self.direction)
    }

    /// The smaller MTU of the two interfaces, as far as known.
    fn interfaces(&self) -> Option<u64> {
        let of = |node, peer| Some(u64::from(self.case.interface(node, peer)?.mtu_bytes?));
        let probed = self.probe.and_then(|(_, probe)| probe.interface_mtu_bytes).map(u64::from);
        let sender = probed.or_else(|| of(self.sender, self.receiver));
        sender.into_iter().chain(of(self.receiver, self.sender)).min()
    }

    /// The packet that a full segment makes.
    fn packet(&self, mss: Bytes) -> u64 {
        mss.0 + self.case.headers(self.pair) + TIMESTAMPS
    }

    fn black_hole(&self) -> Option<Finding> {
        let stuck: Vec<MeasurementId> = self
            .streams
            .iter()
            .filter(|(id, pair)| pair.kernel.stuck && !self.lost_a_node(*id))
            .map(|(id, _)| *id)
            .collect();
        let probed = self.probe.and_then(|(id, probe)| Some((id, probe, swallowed(probe)?)));
        // Where the largest probe came back, sizes are not why a stream is stuck.
        let all_pass = self.probe.is_some_and(|(_, probe)| {
            let largest = probe.interface_mtu_bytes.or_else(|| self.interfaces().map(|m| m as u32));
            probe.path_mtu_bytes.zip(largest).is_some_and(|(path, most)| path >= most)
        });
        let by_kernel =
            self.streams.iter().find_map(|(id, pair)| Some((*id, self.found_by_kernel(pair)?)));
        let probed = probed.filter(|(_, _, hole)| !stuck.is_empty() || !self.passed(hole.largest));
        if probed.is_none() && by_kernel.is_none() && (stuck.is_empty() || all_pass) {
            return None;
        }
        let largest = match (&probed, by_kernel) {
            (Some((_, _, hole)), _) => hole.largest.or(by_kernel.map(|(_, packet)| packet)),
            (None, by_kernel) => by_kernel.map(|(_, packet)| packet),
        };
        let certain = probed.as_ref().is_some_and(|(_, probe, _)| probe.way == Some(ProbeWay::Udp));
        let confidence = match (certain || !stuck.is_empty(), probed.is_some(), stuck.is_empty()) {
            (true, true, _) => Confidence::Measured,
            (true, false, _) | (false, false, true) => Confidence::Likely,
            (false, ..) => Confidence::Possible,
        };
        let mut sentence = format!("Large packets from {} vanish without a word", self.name());
        if let Some(largest) = largest {
            let _ = write!(sentence, ": {largest} bytes pass");
        }
        if let Some((_, _, hole)) = &probed {
            let what = if largest.is_some() { ", " } else { ": " };
            let _ = write!(
                sentence,
                "{what}{} were lost again and again, and no router said why",
                hole.lost
            );
        }
        sentence += ".";
        if !stuck.is_empty() {
            sentence += " A stream connects, and not one byte of it is acknowledged: a connection \
                         of redo transport would hang at its first large message.";
        }
        if by_kernel.is_some() {
            sentence += " The sender's kernel found out by itself after seconds of silence \
                         (net.ipv4.tcp_mtu_probing).";
        }
        if confidence == Confidence::Possible {
            sentence +=
                " The answers are as large as the probes, so it may be the way back instead.";
        }
        let mut finding = self
            .finding(FindingId::MtuBlackHole, Severity::Critical, confidence, sentence)
            .also(self.direction.to_string(), self.name());
        if let Some(largest) = largest {
            finding =
                finding.value(largest as f64, Unit::Bytes).detail(Detail::Mtu(largest as u32));
        }
        if let Some((id, ..)) = &probed {
            finding = finding.evidence(*id, &["sizes[]", "path_mtu_bytes", "loss_ratio"]);
        }
        for id in stuck.into_iter().chain(by_kernel.map(|(id, _)| id)) {
            finding = finding.evidence(id, &["acked_bytes", "received_bytes", "mss_bytes"]);
        }
        Some(finding)
    }

    /// A stream got packets larger than this through: what was lost of probes is not their size.
    fn passed(&self, largest: Option<u64>) -> bool {
        let Some(largest) = largest else { return false };
        self.streams.iter().any(|(_, pair)| {
            let carried = pair.counts.received.is_some_and(|bytes| bytes > 0);
            let mss = pair.kernel.mss_at_end.or(pair.mss);
            carried && mss.is_some_and(|mss| self.packet(mss) > largest + SLACK)
        })
    }

    /// The segments became smaller although no router told a smaller path MTU.
    fn found_by_kernel(&self, pair: &PairSummary) -> Option<u64> {
        let (first, last) = (pair.kernel.mss_at_start?, pair.kernel.mss_at_end?);
        let told = pair.path_mtu.is_none_or(|path| path.0 + SLACK < self.packet(first));
        (last.0 + SLACK < first.0 && !told).then(|| self.packet(last))
    }

    fn lost_a_node(&self, id: MeasurementId) -> bool {
        let gone = |transfer: &PairTransfer| {
            transfer.failure.as_ref().is_some_and(|one| one.cause == FailureCause::Unreachable)
        };
        match self.case.record.measurement(id) {
            Some(Measurement::Throughput(test)) => test.pairs.iter().any(gone),
            Some(Measurement::Path(path)) => path.stream.as_ref().is_some_and(gone),
            Some(Measurement::StorageRead(_)) | None => false,
        }
    }

    /// Smaller than both interfaces allow, and told so.
    fn reduced(&self) -> Option<Finding> {
        let most = self.interfaces()?;
        let of_streams = self.streams.iter().filter_map(|(id, pair)| Some((*id, pair.path_mtu?.0)));
        let of_streams = of_streams.min_by_key(|(_, path)| *path);
        // A probe of this run says more than what a kernel may have remembered.
        let told = self.told().or(of_streams).map(|(id, path)| (id, path, Confidence::Measured));
        let found = told.filter(|(_, path, _)| *path < most);
        let (id, path, confidence) = found.or_else(|| self.seen_from_behind(most))?;
        let says = match confidence {
            Confidence::Measured => ", and says so",
            _ => "; whether it says so, a path step in this direction tells",
        };
        let sentence = format!(
            "The way from {} carries packets of {path} bytes, the interfaces at both ends {most}: \
             something between them has a smaller MTU{says}.",
            self.name()
        );
        Some(
            self.finding(FindingId::MtuReduced, Severity::Info, confidence, sentence)
                .value(path as f64, Unit::Bytes)
                .detail(Detail::Mtu(path as u32))
                .evidence(id, &["path_mtu_bytes"])
                .also(format!("{path} {}", self.direction), self.name()),
        )
    }

    /// What a probe found, where it came to its end: everything passes, or the next size was refused.
    fn told(&self) -> Option<(MeasurementId, u64)> {
        let (id, probe) = self.probe?;
        let path = probe.path_mtu_bytes?;
        let refused = probe.sizes.iter().any(|size| {
            let told = matches!(size.outcome, SizeOutcome::TooBigThere | SizeOutcome::TooBigHere);
            told && size.packet_bytes > path
        });
        let whole = probe.interface_mtu_bytes.is_some_and(|most| path >= most);
        (refused || whole).then_some((id, u64::from(path)))
    }

    /// The answers to a probe the other way, where nothing was probed this way.
    fn seen_from_behind(&self, most: u64) -> Option<(MeasurementId, u64, Confidence)> {
        if self.probe.is_some() {
            return None;
        }
        self.case
            .paths_of(self.pair, self.direction.swapped())
            .filter_map(|path| {
                let answer = u64::from(path.probe.as_ref()?.return_path_mtu_bytes?);
                Some((path.id, answer, Confidence::Possible))
            })
            .last()
            .filter(|(_, path, _)| *path < most)
    }

    /// Segments smaller than the path MTU and both ends allow, from the first one on.
    fn clamped(&self) -> Option<Finding> {
        let facts = self.case.facts(self.sender);
        if facts.is_some_and(|facts| facts.tcp.mtu_probing == Some(ALWAYS_PROBES)) {
            return None;
        }
        let (id, pair, mss) = self.streams.iter().find_map(|(id, pair)| {
            let mss = pair.kernel.mss_at_end?;
            (self.is_clamped(pair, mss)).then_some((*id, *pair, mss))
        })?;
        let allowed = pair.path_mtu?;
        let sentence = format!(
            "Segments from {} carry {} bytes, although the path MTU ({}) and both ends allow more: \
             a device on the way changes the MSS that connections agree on.",
            self.name(),
            mss.0,
            allowed.0
        );
        Some(
            self.finding(FindingId::MssClamped, Severity::Info, Confidence::Likely, sentence)
                .value(mss.0 as f64, Unit::Bytes)
                .detail(Detail::Mtu(self.packet(mss) as u32))
                .evidence(id, &["mss_bytes", "path_mtu_bytes"])
                .also(format!("{mss} {}", self.direction), self.name()),
        )
    }

    fn is_clamped(&self, pair: &PairSummary, mss: Bytes) -> bool {
        let kernel = &pair.kernel;
        let below_path = pair.path_mtu.is_some_and(|path| self.packet(mss) + SLACK < path.0);
        let below_peer = kernel.receiver_mss.is_some_and(|peer| mss.0 + SLACK < peer.0);
        let from_start = kernel.mss_at_start.is_none_or(|first| first.0 <= mss.0 + SLACK);
        // A segment never takes more than half of the largest window (Linux).
        let window = pair.receive_window.is_some_and(|window| 2 * (mss.0 + SLACK) >= window.0);
        below_path && below_peer && from_start && !window
    }

    /// A path MTU that the sender's kernel knew before this run sent anything large.
    fn remembered(&self) -> Option<Finding> {
        let probed = self
            .case
            .paths_of(self.pair, self.direction)
            .filter_map(|path| Some((path.id, path.probe.as_ref()?)))
            .find_map(|(id, probe)| Some((id, u64::from(probe.remembered_mtu_bytes?), probe)));
        let sender = self.case.interface(self.sender, self.receiver).and_then(|one| one.mtu_bytes);
        let first = self.streams.iter().min_by_key(|(id, _)| *id);
        let of_stream = first.and_then(|(id, pair)| {
            let known = pair.kernel.known_path_mtu?.0;
            (known < u64::from(sender?)).then_some((*id, known))
        });
        let (id, known) = probed.map(|(id, known, _)| (id, known)).or(of_stream)?;
        let now = probed.and_then(|(.., probe)| probe.path_mtu_bytes).map(u64::from);
        let stale = now.is_some_and(|now| now > known);
        let truth = match now {
            Some(now) if stale => format!(
                " The way carries {now}: until it forgets, within ten minutes, every test and every \
                 redo stream sends smaller packets than it could."
            ),
            Some(_) => " That is still so.".to_owned(),
            None => String::new(),
        };
        let sentence = format!(
            "The kernel of {} remembered a path MTU of {known} bytes to {} from earlier traffic, \
             below its interface's.{truth}",
            self.case.name(self.sender),
            self.case.name(self.receiver),
        );
        let severity = if stale { Severity::Warning } else { Severity::Info };
        let field = if probed.is_some() { "remembered_mtu_bytes" } else { "path_mtu_bytes" };
        let mut finding =
            Finding::new(FindingId::RememberedPathMtu, severity, Confidence::Measured, sentence)
                .direction(self.direction)
                .pairs([self.pair])
                .nodes([self.sender])
                .value(known as f64, Unit::Bytes);
        finding.add_evidence(id, &[field]);
        Some(finding.also(format!("{known} {now:?} {}", self.direction), self.name()))
    }
}

/// Sizes of a probe that were lost although smaller ones pass.
struct Hole {
    largest: Option<u64>,
    lost: u32,
}

fn swallowed(probe: &PathProbe) -> Option<Hole> {
    let largest = probe.path_mtu_bytes.unwrap_or(0);
    let lost = probe
        .sizes
        .iter()
        .filter(|size| size.outcome == SizeOutcome::Lost && size.packet_bytes > largest)
        .map(|size| size.packet_bytes)
        .min()?;
    Some(Hole { largest: probe.path_mtu_bytes.map(u64::from), lost })
}
