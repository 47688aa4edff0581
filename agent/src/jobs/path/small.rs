//! Small datagrams: round trips, loss, order; and whether anything comes back at all.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::ATTENTION;
use super::datagram::{Answer, Ask, Probe, Say};
use super::line::{Heard, Line, Sent};
use super::notice::{Notice, Refusal};
use crate::jobs::cancel::CancelFlag;
use crate::jobs::latency::LatencyRecorder;

/// For anything to come back: more than a round trip by satellite, and a neighbour's address found.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// Between packets that are sent until the first answer.
const KNOCKS: Duration = Duration::from_millis(200);
/// For the last answers, beside three of the longest round trips so far.
const LAST_ANSWERS: Duration = Duration::from_millis(100);
/// For answers in the middle of others.
const SILENCE: Duration = Duration::from_secs(2);
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
    /// Where nothing ever came back, those that knocked; else those after them.
    pub sent: u32,
    pub answered: u32,
    pub reordered: u32,
    pub rtt: LatencyRecorder,
    pub rtt_max: Duration,
    /// Lets large answers be asked for. Known from the first answer on.
    pub ticket: Option<u64>,
    /// Who refused, and how.
    pub refused: Option<(IpAddr, Refusal)>,
    refusals: u32,
    /// The number of the first that counts; those before it knocked.
    first: u32,
    sent_at: Vec<Option<Instant>>,
    latest: Option<u32>,
}

/// Sends them, and waits for the answers: not longer than until `end`, and not in vain.
///
/// Before any of them counts, others knock until one is answered: the first packets of a path wait
/// for neighbours' addresses, which is no round trip that redo would have.
pub fn probe(line: &mut impl Line, probes: SmallProbes, cancel: &CancelFlag) -> io::Result<Small> {
    let mut small = Small::default();
    small.knock(line, probes, cancel)?;
    if small.ticket.is_some() {
        small.count_all(line, probes, cancel)?;
    }
    Ok(small)
}

impl Small {
    fn knock(
        &mut self,
        line: &mut impl Line,
        probes: SmallProbes,
        cancel: &CancelFlag,
    ) -> io::Result<()> {
        let mut next = Instant::now();
        let end = probes.end.min(next + FIRST_ANSWER);
        self.first = u32::MAX;
        while self.ticket.is_none() && self.refusals < REFUSALS && !cancel.is_set() {
            let now = Instant::now();
            if now >= end {
                break;
            }
            if now >= next {
                self.send(line, probes.packet_bytes)?;
                next = now + KNOCKS;
            }
            self.listen(line, next.min(end))?;
        }
        if self.ticket.is_some() {
            *self = Self { first: self.sent, ticket: self.ticket, ..Self::default() };
        }
        Ok(())
    }

    fn count_all(
        &mut self,
        line: &mut impl Line,
        probes: SmallProbes,
        cancel: &CancelFlag,
    ) -> io::Result<()> {
        let mut next = Instant::now();
        while !cancel.is_set() {
            let now = Instant::now();
            let all_sent = self.sent == probes.count;
            if !all_sent && now >= next && now < probes.end {
                self.send(line, probes.packet_bytes)?;
                // Late once, never in a hurry afterwards: a burst would measure its own queue.
                next = (next + probes.spacing).max(now);
                continue;
            }
            let quiet_at = next + self.patience(all_sent);
            if self.answered == probes.count || now >= probes.end || now >= quiet_at {
                break;
            }
            let until = if all_sent { quiet_at } else { next };
            self.listen(line, until.min(probes.end))?;
        }
        Ok(())
    }

    /// For a moment, at most until then.
    fn listen(&mut self, line: &mut impl Line, until: Instant) -> io::Result<()> {
        line.wait(until.saturating_duration_since(Instant::now()).min(ATTENTION))?;
        line.hear().into_iter().for_each(|heard| self.hear(&heard));
        Ok(())
    }

    /// Of the next that is sent.
    pub fn next_number(&self) -> u32 {
        if self.first == u32::MAX { self.sent } else { self.first + self.sent }
    }

