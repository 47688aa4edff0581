//! The bandwidth-delay product and the socket buffers that follow from it.

use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::words::rate;
use crate::record::measurement::MeasurementId;

/// MAA asks for socket buffers of three times the bandwidth-delay product (Oracle Net: at least
/// one; both occur in documents, so every text names the factor).
pub const MAA_FACTOR: f64 = 3.0;

/// What getsockopt reports on Linux is twice what was asked for (socket(7)); the other half is
/// for the kernel's own structures.
pub const LINUX_DOUBLING: u64 = 2;

/// No buffer is asked for beyond this. A TCP window ends 16 KiB below it (65,535 × 2^14, RFC 7323),
/// Linux cuts SO_SNDBUF and SO_RCVBUF down to a byte less (INT_MAX / 2, twice of which is granted), and the
/// next power of two, 2 GiB, does not fit the `int` that tcp_rmem and tcp_wmem are.
pub const LARGEST_BUFFER: Bytes = Bytes(1 << 30);

/// What a socket buffer has to hold, and from which numbers that follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferNeed {
    pub rate: BytesPerSecond,
    pub source: RateSource,
    /// That gave the rate, where it was measured or held by the runbook's limit.
    pub measurement: Option<MeasurementId>,
    pub min_rtt: Duration,
}

/// Where the rate of a bandwidth-delay product comes from, in the order of preference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RateSource {
    /// The best steady rate of the direction.
    Measured,
    /// What the databases need, with headroom.
    Need,
    /// The bandwidth that the inventory declares.
    Declared,
    /// The runbook's own limit, at which every test was held: the path may carry more.
    Limit,
}

impl std::fmt::Display for RateSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Measured => "the best measured on one pair in this direction",
            Self::Need => "the rate that the databases need",
            Self::Declared => "the declared bandwidth",
            Self::Limit => "the best measured, held by the runbook's own limit",
        })
    }
}

impl BufferNeed {
    pub fn bdp(self) -> Bytes {
        bandwidth_delay_product(self.rate, self.min_rtt)
    }

    /// 3 × BDP.
    pub fn buffer(self) -> Bytes {
        socket_buffer_need(self.rate, self.min_rtt)
    }

    /// What a buffer of this size gives; that a path carries a rate is said only of measured ones.
    pub fn reach(self) -> String {
        let rate = rate(self.rate);
        match self.source {
            RateSource::Measured => format!("the path carries {rate}"),
            RateSource::Need => format!("a buffer of 3 × BDP would allow {rate}"),
            RateSource::Declared => format!("the declared bandwidth would allow {rate}"),
            RateSource::Limit => format!("the path carries at least {rate}"),
        }
    }

    /// As much of it as a socket can have.
    pub fn possible(self) -> Bytes {
        self.buffer().min(LARGEST_BUFFER)
    }

    /// What a system maximum is to be set to.
    pub fn setting(self) -> Bytes {
        rounded_up(self.buffer())
    }
}

/// Bytes that must be under way to keep a path busy: rate × round trip without a queue.
pub fn bandwidth_delay_product(rate: BytesPerSecond, min_rtt: Duration) -> Bytes {
    rate.bytes_in(min_rtt)
}

/// 3 × BDP, the least that MAA recommends.
pub fn socket_buffer_need(rate: BytesPerSecond, min_rtt: Duration) -> Bytes {
    multiple(MAA_FACTOR, rate, min_rtt)
}

/// What `NxBDP` in a runbook asks setsockopt for, at most [`LARGEST_BUFFER`].
pub fn times_bdp(factor: f64, rate: BytesPerSecond, min_rtt: Duration) -> Bytes {
    multiple(factor, rate, min_rtt).min(LARGEST_BUFFER)
}

fn multiple(factor: f64, rate: BytesPerSecond, min_rtt: Duration) -> Bytes {
    Bytes((factor * rate.0 * min_rtt.as_secs_f64()).ceil() as u64)
}

/// What may carry data of a buffer that getsockopt reports: surely half of it, at most all.
pub fn usable(granted: Bytes) -> Bytes {
    Bytes(granted.0 / LINUX_DOUBLING)
}

/// A request was cut down by the system's maximum.
pub fn capped(requested: Bytes, granted: Bytes) -> bool {
    granted.0 < requested.0.saturating_mul(LINUX_DOUBLING)
}

/// A value to write into a system setting: a power of two from 1 MiB to [`LARGEST_BUFFER`].
pub fn rounded_up(bytes: Bytes) -> Bytes {
    Bytes(bytes.0.clamp(Bytes::MIB, LARGEST_BUFFER.0).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_the_source_documents_comes_out() {
        // 1 Gbit/s and 65 ms: BDP 8,125,000 bytes, three times that 24.4 MB.
        let (rate, rtt) = (BytesPerSecond::from_bits_per_second(1e9), Duration::from_millis(65));
        assert_eq!(bandwidth_delay_product(rate, rtt), Bytes(8_125_000));
        assert_eq!(socket_buffer_need(rate, rtt), Bytes(24_375_000));
        assert_eq!(rounded_up(Bytes(24_375_000)), Bytes(32 * Bytes::MIB));
    }

    #[test]
    fn no_setting_and_no_request_is_larger_than_a_window_of_tcp() {
        // 25 Gbit/s over 200 ms: 3 × BDP is 1.9 GB.
        let (rate, min_rtt) =
            (BytesPerSecond::from_bits_per_second(25e9), Duration::from_millis(200));
        let need = BufferNeed { rate, source: RateSource::Measured, measurement: None, min_rtt };
        assert_eq!(need.buffer(), Bytes(1_875_000_000));
        assert_eq!((need.possible(), need.setting()), (LARGEST_BUFFER, LARGEST_BUFFER));
        assert_eq!(times_bdp(4.0, rate, min_rtt), LARGEST_BUFFER);
        assert_eq!(rounded_up(Bytes(u64::MAX)), LARGEST_BUFFER);
        assert!(i32::try_from(rounded_up(Bytes(u64::MAX)).0).is_ok());
    }

    #[test]
    fn a_granted_buffer_below_twice_the_request_was_capped() {
        assert!(capped(Bytes(16 * Bytes::MIB), Bytes(8 * Bytes::MIB)));
        assert!(!capped(Bytes(Bytes::MIB), Bytes(2 * Bytes::MIB)));
    }
}
