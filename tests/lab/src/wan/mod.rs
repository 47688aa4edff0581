//! The emulated WAN: what it is asked to be, the arithmetic of its queues, and the relay that does it.

mod flow;
mod punctuality;
mod shaper;
mod path;
mod tun;
mod relay;

use std::time::Duration;

use crate::{node::Side, wan::path::PathSpec};

pub(crate) use punctuality::{Lookout, remember};
pub use punctuality::{Punctuality, of_past_labs};
pub(crate) use relay::Relay;
pub(crate) use tun::Tun;

/// What the WAN between the two routers is like. Rates are of IP packets, per direction.
#[derive(Clone, Debug, PartialEq)]
pub struct WanSpec {
    /// The round-trip time that the WAN adds, half of it each way.
    pub rtt: Duration,
    /// The link's rate in bit/s; `None` is unlimited (what the relay can move, about 1 Gbit/s).
    pub rate_bps: Option<u64>,
    /// The link's rate from standby to primary, where it differs.
    pub reverse_rate_bps: Option<u64>,
    /// What one flow (5-tuple) gets at most, in bit/s.
    pub per_flow_bps: Option<u64>,
    /// Bytes that each flow may send above its rate, at first and after a rest. With
    /// `per_flow_queue_bytes` of zero it makes the limit a policer.
    pub per_flow_credit_bytes: u64,
    /// A token bucket in front of the link: full at the start, and refilled at the link's rate.
    pub burst: Option<Burst>,
    /// The share of packets that are lost, each direction, 0 to 1.
    pub loss: f64,
    /// The share from standby to primary, where it differs.
    pub reverse_loss: Option<f64>,
    /// What the losses are drawn from: the same seed takes the same packets of the same traffic.
    pub seed: u64,
    /// Some packets are late, so that others overtake them.
    pub reorder: Option<Reorder>,
    /// The link's queue in bytes, drop-tail; `None` is the larger of one BDP and 256 KiB. Zero with
    /// a burst makes the link a policer.
    pub queue_bytes: Option<u64>,
    /// A flow's own queue in bytes; `None` is its rate times the larger of the RTT and 20 ms.
    pub per_flow_queue_bytes: Option<u64>,
    /// The MTU of the WAN in bytes.
    pub mtu: u32,
    /// The MTU from standby to primary, where it differs.
    pub reverse_mtu: Option<u32>,
    /// What happens to "fragmentation needed" (IPv6: "packet too big").
    pub icmp: Icmp,
    /// The same for packets from standby to primary, where it differs.
    pub reverse_icmp: Option<Icmp>,
    /// What routers lower the MSS of every connection to, in bytes, both directions.
    pub mss_clamp: Option<u32>,
}

/// Credit as clouds give it: until it is used up, the link is faster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Burst {
    /// Bytes that may pass above the link's rate.
    pub credit_bytes: u64,
    /// The rate in bit/s while credit lasts; `None` is unlimited.
    pub peak_bps: Option<u64>,
}

/// One packet in so many is late.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reorder {
    /// One in this many, each direction.
    pub every: u64,
    /// By how much.
    pub late: Duration,
}

/// Whether routers tell a sender that its packets are too big.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Icmp {
    /// They do.
    Allowed,
    /// The message is dropped: a path-MTU black hole.
    Filtered,
}

impl WanSpec {
    /// A WAN with this RTT and rate, and nothing else to note: no loss, MTU 1500.
    pub fn new(rtt: Duration, rate_bps: u64) -> Self {
        Self { rate_bps: Some(rate_bps), ..Self::unlimited(rtt) }
    }

    /// A WAN that only delays.
    pub fn unlimited(rtt: Duration) -> Self {
        Self {
            rtt,
            rate_bps: None,
            reverse_rate_bps: None,
            per_flow_bps: None,
            per_flow_credit_bytes: 0,
            burst: None,
            loss: 0.0,
            reverse_loss: None,
            seed: 1,
            reorder: None,
            queue_bytes: None,
            per_flow_queue_bytes: None,
            mtu: 1500,
            reverse_mtu: None,
            icmp: Icmp::Allowed,
            reverse_icmp: None,
            mss_clamp: None,
        }
    }

    /// The same WAN, with at most this rate for one flow.
    #[must_use]
    pub fn per_flow(self, rate_bps: u64) -> Self {
        Self { per_flow_bps: Some(rate_bps), ..self }
    }

    /// The same WAN, with at most this rate for one flow: what exceeds it and the credit is dropped.
    #[must_use]
    pub fn policed_per_flow(self, rate_bps: u64, credit_bytes: u64) -> Self {
        Self {
            per_flow_credit_bytes: credit_bytes,
            per_flow_queue_bytes: Some(0),
            ..self.per_flow(rate_bps)
        }
    }

