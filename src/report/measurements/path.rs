//! What the way between two nodes is like: probes beside a short stream of large messages.

use redoline_proto::path::{PathProbe, ProbeWay, SizeOutcome, SizeProbe};
use redoline_proto::transfer::InterfaceUse;

use super::super::build::rate;
use super::super::model;
use super::{latency, micros, segments};
use crate::analysis::host_use::HostUse;
use crate::analysis::path::PathSummary;
use crate::analysis::throughput::PairSummary;
use crate::plan::node::NodeId;
use crate::record::measurement::Path;
use crate::record::run::RunRecord;

/// A stream with less than this does not tell which interface carried it.
const ENOUGH_BYTES: u64 = 1 << 20;

pub(super) fn path(
    record: &RunRecord,
    raw: &Path,
    summary: &PathSummary,
    failures: Vec<String>,
) -> model::Path {
    let setup = &record.setup;
    let (sender, receiver) = setup.ends(summary.pair, summary.direction);
    let probe = summary.probe.as_ref();
    let stream = summary.stream.as_ref();
    let answered = probe.filter(|probe| probe.answered > 0);
    let routes = model::BothEnds {
        sender: probe
            .and_then(|probe| probe.interface.clone())
            .or_else(|| routed(record, sender, receiver)),
        receiver: routed(record, receiver, sender),
    };
    model::Path {
        id: summary.id.to_string(),
        step: summary.step as u32 + 1,
        direction: summary.direction,
        pair: setup.pair_name(summary.pair),
        sender: setup.node_name(sender).to_owned(),
        receiver: setup.node_name(receiver).to_owned(),
        way: probe.and_then(|probe| probe.way).map(|way| match way {
            ProbeWay::Udp => "udp".to_owned(),
            ProbeWay::Icmp => "icmp".to_owned(),
        }),
        rtt_us: rtt(raw, summary),
        loss_ratio: summary.loss_share(),
        probes: probe.map(|probe| probe.sent),
        answered_probes: probe.map(|probe| probe.answered),
        reordered_probes: answered.map(|probe| probe.reordered),
        path_mtu_bytes: probe.and_then(|probe| probe.path_mtu_bytes),
        return_path_mtu_bytes: probe.and_then(|probe| probe.return_path_mtu_bytes),
        remembered_mtu_bytes: probe.and_then(|probe| probe.remembered_mtu_bytes),
        mss_bytes: stream.and_then(|stream| stream.mss).map(|mss| mss.0),
        sizes: probe.map_or_else(Vec::new, |probe| probe.sizes.iter().map(size).collect()),
        used_interface: used(stream, &routes),
        interface: routes,
        interface_mtu_bytes: model::BothEnds {
            sender: probe
                .and_then(|probe| probe.interface_mtu_bytes)
                .or_else(|| mtu(record, sender, receiver)),
            receiver: mtu(record, receiver, sender),
        },
        source_address: probe.and_then(|probe| probe.source_address.clone()),
        gateway: probe.and_then(|probe| probe.gateway.clone()),
        load_bytes_per_second: stream.and_then(load),
        acked_bytes: stream.and_then(|stream| stream.counts.acked),
        received_bytes: stream.and_then(|stream| stream.counts.received),
        retransmitted_bytes: stream.and_then(|stream| stream.counts.retransmitted),
        segments: stream.map_or_else(Default::default, |one| segments(std::slice::from_ref(one))),
        remarks: probe.map_or_else(Vec::new, |probe: &PathProbe| probe.remarks.clone()),
        failures,
    }
}

fn rtt(raw: &Path, summary: &PathSummary) -> model::PathRtt {
    let loaded = loaded(raw, summary.stream.as_ref());
    let rank = |share: f64| {
        let at = (share * loaded.len() as f64).ceil() as usize;
        loaded.get(at.saturating_sub(1)).copied()
    };
    model::PathRtt {
        idle: summary.idle_rtt().filter(|idle| idle.count > 0).map(latency),
        loaded_p50: rank(0.5),
        loaded_p99: rank(0.99),
        loaded_max: loaded.last().copied(),
        loaded_readings: (!loaded.is_empty()).then_some(loaded.len() as u32),
    }
}

/// Smoothed round trips of the stream after its ramp, in ascending order.
fn loaded(raw: &Path, stream: Option<&PairSummary>) -> Vec<u64> {
    let (Some(transfer), Some(stream)) = (&raw.stream, stream) else { return Vec::new() };
    if load(stream).is_none() {
        return Vec::new();
    }
    let ramp = stream.steady.as_ref().map_or(0, |steady| steady.truncated.as_nanos() as i64);
    let started = transfer.sender.started_ns;
    let from = started.map_or(i64::MIN, |started| started.saturating_add(ramp));
    let readings = transfer.sender.readings.iter().filter(|reading| reading.at_ns >= from);
    let mut loaded: Vec<u64> =
        readings.filter_map(|reading| reading.tcp.rtt_us).filter(|rtt| *rtt > 0).collect();
    if loaded.is_empty() {
        loaded.extend(stream.rtt.p50.map(micros));
    }
    loaded.sort_unstable();
    loaded
}

fn load(stream: &PairSummary) -> Option<f64> {
    let steady = stream.steady.as_ref().map(|steady| steady.rate);
    steady.or(stream.whole_run).map(rate).filter(|rate| *rate > 0.0)
}

fn size(size: &SizeProbe) -> model::SizeProbe {
    model::SizeProbe {
        packet_bytes: size.packet_bytes,
        outcome: match size.outcome {
            SizeOutcome::Passed => "passed",
            SizeOutcome::TooBigHere => "too_big_here",
            SizeOutcome::TooBigThere => "too_big_there",
            SizeOutcome::Lost => "lost",
        }
        .to_owned(),
        told_mtu_bytes: size.told_mtu_bytes,
    }
}

/// The interface of a node's route to its peer, as its facts have it.
fn routed(record: &RunRecord, node: NodeId, peer: NodeId) -> Option<String> {
    let facts = record.nodes.get(&node)?.facts.as_ref()?;
    let name = record.setup.node_name(peer);
    facts.routes.iter().find(|route| route.peer == name)?.interface.clone()
}

fn mtu(record: &RunRecord, node: NodeId, peer: NodeId) -> Option<u32> {
    let name = routed(record, node, peer)?;
    let facts = record.nodes.get(&node)?.facts.as_ref()?;
    facts.interfaces.iter().find(|interface| interface.name == name)?.mtu_bytes
}

/// A bond and its member count the same bytes: then it is the one that the route names.
fn used(
    stream: Option<&PairSummary>,
    routes: &model::BothEnds<Option<String>>,
) -> model::BothEnds<Option<String>> {
    let Some(stream) = stream else { return model::BothEnds::default() };
    let payload = stream.counts.received.filter(|bytes| *bytes >= ENOUGH_BYTES);
    let carried = |host: &HostUse, routed: Option<&str>, bytes: fn(&InterfaceUse) -> u64| {
        let payload = payload?;
        let named = host.interfaces.iter().find(|one| Some(&*one.name) == routed);
        let busiest = || host.interfaces.iter().max_by_key(|one| bytes(one));
        let enough = |one: &&InterfaceUse| bytes(one) >= payload;
        let by = named.filter(enough).or_else(|| busiest().filter(enough))?;
        Some(by.name.clone())
    };
    model::BothEnds {
        sender: carried(&stream.host.sender, routes.sender.as_deref(), |one| one.sent_bytes),
        receiver: carried(&stream.host.receiver, routes.receiver.as_deref(), |one| {
            one.received_bytes
        }),
    }
}
