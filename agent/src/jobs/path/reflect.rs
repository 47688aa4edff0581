//! The receiver's side: answers the datagrams of one token, and nothing else.
//!
//! It is bound to one address, belongs to the first peer that shows the token, is never the larger
//! end of an exchange with somebody who was not heard from at that address, and has an end.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use redoline_proto::path::{PROBES_MAX, ReflectEnd, ReflectEvent, ReflectJob};
use redoline_proto::transfer::{StopCause, Stopped};
use tokio::sync::mpsc;

use super::datagram::{Answer, Ask, Probe, Say, overhead_bytes, smallest_bytes};
use super::flow::{self, Buffer, Flow};
use super::line::{Line, Sent, wait_for};
use super::way::Way;
use super::{ATTENTION, after};
use crate::jobs::JobControl;

/// Twice what a probe may ask for.
const ANSWERS_MAX: u64 = 2 * PROBES_MAX as u64;
/// A search takes some dozens, each up to eight times.
const LARGE_ANSWERS_MAX: u32 = 1000;
/// Twice as fast as anybody probes.
const ANSWERS_PER_SECOND: u32 = 2000;
/// After so many strangers at once, a rest: a flood must not cost a processor.
const STRANGERS_AT_ONCE: u32 = 64;
const REST: Duration = Duration::from_millis(10);

/// Tells the port first and the end last. Ends by `Finish` as it should; by cancellation or its
/// deadline with the reason.
pub fn reflect(job: &ReflectJob, control: &JobControl, events: mpsc::Sender<ReflectEvent>) {
    let end = match open(job) {
        Ok((socket, port)) => {
            // Nobody listens any more: then the job is cancelled, too.
            let _ = events.blocking_send(ReflectEvent::Ready { port });
            Reflector::new(job, socket).run(control)
        }
        Err(stopped) => ReflectEnd { stopped: Some(stopped), ..ReflectEnd::default() },
    };
    let _ = events.blocking_send(ReflectEvent::End(end));
}

/// The first free port of the range.
fn open(job: &ReflectJob) -> Result<(UdpSocket, u16), Stopped> {
    let (first, last) = job.ports;
    let address = job.bind_address;
    let failed = |text| Stopped { cause: StopCause::Connect, text };
    let mut last_error = None;
    for port in first..=last {
        match flow::bind(SocketAddr::new(address, port)).and_then(with_port) {
            Ok(opened) => return Ok(opened),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(failed(format!("{address} is not an address of this host")));
            }
            Err(error) => last_error = Some(error),
        }
    }
    Err(failed(match last_error {
        Some(error) => format!("no free UDP port at {address} in {first} to {last}: {error}"),
        None => format!("the range of data ports {first} to {last} is empty"),
    }))
}

fn with_port(socket: UdpSocket) -> io::Result<(UdpSocket, u16)> {
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

struct Reflector<'a> {
    job: &'a ReflectJob,
    door: Door,
    ticket: u64,
    end: ReflectEnd,
    large: u32,
    second: Instant,
    in_second: u32,
    /// Of the interface towards the peer.
    mtu_bytes: Option<u32>,
}

/// Before and after the first datagram with the token.
enum Door {
    Open(UdpSocket, Buffer),
    /// Boxed, since it holds what fills packets.
    Taken(Box<Flow>),
    Shut,
}

impl<'a> Reflector<'a> {
    fn new(job: &'a ReflectJob, socket: UdpSocket) -> Self {
        Self {
            job,
            door: Door::Open(socket, Buffer::default()),
            ticket: rand::random(),
            end: ReflectEnd::default(),
            large: 0,
            second: Instant::now(),
            in_second: 0,
            mtu_bytes: None,
        }
    }