    /// The MTU for packets from this side to the other.
    pub fn mtu_from(&self, side: Side) -> u32 {
        match side {
            Side::Primary => self.mtu,
            Side::Standby => self.reverse_mtu.unwrap_or(self.mtu),
        }
    }

    /// Whether senders of this side are told that their packets are too big.
    pub fn icmp_to(&self, side: Side) -> Icmp {
        match side {
            Side::Primary => self.icmp,
            Side::Standby => self.reverse_icmp.unwrap_or(self.icmp),
        }
    }

    /// The share of packets from this side to the other that is lost.
    pub fn loss_from(&self, side: Side) -> f64 {
        match side {
            Side::Primary => self.loss,
            Side::Standby => self.reverse_loss.unwrap_or(self.loss),
        }
    }

    /// The largest MTU of both directions.
    pub fn mtu_max(&self) -> u32 {
        self.mtu.max(self.mtu_from(Side::Standby))
    }

    /// The link's rate from standby to primary, in bit/s.
    pub fn standby_to_primary_bps(&self) -> Option<u64> {
        self.reverse_rate_bps.or(self.rate_bps)
    }

    pub(crate) fn forward(&self) -> PathSpec {
        self.path(self.rate_bps, self.loss_from(Side::Primary), self.seed)
    }

    pub(crate) fn reverse(&self) -> PathSpec {
        let loss = self.loss_from(Side::Standby);
        self.path(self.standby_to_primary_bps(), loss, self.seed.wrapping_add(1))
    }

    fn path(&self, link_bps: Option<u64>, loss: f64, seed: u64) -> PathSpec {
        PathSpec {
            delay: self.rtt / 2,
            link: link_bps.map(|rate_bps| shaper::Limit {
                rate_bps,
                queue_bytes: self.queue_bytes.unwrap_or(link_queue_bytes(rate_bps, self.rtt)),
                credit_bytes: self.burst.map_or(0, |burst| burst.credit_bytes),
            }),
            peak_bps: self.burst.and_then(|burst| burst.peak_bps),
            flow: self.per_flow_bps.map(|rate_bps| shaper::Limit {
                rate_bps,
                queue_bytes: self
                    .per_flow_queue_bytes
                    .unwrap_or(bdp_bytes(rate_bps, self.rtt.max(Duration::from_millis(20)))),
                credit_bytes: self.per_flow_credit_bytes,
            }),
            loss,
            seed,
            reorder: self.reorder,
        }
    }
}

fn link_queue_bytes(rate_bps: u64, rtt: Duration) -> u64 {
    bdp_bytes(rate_bps, rtt).max(256 * 1024)
}

fn bdp_bytes(rate_bps: u64, rtt: Duration) -> u64 {
    (rate_bps as f64 * rtt.as_secs_f64() / 8.0).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_default_to_one_bandwidth_delay_product_with_a_floor() {
        let path =
            WanSpec::new(Duration::from_millis(10), 300_000_000).per_flow(60_000_000).forward();
        assert_eq!(path.link.unwrap().queue_bytes, 375_000);
        assert_eq!(path.flow.unwrap().queue_bytes, 150_000);
        let short = WanSpec::new(Duration::from_millis(1), 100_000_000).forward();
        assert_eq!(short.link.unwrap().queue_bytes, 262_144);
    }

    #[test]
    fn what_is_said_of_the_reverse_direction_holds_for_it_only() {
        let wan = WanSpec {
            reverse_loss: Some(0.5),
            reverse_mtu: Some(1400),
            reverse_icmp: Some(Icmp::Filtered),
            ..WanSpec::unlimited(Duration::from_millis(10))
        };
        assert_eq!((wan.forward().loss, wan.reverse().loss), (0.0, 0.5));
        assert_eq!((wan.mtu_from(Side::Primary), wan.mtu_from(Side::Standby)), (1500, 1400));
        assert_eq!(wan.icmp_to(Side::Primary), Icmp::Allowed);
        assert_eq!(wan.icmp_to(Side::Standby), Icmp::Filtered);
    }

    #[test]
    fn a_policer_has_credit_and_no_queue() {
        let wan = WanSpec::unlimited(Duration::from_millis(10)).policed_per_flow(1_000_000, 64_000);
        let flow = wan.forward().flow.unwrap();
        assert_eq!((flow.queue_bytes, flow.credit_bytes), (0, 64_000));
    }

    #[test]
    fn the_reverse_rate_holds_for_one_direction_only() {
        let mut wan = WanSpec::new(Duration::from_millis(10), 300_000_000);
        wan.reverse_rate_bps = Some(50_000_000);
        assert_eq!(wan.forward().link.unwrap().rate_bps, 300_000_000);
        assert_eq!(wan.reverse().link.unwrap().rate_bps, 50_000_000);
    }
}
