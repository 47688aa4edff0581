//! Spreads reads and writes evenly in time, so that a rate is kept by all threads together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redoline_proto::units::BytesPerSecond;

use crate::jobs::cancel::CancelFlag;

/// Clones share the rate.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: BytesPerSecond,
    /// When the next request may start.
    next: Arc<Mutex<Instant>>,
}

/// Time that may be caught up after a stall; more would be a burst.
const CATCH_UP: Duration = Duration::from_millis(100);

impl Pace {
    /// `None` for a rate that is no limit: zero or less is refused by the controller's check.
    pub fn new(rate: Option<BytesPerSecond>, now: Instant) -> Option<Self> {
        let rate = rate.filter(|rate| rate.0 > 0.0)?;
        Some(Self { rate, next: Arc::new(Mutex::new(now)) })
    }

    /// Takes a turn for `bytes`: when it comes.
    pub fn reserve(&self, bytes: u64, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = now.checked_sub(CATCH_UP).map_or(*next, |earliest| earliest.max(*next));
        *next = turn + duration_of(bytes, self.rate);
        turn
    }

    /// Waits for a turn; false when stopped meanwhile.
    pub fn wait(&self, bytes: u64, stop: &CancelFlag) -> bool {
        let now = Instant::now();
        let pause = self.reserve(bytes, now).saturating_duration_since(now);
        !stop.wait_timeout(pause)
    }
}

/// At most an hour, for a rate next to nothing.
fn duration_of(bytes: u64, rate: BytesPerSecond) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 / rate.0)
        .unwrap_or(Duration::MAX)
        .min(Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_as_far_apart_as_the_rate_says() {
        let start = Instant::now();
        let pace = Pace::new(Some(BytesPerSecond(1e6)), start).unwrap();
        let turns: Vec<_> = (0..4).map(|_| pace.reserve(10_000, start) - start).collect();
        let expected: Vec<_> = (0..4).map(|turn| Duration::from_millis(10 * turn)).collect();
        assert_eq!(turns, expected);
    }

    #[test]
    fn a_stall_is_not_caught_up_in_one_burst() {
        let start = Instant::now();
        let pace = Pace::new(Some(BytesPerSecond(1e6)), start).unwrap();
        let later = start + Duration::from_secs(10);
        assert_eq!(pace.reserve(10_000, later), later - CATCH_UP);
    }

    #[test]
    fn without_a_rate_there_is_no_pace() {
        assert!(Pace::new(None, Instant::now()).is_none());
        assert!(Pace::new(Some(BytesPerSecond(0.0)), Instant::now()).is_none());
    }
}
