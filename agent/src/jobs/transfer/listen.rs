//! Opens the data port: on one address, at the first free port of a range.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use redoline_proto::transfer::SocketRequest;
use socket2::{Domain, Protocol, Socket, Type};

use super::socket::{self, End, Prepared, SocketError};

/// Connections that may wait to be accepted, beside those of the test.
const SPARE_BACKLOG: u32 = 16;

/// Why the data port is not open.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{address} is not an address of this host")]
    NotOurs { address: IpAddr },
    #[error("no free data port at {address}: {}", reasons(.in_use, .forbidden))]
    NoFreePort { address: IpAddr, in_use: Vec<u16>, forbidden: Vec<u16> },
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
) -> Result<(TcpListener, Prepared), ListenError> {
    let backlog = (num_conn + SPARE_BACKLOG) as i32;
    let (mut in_use, mut forbidden) = (Vec::new(), Vec::new());
    for port in first..=last {
        let address = SocketAddr::new(address, port);
        match listen_on(address, backlog, request)? {
            Port::Open(listener, prepared) => return Ok((listener, prepared)),
            Port::InUse => in_use.push(port),
            Port::Forbidden => forbidden.push(port),
        }
    }
    Err(match first > last {
        true => ListenError::NoPorts { first, last },
        false => ListenError::NoFreePort { address, in_use, forbidden },
    })
}

enum Port {
    Open(TcpListener, Prepared),
    InUse,
    /// Privileged (net.ipv4.ip_unprivileged_port_start), or kept by a security module.
    Forbidden,
}

fn listen_on(
    address: SocketAddr,
    backlog: i32,
    request: &SocketRequest,
) -> Result<Port, ListenError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(SocketError::Open)?;
    let prepared = socket::prepare(&socket, request, End::Receiver)?;
    // A port whose last test's connections are in TIME_WAIT is free.
    let opened = socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&address.into()))
        .and_then(|()| socket.listen(backlog))
        .and_then(|()| socket.set_nonblocking(true));
    match opened {
        Ok(()) => Ok(Port::Open(socket.into(), prepared)),
        Err(cause) => match cause.kind() {
            io::ErrorKind::AddrInUse => Ok(Port::InUse),
            io::ErrorKind::PermissionDenied => Ok(Port::Forbidden),
            io::ErrorKind::AddrNotAvailable => Err(ListenError::NotOurs { address: address.ip() }),
            _ => Err(ListenError::Listen { address, cause }),
        },
    }
}

fn reasons(in_use: &[u16], forbidden: &[u16]) -> String {
    let mut reasons = Vec::new();
    if !in_use.is_empty() {
        reasons.push(format!("in use are {}", list(in_use)));
    }
    if !forbidden.is_empty() {
        reasons.push(format!("not open to this user are {}", list(forbidden)));
    }
    reasons.join("; ")
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
        listen(LOOPBACK, ports, 1, &SocketRequest::default()).map(|(listener, _)| listener)
    }

    #[test]
    fn a_range_in_use_is_named() {
        let taken = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen_at((port, port)).unwrap_err();
        assert_eq!(error.to_string(), format!("no free data port at 127.0.0.1: in use are {port}"));
    }

    #[test]
    fn ports_that_a_user_may_not_open_are_told_apart() {
        let ports = |in_use: &[u16], forbidden: &[u16]| {
            let (in_use, forbidden) = (in_use.to_vec(), forbidden.to_vec());
            ListenError::NoFreePort { address: LOOPBACK, in_use, forbidden }.to_string()
        };
        let start = "no free data port at 127.0.0.1: ";
        assert_eq!(ports(&[], &[80]), format!("{start}not open to this user are 80"));
        assert_eq!(
            ports(&[1024], &[1022, 1023]),
            format!("{start}in use are 1024; not open to this user are 1022, 1023")
        );
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

    #[test]
    fn an_accepted_connection_inherits_what_was_asked_of_its_listener() {
        let request = SocketRequest {
            dscp: Some(10),
            receive_buffer_bytes: Some(50_000),
            ..SocketRequest::default()
        };
        for address in ["127.0.0.1", "::1"] {
            let opened = listen(address.parse().unwrap(), (0, 0), 1, &request);
            if matches!(opened, Err(ListenError::NotOurs { .. } | ListenError::Socket(_))) {
                // A machine without IPv6.
                continue;
            }
            let (listener, _) = opened.unwrap();
            listener.set_nonblocking(false).unwrap();
            let _near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let far = listener.accept().unwrap().0;
            let far = socket2::SockRef::from(&far);
            assert_eq!(far.recv_buffer_size().unwrap(), 100_000);
            assert!(far.tcp_nodelay().unwrap());
            let field = if address.contains(':') { far.tclass_v6() } else { far.tos_v4() };
            assert_eq!(field.unwrap(), 40, "{address}");
        }
    }
}
