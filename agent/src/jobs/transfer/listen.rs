//! Opens the data port: on one address, at the first free port of a range.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use redoline_proto::transfer::SocketRequest;
use socket2::{Domain, Protocol, Socket, Type};

use super::socket::{self, SocketError};

/// Connections that may wait to be accepted, beside those of the test.
const SPARE_BACKLOG: u32 = 16;

/// Why the data port is not open.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{address} is not an address of this host")]
    NotOurs { address: IpAddr },
    #[error("no free data port at {address}: in use are {}", list(.ports))]
    InUse { address: IpAddr, ports: Vec<u16> },
    #[error("the range of data ports {first} to {last} is empty")]
    NoPorts { first: u16, last: u16 },
    #[error("failed to listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// Listens for `num_conn` connections; the listener does not block.
pub fn listen(
    address: IpAddr,
    (first, last): (u16, u16),
    num_conn: u32,
    request: &SocketRequest,
) -> Result<TcpListener, ListenError> {
    let backlog = (num_conn + SPARE_BACKLOG) as i32;
    let mut in_use = Vec::new();
    for port in first..=last {
        let address = SocketAddr::new(address, port);
        match listen_on(address, backlog, request)? {
            Some(listener) => return Ok(listener),
            None => in_use.push(port),
        }
    }
    Err(match in_use.is_empty() {
        true => ListenError::NoPorts { first, last },
        false => ListenError::InUse { address, ports: in_use },
    })
}

/// `None` when the port is in use.
fn listen_on(
    address: SocketAddr,
    backlog: i32,
    request: &SocketRequest,
) -> Result<Option<TcpListener>, ListenError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(SocketError::Open)?;
    socket::prepare(&socket, request)?;
    // A port whose last test's connections are in TIME_WAIT is free.
    let opened = socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&address.into()))
        .and_then(|()| socket.listen(backlog))
        .and_then(|()| socket.set_nonblocking(true));
    match opened {
        Ok(()) => Ok(Some(socket.into())),
        Err(cause) => match cause.kind() {
            io::ErrorKind::AddrInUse => Ok(None),
            io::ErrorKind::AddrNotAvailable => Err(ListenError::NotOurs { address: address.ip() }),
            _ => Err(ListenError::Listen { address, cause }),
        },
    }
}

/// `5555, 5556, 5557`; a long list is cut.
fn list(ports: &[u16]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<_> = ports.iter().take(SHOWN).map(u16::to_string).collect();
    if ports.len() > SHOWN {
        text.push(format!("and {} more", ports.len() - SHOWN));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn listen_at(ports: (u16, u16)) -> Result<TcpListener, ListenError> {
        listen(LOOPBACK, ports, 1, &SocketRequest::default())
    }

    #[test]
    fn a_range_in_use_is_named() {
        let taken = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen_at((port, port)).unwrap_err();
        assert_eq!(error.to_string(), format!("no free data port at 127.0.0.1: in use are {port}"));
    }

    #[test]
    fn the_next_free_port_is_taken() {
        let taken = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let next = listen_at((port, port.saturating_add(50))).unwrap();
        assert!(next.local_addr().unwrap().port() > port);
    }

    #[test]
    fn an_address_of_another_host_is_refused() {
        let elsewhere = "192.0.2.1".parse().unwrap();
        let error = listen(elsewhere, (0, 0), 1, &SocketRequest::default()).unwrap_err();
        assert_eq!(error.to_string(), "192.0.2.1 is not an address of this host");
    }

    #[test]
    fn an_empty_range_is_said_to_be_one() {
        let error = listen_at((6, 5)).unwrap_err();
        assert_eq!(error.to_string(), "the range of data ports 6 to 5 is empty");
    }
}
