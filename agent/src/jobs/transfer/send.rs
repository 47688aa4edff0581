//! The sending end of a test.

use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{SendJob, StopCause, Stopped, TransferEvent};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::budget::Budget;
use super::connect::connect;
use super::outlet::Outlet;
use super::pace::{Pace, Turn};
use super::payload::Ring;
use super::receive::{connected, failed};
use super::socket::LastWords;
use super::stalled::Stalled;
use super::stopped;
use super::stream::{Course, Finish, Stream};
use super::watch::{Outcome, Watch};
use crate::jobs::JobControl;
use crate::jobs::cancel::CancelFlag;
use crate::sys::clock::{monotonic_ns, thread_cpu};
use crate::sys::{tcp, tcp_info};

/// How long a `send` may wait for room before it looks whether the test is over.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// For what is under way to arrive, once the last byte is written.
const DRAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));

/// Beyond the duration and the drain, a test that has not ended never will.
const GRACE: Duration = Duration::from_secs(3);

const CLOSED: u32 = 7;

/// Runs to the end of the test; the last event is always its end.
pub fn send(job: &SendJob, control: &JobControl, events: tokio::sync::mpsc::Sender<TransferEvent>) {
    let outlet = Outlet::new(events);
    let outcome = run(job, control, &outlet).unwrap_or_else(Outcome::nothing);
    outlet.tell(TransferEvent::End(outcome.end(0)));
}

fn run(job: &SendJob, control: &JobControl, outlet: &Outlet) -> Result<Outcome, Stopped> {
    let sockets = connect(job, &control.cancel)?;
    let streams: Vec<_> =
        (0..).zip(sockets).map(|(index, socket)| Arc::new(Stream::new(index, socket))).collect();
    let halt = CancelFlag::new();
    let (writers, finishes) = start_threads(job, &streams, &halt)?;
    outlet.tell(TransferEvent::Connected(connected(&streams)?));
    wait_for_go(job, control)
        .inspect_err(|_| streams.iter().for_each(|stream| stream.reset_at_close()))?;

    let at_ns = monotonic_ns();
    outlet.tell(TransferEvent::Started { at_ns });
    let started = Instant::now();
    let until_ns = monotonic_ns() + i64::try_from(job.duration.as_nanos()).unwrap_or(i64::MAX / 2);
    for writer in writers {
        // A thread that is gone has told why.
        let _ = writer.send(until_ns);
    }
    let watch = Watch {
        streams: &streams,
        finishes,
        control,
        halt: &halt,
        outlet,
        sample: job.reading,
        reading: job.reading,
        guard: job.guard,
        deadline: started + job.duration + DRAIN.1 + GRACE,
        // A `send` that waits looks at `halt` after its timeout.
        break_off: Stream::reset_at_close,
        stalled: Some(Stalled::new(format!("{}:{}", job.address, job.port), started)),
    };
    Ok(watch.run())
}

fn wait_for_go(job: &SendJob, control: &JobControl) -> Result<(), Stopped> {
    let called = control.go.wait_timeout(job.go_deadline);
    if control.cancel.is_set() {
        return Err(stopped(StopCause::Cancelled, "cancelled before the start"));
    }
    if !called {
        let seconds = job.go_deadline.as_secs_f64();
        let text = format!("the call to start did not come within {seconds} s");
        return Err(stopped(StopCause::Deadline, text));
    }
    Ok(())
}

/// Threads with their payload ready, each waiting to be told until when to send.
fn start_threads(
    job: &SendJob,
    streams: &[Arc<Stream>],
    halt: &CancelFlag,
) -> Result<(Vec<mpsc::Sender<i64>>, mpsc::Receiver<Finish>), Stopped> {
    let (finished, finishes) = mpsc::channel();
    let budget = job.bytes_max.map(|bytes| Arc::new(Budget::new(bytes, streams.len())));
    let rate = job.rate.map(|rate| BytesPerSecond(rate.0 / streams.len() as f64));
    let mut starts = Vec::new();
    for (place, stream) in streams.iter().enumerate() {
        let timeout = Some(SEND_TIMEOUT);
        stream
            .socket
            .set_write_timeout(timeout)
            .map_err(|error| failed("set a timeout", &error))?;
        let (start, started) = mpsc::channel();
        starts.push(start);
        let finished = finished.clone();
        let (payload, count) = (job.payload, streams.len());
        let mut writer = Writer {
            place,
            stream: Arc::clone(stream),
            halt: halt.clone(),
            message: job.message,
            bytes_max: job.bytes_max,
            budget: budget.clone(),
            rate,
        };
        let thread = thread::Builder::new().name(format!("send-{place}"));
        thread
            .spawn(move || {
                let ring = Ring::new(payload, count);
                // The other end goes away when the test does not start.
                if let Ok(until_ns) = started.recv() {
                    let _ = finished.send(writer.send_all(ring, until_ns));
                }
            })
            .map_err(|error| failed("start a thread", &error))?;
    }
    Ok((starts, finishes))
}

/// Sends one stream.
struct Writer {
    place: usize,
    stream: Arc<Stream>,
    halt: CancelFlag,
    message: Bytes,
    bytes_max: Option<Bytes>,
    budget: Option<Arc<Budget>>,
    rate: Option<BytesPerSecond>,
}

