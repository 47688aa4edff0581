//! What a test asks of its sockets: buffers by size or by bandwidth-delay product, MSS by MTU.

use std::net::IpAddr;

use redoline_proto::transfer::SocketRequest;
use redoline_proto::units::BytesPerSecond;

use super::At;
use crate::analysis::bdp;
use crate::execute::results::Carried;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::{BufferSize, ThroughputSpec};

/// TCP and IP headers without options (RFC 6691: the MSS does not count options).
const HEADERS_IPV4: u32 = 40;
const HEADERS_IPV6: u32 = 60;

/// The largest value that TCP_MAXSEG takes (`MAX_TCP_WINDOW`, include/net/tcp.h).
const MSS_MAX: u32 = 32_767;

/// The request for a pair's sockets; `Err` says why it cannot be known.
pub fn request(
    run: &Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pair: PairId,
) -> Result<SocketRequest, String> {
    if let Some(why_not) = spec.mtu.and_then(|mtu| not_testable(run, pair, mtu)) {
        return Err(why_not);
    }
    let bytes = |size: BufferSize| match size {
        BufferSize::Auto => Ok(None),
        BufferSize::Fixed(bytes) => Ok(Some(bytes.0)),
        BufferSize::TimesBdp(factor) => times_bdp(run, at, pair, factor).map(Some),
    };
    let buffers = Buffers::of(spec);
    Ok(SocketRequest {
        socket_buffer_bytes: bytes(buffers.both)?,
        send_buffer_bytes: bytes(buffers.send)?,
        receive_buffer_bytes: bytes(buffers.receive)?,
        congestion_control: spec.congestion_control.clone(),
        mss_bytes: spec.mtu.map(|mtu| mtu.saturating_sub(headers(run, pair))),
        dscp: spec.dscp,
        device: spec.device.clone(),
        source_port_base: spec.source_port_base.map(u32::from),
        pacing_bytes_per_second: spec.pacing.map(|rate| rate.0),
    })
}

/// What is asked for each buffer; `Auto` asks for nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Buffers {
    both: BufferSize,
    send: BufferSize,
    receive: BufferSize,
}

impl Buffers {
    /// A buffer of its own that is left to the system cannot be said beside one for both, which is
    /// then asked for where it still holds.
    fn of(spec: &ThroughputSpec) -> Self {
        let both = spec.socket_buffer;
        let own = |buffer: Option<BufferSize>| buffer.unwrap_or_default();
        let auto = Some(BufferSize::Auto);
        match spec.send_buffer == auto || spec.receive_buffer == auto {
            false => Self { both, send: own(spec.send_buffer), receive: own(spec.receive_buffer) },
            true => Self {
                both: BufferSize::Auto,
                send: spec.send_buffer.unwrap_or(both),
                receive: spec.receive_buffer.unwrap_or(both),
            },
        }
    }
}

/// The best steady rate so far in this direction; where nothing has told what the path carries, the
/// highest of it, the need and the declared bandwidth. Times the shortest round trip seen on the pair.
fn times_bdp(run: &Run<'_>, at: At<'_>, pair: PairId, factor: f64) -> Result<u64, String> {
    let declared = run.plan.configuration.network.bandwidth;
    let rate = rate(run.results.carried(at.direction), [needed_rate(run), declared])
        .ok_or("a multiple of the BDP needs a rate: measure one first, or state a need")?;
    let rtt = run.min_rtt(pair, at.direction).ok_or(
        "a multiple of the BDP needs a round-trip time, and none was measured on the pair",
    )?;
    Ok(bdp::times_bdp(factor, rate, rtt).0)
}

fn rate(carried: Option<Carried>, stated: [Option<BytesPerSecond>; 2]) -> Option<BytesPerSecond> {
    let at_least = match carried {
        Some(Carried::Rate(rate)) => return Some(rate),
        Some(Carried::AtLeast(rate)) => Some(rate),
        None => None,
    };
    let known = stated.into_iter().chain([at_least]).flatten();
    known.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn needed_rate(run: &Run<'_>) -> Option<BytesPerSecond> {
    let need = run.plan.need.as_ref()?;
    let highest = need.threads.values().copied().max_by(|a, b| a.0.total_cmp(&b.0));
    highest.or(need.total).map(|rate| need.with_headroom(rate))
}

fn headers(run: &Run<'_>, pair: PairId) -> u32 {
    match run.plan.node(run.plan.pair(pair).primary).redo.address {
        IpAddr::V4(_) => HEADERS_IPV4,
        IpAddr::V6(_) => HEADERS_IPV6,
    }
}

/// Why an MTU cannot be tested on a pair: a clamp can only lower what interfaces and routes carry.
pub fn not_testable(run: &Run<'_>, pair: PairId, mtu: u32) -> Option<String> {
    if mtu.saturating_sub(headers(run, pair)) > MSS_MAX {
        return Some(format!("not testable here: Linux clamps the MSS to {MSS_MAX} at most"));
    }
    let nodes = run.plan.pair(pair);
    [(nodes.primary, nodes.standby), (nodes.standby, nodes.primary)].into_iter().find_map(
        |(node, peer)| {
            let name = &run.plan.node(node).name;
            let facts = run.facts.get(&node)?;
            let peer = &run.plan.node(peer).name;
            let route = facts.routes.iter().find(|route| route.peer == *peer);
            let address = run.plan.node(node).redo.bind.to_string();
            let interface = facts
                .interfaces
                .iter()
                .find(|interface| interface.addresses.contains(&address))
                .map(|interface| (interface.name.as_str(), interface.mtu_bytes));
            let of_route = route.and_then(|route| route.mtu_bytes).map(|mtu| ("the route", mtu));
            let of_interface = interface.and_then(|(name, mtu)| Some((name, mtu?)));
            let (what, carried) =
                of_route.into_iter().chain(of_interface).min_by_key(|(_, mtu)| *mtu)?;
            (mtu > carried).then(|| {
                format!(
                    "not testable here: {what} on `{name}` has MTU {carried}, and a test can only \
                     lower it"
                )
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_path_was_seen_to_carry_outweighs_the_need_and_the_declared_bandwidth() {
        let (need, declared) = (Some(BytesPerSecond(20.0)), Some(BytesPerSecond(30.0)));
        let of = |carried, stated| rate(carried, stated).map(|rate| rate.0);
        let carried = Some(Carried::Rate(BytesPerSecond(10.0)));
        assert_eq!(of(carried, [need, declared]), Some(10.0));
        let at_least = |rate| Some(Carried::AtLeast(BytesPerSecond(rate)));
        assert_eq!(of(at_least(10.0), [need, declared]), Some(30.0), "held by the runbook");
        assert_eq!(of(at_least(10.0), [need, None]), Some(20.0));
        assert_eq!(of(at_least(40.0), [need, declared]), Some(40.0));
        assert_eq!(of(None, [need, None]), Some(20.0));
        assert_eq!(of(None, [None, None]), None);
    }
}
