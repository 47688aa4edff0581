//! What a test asks of its sockets, and what they say of themselves.

use std::net::TcpStream;
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{SocketRequest, StreamStart};
use redoline_proto::units::Bytes;
use socket2::{Domain, SockRef, Socket};

use crate::sys::{socket_options, tcp_info};

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
    #[error("there is no interface `{name}` on this node; there are {present}")]
    UnknownDevice { name: String, present: String },
    #[error(
        "interface `{name}` may not be chosen by this user: before Linux 5.7 only root may \
         (CAP_NET_RAW); log in as root, or bind to the interface's address instead"
    )]
    ForbiddenDevice { name: String },
    #[error("failed to bind a socket to interface `{name}`")]
    Device {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("failed to open a socket")]
    Open(#[source] io::Error),
}

/// Which end of a test a socket is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Sender,
    Receiver,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Prepared {
    /// A buffer was granted beyond the system's maximum.
    pub buffer_forced: bool,
}

/// Call before `listen` or `connect`: the window scale is agreed on with the first packet, and an
/// accepted socket inherits from its listener.
///
/// What is not asked for is not touched: setting a buffer ends its auto-tuning (tcp(7)).
pub fn prepare(
    socket: &Socket,
    request: &SocketRequest,
    end: End,
) -> Result<Prepared, SocketError> {
    let buffer_forced = set_buffers(socket, request, end)?;
    if let Some(name) = &request.congestion_control {
        set_congestion_control(socket, name)?;
    }
    if let Some(mss) = request.mss_bytes {
        socket.set_tcp_mss(mss).map_err(set_error("TCP_MAXSEG", mss.into()))?;
    }
    if let Some(dscp) = request.dscp {
        set_dscp(socket, dscp)?;
    }
    // As Oracle Net does (TCP.NODELAY): the end of a message and an answer leave at once.
    socket.set_tcp_nodelay(true).map_err(set_error("TCP_NODELAY", 1))?;
    if end == End::Sender {
        if let Some(name) = &request.device {
            bind_device(socket, name)?;
        }
        if let Some(rate) = request.pacing_bytes_per_second {
            // To the kernel, 0 is no limit at all.
            let rate = (rate as u64).max(1);
            socket_options::set_max_pacing_rate(socket, rate)
                .map_err(set_error("SO_MAX_PACING_RATE", rate))?;
        }
    }
    Ok(Prepared { buffer_forced })
}

fn set_error(option: &'static str, value: u64) -> impl FnOnce(io::Error) -> SocketError {
    move |cause| SocketError::Set { option, value, cause }
}

/// Each end's larger buffer may have a size of its own.
fn set_buffers(socket: &Socket, request: &SocketRequest, end: End) -> Result<bool, SocketError> {
    let both = request.socket_buffer_bytes.map(Bytes);
    let (send, receive) = match end {
        End::Sender => (request.send_buffer(), both),
        End::Receiver => (both, request.receive_buffer()),
    };
    let mut forced = false;
    if let Some(buffer) = send {
        forced |= set_buffer(
            buffer,
            |bytes| socket.set_send_buffer_size(bytes),
            |bytes| setsockopt(socket, sockopt::SndBufForce, &bytes),
            || socket.send_buffer_size(),
        )
        .map_err(set_error("SO_SNDBUF", buffer.0))?;
    }
    if let Some(buffer) = receive {
        forced |= set_buffer(
            buffer,
            |bytes| socket.set_recv_buffer_size(bytes),
            |bytes| setsockopt(socket, sockopt::RcvBufForce, &bytes),
            || socket.recv_buffer_size(),
        )
        .map_err(set_error("SO_RCVBUF", buffer.0))?;
    }
    Ok(forced)
}

/// Up to the system's maximum first; where that is not enough, with CAP_NET_ADMIN past it. True
/// when the second gave more than the first.
fn set_buffer(
    buffer: Bytes,
    set: impl Fn(usize) -> io::Result<()>,
    force: impl Fn(usize) -> nix::Result<()>,
    granted: impl Fn() -> io::Result<usize>,
) -> io::Result<bool> {
    let bytes = usize::try_from(buffer.0.min(i32::MAX as u64 / 2)).unwrap_or(usize::MAX);
    set(bytes)?;
    let at_most = granted()?;
    // Half of what is granted is for data (socket(7)).
    if at_most / 2 >= bytes || force(bytes).is_err() {
        return Ok(false);
    }
    Ok(granted()? > at_most)
}

/// The field above the two bits of ECN, which TCP keeps to itself.
fn set_dscp(socket: &Socket, dscp: u32) -> Result<(), SocketError> {
    let field = dscp << 2;
    let domain = socket.domain().map_err(SocketError::Open)?;
    if domain == Domain::IPV6 {
        socket.set_tclass_v6(field).map_err(set_error("IPV6_TCLASS", field.into()))
    } else {
        socket.set_tos_v4(field).map_err(set_error("IP_TOS", field.into()))
    }
}

