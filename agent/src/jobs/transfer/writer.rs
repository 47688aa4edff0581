//! The thread that writes one stream, and sees to it that what it wrote arrives.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{StopCause, Stopped};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::allowance::{Allowance, Next};
use super::budget::Budget;
use super::encoding::{Encoder, is_own_failure};
use super::payload::Ring;
use super::socket::LastWords;
use super::stopped;
use super::stream::{Course, Finish, Stream};
use super::sync::Exchange;
use crate::chain;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::cpu::ThreadUse;
use crate::sys::clock::monotonic_ns;
use crate::sys::{tcp, tcp_info};

/// How long a `send` may wait for room before it looks whether the test is over.
pub const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// For what is under way to arrive, once the last byte is written.
const DRAIN_MIN: Duration = Duration::from_secs(5);
pub const DRAIN_MAX: Duration = Duration::from_secs(10);

/// A first write that waits for its turn when the time is over does not do so in a busy loop.
pub const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Between two looks whether it has.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// Sends one stream; one thread each.
pub struct Writer {
    /// Among the streams.
    pub place: usize,
    pub stream: Arc<Stream>,
    pub halt: CancelFlag,
    /// Ends writing as the end of the duration does.
    pub finish: CancelFlag,
    pub message: Bytes,
    /// SYNC: each message waits for the answer to the one before.
    pub acknowledged: bool,
    /// After each message.
    pub delay: Option<Duration>,
    /// For the peer, while nothing moves.
    pub patience: Duration,
    /// The connection is reset once everything has arrived, so that its port is free again.
    pub frees_port: bool,
    /// Of all streams together, for the text that says so; the budget of SYNC counts messages.
    pub bytes_max: Option<Bytes>,
    pub budget: Option<Arc<Budget>>,
    /// Of this stream.
    pub rate: Option<BytesPerSecond>,
}

/// Why writing ended.
pub enum WriteEnd {
    Elapsed,
    Halted,
    Spent,
    Failed(io::Error),
    Stopped(Stopped),
}

impl Writer {
    /// Until the monotonic clock shows `until_ns`, or a limit, or a trouble; but at least one write,
    /// however late a busy host lets this thread run.
    pub fn send_all(&self, ring: Ring, mut encoder: Encoder, until_ns: i64) -> Finish {
        let before = ThreadUse::now();
        let began = Instant::now();
        let (write_end, tally) = match self.acknowledged {
            false => (self.write(ring, &mut encoder, until_ns), None),
            true => {
                let (end, tally) = Exchange::new(self, ring).run(until_ns);
                (end, Some(Box::new(tally)))
            }
        };
        let drained = match write_end {
            WriteEnd::Elapsed | WriteEnd::Spent => self.drain(&mut encoder, began.elapsed()),
            WriteEnd::Halted | WriteEnd::Failed(_) | WriteEnd::Stopped(_) => false,
        };
        let last_words = LastWords::of(&self.stream.socket);
        if !drained {
            self.stream.reset_at_close();
        } else if self.frees_port {
            // The receiver waits for it; one that has gone already is as good.
            let _ = tcp::reset(&self.stream.socket);
        }
        Finish {
            stream: self.place,
            last_words,
            drained,
            processor: ThreadUse::now().since(before),
            course: self.course(write_end),
            tally,
        }
    }

    /// For a turn to come; ends early with the test.
    pub fn wait(&self, time: Duration) {
        if self.stream.progress.bytes() > 0 {
            self.finish.wait_timeout(time);
        } else {
            // The first bytes leave whatever happens, and wait for their turn even then.
            self.halt.wait_timeout(time);
        }
    }

    /// Writes message after message, as a process that has redo to ship and never runs out of it.
    fn write(&self, mut ring: Ring, encoder: &mut Encoder, until_ns: i64) -> WriteEnd {
        let mut socket = &self.stream.socket;
        let mut now_ns = monotonic_ns();
        let mut allowance = Allowance::new(self.rate, self.budget.clone(), now_ns);
        let message = self.message.0 as usize;
        let mut left = message;
        encoder.count(&self.stream);
        self.stream.progress.begin(now_ns);
        while (now_ns < until_ns && !self.finish.is_set()) || self.stream.progress.bytes() == 0 {
            if self.halt.is_set() {
                return WriteEnd::Halted;
            }
            let most = match allowance.next(left, now_ns) {
                Next::Write { bytes } => bytes,
                Next::Wait(time) => {
                    let left = nanoseconds_until(now_ns, until_ns).max(PAUSE_MIN);
                    self.wait(time.min(left));
                    now_ns = monotonic_ns();
                    continue;
                }
                Next::Spent => return WriteEnd::Spent,
            };
            let written = match encoder.write(&mut socket, ring.next(most), left) {
                Ok(bytes) => bytes,
                Err(error) if is_pause(&error) => 0,
                Err(error) => return WriteEnd::Failed(error),
            };
            now_ns = monotonic_ns();
            encoder.count(&self.stream);
            if written > 0 {
                self.stream.progress.add(written, now_ns);
                allowance.wrote(written);
                ring.advance(written);
                left = if written == left { message } else { left - written };
                if let Some(delay) = self.delay.filter(|_| left == message) {
                    self.wait(delay.min(nanoseconds_until(now_ns, until_ns)));
                    now_ns = monotonic_ns();
                }
            }
        }
        self.elapsed()
    }

