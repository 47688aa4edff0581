//! The interface that carries an address: what its MTU may be, and its change.

use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use redoline_proto::path::HELD_MTU_BYTES;

use crate::facts::interfaces;
use crate::facts::netlink::{self, LinkReply};

/// Below it the kernel takes IPv6 off the interface, addresses and all (RFC 8200, section 5).
const IPV6_MTU_MIN: u32 = 1280;

/// What an MTU does to interfaces that are made upon its own: their kinds, as Linux 6.12 has them
/// (NETDEV_CHANGEMTU in net/8021q, drivers/net/macvlan.c, macsec.c and ipvlan).
///
/// Those in other network namespaces, such as containers, follow as well and cannot be seen here.
const FOLLOWERS: [(&str, Follows); 6] = [
    ("vlan", Follows::Down { overhead_bytes: 0 }),
    ("macvlan", Follows::Down { overhead_bytes: 0 }),
    ("macvtap", Follows::Down { overhead_bytes: 0 }),
    // Its tag with an SCI (14), an Ethertype (2) and the longest check value (16).
    ("macsec", Follows::Down { overhead_bytes: 32 }),
    ("ipvlan", Follows::Always),
    ("ipvtap", Follows::Always),
];

/// How an interface follows the MTU of the one below it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Follows {
    /// Goes down to it, less the overhead, and does not come up again by itself.
    Down { overhead_bytes: u32 },
    /// Gets the same value, up and down.
    Always,
}

/// An interface whose MTU follows.
#[derive(Clone, Debug, PartialEq)]
struct Follower {
    name: String,
    mtu_bytes: u32,
    follows: Follows,
}

#[derive(Debug, thiserror::Error)]
pub enum NotHeld {
    #[error("no interface of this host has the address {0}")]
    NoInterface(IpAddr),
    #[error("{0} is a loopback address, whose MTU says nothing of a network")]
    Loopback(IpAddr),
    #[error("an MTU of {mtu} is not {} to {}", HELD_MTU_BYTES.start(), HELD_MTU_BYTES.end())]
    OutOfRange { mtu: u32 },
    #[error("{interface} takes an MTU of at most {most}; {mtu} was asked for")]
    AboveMost { interface: String, mtu: u32, most: u32 },
    #[error(
        "{interface} has IPv6 addresses, which the kernel would remove at an MTU below \
         {IPV6_MTU_MIN}; {mtu} was asked for"
    )]
    BelowIpv6 { interface: String, mtu: u32 },
    #[error(
        "{followers} on {interface} would go down to an MTU of {mtu} with it, and not come up \
         again: use the interface that carries the redo address alone"
    )]
    Followed { interface: String, mtu: u32, followers: String },
    #[error(
        "{followers} on {interface} would get its MTU, and keep {before} instead of their own when \
         it is restored: give them the MTU of {interface}, or use the interface that carries the \
         redo address alone"
    )]
    Overwritten { interface: String, before: u32, followers: String },
    #[error("another test holds the MTU of {interface}")]
    Claimed { interface: String },
    #[error(
        "this user may not set the MTU of {interface}: it takes root or CAP_NET_ADMIN; log in \
         as root (`user: root` under `ssh` in the inventory)"
    )]
    Forbidden { interface: String },
    #[error("failed to set the MTU of {interface} to {mtu}")]
    Set {
        interface: String,
        mtu: u32,
        #[source]
        cause: io::Error,
    },
    #[error("failed to read the MTU of {interface} after it was set to {mtu}")]
    Unread {
        interface: String,
        mtu: u32,
        #[source]
        cause: io::Error,
    },
    #[error("{interface} took an MTU of {now} where {mtu} was asked for")]
    Another { interface: String, mtu: u32, now: u32 },
    #[error("failed to look at the interface of {address}")]
    Look {
        address: IpAddr,
        #[source]
        cause: io::Error,
    },
}

/// As it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
    pub mtu_bytes: u32,
    mtu_max_bytes: Option<u32>,
    has_ipv6: bool,
    followers: Vec<Follower>,
}

/// No other test changes the MTU of the interface while this lives. It vanishes with the process.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "it is held, not used")] UnixListener);

