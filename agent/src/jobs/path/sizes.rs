//! Large packets: sends what the searches of both directions want to know, and tells them what came
//! of it.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use redoline_proto::path::SizeOutcome;

use super::ATTENTION;
use super::datagram::{Answer, Ask, Probe, Say};
use super::line::{Heard, Line, Sent};
use super::notice::Notice;
use super::search::{Outcome, Search};
use crate::jobs::cancel::CancelFlag;

/// A size is lost when so many packets of it are: more where small ones are lost, too.
const TRIES_MIN: u32 = 3;
const TRIES_MAX: u32 = 8;
/// For chance to lose all packets of a size that passes, at the loss of small ones.
const MISJUDGED_MAX: f64 = 1e-4;
const PATIENCE_MIN: Duration = Duration::from_millis(100);
const PATIENCE_MAX: Duration = Duration::from_secs(2);
/// Between two packets: a burst of large ones is lost where single ones pass.
const APART: Duration = Duration::from_millis(2);

/// How it is judged that a packet does not come back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    pub tries: u32,
    /// After the last try; half of it between tries.
    pub time: Duration,
}

impl Patience {
    /// From what small packets met.
    pub fn after(rtt_max: Duration, loss: Option<f64>) -> Self {
        let loss = loss.unwrap_or(0.0);
        let enough = |tries: &u32| loss.powi(*tries as i32) <= MISJUDGED_MAX;
        let tries = (TRIES_MIN..=TRIES_MAX).find(enough).unwrap_or(TRIES_MAX);
        // The queue before a large packet is longer than before a small one.
        let time = (2 * rtt_max + PATIENCE_MIN / 2).clamp(PATIENCE_MIN, PATIENCE_MAX);
        Self { tries, time }
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Direction {
    There,
    Back,
}

/// Both searches, and what is under way for them.
#[derive(Debug)]
pub struct Sizes<'a, L> {
    pub line: &'a mut L,
    pub there: Search,
    /// `None` when nobody answers with large packets.
    pub back: Option<Back>,
    pub patience: Patience,
    /// Of a packet that only asks.
    pub small_bytes: u32,
    pub interface_mtu_bytes: Option<u32>,
    /// The next that is free.
    pub number: u32,
    pub asked: HashMap<u32, Item>,
    /// Who said that a packet was too big.
    pub teller: Option<IpAddr>,
}

/// The search of the way back.
#[derive(Clone, Debug)]
pub struct Back {
    pub search: Search,
    pub ticket: u64,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Item {
    pub direction: Direction,
    pub packet_bytes: u32,
}

impl<L: Line> Sizes<'_, L> {
    /// Until both are found, the time is over, or the job is cancelled.
    pub fn search(&mut self, end: Instant, cancel: &CancelFlag) -> io::Result<()> {
        while !cancel.is_set() && Instant::now() < end {
            let items = self.wanted();
            if items.is_empty() {
                break;
            }
            self.round(items, end, cancel)?;
        }
        Ok(())
    }

    fn wanted(&self) -> Vec<Item> {
        let item = |direction| move |packet_bytes| Item { direction, packet_bytes };
        let there = self.there.next().into_iter().map(item(Direction::There));
        let back = self.back.iter().flat_map(|back| back.search.next());
        there.chain(back.map(item(Direction::Back))).collect()
    }

    /// Tries every item, and those again that stay silent.
    fn round(&mut self, mut items: Vec<Item>, end: Instant, cancel: &CancelFlag) -> io::Result<()> {
        for attempt in 1..=self.patience.tries {
            for item in items.clone() {
                if !self.is_known(item) {
                    self.send(item)?;
                    self.listen(&items, Instant::now() + APART, cancel)?;
                }
            }
            let is_last = attempt == self.patience.tries;
            let time = if is_last { self.patience.time } else { self.patience.time / 2 };
            let until = Instant::now() + time;
            self.listen(&items, until.min(end), cancel)?;
            items.retain(|item| !self.is_known(*item));
            if items.is_empty() || cancel.is_set() {
                return Ok(());
            }
            // Too early to call it lost.
            if until > end {
                return Ok(());
            }
            // Whatever goes first is in nobody's way.
            items.rotate_left(1);
        }
        for item in items {
            let lost = Outcome { outcome: SizeOutcome::Lost, told_mtu_bytes: None };
            self.record(item, lost);
        }
        Ok(())
    }

