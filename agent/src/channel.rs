//! The process's standard streams as one private channel that no stray output can reach.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket;
use nix::unistd;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sys::readiness;

/// What standard input and output were.
#[derive(Debug)]
pub struct Streams {
    input: OwnedFd,
    output: OwnedFd,
}

impl Streams {
    /// Takes them away: from now on, standard input is empty and standard output is where standard
    /// error goes, so that a stray `println` cannot end up between two HTTP/2 frames.
    pub fn take() -> io::Result<Self> {
        let streams = Self {
            input: io::stdin().as_fd().try_clone_to_owned()?,
            output: io::stdout().as_fd().try_clone_to_owned()?,
        };
        unistd::dup2_stdin(File::open("/dev/null")?)?;
        unistd::dup2_stdout(io::stderr())?;
        Ok(streams)
    }

    /// Before any other byte: whatever came before it was a login shell's.
    pub fn write_line(&self, line: &str) -> io::Result<()> {
        File::from(self.output.try_clone()?).write_all(format!("{line}\n").as_bytes())
    }

    /// Needs a tokio runtime; both must be pipes, sockets or terminals.
    pub fn into_channel(self) -> io::Result<Channel> {
        Ok(Channel { input: ready_fd(self.input)?, output: ready_fd(self.output)? })
    }
}

fn ready_fd(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = OFlag::from_bits_truncate(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    fcntl(&descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    readiness::register(descriptor)
}

/// A duplex stream over two descriptors, which may be one and the same socket.
#[derive(Debug)]
pub struct Channel {
    input: AsyncFd<OwnedFd>,
    output: AsyncFd<OwnedFd>,
}

impl AsyncRead for Channel {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.input.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            match guard.try_io(|input| Ok(unistd::read(input, unfilled)?)) {
                Ok(Ok(bytes)) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.output.poll_write_ready(context))?;
            match guard.try_io(|output| Ok(unistd::write(output, bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        use std::os::fd::AsRawFd;
        // A pipe has no half to shut down; it ends when the process does.
        let _ = socket::shutdown(self.output.get_ref().as_raw_fd(), socket::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
