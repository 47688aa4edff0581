//! What one stream may write next, within the test's rate and its bytes.

use std::sync::Arc;
use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

use super::budget::Budget;
use super::pace::{Pace, Turn};

#[derive(Debug)]
pub struct Allowance {
    pace: Option<Pace>,
    budget: Option<Arc<Budget>>,
    /// Taken from the budget and not yet written.
    portion: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    Write {
        bytes: usize,
    },
    Wait(Duration),
    /// The bytes of the test are used up.
    Spent,
}

impl Allowance {
    /// `rate` is of this stream alone; absent limits do not limit.
    pub fn new(rate: Option<BytesPerSecond>, budget: Option<Arc<Budget>>, now_ns: i64) -> Self {
        Self { pace: rate.map(|rate| Pace::new(rate, now_ns)), budget, portion: 0 }
    }

    /// Of `wanted` bytes.
    pub fn next(&mut self, wanted: usize, now_ns: i64) -> Next {
        let mut bytes = wanted;
        if let Some(pace) = &mut self.pace {
            match pace.turn(now_ns) {
                Turn::Send { bytes: most } => bytes = bytes.min(most),
                Turn::Wait(time) => return Next::Wait(time),
            }
        }
        if let Some(budget) = &self.budget {
            if self.portion == 0 {
                self.portion = budget.take() as usize;
            }
            if self.portion == 0 {
                return Next::Spent;
            }
            bytes = bytes.min(self.portion);
        }
        Next::Write { bytes }
    }

    pub fn wrote(&mut self, bytes: usize) {
        self.portion = self.portion.saturating_sub(bytes);
        if let Some(pace) = &mut self.pace {
            pace.sent(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use redoline_proto::units::Bytes;

    use super::*;

    #[test]
    fn without_limits_everything_may_be_written() {
        assert_eq!(Allowance::new(None, None, 0).next(77, 0), Next::Write { bytes: 77 });
    }

    #[test]
    fn the_budget_ends_the_stream_to_the_byte() {
        let budget = Arc::new(Budget::new(Bytes(100), 1));
        let mut allowance = Allowance::new(None, Some(budget), 0);
        let mut written = 0;
        while let Next::Write { bytes } = allowance.next(7, 0) {
            allowance.wrote(bytes);
            written += bytes;
        }
        assert_eq!(written, 100);
    }

    #[test]
    fn a_stream_ahead_of_its_rate_waits() {
        let mut allowance = Allowance::new(Some(BytesPerSecond(1e6)), None, 0);
        let Next::Write { bytes } = allowance.next(1 << 20, 0) else { panic!("no first turn") };
        allowance.wrote(bytes);
        assert!(matches!(allowance.next(1 << 20, 0), Next::Wait(_)));
    }
}
