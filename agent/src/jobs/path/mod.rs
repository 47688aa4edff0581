//! What the way to a peer is like: small datagrams for round trips, large ones for the path MTU.
//!
//! One agent reflects, another probes. Datagrams, the search for a size, and the counting of small
//! probes are apart from the sockets, of which there are two kinds: UDP to the other agent, and
//! ICMP echo where a firewall lets no datagram pass.

mod datagram;
mod search;
mod small;
mod sizes;
mod line;
mod notice;
mod flow;
mod echo;
mod way;
mod probe;
mod reflect;

pub use probe::probe;
pub use reflect::reflect;

use std::time::{Duration, Instant};

/// No job is longer, and no clock reaches further than it has to.
const LONGEST: Duration = Duration::from_secs(3600);

/// How late a cancelled job may notice.
const ATTENTION: Duration = Duration::from_millis(50);

/// `start` and `time` together, whatever a request says.
fn after(start: Instant, time: Duration) -> Instant {
    start + time.min(LONGEST)
}