    fn run(mut self, control: &JobControl) -> ReflectEnd {
        let deadline = after(Instant::now(), self.job.deadline);
        self.end.stopped = loop {
            if control.finish.is_set() {
                break None;
            }
            let stopped = |cause, text: &str| Some(Stopped { cause, text: text.to_owned() });
            if control.cancel.is_set() {
                break stopped(StopCause::Cancelled, "cancelled");
            }
            if Instant::now() >= deadline {
                break stopped(StopCause::Deadline, "nobody ended the reflector in its time");
            }
            if self.end.answered >= ANSWERS_MAX {
                let text = format!("{ANSWERS_MAX} answers were given, which is the most");
                break stopped(StopCause::Limit, &text);
            }
            if let Err(error) = self.turn(control) {
                break stopped(StopCause::System, &format!("the UDP port failed: {error}"));
            }
        };
        self.end
    }

    fn turn(&mut self, control: &JobControl) -> io::Result<()> {
        match &self.door {
            Door::Open(socket, _) => wait_for(&[socket.as_fd()], ATTENTION)?,
            Door::Taken(flow) => flow.wait(ATTENTION)?,
            Door::Shut => return Err(io::Error::from(io::ErrorKind::NotConnected)),
        }
        let strangers = self.end.strangers;
        let arrived = self.arrived();
        for (probe, from, packet_bytes) in arrived {
            self.admit(from)?;
            match &self.door {
                Door::Taken(flow) if flow.peer() == from => self.answer(probe, packet_bytes),
                _ => self.end.strangers = self.end.strangers.saturating_add(1),
            }
        }
        if self.end.strangers - strangers >= STRANGERS_AT_ONCE {
            control.cancel.wait_timeout(REST);
        }
        Ok(())
    }

    /// The probes that came; everything else is a stranger's.
    fn arrived(&mut self) -> Vec<(Probe, SocketAddr, u32)> {
        let (job, strangers) = (self.job, &mut self.end.strangers);
        let mut probes = Vec::new();
        let mut each = |bytes: &[u8], from: SocketAddr| {
            let known = is_expected(job.expected_peer, from);
            match Probe::parse(bytes, job.token).filter(|_| known) {
                Some(probe) => {
                    let packet_bytes = overhead_bytes(from.ip()) + bytes.len() as u32;
                    probes.push((probe, from, packet_bytes));
                }
                None => *strangers = strangers.saturating_add(1),
            }
        };
        match &mut self.door {
            Door::Open(socket, buffer) => buffer.receive(socket, &mut each),
            Door::Taken(flow) => {
                // Else what a router says of an answer would show up as an error for ever.
                let _ = flow.notices();
                flow.receive(each);
            }
            Door::Shut => {}
        }
        probes
    }

    /// The first that shows the token is the one peer.
    fn admit(&mut self, from: SocketAddr) -> io::Result<()> {
        match std::mem::replace(&mut self.door, Door::Shut) {
            Door::Open(socket, _) => {
                let way = Way::look_up(Some(self.job.bind_address), from.ip());
                self.mtu_bytes = way.ok().and_then(|way| way.interface_mtu_bytes);
                self.door = Door::Taken(Box::new(Flow::new(socket, from, self.job.token)?));
            }
            taken => self.door = taken,
        }
        Ok(())
    }

    fn answer(&mut self, probe: Probe, arrived_bytes: u32) {
        let Probe { number, ask } = probe;
        let Door::Taken(flow) = &self.door else { return };
        let small_bytes = smallest_bytes(flow.peer().ip());
        let header = |say| Answer { number, say }.header(self.job.token);
        let (say, packet_bytes) = match ask {
            Ask::Echo => {
                (Say::Arrived { packet_bytes: arrived_bytes, ticket: self.ticket }, small_bytes)
            }
            Ask::Large { ticket, .. } if ticket != self.ticket => {
                self.end.strangers = self.end.strangers.saturating_add(1);
                return;
            }
            Ask::Large { packet_bytes, .. } => {
                if self.large >= LARGE_ANSWERS_MAX {
                    return;
                }
                self.large += 1;
                (Say::Large { packet_bytes }, packet_bytes.max(small_bytes))
            }
        };
        if !has_room(&mut self.second, &mut self.in_second) {
            return;
        }
        let sent = match flow.send_header(&header(say), packet_bytes) {
            Sent::TooBig => {
                let mtu_bytes = self.mtu_bytes.unwrap_or(0);
                flow.send_header(&header(Say::TooLarge { mtu_bytes }), small_bytes)
            }
            sent => sent,
        };
        // One that does not leave is missed by the peer, as one that is lost.
        self.end.answered += u64::from(matches!(sent, Sent::Gone));
    }
}

