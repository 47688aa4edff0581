//! Whether a socket's packets may be cut into fragments, and what it makes of a router's word that
//! one was too big (IP_MTU_DISCOVER, ip(7); IPV6_MTU_DISCOVER, ipv6(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Numbers of linux/in.h; those of linux/in6.h are the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MtuDiscovery {
    /// No packet is cut, here or on the way; up to the interface's MTU all are sent, whatever the
    /// kernel remembers of the path.
    Probe = 3,
    /// A router's word about the path is not believed, so that nothing is remembered of it.
    Interface = 4,
}

/// For a socket of IPv4 or IPv6, as `is_ipv4` says.
pub fn set_mtu_discovery(
    socket: impl AsFd,
    is_ipv4: bool,
    discovery: MtuDiscovery,
) -> io::Result<()> {
    let (level, option) = match is_ipv4 {
        true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    };
    set(&socket, level, option, discovery as libc::c_int)?;
    if is_ipv4 {
        return Ok(());
    }
    // Else this node itself cuts what is larger than its interface takes.
    set(&socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)
}

fn set(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and `value` is `length` bytes long.
    let result = unsafe {
        let descriptor = socket.as_fd().as_raw_fd();
        libc::setsockopt(descriptor, level, option, (&raw const value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_packet_beyond_the_interfaces_mtu_is_refused_and_not_cut() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // IPv6 may be off.
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            let is_ipv4 = address.starts_with('1');
            set_mtu_discovery(&socket, is_ipv4, MtuDiscovery::Probe).unwrap();
            let peer = socket.local_addr().unwrap();
            socket.send_to(&[0; 1000], peer).unwrap();
            let error = socket.send_to(&[0; 65_507 + 1], peer).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        }
    }
}