/// Why writing ended.
enum WriteEnd {
    Elapsed,
    Halted,
    Spent,
    Failed(io::Error),
}

impl Writer {
    fn send_all(&mut self, ring: Ring, until_ns: i64) -> Finish {
        let cpu_before = thread_cpu();
        let began = Instant::now();
        let write_end = self.write(ring, until_ns);
        let drained = match write_end {
            WriteEnd::Elapsed | WriteEnd::Spent => self.drain(began.elapsed()),
            WriteEnd::Halted | WriteEnd::Failed(_) => false,
        };
        let last_words = LastWords::of(&self.stream.socket);
        if !drained {
            self.stream.reset_at_close();
        }
        let cpu = thread_cpu() - cpu_before;
        Finish { stream: self.place, last_words, drained, cpu, course: self.course(write_end) }
    }

    /// Writes message after message, as a process that has redo to ship and never runs out of it.
    fn write(&self, mut ring: Ring, until_ns: i64) -> WriteEnd {
        let mut socket = &self.stream.socket;
        let mut now_ns = monotonic_ns();
        let mut pace = self.rate.map(|rate| Pace::new(rate, now_ns));
        let mut allowance = 0;
        let mut left = self.message.0 as usize;
        self.stream.progress.begin(now_ns);
        while now_ns < until_ns {
            if self.halt.is_set() {
                return WriteEnd::Halted;
            }
            let mut most = left;
            if let Some(pace) = &mut pace {
                match pace.turn(now_ns) {
                    Turn::Send { bytes } => most = most.min(bytes),
                    Turn::Wait(time) => {
                        self.halt.wait_timeout(time.min(nanoseconds_until(now_ns, until_ns)));
                        now_ns = monotonic_ns();
                        continue;
                    }
                }
            }
            if let Some(budget) = &self.budget {
                if allowance == 0 {
                    allowance = budget.take() as usize;
                }
                if allowance == 0 {
                    return WriteEnd::Spent;
                }
                most = most.min(allowance);
            }
            let sent = match socket.write(ring.next(most)) {
                Ok(bytes) => bytes,
                Err(error) if is_pause(&error) => 0,
                Err(_) if self.halt.is_set() => return WriteEnd::Halted,
                Err(error) => return WriteEnd::Failed(error),
            };
            now_ns = monotonic_ns();
            if sent > 0 {
                self.stream.progress.add(sent, now_ns);
                ring.advance(sent);
                left -= sent;
                if left == 0 {
                    left = self.message.0 as usize;
                }
                allowance = allowance.saturating_sub(sent);
                if let Some(pace) = &mut pace {
                    pace.sent(sent);
                }
            }
        }
        WriteEnd::Elapsed
    }

    /// Waits until the peer has acknowledged everything; false when it did not within the deadline.
    fn drain(&self, wrote_for: Duration) -> bool {
        let socket = &self.stream.socket;
        if socket.shutdown(Shutdown::Write).is_err() {
            return false;
        }
        let unacked = tcp::unacked_bytes(socket).unwrap_or(0);
        let deadline =
            Instant::now() + drain_time(unacked, self.stream.progress.bytes(), wrote_for);
        loop {
            // Counts the FIN, too.
            if tcp::unacked_bytes(socket).is_ok_and(|bytes| bytes == 0) {
                return true;
            }
            let closed = tcp_info::read(socket).is_ok_and(|tcp| tcp.state == Some(CLOSED));
            if closed || Instant::now() >= deadline || self.halt.is_set() {
                return false;
            }
            self.halt.wait_timeout(Duration::from_millis(5));
        }
    }

    fn course(&self, write_end: WriteEnd) -> Course {
        match write_end {
            WriteEnd::Elapsed | WriteEnd::Halted => Course::Ran,
            WriteEnd::Spent => {
                let text = match self.bytes_max {
                    Some(bytes) => format!("all {bytes} that may be sent were sent"),
                    None => "all bytes that may be sent were sent".to_owned(),
                };
                Course::Spent(stopped(StopCause::Limit, text))
            }
            WriteEnd::Failed(error) => {
                let peer = self.stream.socket.peer_addr();
                let peer = peer.map_or_else(|_| "the receiver".to_owned(), |peer| peer.to_string());
                let (stream, bytes) = (self.stream.index, self.stream.progress.bytes());
                let text = format!("{peer} broke stream {stream} after {bytes} bytes: {error}");
                Course::Trouble(stopped(StopCause::Peer, text))
            }
        }
    }
}

/// Twice the time that what is under way took to leave, within bounds.
fn drain_time(unacked: u64, written: u64, wrote_for: Duration) -> Duration {
    let share = unacked as f64 / written.max(1) as f64;
    wrote_for.mul_f64(2.0 * share.min(1.0)).clamp(DRAIN.0, DRAIN.1)
}

fn is_pause(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn nanoseconds_until(now_ns: i64, until_ns: i64) -> Duration {
    Duration::from_nanos((until_ns - now_ns).max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_path_gets_more_time_to_drain() {
        let minute = Duration::from_secs(60);
        assert_eq!(drain_time(0, 1000, minute), Duration::from_secs(2));
        assert_eq!(drain_time(25, 1000, minute), Duration::from_secs(3));
        assert_eq!(drain_time(1000, 1000, minute), Duration::from_secs(5));
        assert_eq!(drain_time(0, 0, minute), Duration::from_secs(2));
    }
}
