//! Takes the connections of a test, and none that does not show its token.
//!
//! All handshakes run at once, so that a stranger who says nothing delays nobody.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use redoline_proto::transfer::{StopCause, Stopped, Token};

use super::hello::{ACCEPTED, HELLO_BYTES, admitted_stream};
use super::stopped;
use crate::jobs::cancel::CancelFlag;

/// For a connection to show its token.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Strangers that may be listened to at once; beyond it, the one that has been silent longest goes.
const STRANGERS_MAX: usize = 64;

/// How late a cancelled job may notice.
const ATTENTION: Duration = Duration::from_millis(50);

/// Who is let in.
#[derive(Clone, Copy, Debug)]
pub struct Invitation {
    pub token: Token,
    pub expected_peer: Option<IpAddr>,
    pub num_conn: u32,
    /// For one connection to show its token.
    pub hello_deadline: Duration,
    /// For all of them to have come.
    pub deadline: Instant,
}

/// All connections of the test, in the order of their streams.
#[derive(Debug)]
pub struct Admitted {
    pub connections: Vec<TcpStream>,
    pub strangers: u32,
}

/// Why the connections did not come together.
#[derive(Debug)]
pub struct NotAdmitted {
    pub stopped: Stopped,
    pub strangers: u32,
}

/// The listener closes with the last connection of the test.
pub fn admit(
    listener: TcpListener,
    invitation: Invitation,
    cancel: &CancelFlag,
) -> Result<Admitted, NotAdmitted> {
    let mut door = Door {
        listener,
        seats: (0..invitation.num_conn).map(|_| None).collect(),
        invitation,
        waiting: Vec::new(),
        strangers: 0,
    };
    let result = door.run(cancel);
    drop(door.listener);
    let strangers = door.strangers + door.waiting.len() as u32;
    let connections: Option<Vec<_>> = door.seats.into_iter().collect();
    match (result, connections) {
        (Ok(()), Some(connections)) => Ok(Admitted { connections, strangers }),
        (Err(stopped), _) => Err(NotAdmitted { stopped, strangers }),
        (Ok(()), None) => unreachable!("the door closes when every seat is taken"),
    }
}

struct Door {
    listener: TcpListener,
    invitation: Invitation,
    /// By stream.
    seats: Vec<Option<TcpStream>>,
    waiting: Vec<Guest>,
    strangers: u32,
}

/// A connection that has not shown its whole hello yet.
struct Guest {
    socket: TcpStream,
    since: Instant,
    hello: [u8; HELLO_BYTES],
    filled: usize,
}

enum Progress {
    Waits,
    Said,
    Left,
}

impl Door {
    fn run(&mut self, cancel: &CancelFlag) -> Result<(), Stopped> {
        while self.seats.iter().any(Option::is_none) {
            if cancel.is_set() {
                return Err(stopped(StopCause::Cancelled, "cancelled before all connections came"));
            }
            let now = Instant::now();
            if now >= self.invitation.deadline {
                return Err(self.incomplete());
            }
            self.wait().map_err(|error| self.broken(&error))?;
            self.accept().map_err(|error| self.broken(&error))?;
            self.listen_to_guests();
            if self.has_lost_a_seat() {
                return Err(self.given_up());
            }
        }
        Ok(())
    }