fn is_expected(expected: Option<IpAddr>, from: SocketAddr) -> bool {
    expected.is_none_or(|peer| peer.to_canonical() == from.ip().to_canonical())
}

/// So many answers in each second.
fn has_room(second: &mut Instant, in_second: &mut u32) -> bool {
    if second.elapsed() >= Duration::from_secs(1) {
        (*second, *in_second) = (Instant::now(), 0);
    }
    *in_second += 1;
    *in_second <= ANSWERS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use std::thread::{self, JoinHandle};

    use redoline_proto::transfer::{JobId, Token};

    use super::*;

    const TOKEN: Token = Token([0xa5; 16]);
    const LONG: Duration = Duration::from_secs(30);

    fn job() -> ReflectJob {
        ReflectJob {
            job: JobId(1),
            token: TOKEN,
            bind_address: "127.0.0.1".parse().unwrap(),
            ports: (0, 0),
            expected_peer: None,
            deadline: LONG,
        }
    }

    /// A reflector on a thread, its port, and how it is ended.
    struct Reflecting {
        port: u16,
        control: JobControl,
        events: mpsc::Receiver<ReflectEvent>,
        thread: JoinHandle<()>,
    }

    fn start(job: ReflectJob) -> Reflecting {
        let (sender, mut events) = mpsc::channel(4);
        let control = JobControl::default();
        let reins = control.clone();
        let thread = thread::spawn(move || reflect(&job, &reins, sender));
        let Some(ReflectEvent::Ready { port }) = events.blocking_recv() else { panic!("no port") };
        Reflecting { port, control, events, thread }
    }

    impl Reflecting {
        fn end(mut self) -> ReflectEnd {
            let Some(ReflectEvent::End(end)) = self.events.blocking_recv() else {
                panic!("no end")
            };
            self.thread.join().unwrap();
            end
        }

        fn finish(self) -> ReflectEnd {
            self.control.finish.set();
            self.end()
        }

        fn client(&self) -> UdpSocket {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.connect(("127.0.0.1", self.port)).unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            client
        }
    }

    fn ask(client: &UdpSocket, ask: Ask, number: u32) {
        client.send(&Probe { number, ask }.header(TOKEN)).unwrap();
    }

    fn answer(client: &UdpSocket) -> (Answer, usize) {
        let mut buffer = [0; 65_535];
        let length = client.recv(&mut buffer).unwrap();
        (Answer::parse(&buffer[..length], TOKEN).unwrap(), length)
    }

    fn ticket(client: &UdpSocket) -> u64 {
        ask(client, Ask::Echo, 0);
        match answer(client).0.say {
            Say::Arrived { ticket, .. } => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_probe_is_answered_with_what_arrived_and_never_with_more() {
        let reflecting = start(job());
        let client = reflecting.client();
        let mut large = Probe { number: 5, ask: Ask::Echo }.header(TOKEN).to_vec();
        large.resize(1472, 0);
        client.send(&large).unwrap();
        let (answer, length) = answer(&client);
        assert_eq!((answer.number, length), (5, 40));
        assert!(matches!(answer.say, Say::Arrived { packet_bytes: 1500, .. }));
        let end = reflecting.finish();
        assert_eq!(end, ReflectEnd { answered: 1, strangers: 0, stopped: None });
    }

    #[test]
    fn a_large_answer_needs_the_ticket_of_a_small_one() {
        let reflecting = start(job());
        let client = reflecting.client();
        let ticket = ticket(&client);
        ask(&client, Ask::Large { packet_bytes: 9000, ticket: ticket ^ 1 }, 1);
        ask(&client, Ask::Large { packet_bytes: 1500, ticket }, 2);
        let (first, length) = answer(&client);
        assert_eq!((first.number, length), (2, 1472));
        ask(&client, Ask::Large { packet_bytes: 70_000, ticket }, 3);
        let too_large = answer(&client).0;
        assert_eq!((too_large.number, too_large.say), (3, Say::TooLarge { mtu_bytes: 65_535 }));
        let end = reflecting.finish();
        assert_eq!((end.answered, end.strangers), (3, 1));
    }

    #[test]
    fn strangers_are_counted_and_hear_nothing() {
        let reflecting = start(job());
        let (client, stranger) = (reflecting.client(), reflecting.client());
        stranger.send(b"").unwrap();
        stranger.send(&Probe { number: 1, ask: Ask::Echo }.header(Token([1; 16]))).unwrap();
        stranger.send(&[0; 1400]).unwrap();
        let _ = ticket(&client);
        // Shows the token, but is not the one who showed it first.
        ask(&stranger, Ask::Echo, 2);
        let _ = ticket(&client);
        let end = reflecting.finish();
        assert_eq!((end.answered, end.strangers), (2, 4));
        stranger.set_nonblocking(true).unwrap();
        // A closed port would be no answer either.
        assert!(stranger.recv(&mut [0; 64]).is_err());
    }

    #[test]
    fn a_peer_at_another_address_than_expected_is_a_stranger() {
        let expected_peer = Some("127.0.0.2".parse().unwrap());
        let reflecting = start(ReflectJob { expected_peer, ..job() });
        let port = reflecting.port;
        let wrong = reflecting.client();
        ask(&wrong, Ask::Echo, 0);
        let right = UdpSocket::bind("127.0.0.2:0").unwrap();
        right.connect(("127.0.0.1", port)).unwrap();
        right.set_read_timeout(Some(LONG)).unwrap();
        let _ = ticket(&right);
        let end = reflecting.finish();
        assert_eq!((end.answered, end.strangers), (1, 1));
    }

    #[test]
    fn large_answers_have_an_end() {
        let reflecting = start(job());
        let client = reflecting.client();
        let ticket = ticket(&client);
        for number in 0..LARGE_ANSWERS_MAX + 5 {
            ask(&client, Ask::Large { packet_bytes: 100, ticket }, number);
            if number < LARGE_ANSWERS_MAX {
                assert_eq!(answer(&client).0.number, number);
            }
        }
        ask(&client, Ask::Echo, 7);
        assert!(matches!(answer(&client).0.say, Say::Arrived { .. }));
        assert_eq!(reflecting.finish().answered, u64::from(LARGE_ANSWERS_MAX) + 2);
    }

    #[test]
    fn it_ends_when_cancelled_and_at_its_deadline() {
        let reflecting = start(job());
        reflecting.control.cancel();
        assert_eq!(reflecting.end().stopped.unwrap().cause, StopCause::Cancelled);
        let reflecting = start(ReflectJob { deadline: Duration::from_millis(1), ..job() });
        assert_eq!(reflecting.end().stopped.unwrap().cause, StopCause::Deadline);
    }

    #[test]
    fn a_port_that_is_taken_is_passed_over_or_said_to_be() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let stopped = open(&ReflectJob { ports: (port, port), ..job() }).unwrap_err();
        assert_eq!(stopped.cause, StopCause::Connect);
        assert!(stopped.text.starts_with("no free UDP port at 127.0.0.1 in "), "{stopped:?}");
        let (_, next) = open(&ReflectJob { ports: (port, port + 50), ..job() }).unwrap();
        assert!(next > port);
        let elsewhere = "192.0.2.1".parse().unwrap();
        let stopped = open(&ReflectJob { bind_address: elsewhere, ..job() }).unwrap_err();
        assert_eq!(stopped.text, "192.0.2.1 is not an address of this host");
    }

    #[test]
    fn nobody_joins_the_port_while_it_is_open() {
        let reflecting = start(job());
        let _ = ticket(&reflecting.client());
        let joining = socket2::Socket::new(
            socket2::Domain::IPV4,
            socket2::Type::DGRAM,
            Some(socket2::Protocol::UDP),
        )
        .unwrap();
        joining.set_reuse_address(true).unwrap();
        let address: SocketAddr = ([127, 0, 0, 1], reflecting.port).into();
        let error = joining.bind(&address.into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(reflecting.finish());
    }
}
