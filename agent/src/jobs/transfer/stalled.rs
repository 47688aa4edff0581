//! Notices that the peer takes nothing any more: a black hole looks like success to `send`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{StopCause, Stopped};

use super::stopped;
use super::stream::Stream;
use crate::sys::{tcp, tcp_info};

/// Where a test asks for none: several retransmissions, even at an RTT of a second.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Watches the acknowledged bytes of all streams together: one dead stream of several is a finding,
/// not a reason to stop. Of an encoded stream, these are the bytes that TCP carries.
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
        // In this order: what is written between the two is not taken for acknowledged.
        let written: u64 = streams.iter().map(|stream| stream.progress.wire_bytes()).sum();
        let unacked: u64 = streams.iter().filter_map(|stream| unacked_bytes(stream)).sum();
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

/// `None` where nothing is on its way any more.
fn unacked_bytes(stream: &Stream) -> Option<u64> {
    let closed =
        tcp_info::read(&stream.socket).is_ok_and(|tcp| tcp.state == Some(tcp_info::CLOSED));
    if closed { None } else { tcp::unacked_bytes(&stream.socket).ok() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_peer_that_takes_nothing_of_a_compressed_stream_is_noticed_before_the_buffer_is_full() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        let stream = Arc::new(Stream::new(0, near));
        let mut wire = 0;
        while let Ok(bytes) = (&stream.socket).write(&[7; 100_000]) {
            wire += bytes as u64;
        }
        // The peer's window is full when nothing more is acknowledged.
        let unacked = || tcp::unacked_bytes(&stream.socket).unwrap();
        let mut left = u64::MAX;
        while std::mem::replace(&mut left, unacked()) != left {
            std::thread::sleep(Duration::from_millis(10));
        }
        stream.progress.encoded(wire);
        let streams = [Arc::clone(&stream)];
        let start = Instant::now();
        let mut stalled = Stalled::new("peer".to_owned(), PATIENCE, start);
        let mut look = |seconds| {
            // Gathered meanwhile, ten times of what TCP carries.
            stream.progress.add(10 * wire as usize, 1);
            stalled.look(&streams, start + Duration::from_secs(seconds))
        };
        assert_eq!([look(0), look(4), look(9)], [None, None, None]);
        let told = look(10).unwrap().text;
        assert!(told.ends_with(&format!("; {} bytes had arrived before", wire - left)), "{told}");
    }

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