    fn send(&mut self, item: Item) -> io::Result<()> {
        let number = self.number;
        self.number = self.number.wrapping_add(1);
        self.asked.insert(number, item);
        let sent = match (item.direction, &self.back) {
            (Direction::Back, Some(back)) => {
                let ask = Ask::Large { packet_bytes: item.packet_bytes, ticket: back.ticket };
                self.line.send(Probe { number, ask }, self.small_bytes)
            }
            _ => self.line.send(Probe { number, ask: Ask::Echo }, item.packet_bytes),
        };
        match sent {
            Sent::Failed(error) => Err(error),
            Sent::TooBig => {
                let told_mtu_bytes = self.interface_mtu_bytes;
                self.record(item, Outcome { outcome: SizeOutcome::TooBigHere, told_mtu_bytes });
                Ok(())
            }
            Sent::Gone | Sent::NoRoom => Ok(()),
        }
    }

    /// Until all are known, at the latest `until`.
    fn listen(&mut self, items: &[Item], until: Instant, cancel: &CancelFlag) -> io::Result<()> {
        while !cancel.is_set() && !items.iter().all(|item| self.is_known(*item)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.line.wait(left.min(ATTENTION))?;
            for heard in self.line.hear() {
                self.hear(&heard, items);
            }
        }
        Ok(())
    }

    /// `items` are under way.
    fn hear(&mut self, heard: &Heard, items: &[Item]) {
        match *heard {
            Heard::Answer { answer, .. } => self.hear_answer(answer),
            Heard::Notice(Notice::TooBig { from, mtu_bytes, number }) => {
                self.teller = Some(from);
                for item in self.too_big(mtu_bytes, number, items) {
                    let outcome = SizeOutcome::TooBigThere;
                    self.record(item, Outcome { outcome, told_mtu_bytes: mtu_bytes });
                }
            }
            Heard::Notice(Notice::Refused { .. }) => {}
        }
    }

    fn hear_answer(&mut self, Answer { number, say }: Answer) {
        let Some(item) = self.asked.get(&number).copied() else { return };
        let passed = Outcome { outcome: SizeOutcome::Passed, told_mtu_bytes: None };
        match (item.direction, say) {
            // A packet that was cut on the way in spite of all, or grew, says nothing.
            (Direction::There, Say::Arrived { packet_bytes, .. })
            | (Direction::Back, Say::Large { packet_bytes }) => {
                if packet_bytes == item.packet_bytes {
                    self.record(item, passed);
                }
            }
            (Direction::Back, Say::TooLarge { mtu_bytes }) => {
                let told_mtu_bytes = Some(mtu_bytes);
                self.record(item, Outcome { outcome: SizeOutcome::TooBigHere, told_mtu_bytes });
            }
            (Direction::There, _) | (Direction::Back, Say::Arrived { .. }) => {}
        }
    }

    /// Which of those under way a router means: all that are larger than what it carries, else the
    /// one that it quotes, else the largest.
    fn too_big(&self, mtu: Option<u32>, number: Option<u32>, items: &[Item]) -> Vec<Item> {
        let mut there: Vec<Item> =
            items.iter().filter(|item| item.direction == Direction::There).copied().collect();
        if let Some(mtu) = mtu {
            there.retain(|item| item.packet_bytes > mtu);
            return there;
        }
        let quoted = number.and_then(|number| self.asked.get(&number)).copied();
        let largest = || there.iter().max_by_key(|item| item.packet_bytes).copied();
        quoted.or_else(largest).into_iter().collect()
    }

    fn is_known(&self, item: Item) -> bool {
        match (item.direction, &self.back) {
            (Direction::There, _) => self.there.knows(item.packet_bytes),
            (Direction::Back, Some(back)) => back.search.knows(item.packet_bytes),
            (Direction::Back, None) => true,
        }
    }