fn bind_device(socket: &Socket, name: &str) -> Result<(), SocketError> {
    let Err(cause) = socket.bind_device(Some(name.as_bytes())) else { return Ok(()) };
    let name = name.to_owned();
    Err(match cause.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENODEV) => SocketError::UnknownDevice { name, present: devices() },
        Some(Errno::EPERM | Errno::EACCES) => SocketError::ForbiddenDevice { name },
        _ => SocketError::Device { name, cause },
    })
}

fn devices() -> String {
    let names = nix::net::if_::if_nameindex();
    let Ok(names) = names else { return "unknown ones".to_owned() };
    let names: Vec<_> =
        names.iter().map(|device| device.name().to_string_lossy().into_owned()).collect();
    names.join(", ")
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
pub fn describe(stream: u32, socket: &TcpStream, prepared: Prepared) -> io::Result<StreamStart> {
    let buffers = Buffers::of(socket)?;
    let remote = socket.peer_addr()?;
    Ok(StreamStart {
        stream,
        local: socket.local_addr()?.to_string(),
        remote: remote.to_string(),
        congestion_control: congestion_control(socket)?,
        send_buffer_bytes: buffers.send_bytes,
        receive_buffer_bytes: buffers.receive_bytes,
        tcp: tcp_info::read(socket)?,
        buffer_forced: prepared.buffer_forced,
        known_path_mtu_bytes: socket_options::path_mtu_bytes(socket, remote.is_ipv6()).ok(),
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
    use socket2::{Protocol, Type};

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
        prepare(&socket, &SocketRequest::default(), End::Sender).unwrap();
        assert_eq!(socket.recv_buffer_size().unwrap(), system_default("tcp_rmem"));
        assert_eq!(socket.send_buffer_size().unwrap(), system_default("tcp_wmem"));
    }

    #[test]
    fn a_buffer_that_is_asked_for_is_granted_twice() {
        let socket = fresh();
        let request =
            SocketRequest { socket_buffer_bytes: Some(65_536), ..SocketRequest::default() };
        prepare(&socket, &request, End::Sender).unwrap();
        assert_eq!(socket.recv_buffer_size().unwrap(), 131_072);
        assert_eq!(socket.send_buffer_size().unwrap(), 131_072);
    }

    #[test]
    fn an_unknown_congestion_control_names_the_known_ones() {
        let request = SocketRequest {
            congestion_control: Some("warp".to_owned()),
            ..SocketRequest::default()
        };
        let error = prepare(&fresh(), &request, End::Sender).unwrap_err().to_string();
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
        prepare(&socket, &request, End::Sender).unwrap();
        assert_eq!(socket.tcp_mss().unwrap(), 1000);
    }

    #[test]
    fn each_end_has_a_large_buffer_of_its_own() {
        let request = SocketRequest {
            socket_buffer_bytes: Some(50_000),
            send_buffer_bytes: Some(60_000),
            receive_buffer_bytes: Some(70_000),
            ..SocketRequest::default()
        };
        for (end, expected) in
            [(End::Sender, (120_000, 100_000)), (End::Receiver, (100_000, 140_000))]
        {
            let socket = fresh();
            let prepared = prepare(&socket, &request, end).unwrap();
            let granted = (socket.send_buffer_size().unwrap(), socket.recv_buffer_size().unwrap());
            assert_eq!((granted, prepared.buffer_forced), (expected, false), "{end:?}");
        }
    }

    /// A socket whose maximum is 1000 bytes, forced or not.
    fn limited(wanted: u64, may_force: bool) -> (usize, bool) {
        let granted = std::cell::Cell::new(0);
        let forced = set_buffer(
            Bytes(wanted),
            |bytes| {
                granted.set(2 * bytes.min(1000));
                Ok(())
            },
            |bytes| {
                if !may_force {
                    return Err(Errno::EPERM);
                }
                granted.set(2 * bytes);
                Ok(())
            },
            || Ok(granted.get()),
        )
        .unwrap();
        (granted.get(), forced)
    }

    #[test]
    fn only_what_exceeds_the_maximum_is_forced() {
        assert_eq!(limited(1000, true), (2000, false));
        assert_eq!(limited(1001, true), (2002, true));
        assert_eq!(limited(1001, false), (2000, false));
    }

    #[test]
    fn dscp_is_above_the_bits_of_ecn_at_both_families() {
        let request = SocketRequest { dscp: Some(46), ..SocketRequest::default() };
        let socket = fresh();
        prepare(&socket, &request, End::Sender).unwrap();
        assert_eq!(socket.tos_v4().unwrap(), 0xb8);
        let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)) else {
            return;
        };
        prepare(&socket, &request, End::Receiver).unwrap();
        assert_eq!(socket.tclass_v6().unwrap(), 0xb8);
    }

    #[test]
    fn an_interface_that_is_not_there_names_those_that_are() {
        let request = SocketRequest { device: Some("nope0".to_owned()), ..Default::default() };
        let error = prepare(&fresh(), &request, End::Sender).unwrap_err().to_string();
        let start = "there is no interface `nope0` on this node; there are ";
        assert!(error.starts_with(start) && error.contains("lo"), "{error}");
        // It is the sender's.
        prepare(&fresh(), &request, End::Receiver).unwrap();
    }
}
