//! Small datagrams: round trips, loss, order; and whether anything comes back at all.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::ATTENTION;
use super::datagram::{Answer, Ask, Probe, Say};
use super::line::{Heard, Line, Sent};
use super::notice::Notice;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::storage::latency::LatencyRecorder;

/// For the first answer to come: more than a round trip by satellite.
const FIRST_ANSWER: Duration = Duration::from_millis(1500);
/// For the last ones, beside three of the longest round trips so far.
const LAST_ANSWERS: Duration = Duration::from_millis(100);
/// A closed port says so to each; one message may be somebody else's trick.
const REFUSALS: u32 = 3;

/// What is sent, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct SmallProbes {
    pub count: u32,
    pub spacing: Duration,
    pub packet_bytes: u32,
    pub end: Instant,
}

/// What is known of those that were sent.
#[derive(Clone, Debug, Default)]
pub struct Small {
    pub sent: u32,
    pub answered: u32,
    pub reordered: u32,
    pub rtt: LatencyRecorder,
    pub rtt_max: Duration,
    /// Lets large answers be asked for.
    pub ticket: Option<u64>,
    /// Who refused, and how.
    pub refused: Option<(IpAddr, &'static str)>,
    refusals: u32,
    sent_at: Vec<Option<Instant>>,
    latest: Option<u32>,
}

/// Sends them, and waits for the answers: not longer than until `end`, and not in vain.
pub fn probe(line: &mut impl Line, probes: SmallProbes, cancel: &CancelFlag) -> io::Result<Small> {
    let mut small = Small::default();
    let start = Instant::now();
    let mut next = start;
    while !cancel.is_set() {
        let now = Instant::now();
        let all_sent = small.sent == probes.count;
        if !all_sent && now >= next && now < probes.end {
            small.send(line, probes.packet_bytes)?;
            // Late once, never in a hurry afterwards: a burst would measure its own queue.
            next = (next + probes.spacing).max(now);
            continue;
        }
        let quiet_at = small.quiet_at(start, next, all_sent);
        if small.is_complete(probes.count) || now >= probes.end || now >= quiet_at {
            break;
        }
        let until = if all_sent { quiet_at } else { next.min(quiet_at) };
        line.wait(until.min(probes.end).saturating_duration_since(now).min(ATTENTION))?;
        line.hear().into_iter().for_each(|heard| small.hear(&heard));
    }
    Ok(small)
}

impl Small {
    fn send(&mut self, line: &mut impl Line, packet_bytes: u32) -> io::Result<()> {
        let probe = Probe { number: self.sent, ask: Ask::Echo };
        self.sent_at.push(Some(Instant::now()));
        self.sent += 1;
        match line.send(probe, packet_bytes) {
            Sent::Failed(error) => Err(error),
            Sent::TooBig => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
            // Then it is lost like any other.
            Sent::NoRoom | Sent::Gone => Ok(()),
        }
    }

    pub fn hear(&mut self, heard: &Heard) {
        match *heard {
            Heard::Answer { answer: Answer { number, say: Say::Arrived { ticket, .. } }, at } => {
                self.count(number, ticket, at);
            }
            Heard::Answer { .. } | Heard::Notice(Notice::TooBig { .. }) => {}
            Heard::Notice(Notice::Refused { from, why }) => {
                self.refusals += 1;
                self.refused = Some((from, why));
            }
        }
    }

    /// The second answer to a probe does not count.
    fn count(&mut self, number: u32, ticket: u64, at: Instant) {
        let sent_at = self.sent_at.get_mut(number as usize).and_then(Option::take);
        let Some(sent_at) = sent_at else { return };
        let rtt = at.saturating_duration_since(sent_at);
        self.rtt.record(rtt);
        self.rtt_max = self.rtt_max.max(rtt);
        self.answered += 1;
        self.ticket = Some(ticket);
        // RFC 4737: one that comes after a later one.
        match self.latest {
            Some(latest) if number < latest => self.reordered += 1,
            _ => self.latest = Some(number),
        }
    }

    fn is_complete(&self, count: u32) -> bool {
        self.answered == count || (self.answered == 0 && self.refusals >= REFUSALS)
    }

    /// When it is in vain to wait on.
    fn quiet_at(&self, start: Instant, next: Instant, all_sent: bool) -> Instant {
        match (self.answered, all_sent) {
            (0, true) => next.max(start + FIRST_ANSWER),
            (0, false) => start + FIRST_ANSWER,
            (_, true) => next + LAST_ANSWERS.max(3 * self.rtt_max),
            (_, false) => next + FIRST_ANSWER,
        }
    }

    /// Of those that were sent; `None` when none was.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| f64::from(self.sent - self.answered) / f64::from(self.sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(count: u32) -> (Small, Instant) {
        let start = Instant::now();
        let sent_at = vec![Some(start); count as usize];
        (Small { sent: count, sent_at, ..Small::default() }, start)
    }

    fn answers(small: &mut Small, start: Instant, numbers: &[u32]) {
        for (place, number) in (1..).zip(numbers) {
            let say = Say::Arrived { packet_bytes: 68, ticket: 9 };
            let at = start + Duration::from_millis(place);
            small.hear(&Heard::Answer { answer: Answer { number: *number, say }, at });
        }
    }

    #[test]
    fn loss_order_and_round_trips_are_counted() {
        for (numbers, answered, reordered) in [
            (&[0, 1, 2, 3][..], 4, 0),
            (&[0, 2, 1, 3], 4, 1),
            (&[3, 0, 1, 2], 4, 3),
            (&[0, 0, 1, 1], 2, 0),
            (&[1, 7, 3], 2, 0),
            (&[], 0, 0),
        ] {
            let (mut small, start) = sent(4);
            answers(&mut small, start, numbers);
            assert_eq!((small.answered, small.reordered), (answered, reordered), "{numbers:?}");
            assert_eq!(small.loss(), Some(f64::from(4 - answered) / 4.0));
            assert_eq!(small.rtt.summary().count, u64::from(answered));
        }
        assert_eq!(Small::default().loss(), None);
    }

    #[test]
    fn a_closed_port_is_not_waited_for() {
        let (mut small, start) = sent(4);
        let from = "203.0.113.11".parse().unwrap();
        let refused = Heard::Notice(Notice::Refused { from, why: "port unreachable" });
        small.hear(&refused);
        assert!(!small.is_complete(4));
        small.hear(&refused);
        small.hear(&refused);
        assert!(small.is_complete(4));
        answers(&mut small, start, &[0]);
        assert!(!small.is_complete(4), "what answers is there");
    }

    #[test]
    fn silence_is_not_waited_for_as_long_as_answers_are() {
        let (mut small, start) = sent(4);
        let last = start + Duration::from_secs(1);
        assert_eq!(small.quiet_at(start, last, true), start + FIRST_ANSWER);
        answers(&mut small, start, &[0, 1, 2]);
        assert_eq!(small.quiet_at(start, last, true), last + LAST_ANSWERS);
        small.rtt_max = Duration::from_millis(200);
        assert_eq!(small.quiet_at(start, last, true), last + Duration::from_millis(600));
    }
}