    fn record(&mut self, item: Item, outcome: Outcome) {
        match (item.direction, &mut self.back) {
            (Direction::There, _) => self.there.record(item.packet_bytes, outcome),
            (Direction::Back, Some(back)) => back.search.record(item.packet_bytes, outcome),
            (Direction::Back, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers at once, as a path of two MTUs would.
    struct Wire {
        mtu_there: u32,
        mtu_back: u32,
        /// Packets of the first try are lost.
        drops: u32,
        tells: bool,
        heard: Vec<Heard>,
    }

    impl Wire {
        fn new(mtu_there: u32, mtu_back: u32) -> Self {
            Self { mtu_there, mtu_back, drops: 0, tells: false, heard: Vec::new() }
        }
    }

    impl Line for Wire {
        fn send(&mut self, probe: Probe, packet_bytes: u32) -> Sent {
            if packet_bytes > 9000 {
                return Sent::TooBig;
            }
            if self.drops > 0 {
                self.drops -= 1;
                return Sent::Gone;
            }
            let from = "198.51.100.1".parse().unwrap();
            let say = match probe.ask {
                Ask::Echo if packet_bytes > self.mtu_there => {
                    let mtu_bytes = Some(self.mtu_there);
                    let notice = Notice::TooBig { from, mtu_bytes, number: None };
                    self.heard.extend(self.tells.then_some(Heard::Notice(notice)));
                    return Sent::Gone;
                }
                Ask::Echo => Say::Arrived { packet_bytes, ticket: 7 },
                Ask::Large { ticket, .. } if ticket != 7 => return Sent::Gone,
                Ask::Large { packet_bytes, .. } if packet_bytes > self.mtu_back => {
                    return Sent::Gone;
                }
                Ask::Large { packet_bytes, .. } => Say::Large { packet_bytes },
            };
            let answer = Answer { number: probe.number, say };
            self.heard.push(Heard::Answer { answer, at: Instant::now() });
            Sent::Gone
        }

        fn wait(&self, time: Duration) -> io::Result<()> {
            if self.heard.is_empty() {
                std::thread::sleep(time.min(Duration::from_millis(1)));
            }
            Ok(())
        }

        fn hear(&mut self) -> Vec<Heard> {
            std::mem::take(&mut self.heard)
        }
    }

    fn search(wire: &mut Wire, end: Duration) -> (Search, Search) {
        let mut sizes = Sizes {
            line: wire,
            there: Search::new(68, Some(9000), &[]),
            back: Some(Back { search: Search::new(68, Some(9000), &[]), ticket: 7 }),
            patience: Patience { tries: 3, time: Duration::from_millis(6) },
            small_bytes: 68,
            interface_mtu_bytes: Some(9000),
            number: 100,
            asked: HashMap::new(),
            teller: None,
        };
        sizes.search(Instant::now() + end, &CancelFlag::new()).unwrap();
        (sizes.there, sizes.back.unwrap().search)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn each_direction_has_its_own_path_mtu() {
        let (there, back) = search(&mut Wire::new(1400, 8500), LONG);
        assert_eq!((there.passed_bytes(), back.passed_bytes()), (Some(1400), Some(8500)));
        assert_eq!(there.failed().unwrap().1.outcome, SizeOutcome::Lost);
    }

    #[test]
    fn what_a_router_says_is_told_and_checked() {
        let mut wire = Wire { tells: true, ..Wire::new(1400, 9000) };
        let (there, _) = search(&mut wire, LONG);
        let (failed, outcome) = there.failed().unwrap();
        assert_eq!((there.passed_bytes(), failed), (Some(1400), 1401));
        assert_eq!(outcome.outcome, SizeOutcome::TooBigThere);
        assert_eq!(outcome.told_mtu_bytes, Some(1400));
    }

    #[test]
    fn packets_that_are_lost_by_chance_are_sent_again() {
        let mut wire = Wire { drops: 4, ..Wire::new(9000, 9000) };
        let (there, back) = search(&mut wire, LONG);
        assert_eq!((there.passed_bytes(), back.passed_bytes()), (Some(9000), Some(9000)));
    }

    #[test]
    fn what_the_time_did_not_suffice_for_is_not_called_lost() {
        let (there, _) = search(&mut Wire::new(1400, 9000), Duration::from_millis(1));
        assert!(there.sizes().iter().all(|size| size.outcome != SizeOutcome::Lost));
        assert!(!there.is_finished());
    }

    #[test]
    fn patience_follows_from_what_small_packets_met() {
        let ms = Duration::from_millis;
        for (rtt_ms, loss, tries, time_ms) in [
            (0, None, 3, 100),
            (1, Some(0.0), 3, 100),
            (100, Some(0.04), 3, 250),
            (100, Some(0.08), 4, 250),
            (5000, Some(0.9), 8, 2000),
        ] {
            let expected = Patience { tries, time: ms(time_ms) };
            assert_eq!(Patience::after(ms(rtt_ms), loss), expected);
        }
    }
}
