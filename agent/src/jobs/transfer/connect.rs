//! Opens the connections of a test, all at once, and says plainly why one does not stand.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use redoline_proto::transfer::{SendJob, StopCause, Stopped};
use socket2::{Domain, Protocol, Socket, Type};

use super::hello::{ACCEPTED, hello};
use super::socket::{self, End, Prepared, SocketError};
use super::source_port::{Source, SourcePortError};
use super::writer::SEND_TIMEOUT;
use super::{after, stopped};
use crate::chain;
use crate::jobs::cancel::CancelFlag;

/// How late a cancelled job may notice.
const ATTENTION: Duration = Duration::from_millis(50);

/// The connections in the order of their streams; each was taken by the receiver.
#[derive(Debug)]
pub struct Connections {
    pub sockets: Vec<TcpStream>,
    pub prepared: Prepared,
}

pub fn connect(job: &SendJob, cancel: &CancelFlag) -> Result<Connections, Stopped> {
    let target = SocketAddr::new(job.address, job.port);
    let fault = |trouble: Trouble| trouble.stopped(job, target);
    let deadline = after(Instant::now(), job.connect_deadline);
    let mut calls = (0..job.num_conn)
        .map(|stream| Call::start(job, stream as u16, target))
        .collect::<Result<Vec<_>, _>>()
        .map_err(fault)?;
    while calls.iter().any(|call| call.state != State::Stands) {
        if cancel.is_set() {
            return Err(stopped(StopCause::Cancelled, "cancelled while connecting"));
        }
        if Instant::now() >= deadline {
            let silent = calls.iter().find(|call| call.state != State::Stands);
            return Err(fault(silent.map_or(Trouble::NoAnswer, Call::silence)));
        }
        wait(&calls).map_err(|error| fault(Trouble::System(error)))?;
        for call in &mut calls {
            call.go_on().map_err(fault)?;
        }
    }
    let prepared = Prepared { buffer_forced: calls.iter().any(|call| call.prepared.buffer_forced) };
    let sockets = calls
        .into_iter()
        .map(Call::into_socket)
        .collect::<io::Result<_>>()
        .map_err(|error| fault(Trouble::System(error)))?;
    Ok(Connections { sockets, prepared })
}

/// A connection on its way.
struct Call {
    socket: Socket,
    prepared: Prepared,
    state: State,
    hello: [u8; super::hello::HELLO_BYTES],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Connecting,
    /// For the receiver's answer to the hello.
    Waiting,
    Stands,
}

/// Why a connection does not stand.
#[derive(Debug)]
enum Trouble {
    Refused,
    NoAnswer,
    Unreachable(io::Error),
    Forbidden,
    NotOurs,
    SourcePort(SourcePortError),
    ResetBeforeToken,
    TokenNotTaken,
    NoAnswerToToken,
    Stranger,
    Socket(SocketError),
    System(io::Error),
}

impl Call {
    fn start(job: &SendJob, stream: u16, target: SocketAddr) -> Result<Self, Trouble> {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))
            .map_err(|error| Trouble::Socket(SocketError::Open(error)))?;
        let prepared =
            socket::prepare(&socket, &job.socket, End::Sender).map_err(Trouble::Socket)?;
        socket.set_nonblocking(true).map_err(Trouble::System)?;
        let source = Source::of(job, stream);
        source.bind(&socket).map_err(|error| Trouble::source(source, error))?;
        match socket.connect(&target.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
            Err(error) => return Err(Trouble::source(source, error)),
        }
        Ok(Self { socket, prepared, state: State::Connecting, hello: hello(job.token, stream) })
    }

    /// As the stream's thread wants it: it waits, but not for long.
    fn into_socket(self) -> io::Result<TcpStream> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        self.socket.set_read_timeout(Some(SEND_TIMEOUT))?;
        Ok(self.socket.into())
    }

    /// One step further, if the socket is ready for it.
    fn go_on(&mut self) -> Result<(), Trouble> {
        self.state = match self.state {
            State::Connecting => self.introduce()?,
            State::Waiting => self.hear()?,
            State::Stands => State::Stands,
        };
        Ok(())
    }

    fn introduce(&self) -> Result<State, Trouble> {
        if let Some(error) = self.socket.take_error().map_err(Trouble::System)? {
            return Err(Trouble::connecting(error));
        }
        match (&self.socket).write(&self.hello) {
            Ok(bytes) if bytes == self.hello.len() => Ok(State::Waiting),
            Ok(_) => Err(Trouble::System(io::ErrorKind::WriteZero.into())),
            Err(error) if still_waits(&error) => Ok(State::Connecting),
            Err(error) => Err(Trouble::talking(error)),
        }
    }

    fn hear(&self) -> Result<State, Trouble> {
        let mut answer = [0];
        match (&self.socket).read(&mut answer) {
            Ok(0) => Err(Trouble::TokenNotTaken),
            Ok(_) if answer[0] == ACCEPTED => Ok(State::Stands),
            Ok(_) => Err(Trouble::Stranger),
            Err(error) if still_waits(&error) => Ok(State::Waiting),
            Err(error) => Err(Trouble::talking(error)),
        }
    }

    fn silence(&self) -> Trouble {
        match self.state {
            State::Connecting => Trouble::NoAnswer,
            State::Waiting | State::Stands => Trouble::NoAnswerToToken,
        }
    }

    fn readiness(&self) -> PollFlags {
        match self.state {
            State::Connecting => PollFlags::POLLOUT,
            State::Waiting | State::Stands => PollFlags::POLLIN,
        }
    }
}

