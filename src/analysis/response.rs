//! What a congestion control gets out of a path that loses packets.

use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond};

/// Mathis et al. 1997, Reno: 1.22 / √loss segments are under way; CUBIC in its Reno-friendly region
/// as well (RFC 9438, section 4.3: √(3/2) / √loss).
const RENO: f64 = 1.22;
/// RFC 9438, section 5.1 (β = 0.7, C = 0.4): 1.054 × (RTT / loss)^¾ segments, RTT in seconds.
const CUBIC: f64 = 1.054;
/// How far from the formula a rate may be and still fit it: losses come in groups, which count once,
/// and some bytes are sent again for nothing. A policer that drops all above its rate loses 2.3 times
/// as much as the formula takes for that rate (measured at 40 Mbit/s and 10 ms).
const SLACK: f64 = 2.0;

/// The rate at this loss (share of packets, above 0); of unknown controls the higher of both formulas.
///
/// `None` for BBR, whose rate does not follow from losses below 20 %, and without a loss.
pub fn rate(control: Option<&str>, mss: Bytes, rtt: Duration, loss: f64) -> Option<BytesPerSecond> {
    let rtt = rtt.as_secs_f64();
    if control.is_some_and(|name| name.starts_with("bbr")) || loss <= 0.0 || rtt <= 0.0 {
        return None;
    }
    let reno = RENO / loss.sqrt();
    let cubic = CUBIC * (rtt / loss).powf(0.75);
    let segments = if control == Some("reno") { reno } else { reno.max(cubic) };
    Some(BytesPerSecond(segments * mss.0 as f64 / rtt))
}

/// A measured rate is what losses would give.
pub fn fits(measured: BytesPerSecond, by_loss: BytesPerSecond) -> bool {
    (1.0 / SLACK..=SLACK).contains(&(measured.0 / by_loss.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn megabits(loss: f64, rtt_ms: u64) -> f64 {
        let rtt = Duration::from_millis(rtt_ms);
        rate(Some("cubic"), Bytes(1448), rtt, loss).unwrap().0 * 8.0 / 1e6
    }

    #[test]
    fn short_round_trips_are_renos_and_long_ones_cubics() {
        assert!((megabits(0.000_1, 10) - 141.3).abs() < 1.0);
        assert!((megabits(0.01, 10) - 14.1).abs() < 0.1);
        // 1.054 × (0.1 / 0.0001)^¾ = 187 segments, against Reno's 122.
        assert!((megabits(0.000_1, 100) - 21.7).abs() < 0.1);
    }

    #[test]
    fn bbr_and_no_loss_at_all_give_no_rate() {
        let rtt = Duration::from_millis(10);
        assert_eq!(rate(Some("bbr"), Bytes(1448), rtt, 0.01), None);
        assert_eq!(rate(Some("cubic"), Bytes(1448), rtt, 0.0), None);
    }
}
