//! A token bucket that holds one stream to its share of the rate.

use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

/// After a pause, at most this much time is made up for: a burst on a busy network is what a rate
/// limit is there to prevent.
const BURST: Duration = Duration::from_millis(10);

/// So much is sent at a time.
const PORTION: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Pace {
    bytes_per_ns: f64,
    burst: f64,
    portion: f64,
    tokens: f64,
    last_ns: i64,
}

/// What a stream may do now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    Send { bytes: usize },
    Wait(Duration),
}

impl Pace {
    pub fn new(rate: BytesPerSecond, now_ns: i64) -> Self {
        // Below a packet per portion, it is a packet that is waited for.
        let portion = (rate.0 * PORTION.as_secs_f64()).max(1448.0);
        Self {
            bytes_per_ns: rate.0 / 1e9,
            burst: (rate.0 * BURST.as_secs_f64()).max(2.0 * portion),
            portion,
            tokens: portion,
            last_ns: now_ns,
        }
    }

    pub fn turn(&mut self, now_ns: i64) -> Turn {
        let passed_ns = (now_ns - self.last_ns).max(0) as f64;
        self.last_ns = now_ns;
        self.tokens = (self.tokens + passed_ns * self.bytes_per_ns).min(self.burst);
        if self.tokens >= self.portion {
            return Turn::Send { bytes: self.tokens as usize };
        }
        let missing_ns = (self.portion - self.tokens) / self.bytes_per_ns;
        Turn::Wait(Duration::from_nanos(missing_ns.ceil() as u64))
    }

    pub fn sent(&mut self, bytes: usize) {
        self.tokens -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that leave within `seconds` when each wait is `late_ns` too long.
    fn sent_in(seconds: i64, rate: f64, late_ns: i64) -> f64 {
        let mut pace = Pace::new(BytesPerSecond(rate), 0);
        let (mut now_ns, mut sent) = (0, 0);
        while now_ns < seconds * 1_000_000_000 {
            match pace.turn(now_ns) {
                Turn::Send { bytes } => {
                    pace.sent(bytes);
                    sent += bytes;
                }
                Turn::Wait(time) => now_ns += time.as_nanos() as i64 + late_ns,
            }
        }
        sent as f64
    }

    #[test]
    fn the_rate_is_kept_even_if_every_wait_is_too_long() {
        for rate in [1e4, 1e6, 1e9] {
            for late_ns in [0, 60_000, 4_000_000] {
                let share = sent_in(10, rate, late_ns) / (10.0 * rate);
                assert!((0.98..=1.02).contains(&share), "{rate} {late_ns}: {share}");
            }
        }
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(BytesPerSecond(1e6), 0);
        assert_eq!(pace.turn(60_000_000_000), Turn::Send { bytes: 10_000 });
    }
}
