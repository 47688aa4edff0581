//! When a packet leaves a queue of a given rate: arithmetic on a virtual clock, so that a relay
//! that wakes up late loses no capacity.

/// A rate with its queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Limit {
    /// Bit/s.
    pub(super) rate_bps: u64,
    /// Bytes that may wait; what comes on top is dropped.
    pub(super) queue_bytes: u64,
    /// Bytes that may pass without waiting after a long idle time (token bucket).
    pub(super) credit_bytes: u64,
}

/// The state of one queue. Times are nanoseconds of one clock.
///
/// The generic cell rate algorithm (ITU-T I.371): `theoretical_ns` is when the queue would be empty
/// if nothing had been sent on credit.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    limit: Limit,
    theoretical_ns: u64,
}

impl Shaper {
    pub(super) fn new(limit: Limit) -> Self {
        Self { limit, theoretical_ns: 0 }
    }

    /// Changes the limit; what already waits keeps its times.
    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// When a packet that arrives now has left, in nanoseconds; `None` if the queue is full.
    ///
    /// Arrivals must not go back in time.
    pub(super) fn depart(&mut self, arrival_ns: u64, packet_bytes: u64) -> Option<u64> {
        let duration_ns = self.transmission_ns(packet_bytes);
        let credit_ns = self.transmission_ns(self.limit.credit_bytes);
        let theoretical_ns = self.theoretical_ns.max(arrival_ns) + duration_ns;
        let departure_ns = theoretical_ns.saturating_sub(credit_ns).max(arrival_ns);
        let waiting_ns = (departure_ns - arrival_ns).saturating_sub(duration_ns);
        let waiting_bytes = self.transmitted_bytes(waiting_ns);
        if waiting_bytes > 0 && waiting_bytes + packet_bytes > self.limit.queue_bytes {
            return None;
        }
        self.theoretical_ns = theoretical_ns;
        Some(departure_ns)
    }

    /// Whether forgetting this queue changes nothing.
    pub(super) fn is_idle(&self, now_ns: u64) -> bool {
        self.theoretical_ns <= now_ns
    }

    fn transmission_ns(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 8_000_000_000 / u128::from(self.limit.rate_bps.max(1))) as u64
    }

    fn transmitted_bytes(&self, duration_ns: u64) -> u64 {
        (u128::from(duration_ns) * u128::from(self.limit.rate_bps) / 8_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 12 Mbit/s: 1500 bytes take one millisecond.
    fn limit() -> Limit {
        Limit { rate_bps: 12_000_000, queue_bytes: 6000, credit_bytes: 0 }
    }

    #[track_caller]
    fn check(limit: Limit, arrivals_ms: &[u64], departures_ms: &[Option<u64>]) {
        let mut shaper = Shaper::new(limit);
        let departures: Vec<_> =
            arrivals_ms.iter().map(|ms| shaper.depart(ms * MS, 1500).map(|ns| ns / MS)).collect();
        assert_eq!(departures, departures_ms);
    }

    #[test]
    fn packets_leave_one_transmission_time_apart() {
        check(limit(), &[10, 10, 10], &[Some(11), Some(12), Some(13)]);
    }

    #[test]
    fn an_idle_queue_saves_nothing_up() {
        check(limit(), &[10, 50, 50], &[Some(11), Some(51), Some(52)]);
    }

    #[test]
    fn a_full_queue_drops_and_goes_on_when_there_is_room() {
        check(
            limit(),
            &[10, 10, 10, 10, 10, 11],
            &[Some(11), Some(12), Some(13), Some(14), None, Some(15)],
        );
    }

    #[test]
    fn credit_lets_a_burst_through_at_once_and_comes_back_at_the_rate() {
        let limit = Limit { credit_bytes: 3000, ..limit() };
        check(
            limit,
            &[10, 10, 10, 10, 20, 20, 20],
            &[Some(10), Some(10), Some(11), Some(12), Some(20), Some(20), Some(21)],
        );
    }

    #[test]
    fn credit_without_a_queue_polices() {
        let limit = Limit { credit_bytes: 3000, queue_bytes: 0, ..limit() };
        let mut shaper = Shaper::new(limit);
        let passed = (0..10_000).filter(|i| shaper.depart(i * MS / 2, 1500).is_some()).count();
        assert!((5_000..=5_004).contains(&passed), "half of twice the rate passes, not {passed}");
    }

    #[test]
    fn late_looks_lose_no_capacity() {
        let mut shaper = Shaper::new(Limit { queue_bytes: 1_000_000, ..limit() });
        // Packets come in clumps, but on average as fast as the rate: the queue never runs dry.
        let departures: Vec<_> = (0..1000).map(|i| shaper.depart(i / 10 * 10 * MS, 1500)).collect();
        assert_eq!(departures.last(), Some(&Some(1000 * MS)));
    }
}
