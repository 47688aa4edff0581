//! The bytes that all streams of a test may send together, taken in portions.

use std::sync::atomic::{AtomicU64, Ordering};

use redoline_proto::units::Bytes;

/// Large enough that taking one costs nothing against sending it.
const PORTION_MAX: u64 = 4 * Bytes::MIB;

#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    portion: u64,
}

impl Budget {
    /// With small budgets the portions are small, so that no stream goes without.
    pub fn new(bytes: Bytes, streams: usize) -> Self {
        let portion = (bytes.0 / (8 * streams as u64)).clamp(1, PORTION_MAX);
        Self { left: AtomicU64::new(bytes.0), portion }
    }

    /// In whole messages of SYNC, which is not known to send half of one.
    pub fn of_messages(bytes: Bytes, message: Bytes) -> Self {
        Self { left: AtomicU64::new(bytes.0 / message.0.max(1)), portion: 1 }
    }

    /// The next portion; 0 when all is taken.
    pub fn take(&self) -> u64 {
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(self.portion))
            })
            .unwrap_or_default();
        before.min(self.portion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_messages_has_no_halves() {
        let budget = Budget::of_messages(Bytes(2500), Bytes(1000));
        assert_eq!([budget.take(), budget.take(), budget.take()], [1, 1, 0]);
        assert_eq!(Budget::of_messages(Bytes(999), Bytes(1000)).take(), 0);
    }

    #[test]
    fn all_portions_together_are_the_budget() {
        for (bytes, streams) in [(0, 1), (1, 4), (1000, 3), (100_000_001, 8)] {
            let budget = Budget::new(Bytes(bytes), streams);
            let mut taken = 0;
            loop {
                match budget.take() {
                    0 => break,
                    portion => taken += portion,
                }
            }
            assert_eq!(taken, bytes);
        }
    }
}
