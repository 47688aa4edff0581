//! A throughput test over TCP: one node receives, another sends.
//!
//! Each connection has a thread that only moves and counts bytes. The job's own thread watches:
//! it makes samples and readings, tells them, and ends the test.

mod receive;
mod send;
mod hello;
mod listen;
mod accept;
mod connect;
mod socket;
mod source_port;
mod stream;
mod writer;
mod sync;
mod encoding;
mod allowance;
mod watch;
mod stalled;
mod sampler;
mod outlet;
mod budget;
mod pace;
mod payload;

pub use receive::receive;
pub use send::send;

use std::time::{Duration, Instant};

use redoline_proto::transfer::{StopCause, Stopped};

fn stopped(cause: StopCause, text: impl Into<String>) -> Stopped {
    Stopped { cause, text: text.into() }
}

/// No test is longer, and no clock reaches further than it has to.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// `start` and `time` together, whatever a request says.
fn after(start: Instant, time: Duration) -> Instant {
    start + time.min(LONGEST)
}