impl Interface {
    pub fn of(address: IpAddr) -> Result<Self, NotHeld> {
        if address.to_canonical().is_loopback() {
            return Err(NotHeld::Loopback(address));
        }
        let name = interfaces::carrying(address).ok_or(NotHeld::NoInterface(address))?;
        let links = netlink::links().map_err(|cause| NotHeld::Look { address, cause })?;
        let has_ipv6 = interfaces::has_ipv6(&name);
        Self::among(&links, &name, has_ipv6).ok_or(NotHeld::NoInterface(address))
    }

    fn among(links: &[LinkReply], name: &str, has_ipv6: bool) -> Option<Self> {
        let link = links.iter().find(|link| link.name == name)?;
        let upon = links
            .iter()
            .filter(|other| other.lower == Some(link.index) && other.index != link.index);
        Some(Self {
            index: link.index,
            name: link.name.clone(),
            mtu_bytes: link.mtu_bytes,
            mtu_max_bytes: link.mtu_max_bytes,
            has_ipv6,
            followers: upon.filter_map(Follower::of).collect(),
        })
    }

    /// Whether it may have this MTU, as far as can be told before it is tried.
    pub fn check(&self, mtu: u32) -> Result<(), NotHeld> {
        let interface = self.name.clone();
        if !HELD_MTU_BYTES.contains(&mtu) {
            return Err(NotHeld::OutOfRange { mtu });
        }
        if let Some(most) = self.mtu_max_bytes.filter(|most| mtu > *most) {
            return Err(NotHeld::AboveMost { interface, mtu, most });
        }
        if self.has_ipv6 && mtu < IPV6_MTU_MIN {
            return Err(NotHeld::BelowIpv6 { interface, mtu });
        }
        self.check_followers(mtu)
    }

    fn check_followers(&self, mtu: u32) -> Result<(), NotHeld> {
        let names = |changed: fn(&Follower, u32, u32) -> bool| {
            let changed = |one: &&Follower| changed(one, self.mtu_bytes, mtu);
            let names: Vec<_> =
                self.followers.iter().filter(changed).map(|one| one.name.as_str()).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        // What is not changed takes nobody along.
        if mtu == self.mtu_bytes {
            return Ok(());
        }
        let interface = self.name.clone();
        if let Some(followers) = names(|one, _, mtu| one.is_lowered(mtu)) {
            return Err(NotHeld::Followed { interface, mtu, followers });
        }
        if let Some(followers) = names(|one, before, _| one.is_overwritten(before)) {
            return Err(NotHeld::Overwritten { interface, before: self.mtu_bytes, followers });
        }
        Ok(())
    }

    /// Of this network namespace.
    pub fn claim(&self) -> Result<Claim, NotHeld> {
        let interface = self.name.clone();
        claim_of(self.index).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => NotHeld::Claimed { interface },
            _ => NotHeld::Set { interface, mtu: self.mtu_bytes, cause: error },
        })
    }

    pub fn set_raw(&self, mtu: u32) -> io::Result<()> {
        netlink::set_mtu(self.index, mtu)
    }

    pub fn current(&self) -> io::Result<u32> {
        Ok(netlink::link(self.index)?.mtu_bytes)
    }
}

