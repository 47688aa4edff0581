//! From a step's keys to what the agents are asked, and to what the record says was asked.

use redoline_proto::transfer::Acknowledge;
use redoline_proto::units::{Bytes, BytesPerSecond, Share, milliseconds};

use super::measure::Parameters;
use crate::execute::jobs::{CONNECT_DEADLINE, Test};
use crate::execute::run::Run;
use crate::plan::node::{NodeId, PairId};
use crate::plan::step::{Mode, TestTime, ThroughputSpec};
use crate::record::measurement::TransferRequest;

/// What the pairs' agents are asked.
pub fn test(
    run: &Run<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> Test {
    let directions = if spec.both_directions { 2 } else { 1 };
    let senders = (pairs.len().max(1) * directions) as u64;
    Test {
        num_conn: parameters.num_conn,
        duration: spec.time.longest(),
        reading: spec.interval,
        message: spec.message,
        payload: spec.payload,
        socket: parameters.socket.clone(),
        rate: rate_limit(run, pairs, spec.both_directions),
        bytes_max: run.bytes_left().map(|left| Bytes((left.0 / senders).max(1))),
        guard: run.guard(),
        acknowledge: acknowledge(spec),
        delay: spec.delay,
        connect_deadline: CONNECT_DEADLINE,
        stall_deadline: spec.network_timeout,
        encoding: spec.encoding,
        compressible: spec.compressible,
    }
}

/// SYNC: each message is answered, with `mode: sync` after it was written.
fn acknowledge(spec: &ThroughputSpec) -> Option<Acknowledge> {
    let write = match &spec.mode {
        Mode::Async => return None,
        Mode::Sync(write) => Some(write.clone()),
        Mode::Fastsync => None,
    };
    Some(Acknowledge { message_bytes: spec.message.0, write })
}

/// The runbook's limit is per node. A node that is in several transfers of this test, by several
/// pairs or both directions, gets its limit once, so each of those gets its share.
pub fn rate_limit(run: &Run<'_>, pairs: &[PairId], both: bool) -> Option<BytesPerSecond> {
    let pairs_of = |node: NodeId| {
        let has = |pair: &&PairId| {
            let nodes = run.plan.pair(**pair);
            nodes.primary == node || nodes.standby == node
        };
        pairs.iter().filter(has).count()
    };
    let most = (0..run.plan.nodes.len()).map(NodeId).map(pairs_of).max().unwrap_or(1).max(1);
    let most = if both { 2 * most } else { most };
    run.plan.limits.rate.map(|rate| BytesPerSecond(rate.0 / most as f64))
}

/// The same as the record keeps it.
pub fn request(
    run: &Run<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> TransferRequest {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    TransferRequest {
        nodes: parameters.nodes,
        num_conn: parameters.num_conn,
        duration_ms: milliseconds(spec.time.longest()),
        auto_target: match spec.time {
            TestTime::Fixed(_) => None,
            TestTime::Auto { target, .. } => Some(target),
        },
        mode: spec.mode.key().to_owned(),
        acknowledge: acknowledge(spec),
        delay_us: spec.delay.map(micros),
        network_timeout_ms: spec.network_timeout.map(milliseconds),
        encoding: spec.encoding,
        compressible_share: spec.compressible.map(|Share(share)| share),
        both_directions: spec.both_directions,
        interface_mtu_bytes: parameters.interface_mtu,
        interval_ms: milliseconds(spec.interval),
        message_bytes: spec.message.0,
        payload: spec.payload,
        socket_buffer: parameters.socket_buffer.clone(),
        mtu_bytes: parameters.mtu,
        socket: parameters.socket.clone(),
        rate_limit: rate_limit(run, pairs, spec.both_directions),
    }
}