    /// Until something happens, but not for long.
    fn wait(&self) -> io::Result<()> {
        let mut descriptors = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let guests = self.waiting.iter().map(|guest| guest.socket.as_fd());
        let seated = self.seats.iter().flatten().map(AsFd::as_fd);
        let sockets = guests.chain(seated);
        descriptors.extend(sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)));
        let timeout = PollTimeout::try_from(ATTENTION).unwrap_or(PollTimeout::ZERO);
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        // A bound, so that a flood does not keep the guests from being heard.
        for _ in 0..STRANGERS_MAX {
            match self.listener.accept() {
                Ok((socket, from)) if self.is_expected(from.ip()) => self.let_wait(socket)?,
                Ok(_) => self.strangers += 1,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn is_expected(&self, from: IpAddr) -> bool {
        self.invitation.expected_peer.is_none_or(|peer| peer == from.to_canonical())
    }

    fn let_wait(&mut self, socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        if self.waiting.len() >= STRANGERS_MAX + self.seats.len() {
            self.waiting.remove(0);
            self.strangers += 1;
        }
        let since = Instant::now();
        self.waiting.push(Guest { socket, since, hello: [0; HELLO_BYTES], filled: 0 });
        Ok(())
    }

    fn listen_to_guests(&mut self) {
        for mut guest in std::mem::take(&mut self.waiting) {
            match guest.listen() {
                Progress::Waits if guest.since.elapsed() < self.invitation.hello_deadline => {
                    self.waiting.push(guest);
                }
                Progress::Said => self.seat(guest),
                Progress::Waits | Progress::Left => self.strangers += 1,
            }
        }
    }

    fn seat(&mut self, guest: Guest) {
        let stream = admitted_stream(&guest.hello, self.invitation.token);
        let seat = stream.and_then(|stream| self.seats.get_mut(usize::from(stream)));
        match seat {
            Some(seat @ None) if guest.welcome().is_ok() => {
                *seat = Some(guest.socket);
            }
            _ => self.strangers += 1,
        }
    }

    /// A sender says nothing before all of its connections stand: what can be read is its end.
    fn has_lost_a_seat(&self) -> bool {
        if self.seats.iter().all(Option::is_some) {
            // From here on it may send.
            return false;
        }
        self.seats.iter().flatten().any(|socket| {
            let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        })
    }

    fn given_up(&self) -> Stopped {
        let (came, wanted) = (self.seats.iter().flatten().count(), self.seats.len());
        let text = format!("the sender hung up when {came} of {wanted} connections stood");
        stopped(StopCause::Peer, text)
    }

    fn incomplete(&self) -> Stopped {
        let came = self.seats.iter().flatten().count();
        let wanted = self.seats.len();
        let strangers = match self.strangers {
            0 => String::new(),
            count => {
                format!("; {count} connections without the token or from elsewhere were closed")
            }
        };
        let text = format!("{came} of {wanted} connections came within the deadline{strangers}");
        stopped(StopCause::Deadline, text)
    }

    fn broken(&self, error: &io::Error) -> Stopped {
        stopped(StopCause::System, format!("failed to take connections: {error}"))
    }
}

impl Guest {
    fn listen(&mut self) -> Progress {
        match self.socket.read(&mut self.hello[self.filled..]) {
            Ok(0) => Progress::Left,
            Ok(bytes) => {
                self.filled += bytes;
                if self.filled == HELLO_BYTES { Progress::Said } else { Progress::Waits }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Progress::Waits,
                _ => Progress::Left,
            },
        }
    }

    /// Tells the sender that its stream has a seat.
    fn welcome(&self) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        (&self.socket).write_all(&[ACCEPTED])
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{self, JoinHandle};

    use super::super::hello::hello;
    use super::*;

    const TOKEN: Token = Token([9; 16]);

    type Opened = (std::net::SocketAddr, CancelFlag, JoinHandle<Result<Admitted, NotAdmitted>>);

    /// A door for two connections, which gives up after a minute.
    fn open() -> Opened {
        open_for(Duration::from_secs(30))
    }

    fn open_for(hello_deadline: Duration) -> Opened {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (address, cancel) = (listener.local_addr().unwrap(), CancelFlag::new());
        let invitation = Invitation {
            token: TOKEN,
            expected_peer: None,
            num_conn: 2,
            hello_deadline,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let flag = cancel.clone();
        (address, cancel, thread::spawn(move || admit(listener, invitation, &flag)))
    }

    fn come(address: std::net::SocketAddr, stream: u16) -> TcpStream {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&hello(TOKEN, stream)).unwrap();
        socket
    }

    /// Whether the door took it.
    fn is_welcome(socket: &mut TcpStream) -> bool {
        matches!(socket.read(&mut [0; 2]), Ok(1))
    }

    #[test]
    fn who_says_nothing_is_closed_and_delays_nobody() {
        let (address, _, door) = open_for(Duration::from_secs(2));
        let mut silent = TcpStream::connect(address).unwrap();
        let mut first = come(address, 0);
        assert!(is_welcome(&mut first));
        assert!(!is_welcome(&mut silent));
        assert!(is_welcome(&mut come(address, 1)));
        assert_eq!(door.join().unwrap().unwrap().strangers, 1);
    }

    #[test]
    fn a_flood_of_silent_strangers_does_not_close_the_door() {
        let (address, _, door) = open();
        let flood: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        let (mut first, mut second) = (come(address, 0), come(address, 1));
        assert!(is_welcome(&mut first) && is_welcome(&mut second));
        let admitted = door.join().unwrap().unwrap();
        assert!(admitted.strangers > 0 && admitted.strangers <= 200, "{}", admitted.strangers);
        drop(flood);
    }

    #[test]
    fn each_stream_has_one_seat() {
        let (address, cancel, door) = open();
        let mut first = come(address, 0);
        assert!(is_welcome(&mut first));
        assert!(!is_welcome(&mut come(address, 0)), "taken");
        assert!(!is_welcome(&mut come(address, 2)), "there are two");
        cancel.set();
        let none = door.join().unwrap().unwrap_err();
        assert_eq!((none.stopped.cause, none.strangers), (StopCause::Cancelled, 2));
    }

    #[test]
    fn a_sender_that_hangs_up_is_not_waited_for() {
        let (address, _, door) = open();
        let mut first = come(address, 0);
        assert!(is_welcome(&mut first));
        drop(first);
        let none = door.join().unwrap().unwrap_err();
        assert_eq!(none.stopped.cause, StopCause::Peer);
        assert_eq!(none.stopped.text, "the sender hung up when 1 of 2 connections stood");
    }

    #[test]
    fn a_hello_may_come_in_pieces() {
        let (address, _, door) = open();
        let mut slow = TcpStream::connect(address).unwrap();
        for byte in hello(TOKEN, 1) {
            slow.write_all(&[byte]).unwrap();
        }
        assert!(is_welcome(&mut slow));
        assert!(is_welcome(&mut come(address, 0)));
        // In the order of the streams, not of their coming.
        let admitted = door.join().unwrap().unwrap();
        assert_eq!(admitted.connections[1].peer_addr().unwrap(), slow.local_addr().unwrap());
    }
}
