//! Whether the relay had the processor when it needed it: a WAN that is late is not the one that was
//! asked for, and what is measured on it is no result.

use std::{fmt, ops::Sub};

/// Packets that reached the far end of the WAN, both directions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Punctuality {
    /// All of them.
    pub packets: u64,
    /// Those that came more than 2 ms after their time.
    pub late: u64,
}

/// Some ten times what a relay that has its processor takes (0.1 to 0.2 ms), and less than what a rule
/// about queues asks for.
const LATE_NS: u64 = 2_000_000;

/// One packet in so many may be late. A pause of 20 ms in each second of a steady stream is one in 50.
const TOLERATED: u64 = 100;

impl Punctuality {
    pub(super) fn observe(&mut self, late_ns: u64) {
        self.packets += 1;
        self.late += u64::from(late_ns > LATE_NS);
    }

    /// The WAN was what it was asked to be.
    #[must_use]
    pub fn holds(self) -> bool {
        self.late * TOLERATED <= self.packets
    }

    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, late: self.late + other.late }
    }
}

/// What came since an earlier look.
impl Sub for Punctuality {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            late: self.late.saturating_sub(earlier.late),
        }
    }
}

impl fmt::Display for Punctuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, late } = self;
        write!(f, "{late} of {packets} packets left the WAN more than 2 ms after their time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wan_whose_packets_are_late_by_more_than_one_in_a_hundred_does_not_hold() {
        let mut punctuality = Punctuality::default();
        for packet in 0..1000 {
            punctuality.observe(if packet % 100 == 0 { 3_000_000 } else { 150_000 });
        }
        assert!(punctuality.holds(), "{punctuality}");
        punctuality.observe(2_000_001);
        assert!(!punctuality.holds(), "{punctuality}");
    }

    #[test]
    fn an_idle_wan_holds() {
        assert!(Punctuality::default().holds());
    }
}
