//! The way to each peer: what the kernel would do, and which routers are on it.

use std::net::IpAddr;
use std::thread;
use std::time::Instant;

use redoline_proto::facts::{Peer, Route};

use super::hops::{self, Trail};
use super::netlink;
use super::root::Root;

/// Ways that are probed at the same time.
const PARALLEL: usize = 16;

/// One route per peer, in their order; probing ends at `deadline`, and without one nothing is asked
/// of the network.
pub fn read(root: &Root, peers: &[Peer], deadline: Option<Instant>) -> Vec<Route> {
    let mut routes = Vec::new();
    for group in peers.chunks(PARALLEL) {
        thread::scope(|scope| {
            let probing: Vec<_> =
                group.iter().map(|peer| scope.spawn(move || route(root, peer, deadline))).collect();
            let found = probing.into_iter().zip(group).map(|(thread, peer)| {
                thread.join().unwrap_or_else(|_| remark(peer, "probing failed".to_owned()))
            });
            routes.extend(found);
        });
    }
    routes
}

fn route(root: &Root, peer: &Peer, deadline: Option<Instant>) -> Route {
    let Ok(address) = peer.address.parse::<IpAddr>() else {
        return remark(peer, format!("`{}` is not an IP address", peer.address));
    };
    let reply = match netlink::route_to(address) {
        Ok(reply) => reply,
        Err(error) => return remark(peer, format!("no route: {error}")),
    };
    let interface = reply.interface_index.and_then(|index| interface_name(root, index));
    let interface_mtu =
        interface.as_ref().and_then(|name| root.number(format!("/sys/class/net/{name}/mtu")));
    let not_probed =
        |why: &str| Trail { remark: Some(format!("not probed: {why}")), ..Trail::default() };
    let trail = match deadline {
        _ if reply.local || address.is_loopback() => not_probed("the address is this node's own"),
        None => not_probed("it was not asked for"),
        Some(deadline) => hops::trace(address, deadline),
    };
    Route {
        peer: peer.name.clone(),
        peer_address: peer.address.clone(),
        interface,
        source_address: reply.source.map(|source| source.to_string()),
        gateway: reply.gateway.map(|gateway| gateway.to_string()),
        mtu_bytes: reply.mtu_bytes.or(interface_mtu),
        hops: trail.hops,
        hops_complete: trail.complete,
        hops_remark: trail.remark,
    }
}

fn interface_name(root: &Root, index: u32) -> Option<String> {
    root.names("/sys/class/net")
        .into_iter()
        .find(|name| root.number(format!("/sys/class/net/{name}/ifindex")) == Some(index))
}

fn remark(peer: &Peer, remark: String) -> Route {
    Route {
        peer: peer.name.clone(),
        peer_address: peer.address.clone(),
        hops_remark: Some(remark),
        ..Route::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn routes_to(address: &str) -> Vec<Route> {
        let peers = [Peer { name: "ash1".to_owned(), address: address.to_owned() }];
        read(&Root::new("/"), &peers, Some(Instant::now() + Duration::from_secs(30)))
    }

    #[test]
    fn the_nodes_own_address_is_not_probed() {
        let routes = routes_to("127.0.0.1");
        assert_eq!((routes.len(), routes[0].peer.as_str()), (1, "ash1"));
        assert_eq!(routes[0].interface.as_deref(), Some("lo"));
        assert!(routes[0].mtu_bytes.is_some());
        assert!(routes[0].hops.is_empty() && !routes[0].hops_complete);
        assert!(routes[0].hops_remark.as_ref().unwrap().contains("this node's own"));
    }

    #[test]
    fn without_a_deadline_the_network_is_not_asked() {
        // TEST-NET-1: looking up the route sends nothing.
        let peers = [Peer { name: "ash1".to_owned(), address: "192.0.2.1".to_owned() }];
        let routes = read(&Root::new("/"), &peers, None);
        let remark = routes[0].hops_remark.as_deref().unwrap();
        assert!(remark.contains("not asked for") || remark.contains("no route"), "{remark}");
        assert!(routes[0].hops.is_empty());
    }

    #[test]
    fn a_name_is_not_looked_up() {
        let routes = routes_to("ash1.example.com");
        assert_eq!(routes[0].interface, None);
        assert!(routes[0].hops_remark.as_ref().unwrap().contains("not an IP address"));
    }
}