/// ENOTCONN: the three-way handshake is still under way.
fn still_waits(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected | io::ErrorKind::Interrupted
    )
}

/// Until one of them can go on, but not for long.
fn wait(calls: &[Call]) -> io::Result<()> {
    let open = calls.iter().filter(|call| call.state != State::Stands);
    let mut descriptors: Vec<_> =
        open.map(|call| PollFd::new(call.socket.as_fd(), call.readiness())).collect();
    let timeout = PollTimeout::try_from(ATTENTION).unwrap_or(PollTimeout::ZERO);
    match poll(&mut descriptors, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Trouble {
    fn source(source: Source, error: io::Error) -> Self {
        match source.blame(&error) {
            Some(error) => Self::SourcePort(error),
            None => Self::connecting(error),
        }
    }

    fn connecting(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::NoAnswer,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::ResetBeforeToken,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Self::Unreachable(error)
            }
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            io::ErrorKind::AddrNotAvailable => Self::NotOurs,
            _ => Self::System(error),
        }
    }

    fn talking(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::ResetBeforeToken,
            _ => Self::connecting(error),
        }
    }

    fn stopped(&self, job: &SendJob, target: SocketAddr) -> Stopped {
        let source = source_of(job, target);
        let cause = match self {
            Self::Socket(_) | Self::System(_) => StopCause::System,
            _ => StopCause::Connect,
        };
        let reason = self.reason(job, &source, target);
        stopped(cause, format!("{source} could not connect to {target}: {reason}"))
    }

    /// What happened, and the way out.
    fn reason(&self, job: &SendJob, source: &str, target: SocketAddr) -> String {
        let seconds = job.connect_deadline.as_secs_f64();
        let port = target.port();
        match self {
            Self::Refused => {
                "connection refused — a firewall rejects it or nothing listens".to_owned()
            }
            Self::NoAnswer => format!(
                "no answer within {seconds} s — a firewall drops it or no route leads there and \
                 back; TCP port {port} must be open from {source}"
            ),
            Self::Unreachable(error) => {
                format!("{error} — look at the route to {} on this node", target.ip())
            }
            Self::Forbidden => {
                "not permitted — a firewall of this node itself rejects it".to_owned()
            }
            Self::NotOurs => format!("{source} is not an address of this node"),
            Self::SourcePort(error) => error.to_string(),
            Self::ResetBeforeToken => "connection reset before the token was taken — something on \
                 the way cuts it, or the receiver expects another source address"
                .to_owned(),
            Self::TokenNotTaken => "the connection was closed without an answer — the receiver \
                 did not take the token, or another program listens there"
                .to_owned(),
            Self::NoAnswerToToken => format!(
                "connected, but no answer to the token within {seconds} s — another program \
                 listens there, or something on the way answers for it"
            ),
            Self::Stranger => {
                "the answer is not a receiver's — another program listens there".to_owned()
            }
            Self::Socket(error) => chain(error),
            Self::System(error) => error.to_string(),
        }
    }
}

/// The address that a packet to `target` leaves from; asking sends none.
fn source_of(job: &SendJob, target: SocketAddr) -> String {
    if let Some(source) = job.bind_address {
        return source.to_string();
    }
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let source = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(target)?;
        socket.local_addr()
    });
    source.map_or_else(|_| "this node".to_owned(), |source| source.ip().to_string())
}
