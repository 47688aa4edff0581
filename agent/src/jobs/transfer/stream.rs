//! One connection of a test, shared by the thread that moves its bytes and the one that watches.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use redoline_proto::transfer::{Stopped, StreamEnd};
use socket2::SockRef;

use super::socket::LastWords;
use super::sync::Tally;
use crate::jobs::cpu::ThreadUse;

#[derive(Debug)]
pub struct Stream {
    pub index: u32,
    pub socket: TcpStream,
    pub progress: Progress,
}

/// Counts one stream's bytes; one thread writes, any may read.
///
/// Alone in its cache lines (two, since they are fetched in pairs), so that counting one stream
/// does not slow another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    bytes: AtomicU64,
    /// 0: none yet.
    first_ns: AtomicI64,
    last_ns: AtomicI64,
    /// Of an encoded stream that is sent: one more than the bytes that its socket took; else 0.
    wire: AtomicU64,
}

impl Progress {
    /// The first byte is about to move.
    pub fn begin(&self, now_ns: i64) {
        self.first_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Call from one thread only: there is no locked instruction here.
    pub fn add(&self, bytes: usize, now_ns: i64) {
        let before = self.bytes.load(Ordering::Relaxed);
        if before == 0 && self.first_ns.load(Ordering::Relaxed) == 0 {
            self.begin(now_ns);
        }
        self.bytes.store(before + bytes as u64, Ordering::Relaxed);
        self.last_ns.store(now_ns, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// So many encoded bytes were written so far.
    pub fn encoded(&self, wire_bytes: u64) {
        self.wire.store(wire_bytes + 1, Ordering::Relaxed);
    }

    /// What the socket of a sender took: the payload, or what it was encoded to.
    pub fn wire_bytes(&self) -> u64 {
        let encoded = self.wire.load(Ordering::Relaxed).checked_sub(1);
        encoded.unwrap_or_else(|| self.bytes())
    }

    pub fn first_byte_ns(&self) -> Option<i64> {
        // While the stream runs, its count may be seen before its time.
        let first_ns = self.first_ns.load(Ordering::Relaxed);
        (self.bytes() > 0 && first_ns > 0).then_some(first_ns)
    }

    fn last_byte_ns(&self) -> Option<i64> {
        (self.bytes() > 0).then(|| self.last_ns.load(Ordering::Relaxed))
    }
}

/// What a stream's thread leaves behind.
#[derive(Debug)]
pub struct Finish {
    /// Position among the streams.
    pub stream: usize,
    pub last_words: LastWords,
    pub drained: bool,
    /// Of the stream's thread.
    pub processor: ThreadUse,
    pub course: Course,
    /// At the sender of a SYNC test.
    pub tally: Option<Box<Tally>>,
}

/// How a stream came to its end.
#[derive(Debug)]
pub enum Course {
    Ran,
    /// Before its time, but the others may go on: the bytes are used up.
    Spent(Stopped),
    /// The whole test has to end for it.
    Trouble(Stopped),
}

impl Course {
    pub fn stopped(&self) -> Option<&Stopped> {
        match self {
            Self::Ran => None,
            Self::Spent(stopped) | Self::Trouble(stopped) => Some(stopped),
        }
    }
}

impl Finish {
    pub fn trouble(&self) -> Option<&Stopped> {
        match &self.course {
            Course::Trouble(stopped) => Some(stopped),
            Course::Ran | Course::Spent(_) => None,
        }
    }
}

impl Stream {
    pub fn new(index: u32, socket: TcpStream) -> Self {
        Self { index, socket, progress: Progress::default() }
    }

    /// Wakes whoever waits in `recv`.
    pub fn stop_receiving(&self) {
        self.reset_at_close();
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Nothing more leaves once the socket closes, and the peer sees a reset: after `shutdown`, it
    /// would take what is under way for the whole.
    pub fn reset_at_close(&self) {
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    pub fn end(&self, last_words: LastWords, drained: bool) -> StreamEnd {
        StreamEnd {
            stream: self.index,
            bytes: self.progress.bytes(),
            first_byte_ns: self.progress.first_byte_ns(),
            last_byte_ns: self.progress.last_byte_ns(),
            tcp: last_words.tcp,
            send_buffer_bytes: last_words.buffers.send_bytes,
            receive_buffer_bytes: last_words.buffers.receive_bytes,
            drained,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_bytes_has_no_first_byte() {
        let progress = Progress::default();
        progress.begin(5);
        assert_eq!((progress.first_byte_ns(), progress.last_byte_ns()), (None, None));
        progress.add(10, 7);
        progress.add(10, 9);
        assert_eq!((progress.first_byte_ns(), progress.last_byte_ns()), (Some(5), Some(9)));
        assert_eq!(progress.bytes(), 20);
    }

    #[test]
    fn what_the_socket_took_is_the_payload_unless_it_is_encoded() {
        let progress = Progress::default();
        progress.add(1000, 7);
        assert_eq!(progress.wire_bytes(), 1000);
        progress.encoded(0);
        assert_eq!(progress.wire_bytes(), 0, "gathered, and not written yet");
        progress.encoded(300);
        assert_eq!((progress.wire_bytes(), progress.bytes()), (300, 1000));
    }
}