    /// The time is over, or made to be: halting sets both flags, `halt` first.
    pub fn elapsed(&self) -> WriteEnd {
        if self.halt.is_set() { WriteEnd::Halted } else { WriteEnd::Elapsed }
    }

    /// Waits until the peer has acknowledged everything; false when it did not within the deadline.
    /// The end of what is encoded may take all of that time: a frame may be much of what a slow
    /// path brings.
    fn drain(&self, encoder: &mut Encoder, wrote_for: Duration) -> bool {
        let began = Instant::now();
        let socket = &self.stream.socket;
        if !encoder.flush(&self.stream, &self.halt, began + DRAIN_MAX)
            || socket.shutdown(Shutdown::Write).is_err()
        {
            return false;
        }
        let unacked = tcp::unacked_bytes(socket).unwrap_or(0);
        let time = drain_time(unacked, self.stream.progress.wire_bytes(), wrote_for);
        self.all_arrived((Instant::now() + time).min(began + DRAIN_MAX))
    }

    fn all_arrived(&self, deadline: Instant) -> bool {
        let socket = &self.stream.socket;
        loop {
            // The state first: the last acknowledgement and the peer's FIN may come between the
            // two, and close a connection that has delivered everything.
            let closed =
                tcp_info::read(socket).is_ok_and(|tcp| tcp.state == Some(tcp_info::CLOSED));
            // Counts the FIN, too; a reset leaves it as it was.
            if tcp::unacked_bytes(socket).is_ok_and(|bytes| bytes == 0) {
                return true;
            }
            if closed || Instant::now() >= deadline || self.halt.is_set() {
                return false;
            }
            self.halt.wait_timeout(DRAIN_LOOK);
        }
    }

    fn course(&self, write_end: WriteEnd) -> Course {
        match write_end {
            WriteEnd::Elapsed | WriteEnd::Halted => Course::Ran,
            WriteEnd::Spent => Course::Spent(self.spent()),
            WriteEnd::Failed(error) => Course::Trouble(self.broken(&error)),
            WriteEnd::Stopped(stopped) => Course::Trouble(stopped),
        }
    }

    fn spent(&self) -> Stopped {
        let bytes = self.bytes_max.unwrap_or_default();
        let text = match self.acknowledged {
            false => format!("all {bytes} that may be sent were sent"),
            true => format!(
                "as many messages of {} were sent as fit into the {bytes} that may be sent",
                self.message
            ),
        };
        stopped(StopCause::Limit, text)
    }

    pub fn peer(&self) -> String {
        let peer = self.stream.socket.peer_addr();
        peer.map_or_else(|_| "the receiver".to_owned(), |peer| peer.to_string())
    }

    fn broken(&self, error: &io::Error) -> Stopped {
        let peer = self.peer();
        let (stream, bytes) = (self.stream.index, self.stream.progress.bytes());
        if is_own_failure(error) {
            let why = chain(error);
            let text = format!("stream {stream} to {peer} ended here after {bytes} bytes: {why}");
            return stopped(StopCause::System, text);
        }
        let text = format!("{peer} broke stream {stream} after {bytes} bytes: {error}");
        stopped(StopCause::Peer, text)
    }
}

/// Twice the time that what is under way took to leave, within bounds.
fn drain_time(unacked: u64, written: u64, wrote_for: Duration) -> Duration {
    let share = unacked as f64 / written.max(1) as f64;
    wrote_for.mul_f64(2.0 * share.min(1.0)).clamp(DRAIN_MIN, DRAIN_MAX)
}

