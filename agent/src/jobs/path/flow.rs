//! UDP between two agents: packets of any size that the interface takes, and none of them cut.
//!
//! Two sockets have the same port. One sends, past whatever path MTU the kernel remembers. The
//! other is connected to the peer, so that answers and ICMP messages reach it instead: what a
//! router says of the path is read there, and with IPv4 the kernel does not remember it. Else
//! probes larger than the path carries would change how TCP behaves in the tests after them. (IPv6
//! does not report a message to a socket that does not take it to heart.)

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    setsockopt,
    sockopt::{Ipv4RecvErr, Ipv6RecvErr},
};
use rand::rngs::SmallRng;
use rand::{Rng, make_rng};
use redoline_proto::transfer::Token;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::datagram::{Answer, HEADER_BYTES, Probe, overhead_bytes, quoted_number};
use super::line::{Heard, Line, Sent, wait_for};
use super::notice::{self, Notice};
use crate::sys::fragments::{MtuDiscovery, set_mtu_discovery};

/// A larger packet does not exist.
pub const PACKET_BYTES_MAX: u32 = 65_535;

/// For a few of the largest packets; less is granted where net.core.rmem_max is lower.
const BUFFER_BYTES: usize = 1 << 20;

/// Datagrams that are read at once, so that a flood does not keep a job from its clock.
const READ_AT_ONCE: usize = 256;

/// A port that nobody else has, whose packets may not be cut.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = open(address)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // As large as may be is large enough.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    set_mtu_discovery(&socket, address.is_ipv4(), MtuDiscovery::Probe)?;
    Ok(socket)
}

/// The two sockets of one peer.
#[derive(Debug)]
pub struct Flow {
    peer: SocketAddr,
    token: Token,
    sending: UdpSocket,
    hearing: UdpSocket,
    filling: Vec<u8>,
    buffer: Buffer,
}

impl Flow {
    /// `sending` is bound already.
    pub fn new(sending: UdpSocket, peer: SocketAddr, token: Token) -> io::Result<Self> {
        let own = sending.local_addr()?;
        let hearing = open(own)?;
        if own.is_ipv4() {
            // Kernels before 3.14 do not know it; they remember what a router says.
            let _ = set_mtu_discovery(&hearing, true, MtuDiscovery::Interface);
            setsockopt(&hearing, Ipv4RecvErr, &true)?;
        } else {
            setsockopt(&hearing, Ipv6RecvErr, &true)?;
        }
        // The port is shared for this moment only: nobody else joins it, before or after.
        SockRef::from(&sending).set_reuse_address(true)?;
        hearing.set_reuse_address(true)?;
        let joined = hearing.bind(&own.into()).and_then(|()| hearing.connect(&peer.into()));
        SockRef::from(&sending).set_reuse_address(false)?;
        hearing.set_reuse_address(false)?;
        joined?;
        let (filling, buffer) = (filling(), Buffer::default());
        Ok(Self { peer, token, sending, hearing: hearing.into(), filling, buffer })
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// In an IP packet of so many bytes.
    pub fn send_header(&self, header: &[u8; HEADER_BYTES], packet_bytes: u32) -> Sent {
        let payload = packet_bytes.saturating_sub(overhead_bytes(self.peer.ip())) as usize;
        let filling = payload.saturating_sub(HEADER_BYTES);
        if filling > self.filling.len() {
            return Sent::TooBig;
        }
        let parts = [IoSlice::new(header), IoSlice::new(&self.filling[..filling])];
        let sending = SockRef::from(&self.sending);
        Sent::from_result(sending.send_to_vectored(&parts, &self.peer.into()))
    }

    /// From the peer, and from whoever else sends to the port.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8], SocketAddr)) {
        self.buffer.receive(&self.hearing, &mut each);
        self.buffer.receive(&self.sending, &mut each);
    }

    pub fn notices(&self) -> Vec<Notice> {
        notice::read(&SockRef::from(&self.hearing), quoted_number)
    }
}

/// Room for the largest datagram.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Self {
        Self(vec![0; PACKET_BYTES_MAX as usize])
    }
}

impl Buffer {
    /// What has come, without waiting, and at most so much that a flood keeps nobody.
    pub fn receive(&mut self, socket: &UdpSocket, each: &mut impl FnMut(&[u8], SocketAddr)) {
        for _ in 0..READ_AT_ONCE {
            match socket.recv_from(&mut self.0) {
                Ok((length, from)) => each(&self.0[..length], from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP message shows up here, too; each only once.
                Err(_) => {}
            }
        }
    }
}

impl Line for Flow {
    fn send(&mut self, probe: Probe, packet_bytes: u32) -> Sent {
        self.send_header(&probe.header(self.token), packet_bytes)
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        wait_for(&[self.hearing.as_fd(), self.sending.as_fd()], time)
    }

    fn hear(&mut self) -> Vec<Heard> {
        let mut heard: Vec<Heard> = self.notices().into_iter().map(Heard::Notice).collect();
        let (token, peer, at) = (self.token, self.peer, Instant::now());
        self.receive(|bytes, from| {
            let answer = Answer::parse(bytes, token).filter(|_| from == peer);
            heard.extend(answer.map(|answer| Heard::Answer { answer, at }));
        });
        heard
    }
}

/// Bytes that no tunnel can compress: else packets would pass that are too large for redo.
pub fn filling() -> Vec<u8> {
    let mut filling = vec![0; PACKET_BYTES_MAX as usize];
    make_rng::<SmallRng>().fill_bytes(&mut filling);
    filling
}
