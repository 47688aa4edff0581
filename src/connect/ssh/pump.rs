//! Carries bytes between a program's SSH channel and the socket that the rest of the controller has.
//!
//! After every call libssh2 is asked what it waits for, and exactly that is polled. stderr is always
//! drained, or its window would fill and block the program.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ssh2::{BlockDirections, Channel};

use super::link::{Link, round_up};
use crate::connect::process::{EndReporter, Exit, Farewell, StderrTail};

/// Bound of each of the two buffers; the kernel's socket buffers come on top.
const BUFFER_BYTES: usize = 128 * 1024;
/// The largest data packet of an SSH channel here.
const CHUNK_BYTES: usize = 32 * 1024;
/// Until bytes that are queued but cannot be had yet, as while keys are exchanged, are asked for
/// again.
const QUEUED_PAUSE: Duration = Duration::from_millis(5);
/// For a program to end by itself once nobody reads or feeds it any more.
const GRACE: Duration = Duration::from_secs(5);

/// One running program.
pub(super) struct Pump<'a> {
    link: &'a mut Link,
    channel: Channel,
    local: UnixStream,
    stderr: StderrTail,
    reporter: &'a EndReporter,
    to_remote: Vec<u8>,
    to_local: Vec<u8>,
    /// No more bytes come from the controller.
    is_local_read: bool,
    /// The controller takes no more bytes.
    is_local_gone: bool,
    is_eof_sent: bool,
    /// A read has left a packet half sent, and only the same call can send its rest.
    must_read: bool,
    /// When the program is cut off, once nobody wants it.
    give_up_at: Option<Instant>,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        link: &'a mut Link,
        channel: Channel,
        local: UnixStream,
        stderr: StderrTail,
        reporter: &'a EndReporter,
    ) -> Self {
        Self {
            link,
            channel,
            local,
            stderr,
            reporter,
            to_remote: Vec::with_capacity(BUFFER_BYTES),
            to_local: Vec::with_capacity(BUFFER_BYTES + CHUNK_BYTES),
            is_local_read: false,
            is_local_gone: false,
            is_eof_sent: false,
            must_read: false,
            give_up_at: None,
        }
    }

    /// Carries bytes until the program has ended or must be cut off.
    pub(super) fn run(mut self, close_deadline: Duration) -> Exit {
        let exit = match self.carry() {
            Ok(Carried::ProgramEnded) => {
                let exit = self.exit_status(close_deadline);
                self.close_channel(close_deadline);
                exit
            }
            Ok(Carried::CutOff) => {
                self.close_channel(close_deadline);
                Exit::CutOff
            }
            Err(error) => Exit::Lost(error.to_string()),
        };
        // The controller reads end-of-file once the last bytes are through.
        self.local.shutdown(std::net::Shutdown::Both).unwrap_or_default();
        exit
    }

    fn carry(&mut self) -> io::Result<Carried> {
        let mut is_second_look = false;
        loop {
            let mut progress = self.take_from_local()?;
            progress |= self.receive_stdout()?;
            progress |= self.receive_stderr()?;
            progress |= self.give_to_local();
            // Last, because each of these calls takes packets of every kind off the socket: a
            // window that another call has opened, or a re-keying that it has finished, would not
            // be seen before the next packet.
            progress |= self.send_to_remote()?;
            if self.channel.eof() && (self.to_local.is_empty() || self.is_local_gone) {
                return Ok(Carried::ProgramEnded);
            }
            if self.is_over() {
                return Ok(Carried::CutOff);
            }
            let is_queued = self.is_stdout_queued();
            if progress || (is_queued && !is_second_look) {
                is_second_look = !progress;
                continue;
            }
            self.wait(is_queued.then_some(QUEUED_PAUSE));
            is_second_look = false;
        }
    }

    /// True when bytes for the controller were taken off the socket by a call that did not want
    /// them; the socket would not become readable for their sake.
    fn is_stdout_queued(&self) -> bool {
        self.to_local.len() < BUFFER_BYTES && 0 < self.channel.read_window().available
    }

    /// Controller to buffer.
    fn take_from_local(&mut self) -> io::Result<bool> {
        if self.is_local_read || self.to_remote.len() >= BUFFER_BYTES {
            return Ok(false);
        }
        let filled = self.to_remote.len();
        self.to_remote.resize(BUFFER_BYTES, 0);
        let read = self.local.read(&mut self.to_remote[filled..]);
        self.to_remote.truncate(filled + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => self.is_local_read = true,
            Ok(_) => (),
            Err(error) if is_would_block(&error) => return Ok(false),
            Err(_) => {
                self.is_local_read = true;
                self.is_local_gone = true;
            }
        }
        Ok(true)
    }

    /// Buffer to program, then end-of-file when the controller has sent it.
    fn send_to_remote(&mut self) -> io::Result<bool> {
        if !self.to_remote.is_empty() && !self.channel.eof() {
            return match self.channel.write(&self.to_remote) {
                Ok(sent) => {
                    self.to_remote.drain(..sent);
                    Ok(0 < sent)
                }
                Err(error) if is_would_block(&error) => Ok(false),
                Err(error) => Err(error),
            };
        }
        // libssh2 can not resume half an end-of-file packet, so it is sent only when it fits.
        if self.is_local_read && !self.is_eof_sent && self.link.is_writable() {
            match self.channel.send_eof().map_err(io::Error::from) {
                Ok(()) => self.is_eof_sent = true,
                Err(error) if is_would_block(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Program to buffer.
    fn receive_stdout(&mut self) -> io::Result<bool> {
        if self.to_local.len() >= BUFFER_BYTES && !self.must_read {
            return Ok(false);
        }
        let filled = self.to_local.len();
        self.to_local.resize(filled + CHUNK_BYTES, 0);
        let read = self.channel.read(&mut self.to_local[filled..]);
        self.to_local.truncate(filled + read.as_ref().copied().unwrap_or(0));
        self.must_read = self.is_half_sent(&read);
        match read {
            Ok(length) => Ok(0 < length),
            Err(error) if is_would_block(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn receive_stderr(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        match self.channel.stderr().read(&mut chunk) {
            Ok(length) => {
                self.stderr.append(&chunk[..length]);
                Ok(0 < length)
            }
            Err(error) if is_would_block(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Buffer to controller.
    fn give_to_local(&mut self) -> bool {
        if self.is_local_gone {
            self.to_local.clear();
        }
        if self.to_local.is_empty() {
            return false;
        }
        match self.local.write(&self.to_local) {
            Ok(written) => {
                self.to_local.drain(..written);
                0 < written
            }
            Err(error) if is_would_block(&error) => false,
            Err(_) => {
                self.is_local_gone = true;
                true
            }
        }
    }

    /// True when the program is to be cut off now.
    fn is_over(&mut self) -> bool {
        let farewell = self.reporter.farewell();
        if farewell == Some(Farewell::CutOff) || self.link.bell.is_stopped() {
            return true;
        }
        if self.give_up_at.is_none() && (farewell.is_some() || self.is_local_gone) {
            self.give_up_at = Some(Instant::now() + GRACE);
        }
        self.give_up_at.is_some_and(|at| at <= Instant::now())
    }

    fn is_half_sent(&self, read: &io::Result<usize>) -> bool {
        let is_outbound = matches!(
            self.link.session.block_directions(),
            BlockDirections::Outbound | BlockDirections::Both
        );
        is_outbound && read.as_ref().is_err_and(is_would_block)
    }

    /// Waits for the node, the controller, or the bell.
    fn wait(&mut self, at_most: Option<Duration>) {
        let mut tcp = PollFlags::POLLIN | self.link.interest();
        if self.is_local_read && !self.is_eof_sent && self.to_remote.is_empty() {
            tcp |= PollFlags::POLLOUT;
        }
        let mut local = PollFlags::empty();
        local.set(PollFlags::POLLIN, !self.is_local_read && self.to_remote.len() < BUFFER_BYTES);
        local.set(PollFlags::POLLOUT, !self.to_local.is_empty());
        let until_given_up = self.give_up_at.map(|at| at.saturating_duration_since(Instant::now()));
        let left = at_most.into_iter().chain(until_given_up).min();
        let mut fds = vec![
            PollFd::new(self.link.bell.fd(), PollFlags::POLLIN),
            PollFd::new(self.link.tcp.as_fd(), tcp),
        ];
        // A hang-up is reported whether asked for or not, so a socket that is gone is left out.
        if !self.is_local_gone {
            fds.push(PollFd::new(self.local.as_fd(), local));
        }
        // An interrupted wait is a short one.
        poll(&mut fds, left.map_or(PollTimeout::NONE, round_up)).unwrap_or_default();
        let rang = fds[0].any().unwrap_or(false);
        let hung_up = fds
            .get(2)
            .and_then(PollFd::revents)
            .is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR));
        if rang {
            self.link.bell.hush();
        }
        self.link.acknowledge_at_once();
        // What the controller wrote before it went is still read and sent.
        self.is_local_gone |= hung_up && self.is_local_read;
    }

    /// Waits for the channel to close and says how the program ended.
    fn exit_status(&mut self, deadline: Duration) -> Exit {
        let until = Instant::now() + deadline;
        let channel = &mut self.channel;
        if let Err(stop) = self.link.until(until, |_| channel.wait_close()) {
            return Exit::Lost(stop.to_string());
        }
        if let Some(signal) = channel.exit_signal().ok().and_then(|signal| signal.exit_signal) {
            return Exit::Signal(signal);
        }
        channel
            .exit_status()
            .map_or_else(|error| Exit::Lost(error.message().to_owned()), Exit::Status)
    }

    fn close_channel(&mut self, deadline: Duration) {
        let until = Instant::now() + deadline;
        let channel = &mut self.channel;
        // The session goes on or ends whether or not the node takes leave of the channel.
        let _closed = self.link.until(until, |_| channel.close());
    }
}

/// Why carrying came to its end.
enum Carried {
    ProgramEnded,
    CutOff,
}

fn is_would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
