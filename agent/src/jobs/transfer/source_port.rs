//! Where a stream's connection leaves from: an address, and a port where a firewall wants to know it.
//!
//! A test with source ports leaves no connection in TIME_WAIT: the next one, a minute or a second
//! later, needs the same ports. The receiver waits with its end, and the sender resets a connection
//! whose every byte is acknowledged.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use redoline_proto::transfer::SendJob;
use socket2::Socket;

use crate::jobs::cancel::CancelFlag;
use crate::sys::socket_options;

/// For a sender to see that everything is acknowledged, and to reset.
const RESET_PATIENCE: Duration = Duration::from_secs(1);

/// How late a cancelled job may notice.
const ATTENTION: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Source {
    address: Option<IpAddr>,
    port: Option<u16>,
    any: IpAddr,
    /// Odd streams let `bind` take a port, even ones `connect`.
    by_bind: bool,
}

/// Why a connection cannot leave from its port.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SourcePortError {
    #[error(
        "source port {0} is in use on this node — give another `source_port`; `ss -tnp` shows who \
         has it"
    )]
    InUse(u16),
    #[error(
        "source port {0} still belongs to a connection that has ended (TIME_WAIT) — wait a minute, \
         or give another `source_port`"
    )]
    Waits(u16),
    #[error(
        "source port {0} may not be used by this user — give one above \
         net.ipv4.ip_unprivileged_port_start"
    )]
    Forbidden(u16),
}

impl Source {
    pub fn of(job: &SendJob, stream: u16) -> Self {
        let base = job.socket.source_port_base.and_then(|base| u16::try_from(base).ok());
        let any = match job.address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self {
            address: job.bind_address,
            port: base.map(|base| base.wrapping_add(stream)),
            any,
            by_bind: stream % 2 == 1,
        }
    }

    /// Linux gives odd ports at `bind` and even ones at `connect` (inet_csk_find_open_port and
    /// __inet_hash_connect). Streams that are all odd or all even meet on one link of a bond or of
    /// equal-cost routes that hash ports, so every second stream takes its port at the other call.
    pub fn bind(self, socket: &Socket) -> io::Result<()> {
        let Self { address, port, any, by_bind } = self;
        if address.is_none() && port.is_none() {
            return Ok(());
        }
        if port.is_some() {
            socket.set_reuse_address(true)?;
        } else if !by_bind {
            // Kernels before 4.2 do not know it: then all ports are odd.
            let _ = socket_options::bind_without_port(socket);
        }
        let source = SocketAddr::new(address.unwrap_or(any), port.unwrap_or(0));
        socket.bind(&source.into())
    }

    /// What `bind` or `connect` say of the port.
    pub fn blame(self, error: &io::Error) -> Option<SourcePortError> {
        let port = self.port?;
        match error.raw_os_error().map(Errno::from_raw)? {
            Errno::EADDRINUSE => Some(SourcePortError::InUse(port)),
            // Of an address that is not ours `bind` says the same, of a port only `connect`.
            Errno::EADDRNOTAVAIL if self.address_is_ours() => Some(SourcePortError::Waits(port)),
            Errno::EACCES if port < 1024 => Some(SourcePortError::Forbidden(port)),
            _ => None,
        }
    }

    fn address_is_ours(self) -> bool {
        self.address.is_none_or(|address| std::net::UdpSocket::bind((address, 0)).is_ok())
    }
}

/// The receiver's part: until the sender has reset the connection, at most a second.
pub fn await_reset(socket: &TcpStream, halt: &CancelFlag) {
    let deadline = Instant::now() + RESET_PATIENCE;
    while Instant::now() < deadline && !halt.is_set() {
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        let timeout = PollTimeout::try_from(ATTENTION).unwrap_or(PollTimeout::ZERO);
        match poll(&mut polled, timeout) {
            Ok(0) | Err(Errno::EINTR) => {}
            // POLLERR or POLLHUP, which need not be asked for.
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: Option<&str>, port: Option<u16>) -> Source {
        let address = address.map(|address| address.parse().unwrap());
        Source { address, port, any: Ipv4Addr::UNSPECIFIED.into(), by_bind: false }
    }

    fn blamed(source: Source, error: Errno) -> Option<SourcePortError> {
        source.blame(&error.into())
    }

    #[test]
    fn a_port_is_blamed_only_for_what_is_its_fault() {
        let from = source(Some("127.0.0.1"), Some(40_000));
        assert_eq!(blamed(from, Errno::EADDRINUSE), Some(SourcePortError::InUse(40_000)));
        assert_eq!(blamed(from, Errno::EADDRNOTAVAIL), Some(SourcePortError::Waits(40_000)));
        assert_eq!(blamed(from, Errno::ECONNREFUSED), None);
        let elsewhere = source(Some("192.0.2.1"), Some(40_000));
        assert_eq!(blamed(elsewhere, Errno::EADDRNOTAVAIL), None);
        let low = source(None, Some(80));
        assert_eq!(blamed(low, Errno::EACCES), Some(SourcePortError::Forbidden(80)));
        assert_eq!(blamed(source(None, None), Errno::EADDRINUSE), None);
    }

    #[test]
    fn streams_leave_from_odd_and_from_even_ports() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let parities: Vec<u16> = (0..8)
            .map(|stream| {
                let from = Source { by_bind: stream % 2 == 1, ..source(Some("127.0.0.1"), None) };
                let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
                let socket = socket.unwrap();
                from.bind(&socket).unwrap();
                socket.connect(&target.into()).unwrap();
                TcpStream::from(socket).local_addr().unwrap().port() % 2
            })
            .collect();
        assert!(parities.contains(&0) && parities.contains(&1), "{parities:?}");
    }
}