/// Of the interface of this number.
pub fn claim_of(index: u32) -> io::Result<Claim> {
    let name = format!("redoline-mtu:{index}");
    SocketAddr::from_abstract_name(name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map(Claim)
}

impl Follower {
    /// `None` for an interface of a kind that keeps its MTU.
    fn of(link: &LinkReply) -> Option<Self> {
        let kind = link.kind.as_deref()?;
        let (_, follows) = FOLLOWERS.iter().find(|(name, _)| *name == kind)?;
        Some(Self { name: link.name.clone(), mtu_bytes: link.mtu_bytes, follows: *follows })
    }

    /// For good, when the interface below it gets this MTU.
    fn is_lowered(&self, mtu: u32) -> bool {
        match self.follows {
            Follows::Down { overhead_bytes } => self.mtu_bytes > mtu.saturating_sub(overhead_bytes),
            Follows::Always => false,
        }
    }

    /// For good, when the interface below it gets back the MTU that it had before.
    fn is_overwritten(&self, before: u32) -> bool {
        self.follows == Follows::Always && self.mtu_bytes != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, lower: Option<u32>, kind: Option<&str>) -> LinkReply {
        LinkReply {
            index,
            name: name.to_owned(),
            mtu_bytes: 1500,
            mtu_max_bytes: Some(9216),
            lower,
            kind: kind.map(str::to_owned),
        }
    }

    fn eth0(has_ipv6: bool, others: &[LinkReply]) -> Interface {
        let mut links = vec![link(2, "eth0", None, None)];
        links.extend_from_slice(others);
        Interface::among(&links, "eth0", has_ipv6).unwrap()
    }

    #[test]
    fn what_an_interface_cannot_have_is_refused_with_the_reason() {
        let plain = eth0(false, &[]);
        assert!(plain.check(9000).is_ok() && plain.check(576).is_ok());
        let refusal = |interface: &Interface, mtu| interface.check(mtu).unwrap_err().to_string();
        assert_eq!(refusal(&plain, 9217), "eth0 takes an MTU of at most 9216; 9217 was asked for");
        assert_eq!(refusal(&plain, 575), "an MTU of 575 is not 576 to 65535");
        let with_ipv6 = eth0(true, &[]);
        assert!(with_ipv6.check(1280).is_ok());
        assert_eq!(
            refusal(&with_ipv6, 1279),
            "eth0 has IPv6 addresses, which the kernel would remove at an MTU below 1280; 1279 was \
             asked for"
        );
    }

    #[test]
    fn interfaces_that_would_go_down_with_it_forbid_a_lower_mtu() {
        let vlan = link(5, "eth0.100", Some(2), Some("vlan"));
        let upon = eth0(false, std::slice::from_ref(&vlan));
        assert!(upon.check(9000).is_ok(), "they do not go up with it");
        assert_eq!(
            upon.check(1400).unwrap_err().to_string(),
            "eth0.100 on eth0 would go down to an MTU of 1400 with it, and not come up again: use \
             the interface that carries the redo address alone"
        );
        // The other end of a veth is no follower, nor is a VLAN of another interface.
        let others = [link(6, "veth1", Some(2), Some("veth")), link(7, "v", Some(3), Some("vlan"))];
        assert!(eth0(false, &others).check(1400).is_ok());
    }

    #[test]
    fn an_encrypting_interface_goes_down_before_the_one_below_it_is_as_low() {
        let macsec = LinkReply { mtu_bytes: 1468, ..link(5, "macsec0", Some(2), Some("macsec")) };
        let upon = eth0(false, &[macsec]);
        assert!(upon.check(1500).is_ok() && upon.check(1501).is_ok());
        assert!(matches!(upon.check(1499), Err(NotHeld::Followed { mtu: 1499, .. })));
    }

    #[test]
    fn interfaces_that_follow_up_and_down_must_have_the_same_mtu() {
        let same = link(5, "ipvl0", Some(2), Some("ipvlan"));
        let upon = eth0(false, std::slice::from_ref(&same));
        assert!(upon.check(9000).is_ok() && upon.check(1400).is_ok(), "back with the restore");
        let upon = eth0(false, &[LinkReply { mtu_bytes: 1300, ..same }]);
        for mtu in [1400, 9000] {
            assert_eq!(
                upon.check(mtu).unwrap_err().to_string(),
                "ipvl0 on eth0 would get its MTU, and keep 1500 instead of their own when it is \
                 restored: give them the MTU of eth0, or use the interface that carries the redo \
                 address alone"
            );
        }
        assert!(upon.check(1500).is_ok(), "nothing is changed");
    }

    #[test]
    fn loopback_and_foreign_addresses_are_refused() {
        let refusal = |address: &str| Interface::of(address.parse().unwrap()).unwrap_err();
        assert!(matches!(refusal("127.0.0.1"), NotHeld::Loopback(_)));
        assert!(matches!(refusal("::1"), NotHeld::Loopback(_)));
        assert!(matches!(refusal("192.0.2.1"), NotHeld::NoInterface(_)));
    }

    #[test]
    fn one_test_at_a_time_holds_an_interface() {
        // No interface of this number.
        let interface = Interface { index: u32::MAX - 1, ..eth0(false, &[]) };
        let claim = interface.claim().unwrap();
        assert!(matches!(interface.claim(), Err(NotHeld::Claimed { .. })));
        drop(claim);
        assert!(interface.claim().is_ok());
    }
}
