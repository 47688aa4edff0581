//! Network interfaces: what /sys tells, with addresses, disciplines and offloads from the kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use redoline_proto::facts::{Interface, Offload};

use super::netlink;
use super::root::Root;
use crate::sys::ethtool;

/// A node with more (containers) is listed up to here; facts must fit in one message.
const INTERFACES_MAX: usize = 200;

/// What is not in files.
#[derive(Clone, Debug, Default)]
pub struct Live {
    addresses: BTreeMap<String, Vec<String>>,
    qdiscs: BTreeMap<String, String>,
    /// Also of interfaces without a device, whose driver /sys does not show.
    drivers: BTreeMap<String, String>,
}

impl Live {
    pub fn read() -> Self {
        let addresses = addresses();
        let drivers = addresses.keys().take(INTERFACES_MAX);
        Self {
            drivers: drivers
                .filter_map(|name| Some((name.clone(), ethtool::driver(name).ok()?)))
                .collect(),
            addresses,
            qdiscs: netlink::qdiscs().unwrap_or_default(),
        }
    }
}

/// Every interface, physical or not; `offloads` answers for one of them.
pub fn read(root: &Root, live: &Live, offloads: impl Fn(&str) -> Vec<Offload>) -> Vec<Interface> {
    root.names("/sys/class/net")
        .iter()
        // bonding_masters is a file among the interfaces.
        .filter(|name| root.exists(format!("/sys/class/net/{name}/ifindex")))
        .take(INTERFACES_MAX)
        .map(|name| Interface { offloads: offloads(name), ..interface(root, live, name) })
        .collect()
}

/// As the kernel tells; none for an interface that tells nothing.
pub fn offloads(interface: &str) -> Vec<Offload> {
    ethtool::offloads(interface)
        .unwrap_or_default()
        .into_iter()
        .map(|(name, on)| Offload { name: name.to_owned(), on })
        .collect()
}

fn interface(root: &Root, live: &Live, name: &str) -> Interface {
    let base = format!("/sys/class/net/{name}");
    let queues = root.names(format!("{base}/queues"));
    let count = |prefix: &str| {
        let count = queues.iter().filter(|queue| queue.starts_with(prefix)).count() as u32;
        (count > 0).then_some(count)
    };
    let bond_members = root.text(format!("{base}/bonding/slaves")).unwrap_or_default();
    Interface {
        name: name.to_owned(),
        addresses: live.addresses.get(name).cloned().unwrap_or_default(),
        mtu_bytes: root.number(format!("{base}/mtu")),
        speed_mbit_per_s: speed(root, name, 0),
        driver: root
            .link_name(format!("{base}/device/driver"))
            .or_else(|| live.drivers.get(name).cloned()),
        state: root.text(format!("{base}/operstate")),
        qdisc: live.qdiscs.get(name).cloned(),
        offloads: Vec::new(),
        rx_queues: count("rx-"),
        tx_queues: count("tx-"),
        bond_mode: root
            .text(format!("{base}/bonding/mode"))
            .and_then(|mode| mode.split_ascii_whitespace().next().map(str::to_owned)),
        bond_members: bond_members.split_ascii_whitespace().map(str::to_owned).collect(),
    }
}

/// A made-up device has a made-up speed (veth and TUN say 10 Gbit/s), so it counts only where
/// everything below it is real: bonds and VLANs of network cards.
fn speed(root: &Root, name: &str, depth: u32) -> Option<u64> {
    let base = format!("/sys/class/net/{name}");
    let real = root.exists(format!("{base}/device")) || {
        let below: Vec<String> = root
            .names(&base)
            .iter()
            .filter_map(|entry| entry.strip_prefix("lower_").map(str::to_owned))
            .collect();
        depth < 4
            && !below.is_empty()
            && below.iter().all(|lower| speed(root, lower, depth + 1).is_some())
    };
    // Unknown is -1, 0, or 2^32 - 1, depending on the driver and the kernel.
    root.number::<i64>(format!("{base}/speed"))
        .filter(|speed| real && (1..i64::from(u32::MAX)).contains(speed))
        .and_then(|speed| speed.try_into().ok())
}

/// The interface that has `address`, by the name of its alias's interface; `None` when none has.
pub fn carrying(address: IpAddr) -> Option<String> {
    let wanted = address.to_canonical().to_string();
    addresses().into_iter().find(|(_, all)| all.contains(&wanted)).map(|(name, _)| name)
}

