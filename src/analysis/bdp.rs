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

/// What a socket buffer has to hold, and from which numbers that follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferNeed {
    pub rate: BytesPerSecond,
    pub source: RateSource,
    /// That gave the rate, where it was measured.
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
}

impl std::fmt::Display for RateSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Measured => "the best measured on one pair in this direction",
            Self::Need => "the rate that the databases need",
            Self::Declared => "the declared bandwidth",
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
        }
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
    times_bdp(MAA_FACTOR, rate, min_rtt)
}

/// What `NxBDP` in a runbook asks setsockopt for.
pub fn times_bdp(factor: f64, rate: BytesPerSecond, min_rtt: Duration) -> Bytes {
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

/// A value to write into a system setting: a power of two of at least 1 MiB.
pub fn rounded_up(bytes: Bytes) -> Bytes {
    Bytes(bytes.0.max(Bytes::MIB).next_power_of_two())
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
    fn a_granted_buffer_below_twice_the_request_was_capped() {
        assert!(capped(Bytes(16 * Bytes::MIB), Bytes(8 * Bytes::MIB)));
        assert!(!capped(Bytes(Bytes::MIB), Bytes(2 * Bytes::MIB)));
    }
}
