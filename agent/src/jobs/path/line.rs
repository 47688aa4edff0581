//! What a probe needs of a way to its peer, whichever protocol it goes by.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::datagram::{Answer, Probe};
use super::notice::Notice;

/// Sends probes and hears of them; never waits except in `wait`.
pub trait Line {
    /// Sends `probe` in an IP packet of so many bytes that nobody may cut.
    fn send(&mut self, probe: Probe, packet_bytes: u32) -> Sent;

    /// Until there may be something to hear, at most for `time`.
    fn wait(&self, time: Duration) -> io::Result<()>;

    /// What came since the last time.
    fn hear(&mut self) -> Vec<Heard>;
}

/// What became of a packet before it left.
#[derive(Debug)]
pub enum Sent {
    Gone,
    /// The interface's MTU forbids it.
    TooBig,
    /// There was no room for it now.
    NoRoom,
    Failed(io::Error),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Answer { answer: Answer, at: Instant },
    Notice(Notice),
}

impl Sent {
    pub fn from_result(result: io::Result<usize>) -> Self {
        let Err(error) = result else { return Self::Gone };
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => Self::TooBig,
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Self::NoRoom,
            // An answer to an earlier packet, which the error queue has in full.
            Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::EPROTO) => Self::NoRoom,
            _ => Self::Failed(error),
        }
    }
}

/// Waits until one of them can be read or has an error, at most for `time`.
pub fn wait_for(descriptors: &[BorrowedFd<'_>], time: Duration) -> io::Result<()> {
    let mut polled: Vec<_> =
        descriptors.iter().map(|one| PollFd::new(*one, PollFlags::POLLIN)).collect();
    // Whole milliseconds, upwards: else the last of them is spent spinning.
    let milliseconds = u16::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
    match poll(&mut polled, PollTimeout::from(milliseconds)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
