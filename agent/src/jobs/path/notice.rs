//! What routers and hosts say of packets that they did not pass on: ICMP, from a socket's error
//! queue (IP_RECVERR, ip(7); IPV6_RECVERR, ipv6(7)).

use std::fmt;
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use socket2::Socket;

/// One of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// A packet was too big for what comes behind `from`.
    TooBig {
        from: IpAddr,
        /// `None` from old routers, which do not say it.
        mtu_bytes: Option<u32>,
        /// Of the probe, as far as its packet was quoted.
        number: Option<u32>,
    },
    /// A packet did not get to where it should.
    Refused { from: IpAddr, why: Refusal },
}

/// How a packet was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// By a type and code with a name.
    Named(&'static str),
    /// By a code of "destination unreachable" that says nothing more of use.
    Unreachable { code: u8 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => formatter.write_str(name),
            Self::Unreachable { code } => {
                write!(formatter, "destination unreachable (code {code})")
            }
        }
    }
}

/// Entries that are read at once; what is beyond comes with the next look.
const ENTRIES_MAX: usize = 64;

/// Empties the error queue; `number` finds a probe's number in what was quoted of it.
pub fn read(socket: &Socket, number: impl Fn(&[u8]) -> Option<u32>) -> Vec<Notice> {
    let mut notices = Vec::new();
    for _ in 0..ENTRIES_MAX {
        let mut payload = [0; 128];
        let mut buffers = [IoSliceMut::new(&mut payload)];
        let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let received =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(&mut control), flags);
        let Ok(received) = received else { break };
        let entry = received.cmsgs().ok().and_then(|mut messages| messages.find_map(entry));
        let length = received.bytes;
        let Some(mut notice) = entry else { continue };
        if let Notice::TooBig { number: quoted, .. } = &mut notice {
            *quoted = payload.get(..length).and_then(&number);
        }
        notices.push(notice);
    }
    // Takes the pending error, which would make every wait return at once.
    let _ = socket.take_error();
    notices
}

fn entry(message: ControlMessageOwned) -> Option<Notice> {
    match message {
        ControlMessageOwned::Ipv4RecvErr(error, Some(from)) => {
            let from = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr)).into();
            let is_icmp = error.ee_origin == libc::SO_EE_ORIGIN_ICMP;
            is_icmp.then(|| classify_v4(error.ee_type, error.ee_code, error.ee_info, from))?
        }
        ControlMessageOwned::Ipv6RecvErr(error, Some(from)) => {
            let from = Ipv6Addr::from(from.sin6_addr.s6_addr).into();
            let is_icmp = error.ee_origin == libc::SO_EE_ORIGIN_ICMP6;
            is_icmp.then(|| classify_v6(error.ee_type, error.ee_code, error.ee_info, from))?
        }
        _ => None,
    }
}

fn too_big(from: IpAddr, mtu_bytes: u32) -> Notice {
    Notice::TooBig { from, mtu_bytes: (mtu_bytes > 0).then_some(mtu_bytes), number: None }
}

fn unreachable(from: IpAddr, code: u8) -> Notice {
    Notice::Refused { from, why: Refusal::Unreachable { code } }
}

/// Types and codes of RFC 792, RFC 1191 and RFC 1812.
fn classify_v4(kind: u8, code: u8, info: u32, from: IpAddr) -> Option<Notice> {
    let why = match (kind, code) {
        (3, 4) => return Some(too_big(from, info)),
        (3, 3) => "port unreachable",
        (3, 9 | 10 | 13) => "administratively prohibited",
        (3, 0) => "network unreachable",
        (3, 1) => "host unreachable",
        (3, code) => return Some(unreachable(from, code)),
        (11, _) => "time exceeded",
        _ => return None,
    };
    Some(Notice::Refused { from, why: Refusal::Named(why) })
}

/// Types and codes of RFC 4443.
fn classify_v6(kind: u8, code: u8, info: u32, from: IpAddr) -> Option<Notice> {
    let why = match (kind, code) {
        (2, _) => return Some(too_big(from, info)),
        (1, 4) => "port unreachable",
        (1, 1 | 5 | 6) => "administratively prohibited",
        (1, 0) => "no route",
        (1, 3) => "address unreachable",
        (1, code) => return Some(unreachable(from, code)),
        (3, _) => "time exceeded",
        _ => return None,
    };
    Some(Notice::Refused { from, why: Refusal::Named(why) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let from: IpAddr = "198.51.100.1".parse().unwrap();
        let told = |mtu_bytes| Some(Notice::TooBig { from, mtu_bytes, number: None });
        assert_eq!(classify_v4(3, 4, 1400, from), told(Some(1400)));
        assert_eq!(classify_v4(3, 4, 0, from), told(None));
        assert_eq!(classify_v6(2, 0, 1280, from), told(Some(1280)));
        let refused = |why| Some(Notice::Refused { from, why: Refusal::Named(why) });
        assert_eq!(classify_v4(3, 3, 0, from), refused("port unreachable"));
        assert_eq!(classify_v4(3, 13, 0, from), refused("administratively prohibited"));
        assert_eq!(classify_v6(1, 4, 0, from), refused("port unreachable"));
        assert_eq!(classify_v4(3, 1, 0, from), refused("host unreachable"));
        assert_eq!(classify_v6(1, 3, 0, from), refused("address unreachable"));
        // An answer to somebody's ping.
        assert_eq!(classify_v4(0, 0, 0, from), None);
        assert_eq!(classify_v6(129, 0, 0, from), None);
    }

    #[test]
    fn a_code_without_a_name_is_not_told_as_an_unreachable_host() {
        let from: IpAddr = "198.51.100.1".parse().unwrap();
        // Protocol unreachable, and beyond the scope of the source address.
        for (notice, text) in [
            (classify_v4(3, 2, 0, from), "destination unreachable (code 2)"),
            (classify_v6(1, 2, 0, from), "destination unreachable (code 2)"),
            (classify_v4(3, 12, 0, from), "destination unreachable (code 12)"),
        ] {
            let Some(Notice::Refused { why, .. }) = notice else { panic!("{notice:?}") };
            assert_eq!(why.to_string(), text);
        }
    }
}