pub fn is_pause(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

pub fn nanoseconds_until(now_ns: i64, until_ns: i64) -> Duration {
    Duration::from_nanos((until_ns - now_ns).max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use redoline_proto::encoding::{Compression, CompressionMethod, Encoding};
    use redoline_proto::units::Share;

    use super::super::encoding::{Decoder, NotEncrypted};
    use super::super::payload::Content;
    use super::super::stalled::PATIENCE;
    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_write_timeout(Some(SEND_TIMEOUT)).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn writer(socket: TcpStream) -> Writer {
        Writer {
            place: 0,
            stream: Arc::new(Stream::new(0, socket)),
            halt: CancelFlag::new(),
            finish: CancelFlag::new(),
            message: Bytes(1000),
            acknowledged: false,
            delay: None,
            patience: PATIENCE,
            frees_port: false,
            bytes_max: None,
            budget: None,
            rate: None,
        }
    }

    #[test]
    fn a_stream_that_runs_too_late_still_writes_once() {
        let (near, mut far) = connection();
        let writer = writer(near);
        let reader = thread::spawn(move || far.read_to_end(&mut Vec::new()).unwrap());
        let finish =
            writer.send_all(Ring::new(Content::Zeros, 1), Encoder::Plain, monotonic_ns() - 1);
        assert!(finish.drained);
        assert_eq!(reader.join().unwrap() as u64, writer.stream.progress.bytes());
        assert!(writer.stream.progress.bytes() > 0);
    }

    #[test]
    fn a_connection_that_closed_after_its_last_acknowledgement_is_drained() {
        let (near, mut far) = connection();
        let writer = writer(near);
        writer.stream.socket.shutdown(Shutdown::Write).unwrap();
        far.read_to_end(&mut Vec::new()).unwrap();
        drop(far);
        while tcp_info::read(&writer.stream.socket).unwrap().state != Some(tcp_info::CLOSED) {
            thread::yield_now();
        }
        assert!(writer.all_arrived(Instant::now()));
    }

    #[test]
    fn a_connection_that_was_reset_is_not_drained() {
        let (near, far) = connection();
        let writer = writer(near);
        (&writer.stream.socket).write_all(&[7; 1000]).unwrap();
        // Unread bytes make the close a reset.
        far.peek(&mut [0]).unwrap();
        (&writer.stream.socket).write_all(&[7; 1000]).unwrap();
        drop(far);
        assert!(!writer.drain(&mut Encoder::Plain, Duration::from_secs(1)));
    }

    #[test]
    fn what_fails_here_is_not_laid_at_the_peers_door() {
        let (near, _far) = connection();
        let (address, writer) = (near.peer_addr().unwrap(), writer(near));
        let failed = |error| match writer.course(WriteEnd::Failed(error)) {
            Course::Trouble(stopped) => stopped,
            other => panic!("{other:?}"),
        };
        let own = failed(NotEncrypted::new("no more keys").into());
        assert_eq!(own.cause, StopCause::System);
        assert_eq!(
            own.text,
            format!(
                "stream 0 to {address} ended here after 0 bytes: TLS cannot encrypt: no more keys"
            )
        );
        let broken = failed(io::ErrorKind::ConnectionReset.into());
        assert_eq!(broken.cause, StopCause::Peer);
        assert!(broken.text.contains(" broke stream 0 "), "{}", broken.text);
    }

    #[test]
    fn the_end_of_a_frame_has_as_long_as_all_that_is_under_way() {
        let (near, far) = connection();
        socket2::SockRef::from(&near).set_send_buffer_size(1).unwrap();
        let writer = writer(near);
        let (halt, far) = (CancelFlag::new(), Stream::new(0, far));
        let method = CompressionMethod::Lz4;
        let encoding = Some(Encoding::Compression(Compression { method, level: 0 }));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut decoder = Decoder::open(encoding, &far, &halt).unwrap();
                // Longer than the least that is waited for, which was all that a frame got.
                halt.wait_timeout(DRAIN_MIN + Duration::from_millis(500));
                let mut all = 0;
                loop {
                    match decoder.read(&mut &far.socket, &mut []) {
                        Ok(0) => return all,
                        Ok(bytes) => all += bytes,
                        Err(_) => return 0,
                    }
                }
            });
            let encoder = Encoder::open(encoding, &writer.stream, (1, None), &halt);
            let mut encoder = encoder.unwrap_or_else(|stopped| panic!("{}", stopped.text));
            let mut ring = Ring::new(Content::Random { compressible: Share(0.0) }, 1);
            let message = 16 << 20;
            // More than all buffers of the way.
            let mut left = message;
            while let Ok(bytes) = encoder.write(&mut &writer.stream.socket, ring.next(left), left) {
                writer.stream.progress.add(bytes, 1);
                ring.advance(bytes);
                left -= bytes;
            }
            assert!(writer.drain(&mut encoder, Duration::from_secs(1)));
            assert_eq!(reader.join().unwrap() as u64, writer.stream.progress.bytes());
        });
    }

    #[test]
    fn a_slow_path_gets_more_time_to_drain() {
        let minute = Duration::from_secs(60);
        assert_eq!(drain_time(0, 1000, minute), Duration::from_secs(5));
        assert_eq!(drain_time(50, 1000, minute), Duration::from_secs(6));
        assert_eq!(drain_time(1000, 1000, minute), Duration::from_secs(10));
        assert_eq!(drain_time(0, 0, minute), Duration::from_secs(5));
    }
}
