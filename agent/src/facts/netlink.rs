//! Questions to the kernel's routing socket: the way to an address, interfaces and their MTU, and
//! queueing disciplines.
//!
//! Layouts and numbers are those of linux/netlink.h and linux/rtnetlink.h.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
    setsockopt, socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// What `ip route get` prints.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RouteReply {
    pub interface_index: Option<u32>,
    pub source: Option<IpAddr>,
    pub gateway: Option<IpAddr>,
    /// Of the route itself, for example after an ICMP "fragmentation needed".
    pub mtu_bytes: Option<u32>,
    /// What was learned of the path is forgotten after this; `None` for what was configured.
    pub expires: Option<Duration>,
    /// The address is one of this node.
    pub local: bool,
}

/// How the kernel would reach `destination`, with a source of its choice: redo transport does not
/// bind its sockets either.
pub fn route_to(destination: IpAddr) -> io::Result<RouteReply> {
    route_from(None, destination)
}

/// The same for a socket that is bound to `source`, where policy routing may choose another way.
pub fn route_from(source: Option<IpAddr>, destination: IpAddr) -> io::Result<RouteReply> {
    let (family, address) = match destination {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let source = source.map(|source| match source {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    });
    let mut body = vec![0; ROUTE_HEADER];
    body[0] = family as u8;
    body[1] = (address.len() * 8) as u8;
    push_attribute(&mut body, RTA_DST, &address);
    if let Some(source) = source {
        body[2] = (source.len() * 8) as u8;
        push_attribute(&mut body, RTA_SRC, &source);
    }
    let replies = ask(RTM_GETROUTE, 0, &body)?;
    replies
        .iter()
        .find_map(|message| parse_route(message))
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// What `ip -details link show` prints, as far as the MTU is concerned.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LinkReply {
    pub index: u32,
    pub name: String,
    pub mtu_bytes: u32,
    /// The most that its driver takes; `None` where the driver has no bound.
    pub mtu_max_bytes: Option<u32>,
    /// The interface that it is made upon, for example of a VLAN.
    pub lower: Option<u32>,
    /// Such as `vlan`; an ordinary network card has none.
    pub kind: Option<String>,
}

/// The interface of this number.
pub fn link(index: u32) -> io::Result<LinkReply> {
    let replies = ask(RTM_GETLINK, 0, &link_header(index))?;
    let reply = replies.iter().find_map(|message| parse_link_reply(message));
    reply.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// All of this network namespace.
pub fn links() -> io::Result<Vec<LinkReply>> {
    let replies = ask(RTM_GETLINK, NLM_F_DUMP, &[0; LINK_HEADER])?;
    Ok(replies.iter().filter_map(|message| parse_link_reply(message)).collect())
}

/// Needs CAP_NET_ADMIN.
pub fn set_mtu(index: u32, mtu_bytes: u32) -> io::Result<()> {
    let mut body = link_header(index).to_vec();
    push_attribute(&mut body, IFLA_MTU, &mtu_bytes.to_ne_bytes());
    ask(RTM_NEWLINK, NLM_F_ACK, &body).map(drop)
}

/// By interface name: the root discipline, and for `mq` that of its queues, as `mq (fq_codel)`.
pub fn qdiscs() -> io::Result<BTreeMap<String, String>> {
    let links = ask(RTM_GETLINK, NLM_F_DUMP, &[0; LINK_HEADER])?;
    let queues = ask(RTM_GETQDISC, NLM_F_DUMP, &[0; QDISC_HEADER])?;
    let queues: Vec<Queue> = queues.iter().filter_map(|message| parse_queue(message)).collect();
    let links = links.iter().filter_map(|message| parse_link(message));
    Ok(links.map(|link| (link.name.clone(), describe(&link, &queues))).collect())
}

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
const RTM_GETQDISC: u16 = 38;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `nlmsghdr`, `rtmsg`, `ifinfomsg`, `tcmsg`.
const MESSAGE_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const LINK_HEADER: usize = 16;
const QDISC_HEADER: usize = 20;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
/// `rta_cacheinfo`, whose third number says when it ends, in hundredths of a second (USER_HZ).
const RTA_CACHEINFO: u16 = 12;
const CACHEINFO_EXPIRES: usize = 8;
/// A gateway of the other family, for example IPv4 over IPv6.
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const RTN_LOCAL: u8 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_QDISC: u16 = 6;
const IFLA_LINKINFO: u16 = 18;
const IFLA_MAX_MTU: u16 = 51;
const IFLA_INFO_KIND: u16 = 1;
const TCA_KIND: u16 = 1;
/// Flags in the type of an attribute, which nested ones carry.
const ATTRIBUTE_TYPE: u16 = 0x3fff;

/// Sends one request and collects the bodies of its replies.
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(500))?;
    let request = message(kind, flags | NLM_F_REQUEST, body);
    sendto(socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = vec![0; 128 << 10];
    let mut bodies = Vec::new();
    while Instant::now() < deadline {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let more = take_messages(&buffer[..length], &mut bodies)?;
        if !more || flags & NLM_F_DUMP == 0 {
            return Ok(bodies);
        }
    }
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(MESSAGE_HEADER + body.len());
    message.extend(((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence and port: one question per socket, and the kernel assigns the port.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// False after the last message of a dump.
fn take_messages(mut bytes: &[u8], bodies: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (number_u32(bytes, 0), number_u16(bytes, 4)) {
        let length = length as usize;
        let Some(body) = bytes.get(MESSAGE_HEADER..length) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = number_u32(body, 0).map_or(0, |code| code as i32);
                // Zero is the acknowledgement that was asked for.
                if code == 0 {
                    return Ok(false);
                }
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => bodies.push(body.to_vec()),
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(true)
}

fn parse_route(body: &[u8]) -> Option<RouteReply> {
    let mut reply = RouteReply { local: *body.get(7)? == RTN_LOCAL, ..RouteReply::default() };
    for (kind, value) in attributes(body.get(ROUTE_HEADER..)?) {
        match kind {
            RTA_OIF => reply.interface_index = number_u32(value, 0),
            RTA_PREFSRC => reply.source = address(value),
            RTA_GATEWAY => reply.gateway = address(value),
            RTA_CACHEINFO => reply.expires = number_u32(value, CACHEINFO_EXPIRES).and_then(expiry),
            RTA_VIA => reply.gateway = address(value.get(2..)?),
            RTA_METRICS => {
                let mtu = attributes(value).into_iter().find(|(metric, _)| *metric == RTAX_MTU);
                reply.mtu_bytes = mtu.and_then(|(_, mtu)| number_u32(mtu, 0));
            }
            _ => (),
        }
    }
    Some(reply)
}

/// Zero, and what is over, is no expiry.
fn expiry(hundredths: u32) -> Option<Duration> {
    let hundredths = u64::try_from(hundredths as i32).ok().filter(|left| *left > 0)?;
    Some(Duration::from_millis(hundredths * 10))
}

fn link_header(index: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

fn parse_link_reply(body: &[u8]) -> Option<LinkReply> {
    let index = number_u32(body, 4)?;
    let attributes = attributes(body.get(LINK_HEADER..)?);
    let number = |wanted: u16| {
        let (_, value) = attributes.iter().find(|(kind, _)| *kind == wanted)?;
        number_u32(value, 0)
    };
    let details = attributes.iter().find(|(kind, _)| *kind == IFLA_LINKINFO);
    Some(LinkReply {
        index,
        name: text(&attributes, IFLA_IFNAME)?,
        mtu_bytes: number(IFLA_MTU)?,
        mtu_max_bytes: number(IFLA_MAX_MTU).filter(|most| *most > 0),
        lower: number(IFLA_LINK),
        kind: details.and_then(|(_, details)| text(&self::attributes(details), IFLA_INFO_KIND)),
    })
}

#[derive(Debug, PartialEq)]
struct Link {
    index: u32,
    name: String,
    qdisc: String,
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let index = number_u32(body, 4)?;
    let attributes = attributes(body.get(LINK_HEADER..)?);
    Some(Link {
        index,
        name: text(&attributes, IFLA_IFNAME)?,
        qdisc: text(&attributes, IFLA_QDISC)?,
    })
}

#[derive(Debug, PartialEq)]
struct Queue {
    index: u32,
    kind: String,
}

fn parse_queue(body: &[u8]) -> Option<Queue> {
    let index = number_u32(body, 4)?;
    let kind = text(&attributes(body.get(QDISC_HEADER..)?), TCA_KIND)?;
    Some(Queue { index, kind })
}

fn describe(link: &Link, queues: &[Queue]) -> String {
    if link.qdisc != "mq" {
        return link.qdisc.clone();
    }
    let mut kinds: Vec<&str> = queues
        .iter()
        .filter(|queue| queue.index == link.index && queue.kind != "mq")
        .map(|queue| queue.kind.as_str())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() { link.qdisc.clone() } else { format!("mq ({})", kinds.join(", ")) }
}

fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (number_u16(bytes, 0), number_u16(bytes, 2)) {
        let Some(value) = bytes.get(4..length.into()) else { break };
        found.push((kind & ATTRIBUTE_TYPE, value));
        bytes = bytes.get(aligned(length.into())..).unwrap_or_default();
    }
    found
}

fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(aligned(body.len()), 0);
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn number_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn text(attributes: &[(u16, &[u8])], wanted: u16) -> Option<String> {
    let (_, value) = attributes.iter().find(|(kind, _)| *kind == wanted)?;
    Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned())
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route_body() -> Vec<u8> {
        let mut body = vec![0; ROUTE_HEADER];
        push_attribute(&mut body, RTA_OIF, &3_u32.to_ne_bytes());
        push_attribute(&mut body, RTA_PREFSRC, &[198, 51, 100, 11]);
        push_attribute(&mut body, RTA_GATEWAY, &[198, 51, 100, 1]);
        let mut metrics = Vec::new();
        push_attribute(&mut metrics, RTAX_MTU, &1400_u32.to_ne_bytes());
        push_attribute(&mut body, RTA_METRICS | 0x8000, &metrics);
        body
    }

    #[test]
    fn a_route_tells_interface_source_gateway_and_mtu() {
        let route = parse_route(&route_body()).unwrap();
        assert_eq!(route.interface_index, Some(3));
        assert_eq!(route.source, "198.51.100.11".parse().ok());
        assert_eq!(route.gateway, "198.51.100.1".parse().ok());
        assert_eq!((route.mtu_bytes, route.local), (Some(1400), false));
        assert_eq!(route.expires, None);
    }

    #[test]
    fn what_was_learned_of_a_path_is_told_from_what_was_configured() {
        for (expires, expected) in
            [(59_800_i32, Some(Duration::from_secs(598))), (0, None), (-5, None)]
        {
            let mut body = route_body();
            let mut cache = [0; 28];
            cache[8..12].copy_from_slice(&expires.to_ne_bytes());
            push_attribute(&mut body, RTA_CACHEINFO, &cache);
            assert_eq!(parse_route(&body).unwrap().expires, expected);
        }
    }

    #[test]
    fn an_interface_tells_its_mtu_and_what_it_is_made_upon() {
        let mut body = link_header(7).to_vec();
        push_attribute(&mut body, IFLA_IFNAME, b"eth0.100\0");
        push_attribute(&mut body, IFLA_MTU, &9000_u32.to_ne_bytes());
        push_attribute(&mut body, IFLA_LINK, &2_u32.to_ne_bytes());
        push_attribute(&mut body, IFLA_MAX_MTU, &0_u32.to_ne_bytes());
        let mut details = Vec::new();
        push_attribute(&mut details, IFLA_INFO_KIND, b"vlan\0");
        push_attribute(&mut body, IFLA_LINKINFO, &details);
        let link = parse_link_reply(&body).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.mtu_bytes), (7, "eth0.100", 9000));
        assert_eq!((link.mtu_max_bytes, link.lower), (None, Some(2)));
        assert_eq!(link.kind.as_deref(), Some("vlan"));
        for length in 0..body.len() {
            let _ = parse_link_reply(&body[..length]);
        }
    }

    #[test]
    fn cut_messages_are_refused_or_ignored_but_never_read_past() {
        let whole = message(24, 0, &route_body());
        for length in 0..whole.len() {
            let _ = take_messages(&whole[..length], &mut Vec::new());
            let _ = parse_route(&whole[..length]);
        }
        let mut bodies = Vec::new();
        assert!(take_messages(&whole, &mut bodies).unwrap());
        assert_eq!(bodies, [route_body()]);
        // A length that would not move on.
        assert!(take_messages(&[0; 16], &mut Vec::new()).is_err());
    }

    #[test]
    fn an_error_of_the_kernel_is_an_error() {
        let refused = message(NLMSG_ERROR, 0, &(-libc::ENETUNREACH).to_ne_bytes());
        let error = take_messages(&refused, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
    }

    #[test]
    fn an_mq_shows_what_its_queues_have() {
        let link = |qdisc: &str| Link { index: 2, name: "eth0".into(), qdisc: qdisc.into() };
        let queue = |index, kind: &str| Queue { index, kind: kind.into() };
        let queues = [queue(2, "mq"), queue(2, "fq"), queue(2, "fq"), queue(3, "pfifo_fast")];
        assert_eq!(describe(&link("mq"), &queues), "mq (fq)");
        assert_eq!(describe(&link("fq_codel"), &queues), "fq_codel");
        assert_eq!(describe(&link("mq"), &[]), "mq");
    }

    #[test]
    fn the_kernel_answers_for_loopback() {
        let route = route_to("127.0.0.1".parse().unwrap()).unwrap();
        assert!(route.local, "{route:?}");
        assert_eq!(route.interface_index, Some(1));
        assert!(qdiscs().unwrap().contains_key("lo"));
        let loopback = link(1).unwrap();
        assert_eq!(loopback.name, "lo");
        assert!(links().unwrap().contains(&loopback));
    }
}
