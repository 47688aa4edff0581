//! The TCP connection under an SSH session: every address of the host is tried.

use std::net::{SocketAddr, TcpStream as StdTcpStream};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::connect::{Cause, Deadlines, Phase, TcpFailure};

/// Sent data without an acknowledgement for this long means that the node is lost.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence after which the kernel asks whether the node is still there; keeps firewalls' state.
const KEEPALIVE_IDLE_S: u32 = 30;

/// A connected socket, in non-blocking mode, without Nagle's delay.
pub(super) async fn connect(
    host: &str,
    port: u16,
    deadlines: &Deadlines,
) -> Result<(StdTcpStream, SocketAddr), Cause> {
    let mut attempts = Vec::new();
    for address in resolve(host, port, deadlines.resolve).await? {
        match timeout(deadlines.tcp_connect, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let stream = stream.into_std().map_err(Cause::Here)?;
                prepare(&stream)?;
                return Ok((stream, address));
            }
            Ok(Err(error)) => attempts.push((address, TcpFailure::from_error(&error))),
            Err(_) => attempts.push((address, TcpFailure::TimedOut(deadlines.tcp_connect))),
        }
    }
    Err(Cause::Tcp { host: host.to_owned(), attempts })
}

async fn resolve(host: &str, port: u16, deadline: Duration) -> Result<Vec<SocketAddr>, Cause> {
    let failed = |reason: String| Cause::Resolve { host: host.to_owned(), reason };
    let found = timeout(deadline, lookup_host((host, port)))
        .await
        .map_err(|_| Cause::TimedOut { phase: Phase::Resolve, what: "name resolution", deadline })?
        .map_err(|error| failed(error.to_string()))?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() {
        return Err(failed("it has no address".to_owned()));
    }
    Ok(addresses)
}

fn prepare(stream: &StdTcpStream) -> Result<(), Cause> {
    stream.set_nodelay(true).map_err(Cause::Here)?;
    let user_timeout_ms = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &user_timeout_ms)
        .and_then(|()| setsockopt(stream, sockopt::KeepAlive, &true))
        .and_then(|()| setsockopt(stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_S))
        .map_err(|errno| Cause::Here(errno.into()))
}
