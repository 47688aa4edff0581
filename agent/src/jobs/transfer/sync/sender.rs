//! The sending end of SYNC: a message, its answer, and how long that took.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use redoline_proto::transfer::{StopCause, Stopped};

use super::super::pace::{Pace, Turn};
use super::super::payload::Ring;
use super::super::stopped;
use super::super::writer::{PAUSE_MIN, WriteEnd, Writer, is_pause, nanoseconds_until};
use super::{ANSWER_BYTES, Answer, Tally};
use crate::sys::clock::monotonic_ns;
use crate::sys::tcp;

/// One stream's messages.
pub struct Exchange<'a> {
    writer: &'a Writer,
    ring: Ring,
    tally: Tally,
    number: u32,
    patience: Patience,
}

impl<'a> Exchange<'a> {
    pub fn new(writer: &'a Writer, ring: Ring) -> Self {
        let patience = Patience::new(writer.patience);
        Self { writer, ring, tally: Tally::default(), number: 0, patience }
    }

    /// Until the monotonic clock shows `until_ns`, or a limit, or a trouble; but at least one
    /// message. The one under way at the end is waited for.
    pub fn run(mut self, until_ns: i64) -> (WriteEnd, Tally) {
        let end = self.exchange_all(until_ns);
        (end, self.tally)
    }

    fn exchange_all(&mut self, until_ns: i64) -> WriteEnd {
        let writer = self.writer;
        let mut now_ns = monotonic_ns();
        let mut pace = writer.rate.map(|rate| Pace::new(rate, now_ns));
        writer.stream.progress.begin(now_ns);
        let mut first = true;
        while first || (now_ns < until_ns && !writer.finish.is_set()) {
            if writer.halt.is_set() {
                return WriteEnd::Halted;
            }
            if let Some(Turn::Wait(time)) = pace.as_mut().map(|pace| pace.turn(now_ns)) {
                writer.wait(time.min(nanoseconds_until(now_ns, until_ns).max(PAUSE_MIN)));
                now_ns = monotonic_ns();
                continue;
            }
            if writer.budget.as_ref().is_some_and(|budget| budget.take() == 0) {
                return WriteEnd::Spent;
            }
            match self.exchange() {
                Ok(answered_ns) => now_ns = answered_ns,
                Err(end) => return end,
            }
            first = false;
            if let Some(pace) = &mut pace {
                pace.sent(writer.message.0 as usize);
            }
            if let Some(delay) = writer.delay {
                writer.wait(delay.min(nanoseconds_until(now_ns, until_ns)));
                now_ns = monotonic_ns();
            }
        }
        writer.elapsed()
    }

    /// One message and its answer; when that came.
    fn exchange(&mut self) -> Result<i64, WriteEnd> {
        let message = self.writer.message.0 as usize;
        self.ring.make_room_for(message);
        self.patience.begin();
        let began_ns = monotonic_ns();
        self.send(message)?;
        let answer = self.hear()?;
        let answered_ns = monotonic_ns();
        let total = Duration::from_nanos((answered_ns - began_ns).unsigned_abs());
        self.tally.record(total, answer.write);
        self.number = self.number.wrapping_add(1);
        Ok(answered_ns)
    }

    fn send(&mut self, message: usize) -> Result<(), WriteEnd> {
        let stream = &self.writer.stream;
        let mut left = message;
        while left > 0 {
            match (&stream.socket).write(self.ring.next(left)) {
                Ok(bytes) => {
                    stream.progress.add(bytes, monotonic_ns());
                    self.ring.advance(bytes);
                    left -= bytes;
                }
                Err(error) if is_pause(&error) => self.wait_on()?,
                Err(error) => return Err(WriteEnd::Failed(error)),
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<Answer, WriteEnd> {
        let failed = |kind, text: &str| WriteEnd::Failed(io::Error::new(kind, text));
        let mut bytes = [0; ANSWER_BYTES];
        let mut came = 0;
        while came < ANSWER_BYTES {
            match (&self.writer.stream.socket).read(&mut bytes[came..]) {
                Ok(0) => {
                    let text = "closed while an answer was awaited";
                    return Err(failed(io::ErrorKind::UnexpectedEof, text));
                }
                Ok(bytes) => came += bytes,
                Err(error) if is_pause(&error) => self.wait_on()?,
                Err(error) => return Err(WriteEnd::Failed(error)),
            }
        }
        Answer::from_bytes(bytes)
            .filter(|answer| answer.number == self.number)
            .ok_or_else(|| failed(io::ErrorKind::InvalidData, "what came is no answer to it"))
    }

    /// Nothing happened for a moment: whether to go on.
    fn wait_on(&mut self) -> Result<(), WriteEnd> {
        let writer = self.writer;
        if writer.halt.is_set() {
            return Err(WriteEnd::Halted);
        }
        let unacked = tcp::unacked_bytes(&writer.stream.socket).unwrap_or(0);
        if self.patience.is_over(writer.stream.progress.bytes(), unacked, Instant::now()) {
            return Err(WriteEnd::Stopped(self.unanswered(unacked)));
        }
        Ok(())
    }

    fn unanswered(&self, unacked: u64) -> Stopped {
        let writer = self.writer;
        let (stream, seconds) = (writer.stream.index, writer.patience.as_secs_f64());
        let before = self.tally.total.count();
        let why = match unacked {
            0 => "it has the message, but does not write or answer".to_owned(),
            bytes => format!("{bytes} bytes of the message did not arrive"),
        };
        let text = format!(
            "{} did not answer a message of stream {stream} for {seconds} s: {why}; {before} \
             messages were answered before",
            writer.peer()
        );
        stopped(StopCause::Peer, text)
    }
}

/// Counts from the last sign that something moves: on a slow path a long message takes its time.
#[derive(Debug)]
struct Patience {
    length: Duration,
    seen: (u64, u64),
    since: Option<Instant>,
}

impl Patience {
    fn new(length: Duration) -> Self {
        Self { length, seen: (0, 0), since: None }
    }

    fn begin(&mut self) {
        self.since = None;
    }

    fn is_over(&mut self, written: u64, unacked: u64, now: Instant) -> bool {
        let seen = (written, unacked);
        match self.since {
            Some(since) if seen == self.seen => now - since >= self.length,
            _ => {
                (self.seen, self.since) = (seen, Some(now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_counts_from_the_last_sign_of_life() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut patience = Patience::new(Duration::from_secs(10));
        patience.begin();
        assert!(!patience.is_over(1000, 900, at(0)));
        assert!(!patience.is_over(1000, 900, at(9)));
        assert!(!patience.is_over(1000, 800, at(10)), "100 bytes arrived");
        assert!(!patience.is_over(1000, 800, at(19)));
        assert!(patience.is_over(1000, 800, at(20)));
        patience.begin();
        assert!(!patience.is_over(1000, 800, at(40)), "another message");
    }
}
