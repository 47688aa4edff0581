//! How this node's kernel reaches a peer: interface, source, gateway, and what it remembers of the
//! path's MTU.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::flow::PACKET_BYTES_MAX;
use crate::facts::netlink::{self, RouteReply};

/// Before anything is sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    pub interface: Option<String>,
    pub interface_mtu_bytes: Option<u32>,
    pub source: Option<IpAddr>,
    pub gateway: Option<IpAddr>,
    pub memory: Option<Memory>,
    /// Of a route that an administrator gave an MTU below the interface's.
    pub configured_mtu_bytes: Option<u32>,
}

/// A path MTU below the interface's, learned from a router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    pub mtu_bytes: u32,
    /// Until it is forgotten.
    pub expires: Duration,
}

impl Way {
    /// For a socket that is bound to `bind`, or to nothing.
    pub fn look_up(bind: Option<IpAddr>, peer: IpAddr) -> io::Result<Self> {
        let route = netlink::route_from(bind, peer)?;
        let link = route.interface_index.and_then(|index| netlink::link(index).ok());
        let (name, mtu) = link.map(|link| (link.name, link.mtu_bytes)).unzip();
        Ok(Self::new(&route, bind, name, mtu))
    }

    fn new(
        route: &RouteReply,
        bind: Option<IpAddr>,
        interface: Option<String>,
        interface_mtu: Option<u32>,
    ) -> Self {
        let interface_mtu = interface_mtu.map(|mtu| mtu.min(PACKET_BYTES_MAX));
        let lower = route.mtu_bytes.filter(|mtu| interface_mtu.is_none_or(|most| *mtu < most));
        let memory =
            lower.zip(route.expires).map(|(mtu_bytes, expires)| Memory { mtu_bytes, expires });
        Self {
            interface,
            interface_mtu_bytes: interface_mtu,
            source: bind.or(route.source),
            gateway: route.gateway,
            memory,
            configured_mtu_bytes: lower.filter(|_| memory.is_none()),
        }
    }

    /// What a reader has to know of these, beside the numbers.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(Memory { mtu_bytes, expires }) = self.memory {
            remarks.push(format!(
                "the kernel remembers a path MTU of {mtu_bytes} bytes from earlier traffic, for \
                 {} s more: these probes pass over it, TCP does not",
                expires.as_secs()
            ));
        }
        if let Some(mtu) = self.configured_mtu_bytes {
            remarks.push(format!(
                "the route has an MTU of {mtu} bytes of its own: these probes pass over it, TCP \
                 does not"
            ));
        }
        remarks
    }

    /// What the kernel learned of the path since `self` was looked up.
    pub fn learned(&self, now: &Self) -> Option<String> {
        let Memory { mtu_bytes, expires } = now.memory?;
        let known = self.memory.is_some_and(|before| before.mtu_bytes == mtu_bytes);
        (!known).then(|| {
            format!(
                "the kernel now remembers a path MTU of {mtu_bytes} bytes, for {} s: TCP begins \
                 with it",
                expires.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(mtu_bytes: Option<u32>, expires: Option<u64>) -> Way {
        let route = RouteReply {
            mtu_bytes,
            expires: expires.map(Duration::from_secs),
            ..RouteReply::default()
        };
        Way::new(&route, None, Some("eth0".to_owned()), Some(9000))
    }

    #[test]
    fn what_was_learned_is_told_from_what_was_configured() {
        let learned = way(Some(1400), Some(598));
        assert_eq!(learned.memory.unwrap().mtu_bytes, 1400);
        assert_eq!(
            learned.remarks(),
            [
                "the kernel remembers a path MTU of 1400 bytes from earlier traffic, for 598 s more: \
              these probes pass over it, TCP does not"
            ]
        );
        let configured = way(Some(1400), None);
        assert_eq!((configured.memory, configured.configured_mtu_bytes), (None, Some(1400)));
        assert!(configured.remarks()[0].starts_with("the route has an MTU of 1400 bytes"));
    }

    #[test]
    fn an_mtu_that_is_not_below_the_interfaces_is_no_news() {
        for way in [way(Some(9000), Some(10)), way(None, None), way(None, Some(10))] {
            assert_eq!((way.memory, way.configured_mtu_bytes), (None, None));
            assert!(way.remarks().is_empty());
        }
    }

    #[test]
    fn only_what_is_new_was_learned_by_the_probes() {
        let (before, after) = (way(None, None), way(Some(1400), Some(600)));
        assert!(before.learned(&after).unwrap().contains("1400 bytes, for 600 s"));
        assert_eq!(after.learned(&after), None);
        assert_eq!(before.learned(&before), None);
    }

    #[test]
    fn the_way_to_oneself_is_the_loopback_interface() {
        let way = Way::look_up(None, "127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(way.interface.as_deref(), Some("lo"));
        assert!(way.interface_mtu_bytes.is_some_and(|mtu| mtu <= PACKET_BYTES_MAX));
    }
}
