//! ICMP echo, answered by the peer's kernel: where a firewall passes nothing but the data port and
//! ping. The probe's header is the payload, so that an answer is known by its token.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    setsockopt,
    sockopt::{Ipv4RecvErr, Ipv6RecvErr},
};
use redoline_proto::transfer::Token;
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram::{Answer, HEADER_BYTES, Probe, Say, overhead_bytes, quoted_number};
use super::flow::{PACKET_BYTES_MAX, filling};
use super::line::{Heard, Line, Sent, wait_for};
use super::notice;
use crate::sys::fragments::{MtuDiscovery, set_mtu_discovery};

/// Type, code, checksum, identifier, number.
const ICMP_HEADER: usize = 8;

/// A busy host has more pings than ours; what is beyond comes with the next look.
const READ_AT_ONCE: usize = 256;

#[derive(Debug)]
pub struct Echo {
    socket: Socket,
    peer: IpAddr,
    token: Token,
    identifier: u16,
    filling: Vec<u8>,
    buffer: Vec<u8>,
}

/// Why there is no ping, as the remark ends.
pub fn why_not(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "this user may not send one (root, CAP_NET_RAW or \
                                            net.ipv4.ping_group_range would allow it)"
            .to_owned(),
        _ => error.to_string(),
    }
}

impl Echo {
    /// A ping socket (net.ipv4.ping_group_range), else a raw one (CAP_NET_RAW).
    pub fn open(source: Option<IpAddr>, peer: IpAddr, token: Token) -> io::Result<Self> {
        let (domain, protocol) = match peer.is_ipv4() {
            true => (Domain::IPV4, Protocol::ICMPV4),
            false => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(protocol))
            .or_else(|_| Socket::new(domain, Type::RAW, Some(protocol)))?;
        socket.set_nonblocking(true)?;
        set_mtu_discovery(&socket, peer.is_ipv4(), MtuDiscovery::Probe)?;
        if peer.is_ipv4() {
            setsockopt(&socket, Ipv4RecvErr, &true)?;
        } else {
            setsockopt(&socket, Ipv6RecvErr, &true)?;
        }
        if let Some(source) = source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect(&SocketAddr::new(peer, 0).into())?;
        let identifier = u16::from_be_bytes([token.0[0], token.0[1]]);
        let (filling, buffer) = (filling(), vec![0; PACKET_BYTES_MAX as usize]);
        Ok(Self { socket, peer, token, identifier, filling, buffer })
    }

    fn message(&self, probe: Probe, packet_bytes: u32) -> Option<Vec<u8>> {
        let data = packet_bytes.saturating_sub(overhead_bytes(self.peer)) as usize;
        let filling = self.filling.get(..data.saturating_sub(HEADER_BYTES))?;
        let (kind, [high, low]) =
            (if self.peer.is_ipv4() { 8 } else { 128 }, self.identifier.to_be_bytes());
        let [.., third, fourth] = probe.number.to_be_bytes();
        let mut message = vec![kind, 0, 0, 0, high, low, third, fourth];
        message.extend(probe.header(self.token));
        message.extend(filling);
        // The kernel does it itself for IPv6.
        if self.peer.is_ipv4() {
            let sum = checksum(&message).to_be_bytes();
            message[2..4].copy_from_slice(&sum);
        }
        Some(message)
    }

    /// The probe that an echo reply repeats, and how much of it came back.
    fn parse(&self, bytes: &[u8]) -> Option<Answer> {
        let is_ipv4 = self.peer.is_ipv4();
        let reply = if is_ipv4 { 0 } else { 129 };
        // A raw socket of IPv4 shows the IP header as well.
        let raw = is_ipv4 && bytes.first()? >> 4 == 4;
        let message = bytes.get(if raw { usize::from(bytes[0] & 0xf) * 4 } else { 0 }..)?;
        if *message.first()? != reply {
            return None;
        }
        let probe = Probe::parse(message.get(ICMP_HEADER..)?, self.token)?;
        let ip_header = overhead_bytes(self.peer) as usize - ICMP_HEADER;
        let packet_bytes = (message.len() + ip_header) as u32;
        Some(Answer { number: probe.number, say: Say::Arrived { packet_bytes, ticket: 0 } })
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        rest => u32::from(rest[0]) << 8,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Line for Echo {
    fn send(&mut self, probe: Probe, packet_bytes: u32) -> Sent {
        match self.message(probe, packet_bytes) {
            Some(message) => Sent::from_result(self.socket.send(&message)),
            None => Sent::TooBig,
        }
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        wait_for(&[self.socket.as_fd()], time)
    }

    fn hear(&mut self) -> Vec<Heard> {
        // What is quoted begins with the ICMP message, whose header comes before ours.
        let quoted = |bytes: &[u8]| {
            quoted_number(bytes).or_else(|| quoted_number(bytes.get(ICMP_HEADER..)?))
        };
        let notices = notice::read(&self.socket, quoted);
        let mut heard: Vec<Heard> = notices.into_iter().map(Heard::Notice).collect();
        let at = Instant::now();
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..READ_AT_ONCE {
            match (&self.socket).read(&mut buffer) {
                Ok(length) => {
                    let answer = self.parse(&buffer[..length]);
                    heard.extend(answer.map(|answer| Heard::Answer { answer, at }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        self.buffer = buffer;
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), 0x00ff);
        // What carries its own checksum sums up to nothing.
        assert_eq!(checksum(&[0x08, 0x00, 0xf7, 0xff]), 0);
    }
}
