//! Names and addresses of everything in a lab.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::node::Side;

/// The management networks of all labs: the benchmark range of RFC 2544, cut into /24.
const MANAGEMENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// Second networks of nodes: a range for documentation, RFC 5737. It is in namespaces only.
const DETOURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 0);

/// How many labs fit into 198.18.0.0/15.
pub(crate) const LABS_MAX: u32 = 512;

/// How many nodes a lab may have: a /30 of management addresses each.
pub(crate) const NODES_MAX: usize = 60;

/// The name of a cluster's nodes, routers and so on.
pub(crate) fn site(side: Side) -> &'static str {
    match side {
        Side::Primary => "phx",
        Side::Standby => "ash",
    }
}

/// The redo network of a side, /24.
pub(crate) fn redo_network(side: Side) -> Ipv4Addr {
    match side {
        Side::Primary => Ipv4Addr::new(198, 51, 100, 0),
        Side::Standby => Ipv4Addr::new(203, 0, 113, 0),
    }
}

/// The redo address of a side's node, counted from zero.
pub(crate) fn redo(side: Side, index: usize) -> Ipv4Addr {
    offset(redo_network(side), 11 + index as u32)
}

/// The router's address in a side's redo network.
pub(crate) fn gateway(side: Side) -> Ipv4Addr {
    offset(redo_network(side), 1)
}

/// The redo network of a side where there is IPv6, /64.
pub(crate) fn redo_network6(side: Side) -> Ipv6Addr {
    match side {
        Side::Primary => Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0),
        Side::Standby => Ipv6Addr::new(0x2001, 0xdb8, 0x200, 0, 0, 0, 0, 0),
    }
}

/// The IPv6 redo address of a side's node, counted from zero; its last digits read like those of IPv4.
pub(crate) fn redo6(side: Side, index: usize) -> Ipv6Addr {
    offset6(redo_network6(side), 0x11 + index as u32)
}

/// The router's IPv6 address in a side's redo network.
pub(crate) fn gateway6(side: Side) -> Ipv6Addr {
    offset6(redo_network6(side), 1)
}

/// The addresses of a node and its router in a network of their own, /30, beside the redo network.
pub(crate) fn detour(node: usize) -> (Ipv4Addr, Ipv4Addr) {
    let network = offset(DETOURS, node as u32 * 4);
    (offset(network, 2), offset(network, 1))
}

/// The address of a side's router on the WAN.
pub(crate) fn wan(side: Side) -> Ipv4Addr {
    match side {
        Side::Primary => Ipv4Addr::new(100, 64, 0, 1),
        Side::Standby => Ipv4Addr::new(100, 64, 0, 2),
    }
}

/// The controller's and the node's management address for one node of one lab.
pub(crate) fn management(lab: u32, node: usize) -> (Ipv4Addr, Ipv4Addr) {
    let network = offset(MANAGEMENT, lab * 256 + node as u32 * 4);
    (offset(network, 1), offset(network, 2))
}

/// The interface at the controller's end of a node's management network.
pub(crate) fn controller_interface(lab: u32, node: &str) -> String {
    format!("rl{lab}-{node}")
}

fn offset(network: Ipv4Addr, by: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(network.to_bits() + by)
}

fn offset6(network: Ipv6Addr, by: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(network.to_bits() + u128::from(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn management_networks_of_labs_and_nodes_do_not_meet() {
        let address = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        assert_eq!(management(0, 0), (address("198.18.0.1"), address("198.18.0.2")));
        assert_eq!(management(0, 1), (address("198.18.0.5"), address("198.18.0.6")));
        let last = management(LABS_MAX - 1, NODES_MAX - 1).1;
        assert_eq!(last, address("198.19.255.238"));
    }

    #[test]
    fn interface_names_fit_the_kernel() {
        assert!(controller_interface(LABS_MAX - 1, "phx60").len() < libc::IFNAMSIZ);
    }
}
