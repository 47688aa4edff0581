//! Whether a test with an MTU of its own really sent packets of that size.

use redoline_proto::units::Bytes;

use super::throughput::{PairSummary, Summary};
use crate::plan::node::PairId;
use crate::record::setup::Setup;

/// IP and TCP headers of a packet.
const HEADERS_IPV4: u64 = 40;
const HEADERS_IPV6: u64 = 60;
/// TCP timestamps take this much of every segment (RFC 7323).
pub const TIMESTAMPS: u64 = 12;
/// Other options may take a little more.
pub const SLACK: u64 = 16;

/// Takes the rates from a test that did not reach the MTU it asked for: they are those of another
/// MTU, and a clamp can only lower it.
pub fn checked(setup: &Setup, mut summary: Summary) -> Summary {
    let request = &summary.request;
    let asked = request.mtu_bytes.or(request.interface_mtu_bytes).map(u64::from);
    let Some(mtu) = asked else { return summary };
    let why = match request.mtu_bytes {
        Some(_) => "and a test can only lower it",
        None => "although the interfaces had the larger one: something on the way clamps segments",
    };
    let why = summary.pairs.iter().find_map(|pair| not_reached(setup, pair, mtu, why));
    if why.is_some() {
        summary.steady = None;
        summary.whole_run = None;
        for pair in &mut summary.pairs {
            pair.steady = None;
            pair.whole_run = None;
        }
    }
    summary.not_testable = why;
    summary
}

fn not_reached(setup: &Setup, pair: &PairSummary, mtu: u64, why: &str) -> Option<String> {
    let headers = headers(setup, pair.pair);
    let mss = pair.mss.filter(|mss| mss.0 + SLACK + TIMESTAMPS + headers < mtu)?;
    let by_segment = Bytes(mss.0 + headers + TIMESTAMPS);
    let allowed = pair.path_mtu.filter(|path| path.0 < mtu).unwrap_or(by_segment);
    Some(format!(
        "not testable here: segments carried {} bytes, as an MTU of {} allows, {why}",
        mss.0, allowed.0
    ))
}

/// Of IPv4 or IPv6, and TCP.
pub fn headers(setup: &Setup, pair: PairId) -> u64 {
    let ipv6 = setup.nodes[setup.pairs[pair.0].primary.0].redo_address.contains(':');
    if ipv6 { HEADERS_IPV6 } else { HEADERS_IPV4 }
}
