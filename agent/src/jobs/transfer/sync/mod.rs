//! SYNC transport: one message in flight on each connection, and the receiver answers every one.
//!
//! The answer is 16 bytes, big endian: `RDAK`, the message's number in its stream (4, from 0, it
//! wraps), and the nanoseconds that its write took (8; all ones: nothing was written).

mod receiver;
mod sender;

pub use receiver::Answerer;
pub use sender::Exchange;

use std::time::Duration;

use redoline_proto::transfer::Acknowledgements;

use crate::jobs::latency::LatencyRecorder;

const ANSWER_BYTES: usize = 16;
const MAGIC: [u8; 4] = *b"RDAK";
const NOT_WRITTEN: u64 = u64::MAX;

/// What the receiver says of one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Answer {
    number: u32,
    write: Option<Duration>,
}

impl Answer {
    fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let nanoseconds =
            |took: Duration| u64::try_from(took.as_nanos()).unwrap_or(NOT_WRITTEN - 1);
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.write.map_or(NOT_WRITTEN, nanoseconds).to_be_bytes());
        bytes
    }

    /// `None` when it is no answer.
    fn from_bytes(bytes: [u8; ANSWER_BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, n0, n1, n2, n3, write @ ..] = bytes;
        let write_ns = u64::from_be_bytes(write);
        let write = (write_ns != NOT_WRITTEN).then(|| Duration::from_nanos(write_ns));
        let answer = Self { number: u32::from_be_bytes([n0, n1, n2, n3]), write };
        ([m0, m1, m2, m3] == MAGIC).then_some(answer)
    }
}

/// The answers that one stream got.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    total: LatencyRecorder,
    /// Made with the first write: a recorder is large.
    write: Option<LatencyRecorder>,
}

impl Tally {
    fn record(&mut self, total: Duration, write: Option<Duration>) {
        self.total.record(total);
        if let Some(write) = write {
            self.write.get_or_insert_default().record(write);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        if let Some(write) = &other.write {
            self.write.get_or_insert_default().merge(write);
        }
    }

    /// `None` without a stream that was answered at all, as at a receiver.
    pub fn acknowledgements<'a>(
        mut tallies: impl Iterator<Item = &'a Self>,
    ) -> Option<Acknowledgements> {
        let mut all = tallies.next()?.clone();
        tallies.for_each(|tally| all.merge(tally));
        let total = all.total.summary();
        let write = all.write.map(|write| write.summary());
        Some(Acknowledgements { messages: total.count, total, write })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_the_wire() {
        for write in [None, Some(Duration::ZERO), Some(Duration::from_micros(412))] {
            let answer = Answer { number: 0xdead_beef, write };
            assert_eq!(Answer::from_bytes(answer.to_bytes()), Some(answer));
        }
        assert_eq!(Answer::from_bytes([0; ANSWER_BYTES]), None);
    }

    #[test]
    fn tallies_of_all_streams_become_one() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.record(Duration::from_millis(3), Some(Duration::from_millis(2)));
        other.record(Duration::from_millis(5), Some(Duration::from_millis(1)));
        other.record(Duration::from_millis(4), Some(Duration::from_millis(1)));
        let all = Tally::acknowledgements([&one, &other].into_iter()).unwrap();
        assert_eq!((all.messages, all.total.max_us), (3, 5000.0));
        assert_eq!(all.write.unwrap().max_us, 2000.0);
        assert_eq!(Tally::acknowledgements([].into_iter()), None);
    }

    #[test]
    fn where_nothing_is_written_no_write_took_any_time() {
        let mut tally = Tally::default();
        tally.record(Duration::from_millis(3), None);
        assert_eq!(Tally::acknowledgements([&tally].into_iter()).unwrap().write, None);
    }
}