/// Link-local ones count: without IPv6 an interface has none.
pub fn has_ipv6(interface: &str) -> bool {
    addresses().get(interface).is_some_and(|all| all.iter().any(|one| one.contains(':')))
}

fn addresses() -> BTreeMap<String, Vec<String>> {
    let mut addresses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in getifaddrs().into_iter().flatten() {
        let Some(address) = entry.address else { continue };
        let text = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => v4.ip().to_string(),
            (_, Some(v6)) => v6.ip().to_string(),
            _ => continue,
        };
        // An alias (`eth0:1`) is an address of its interface.
        let name = entry.interface_name.split(':').next().unwrap_or_default().to_owned();
        addresses.entry(name).or_default().push(text);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::root::tree;
    use super::*;

    fn read_tree(root: &Root) -> BTreeMap<String, Interface> {
        let live = Live {
            drivers: BTreeMap::from([("bond0".to_owned(), "bonding".to_owned())]),
            addresses: [("eth0".to_owned(), vec!["198.51.100.11".to_owned()])].into(),
            qdiscs: [("eth0".to_owned(), "mq (fq_codel)".to_owned())].into(),
        };
        read(root, &live, |_| Vec::new())
            .into_iter()
            .map(|interface| (interface.name.clone(), interface))
            .collect()
    }

    #[test]
    fn a_network_card_and_the_bond_over_it_are_read() {
        let (_dir, root) = tree(&[
            ("/sys/class/net/eth0/ifindex", "2\n"),
            ("/sys/class/net/eth0/mtu", "9000\n"),
            ("/sys/class/net/eth0/speed", "25000\n"),
            ("/sys/class/net/eth0/operstate", "up\n"),
            ("/sys/class/net/eth0/queues/rx-0/x", ""),
            ("/sys/class/net/eth0/queues/rx-1/x", ""),
            ("/sys/class/net/eth0/queues/tx-0/x", ""),
            ("/sys/class/net/eth0/device/x", ""),
            ("/sys/class/net/bond0/ifindex", "4\n"),
            ("/sys/class/net/bond0/speed", "25000\n"),
            ("/sys/class/net/bond0/lower_eth0", ""),
            ("/sys/class/net/bond0/bonding/mode", "802.3ad 4\n"),
            ("/sys/class/net/bond0/bonding/slaves", "eth0 eth1\n"),
            ("/sys/class/net/bonding_masters", "bond0\n"),
        ]);
        fs::create_dir_all(root.path("/drivers/mlx5_core")).unwrap();
        symlink("../../../../drivers/mlx5_core", root.path("/sys/class/net/eth0/device/driver"))
            .unwrap();
        let interfaces = read_tree(&root);
        assert_eq!(interfaces.len(), 2);
        let eth0 = &interfaces["eth0"];
        assert_eq!((eth0.mtu_bytes, eth0.speed_mbit_per_s), (Some(9000), Some(25_000)));
        assert_eq!((eth0.rx_queues, eth0.tx_queues), (Some(2), Some(1)));
        assert_eq!(eth0.driver.as_deref(), Some("mlx5_core"));
        assert_eq!(eth0.qdisc.as_deref(), Some("mq (fq_codel)"));
        assert_eq!(eth0.addresses, ["198.51.100.11"]);
        let bond0 = &interfaces["bond0"];
        assert_eq!(
            (bond0.speed_mbit_per_s, bond0.driver.as_deref()),
            (Some(25_000), Some("bonding"))
        );
        assert_eq!((bond0.bond_mode.as_deref(), bond0.bond_members.len()), (Some("802.3ad"), 2));
    }

    #[test]
    fn a_speed_that_is_made_up_or_missing_is_unknown() {
        for (speed, device) in [("10000", "x"), ("-1", "device"), ("0", "device")] {
            let (_dir, root) = tree(&[
                ("/sys/class/net/eth0/ifindex", "2\n"),
                ("/sys/class/net/eth0/speed", speed),
                (&format!("/sys/class/net/eth0/{device}/x"), ""),
            ]);
            assert_eq!(read_tree(&root)["eth0"].speed_mbit_per_s, None, "{speed} {device}");
        }
    }

    #[test]
    fn this_node_has_a_loopback_address() {
        assert!(addresses()["lo"].contains(&"127.0.0.1".to_owned()));
        assert_eq!(carrying("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!(carrying("192.0.2.1".parse().unwrap()), None);
        assert!(!has_ipv6("no such interface"));
    }
}
