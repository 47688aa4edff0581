//! An SSH session in non-blocking mode, with waits that end: at a deadline, or when told to stop.

use std::fmt;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use socket2::SockRef;
use ssh2::{BlockDirections, ErrorCode, Session};

use crate::connect::process::WakeUp;

/// libssh2's code for "would block" (`LIBSSH2_ERROR_EAGAIN`).
const WOULD_BLOCK: ErrorCode = ErrorCode::Session(libssh2_sys::LIBSSH2_ERROR_EAGAIN);

/// A session, its socket, and the bell that the rest of the program rings for it.
///
/// It is moved into one thread and never shared: libssh2 has one lock for a whole session.
pub(super) struct Link {
    pub session: Session,
    /// A second handle to the session's socket, for polling and for shutting it down.
    pub tcp: std::net::TcpStream,
    pub bell: Arc<Bell>,
}

/// Wakes the thread of a session out of its waiting.
#[derive(Debug)]
pub(super) struct Bell {
    event: EventFd,
    /// Set once nobody wants the session any more.
    stopped: AtomicBool,
}

/// Why an operation on a link did not come to its end.
#[derive(Debug)]
pub(super) enum Stop {
    Failed(ssh2::Error),
    Deadline,
    /// The other side of this program wants the session to end.
    Told,
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => formatter.write_str(error.message()),
            Self::Deadline => formatter.write_str("no answer in time"),
            Self::Told => formatter.write_str("the session was given up"),
        }
    }
}

impl Bell {
    pub(super) fn new() -> nix::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { event, stopped: AtomicBool::new(false) })
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake_up();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Forgets the rings so far.
    pub(super) fn hush(&self) {
        // Nothing to read means that nobody rang.
        self.event.read().unwrap_or_default();
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl WakeUp for Bell {
    fn wake_up(&self) {
        // The only way to fail is a counter that is full, and then the thread is awake anyway.
        self.event.write(1).unwrap_or_default();
    }
}

impl Link {
    /// Repeats an operation of the session until it is through.
    pub(super) fn until<T>(
        &mut self,
        deadline: Instant,
        mut operation: impl FnMut(&mut Session) -> Result<T, ssh2::Error>,
    ) -> Result<T, Stop> {
        loop {
            match operation(&mut self.session) {
                Err(error) if error.code() == WOULD_BLOCK => self.wait(deadline)?,
                Err(error) => return Err(Stop::Failed(error)),
                Ok(value) => return Ok(value),
            }
        }
    }

    /// Waits until the socket allows what the session needs next.
    fn wait(&self, deadline: Instant) -> Result<(), Stop> {
        if self.bell.is_stopped() {
            return Err(Stop::Told);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Stop::Deadline);
        }
        let mut fds = [
            PollFd::new(self.tcp.as_fd(), self.interest()),
            PollFd::new(self.bell.fd(), PollFlags::POLLIN),
        ];
        // An interrupted wait is a short one.
        poll(&mut fds, round_up(left)).unwrap_or_default();
        if fds[1].any().unwrap_or(false) {
            self.bell.hush();
        }
        self.acknowledge_at_once();
        Ok(())
    }

    /// Lets the kernel acknowledge what comes next without its usual 40 ms of waiting.
    ///
    /// sshd leaves Nagle's delay on for a program without a terminal, so the second of two small
    /// packets would wait for that acknowledgement. The kernel forgets the setting soon.
    pub(super) fn acknowledge_at_once(&self) {
        // Without it everything works, only later.
        SockRef::from(&self.tcp).set_tcp_quickack(true).unwrap_or_default();
    }

    /// What the session waits for on its socket; always input, in which a re-keying may start.
    pub(super) fn interest(&self) -> PollFlags {
        match self.session.block_directions() {
            BlockDirections::None | BlockDirections::Inbound => PollFlags::POLLIN,
            BlockDirections::Outbound => PollFlags::POLLOUT,
            BlockDirections::Both => PollFlags::POLLIN | PollFlags::POLLOUT,
        }
    }

    /// True when a small packet will go out whole, without a second call for its rest.
    pub(super) fn is_writable(&self) -> bool {
        let mut fds = [PollFd::new(self.tcp.as_fd(), PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::ZERO).unwrap_or(0) > 0
    }
}

/// Poll counts milliseconds; rounding down would make it spin through the last one.
pub(super) fn round_up(left: Duration) -> PollTimeout {
    let left_ms = left.as_millis().saturating_add(1);
    PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("tcp", &self.tcp.as_raw_fd()).finish_non_exhaustive()
    }
}
