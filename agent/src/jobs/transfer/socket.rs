//! What a test asks of its sockets, and what they say of themselves.

use std::net::TcpStream;
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{SocketRequest, StreamStart};
use socket2::{SockRef, Socket};

use crate::sys::tcp_info;

/// Why a socket is not as the test wants it.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("congestion control `{name}` is not available on this host; available are {available}")]
    UnknownCongestionControl { name: String, available: String },
    #[error(
        "congestion control `{name}` may not be chosen by this user: root may choose it, or add it \
         to net.ipv4.tcp_allowed_congestion_control; allowed here: {allowed}"
    )]
    ForbiddenCongestionControl { name: String, allowed: String },
    #[error("failed to set {option} to {value}")]
    Set {
        option: &'static str,
        value: u64,
        #[source]
        cause: io::Error,
    },
    #[error("failed to set TCP_CONGESTION to `{name}`")]
    CongestionControl {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("failed to open a socket")]
    Open(#[source] io::Error),
}

/// Call before `listen` or `connect`: the window scale is agreed on with the first packet, and an
/// accepted socket inherits from its listener.
///
/// What is not asked for is not touched: setting a buffer ends its auto-tuning (tcp(7)).
pub fn prepare(socket: &Socket, request: &SocketRequest) -> Result<(), SocketError> {
    if let Some(bytes) = request.socket_buffer_bytes {
        set_buffers(socket, bytes)?;
    }
    if let Some(name) = &request.congestion_control {
        set_congestion_control(socket, name)?;
    }
    if let Some(mss) = request.mss_bytes {
        socket.set_tcp_mss(mss).map_err(|cause| SocketError::Set {
            option: "TCP_MAXSEG",
            value: mss.into(),
            cause,
        })?;
    }
    Ok(())
}

/// With CAP_NET_ADMIN past the system's maximum, else up to it; what was granted is read back.
fn set_buffers(socket: &Socket, bytes: u64) -> Result<(), SocketError> {
    let failed = |option| move |cause| SocketError::Set { option, value: bytes, cause };
    let bytes = usize::try_from(bytes.min(i32::MAX as u64 / 2)).unwrap_or(usize::MAX);
    if setsockopt(socket, sockopt::SndBufForce, &bytes).is_err() {
        socket.set_send_buffer_size(bytes).map_err(failed("SO_SNDBUF"))?;
    }
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        socket.set_recv_buffer_size(bytes).map_err(failed("SO_RCVBUF"))?;
    }
    Ok(())
}

fn set_congestion_control(socket: &Socket, name: &str) -> Result<(), SocketError> {
    let Err(cause) = socket.set_tcp_congestion(name.as_bytes()) else { return Ok(()) };
    let name = name.to_owned();
    Err(match cause.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => SocketError::UnknownCongestionControl {
            name,
            available: congestion_controls("tcp_available_congestion_control"),
        },
        Some(Errno::EPERM) => SocketError::ForbiddenCongestionControl {
            name,
            allowed: congestion_controls("tcp_allowed_congestion_control"),
        },
        _ => SocketError::CongestionControl { name, cause },
    })
}

fn congestion_controls(setting: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/ipv4/{setting}"))
        .map(|text| text.split_ascii_whitespace().collect::<Vec<_>>().join(", "))
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// How a connection stands before its first byte.
pub fn describe(stream: u32, socket: &TcpStream) -> io::Result<StreamStart> {
    let buffers = Buffers::of(socket)?;
    Ok(StreamStart {
        stream,
        local: socket.local_addr()?.to_string(),
        remote: socket.peer_addr()?.to_string(),
        congestion_control: congestion_control(socket)?,
        send_buffer_bytes: buffers.send_bytes,
        receive_buffer_bytes: buffers.receive_bytes,
        tcp: tcp_info::read(socket)?,
        buffer_forced: false,
        known_path_mtu_bytes: None,
    })
}

fn congestion_control(socket: &TcpStream) -> io::Result<String> {
    let name = SockRef::from(socket).tcp_congestion()?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// As getsockopt reports them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Buffers {
    pub send_bytes: u64,
    pub receive_bytes: u64,
}

impl Buffers {
    pub fn of(socket: &TcpStream) -> io::Result<Self> {
        let socket = SockRef::from(socket);
        Ok(Self {
            send_bytes: socket.send_buffer_size()? as u64,
            receive_bytes: socket.recv_buffer_size()? as u64,
        })
    }
}

/// What a socket says at its end; unknown where it says nothing any more.
#[derive(Clone, Debug, Default)]
pub struct LastWords {
    pub tcp: TcpInfo,
    pub buffers: Buffers,
}

impl LastWords {
    pub fn of(socket: &TcpStream) -> Self {
        Self {
            tcp: tcp_info::read(socket).unwrap_or_default(),
            buffers: Buffers::of(socket).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Protocol, Type};

    use super::*;

    fn fresh() -> Socket {
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap()
    }

    fn system_default(setting: &str) -> usize {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{setting}")).unwrap();
        text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn a_request_for_nothing_leaves_auto_tuning_alone() {
        let socket = fresh();
        prepare(&socket, &SocketRequest::default()).unwrap();
        assert_eq!(socket.recv_buffer_size().unwrap(), system_default("tcp_rmem"));
        assert_eq!(socket.send_buffer_size().unwrap(), system_default("tcp_wmem"));
    }

    #[test]
    fn a_buffer_that_is_asked_for_is_granted_twice() {
        let socket = fresh();
        let request =
            SocketRequest { socket_buffer_bytes: Some(65_536), ..SocketRequest::default() };
        prepare(&socket, &request).unwrap();
        assert_eq!(socket.recv_buffer_size().unwrap(), 131_072);
        assert_eq!(socket.send_buffer_size().unwrap(), 131_072);
    }

    #[test]
    fn an_unknown_congestion_control_names_the_known_ones() {
        let request = SocketRequest {
            congestion_control: Some("warp".to_owned()),
            ..SocketRequest::default()
        };
        let error = prepare(&fresh(), &request).unwrap_err().to_string();
        let start = "congestion control `warp` is not available on this host; available are ";
        assert!(error.starts_with(start) && error.contains("reno"), "{error}");
    }

    #[test]
    fn a_forbidden_congestion_control_names_the_way_out() {
        let error = SocketError::ForbiddenCongestionControl {
            name: "bbr".to_owned(),
            allowed: "reno, cubic".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "congestion control `bbr` may not be chosen by this user: root may choose it, or add \
             it to net.ipv4.tcp_allowed_congestion_control; allowed here: reno, cubic"
        );
    }

    #[test]
    fn a_segment_size_is_clamped() {
        let socket = fresh();
        let request = SocketRequest { mss_bytes: Some(1000), ..SocketRequest::default() };
        prepare(&socket, &request).unwrap();
    }
}
