//! Notices that the peer takes nothing any more: a black hole looks like success to `send`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{StopCause, Stopped};

use super::stopped;
use super::stream::Stream;
use crate::sys::tcp;

/// Where a test asks for none: several retransmissions, even at an RTT of a second.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Watches the acknowledged bytes of all streams together: one dead stream of several is a finding,
/// not a reason to stop.
#[derive(Debug)]
pub struct Stalled {
    peer: String,
    patience: Duration,
    acked_bytes: u64,
    since: Instant,
}

impl Stalled {
    pub fn new(peer: String, patience: Duration, now: Instant) -> Self {
        Self { peer, patience, acked_bytes: 0, since: now }
    }

    pub fn look(&mut self, streams: &[Arc<Stream>], now: Instant) -> Option<Stopped> {
        let written: u64 = streams.iter().map(|stream| stream.progress.bytes()).sum();
        let unacked: u64 =
            streams.iter().filter_map(|stream| tcp::unacked_bytes(&stream.socket).ok()).sum();
        self.judge(written, unacked, now)
    }

    fn judge(&mut self, written: u64, unacked: u64, now: Instant) -> Option<Stopped> {
        let acked_bytes = written.saturating_sub(unacked);
        // Less than before: the two numbers are not of exactly the same moment.
        if unacked == 0 || acked_bytes > self.acked_bytes {
            (self.acked_bytes, self.since) = (acked_bytes, now);
            return None;
        }
        (now - self.since >= self.patience).then(|| {
            let (peer, seconds) = (&self.peer, self.patience.as_secs_f64());
            let text = format!(
                "{peer} acknowledged nothing for {seconds} s while {unacked} bytes were under way; \
                 {acked_bytes} bytes had arrived before"
            );
            stopped(StopCause::Peer, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_without_an_acknowledgement_are_too_long() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut stalled = Stalled::new("203.0.113.11:5555".to_owned(), PATIENCE, start);
        assert_eq!(stalled.judge(1000, 400, at(1)), None);
        assert_eq!(stalled.judge(1000, 400, at(10)), None);
        assert_eq!(
            stalled.judge(1000, 400, at(11)).unwrap().text,
            "203.0.113.11:5555 acknowledged nothing for 10 s while 400 bytes were under way; \
             600 bytes had arrived before"
        );
    }

    #[test]
    fn progress_and_idleness_are_no_stall() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut stalled = Stalled::new("peer".to_owned(), PATIENCE, start);
        assert_eq!(stalled.judge(1000, 400, at(9)), None);
        assert_eq!(stalled.judge(1000, 300, at(18)), None);
        assert_eq!(stalled.judge(1000, 0, at(40)), None);
        assert_eq!(stalled.judge(1200, 200, at(41)), None, "idle until just now");
    }
}
