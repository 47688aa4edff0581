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