    fn send(&mut self, line: &mut impl Line, packet_bytes: u32) -> io::Result<()> {
        let probe = Probe { number: self.next_number(), ask: Ask::Echo };
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

    /// The second answer to a probe does not count, nor does one to a knock.
    fn count(&mut self, number: u32, ticket: u64, at: Instant) {
        self.ticket = Some(ticket);
        let place = number.checked_sub(self.first).map(|place| place as usize);
        let sent_at = place.and_then(|place| self.sent_at.get_mut(place)).and_then(Option::take);
        let Some(sent_at) = sent_at else { return };
        let rtt = at.saturating_duration_since(sent_at);
        self.rtt.record(rtt);
        self.rtt_max = self.rtt_max.max(rtt);
        self.answered += 1;
        // RFC 4737: one that comes after a later one.
        match self.latest {
            Some(latest) if number < latest => self.reordered += 1,
            _ => self.latest = Some(number),
        }
    }

    /// When it is in vain to wait on, after the last that was sent or is to be sent.
    fn patience(&self, all_sent: bool) -> Duration {
        match all_sent && self.answered > 0 {
            true => LAST_ANSWERS.max(3 * self.rtt_max),
            false => SILENCE,
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
    fn silence_is_not_waited_for_as_long_as_answers_are() {
        let (mut small, start) = sent(4);
        assert_eq!(small.patience(true), SILENCE);
        answers(&mut small, start, &[0, 1, 2]);
        assert_eq!((small.patience(true), small.patience(false)), (LAST_ANSWERS, SILENCE));
        small.rtt_max = Duration::from_millis(200);
        assert_eq!(small.patience(true), Duration::from_millis(600));
    }

    /// Answers the probes that `answers` names, and refuses the others if it does so at all.
    struct Wire {
        answers: fn(u32) -> bool,
        refuses: bool,
        heard: Vec<Heard>,
    }

    impl Line for Wire {
        fn send(&mut self, probe: Probe, packet_bytes: u32) -> Sent {
            let say = Say::Arrived { packet_bytes, ticket: 9 };
            let answer = Answer { number: probe.number, say };
            let from = "203.0.113.11".parse().unwrap();
            let refused =
                Heard::Notice(Notice::Refused { from, why: Refusal::Named("port unreachable") });
            match (self.answers)(probe.number) {
                true => self.heard.push(Heard::Answer { answer, at: Instant::now() }),
                false => self.heard.extend(self.refuses.then_some(refused)),
            }
            Sent::Gone
        }

        fn wait(&self, time: Duration) -> io::Result<()> {
            if self.heard.is_empty() {
                std::thread::sleep(time);
            }
            Ok(())
        }

        fn hear(&mut self) -> Vec<Heard> {
            std::mem::take(&mut self.heard)
        }
    }

    fn probed(answers: fn(u32) -> bool, refuses: bool) -> Small {
        let mut wire = Wire { answers, refuses, heard: Vec::new() };
        let end = Instant::now() + Duration::from_secs(60);
        let spacing = Duration::from_millis(1);
        let probes = SmallProbes { count: 10, spacing, packet_bytes: 68, end };
        probe(&mut wire, probes, &CancelFlag::new()).unwrap()
    }

    #[test]
    fn what_knocks_does_not_count() {
        let small = probed(|number| number >= 2, false);
        assert_eq!((small.sent, small.answered, small.rtt.summary().count), (10, 10, 10));
        assert_eq!((small.ticket, small.next_number()), (Some(9), 13));
        let lossy = probed(|number| number % 2 == 0, false);
        assert_eq!((lossy.sent, lossy.answered, lossy.loss()), (10, 5, Some(0.5)));
    }

    #[test]
    fn a_closed_port_is_believed_when_it_says_so_again() {
        let small = probed(|_| false, true);
        assert_eq!((small.sent, small.answered, small.ticket), (REFUSALS, 0, None));
        assert_eq!(small.refused.unwrap().1.to_string(), "port unreachable");
        let answering = probed(|number| number > 0, true);
        assert_eq!(answering.answered, 10, "one message is no proof");
    }

    #[test]
    fn nobody_is_asked_for_long_in_vain() {
        let small = probed(|_| false, false);
        assert!(small.sent > 1 && small.sent <= 11, "{small:?}");
        assert_eq!((small.answered, small.next_number()), (0, small.sent));
    }
}
