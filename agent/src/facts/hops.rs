//! The routers on the way to an address, without privileges: UDP probes whose time to live runs
//! out, and the answers from the sockets' error queues (`IP_RECVERR`, ip(7)).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt,
    sockopt::{Ipv4RecvErr, Ipv6RecvErr},
};
use redoline_proto::facts::Hop;
use socket2::{Domain, Socket, Type};

/// What is known of the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trail {
    pub hops: Vec<Hop>,
    /// The last hop is the destination itself.
    pub complete: bool,
    pub remark: Option<String>,
}

const TTL_MAX: u32 = 32;
/// Probes that are under way at the same time.
const WAVE: u32 = 8;
/// Routers limit how often they answer, so a probe gets a second chance.
const ATTEMPTS: u32 = 2;
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Traceroute's ports, where nobody listens; each time to live has its own, so that balanced paths
/// may be mixed.
const PORT_FIRST: u16 = 33_434;

/// Probes until the destination answers, a whole wave stays silent, or `deadline` comes.
pub fn trace(destination: IpAddr, deadline: Instant) -> Trail {
    let mut answers: Vec<Option<Answer>> = Vec::new();
    let mut end = WalkEnd::Exhausted;
    while answers.len() < TTL_MAX as usize {
        let first = answers.len() as u32 + 1;
        let wave = match probe(destination, first, deadline) {
            Ok(wave) => wave,
            Err(error) => {
                end = WalkEnd::Failed(error);
                break;
            }
        };
        let silent = wave.iter().all(Option::is_none);
        let over = wave.iter().flatten().any(|answer| answer.kind != AnswerKind::Router);
        answers.extend(wave);
        if over {
            break;
        }
        if Instant::now() >= deadline {
            end = WalkEnd::Deadline;
            break;
        }
        if silent {
            end = WalkEnd::Silence;
            break;
        }
    }
    collate(&answers, &end)
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Answer {
    from: IpAddr,
    kind: AnswerKind,
    /// Unknown after a second attempt: the answer may be to the first.
    rtt: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AnswerKind {
    /// The time to live ran out there.
    Router,
    /// The destination has nobody on the port: it was reached.
    Destination,
    /// Somebody on the way refuses.
    Refused(&'static str),
}

/// Why no more probes were sent; what an answer says comes first.
#[derive(Debug)]
enum WalkEnd {
    Exhausted,
    Silence,
    Deadline,
    Failed(io::Error),
}

/// From answers in order of distance to what is said of the way.
fn collate(answers: &[Option<Answer>], end: &WalkEnd) -> Trail {
    let last = answers
        .iter()
        .position(|answer| matches!(answer, Some(answer) if answer.kind != AnswerKind::Router))
        .or_else(|| answers.iter().rposition(Option::is_some));
    let known = &answers[..last.map_or(0, |last| last + 1)];
    let hops = known.iter().zip(1..).map(|(answer, ttl)| Hop {
        ttl,
        address: answer.map(|answer| answer.from.to_string()),
        rtt_us: answer.and_then(|answer| answer.rtt?.as_micros().try_into().ok()),
    });
    let kind = known.last().copied().flatten().map(|answer| answer.kind);
    let beyond = known.len() + 1;
    let remark = match (kind, end) {
        (Some(AnswerKind::Destination), _) => None,
        (Some(AnswerKind::Refused(why)), _) => Some(format!("the last hop refused: {why}")),
        (_, WalkEnd::Failed(error)) => Some(format!("no more probes could be sent: {error}")),
        (_, WalkEnd::Deadline) => Some(format!("the time was over at hop {beyond}")),
        (_, WalkEnd::Silence) => Some(format!(
            "no answer from hop {beyond} on: probes (UDP) or answers (ICMP) are filtered"
        )),
        (_, WalkEnd::Exhausted) => Some(format!("not reached within {TTL_MAX} hops")),
    };
    Trail { hops: hops.collect(), complete: kind == Some(AnswerKind::Destination), remark }
}

/// Sends a wave of probes and waits for their answers, in order of time to live.
fn probe(
    destination: IpAddr,
    first_ttl: u32,
    deadline: Instant,
) -> io::Result<Vec<Option<Answer>>> {
    let mut probes = (first_ttl..first_ttl + WAVE)
        .map(|ttl| Probe::new(destination, ttl))
        .collect::<io::Result<Vec<_>>>()?;
    for attempt in 0..ATTEMPTS {
        for probe in probes.iter_mut().filter(|probe| probe.answer.is_none()) {
            probe.send()?;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        await_answers(
            &mut probes,
            Instant::now() + ANSWER_WITHIN.min(left / (ATTEMPTS - attempt)),
        )?;
        // Beyond the destination nothing else is to be expected.
        let reached = probes
            .iter()
            .position(|probe| probe.answer.is_some_and(|answer| answer.kind != AnswerKind::Router));
        if probes[..reached.unwrap_or(probes.len())].iter().all(|probe| probe.answer.is_some()) {
            break;
        }
    }
    Ok(probes.iter().map(|probe| probe.answer).collect())
}

struct Probe {
    socket: Socket,
    sent: Instant,
    attempts: u32,
    answer: Option<Answer>,
}

impl Probe {
    fn new(destination: IpAddr, ttl: u32) -> io::Result<Self> {
        let address = SocketAddr::new(destination, PORT_FIRST + ttl as u16);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        if destination.is_ipv4() {
            setsockopt(&socket, Ipv4RecvErr, &true)?;
            socket.set_ttl_v4(ttl)?;
        } else {
            setsockopt(&socket, Ipv6RecvErr, &true)?;
            socket.set_unicast_hops_v6(ttl)?;
        }
        socket.connect(&address.into())?;
        Ok(Self { socket, sent: Instant::now(), attempts: 0, answer: None })
    }

    /// An answer to an earlier probe shows up as an error here; the error queue has it in full.
    fn send(&mut self) -> io::Result<()> {
        self.sent = Instant::now();
        self.attempts += 1;
        match self.socket.send(&[0; 12]) {
            Err(error) if !is_answer(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn receive(&mut self) {
        let now = Instant::now();
        while let Ok(Some((from, kind))) = read_error(&self.socket) {
            let rtt = (self.attempts == 1).then(|| now - self.sent);
            self.answer.get_or_insert(Answer { from, kind, rtt });
        }
        // Takes the pending error, which would make every poll return at once.
        let _ = self.socket.take_error();
    }
}

/// What the kernel makes of ICMP messages (`icmp_err_convert`, `tab_unreach`), and EAGAIN.
fn is_answer(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EOPNOTSUPP
                | libc::EPROTO
                | libc::EACCES
                | libc::EAGAIN
        )
    )
}

fn await_answers(probes: &mut [Probe], deadline: Instant) -> io::Result<()> {
    loop {
        let waiting: Vec<usize> =
            (0..probes.len()).filter(|index| probes[*index].answer.is_none()).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        if waiting.is_empty() || left.is_zero() {
            return Ok(());
        }
        let mut polled: Vec<PollFd<'_>> = waiting
            .iter()
            .map(|index| PollFd::new(probes[*index].socket.as_fd(), PollFlags::POLLERR))
            .collect();
        let timeout = u16::try_from(left.as_millis()).unwrap_or(u16::MAX).max(1);
        match poll(&mut polled, PollTimeout::from(timeout)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => (),
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = polled.iter().map(|one| one.any() == Some(true)).collect();
        for (index, _) in waiting.iter().zip(ready).filter(|(_, ready)| *ready) {
            probes[*index].receive();
        }
    }
}

/// Takes one entry of the error queue; `None` when it holds no ICMP message.
fn read_error(socket: &Socket) -> io::Result<Option<(IpAddr, AnswerKind)>> {
    let mut payload = [0; 64];
    let mut buffers = [IoSliceMut::new(&mut payload)];
    let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(&mut control), flags)?;
    for message in received.cmsgs()? {
        match message {
            ControlMessageOwned::Ipv4RecvErr(error, Some(from)) => {
                let from = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr));
                return Ok(
                    classify_v4(error.ee_type, error.ee_code).map(|kind| (from.into(), kind))
                );
            }
            ControlMessageOwned::Ipv6RecvErr(error, Some(from)) => {
                let from = Ipv6Addr::from(from.sin6_addr.s6_addr);
                return Ok(
                    classify_v6(error.ee_type, error.ee_code).map(|kind| (from.into(), kind))
                );
            }
            _ => (),
        }
    }
    Ok(None)
}

/// Types and codes of RFC 792 and RFC 1812.
fn classify_v4(kind: u8, code: u8) -> Option<AnswerKind> {
    match (kind, code) {
        (11, 0) => Some(AnswerKind::Router),
        (3, 3) => Some(AnswerKind::Destination),
        (3, 9 | 10 | 13) => Some(AnswerKind::Refused("administratively prohibited")),
        (3, 0) => Some(AnswerKind::Refused("network unreachable")),
        (3, _) => Some(AnswerKind::Refused("host unreachable")),
        _ => None,
    }
}

/// Types and codes of RFC 4443.
fn classify_v6(kind: u8, code: u8) -> Option<AnswerKind> {
    match (kind, code) {
        (3, 0) => Some(AnswerKind::Router),
        (1, 4) => Some(AnswerKind::Destination),
        (1, 1 | 5 | 6) => Some(AnswerKind::Refused("administratively prohibited")),
        (1, 0) => Some(AnswerKind::Refused("no route")),
        (1, _) => Some(AnswerKind::Refused("address unreachable")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(address: &str, kind: AnswerKind) -> Option<Answer> {
        Some(Answer {
            from: address.parse().unwrap(),
            kind,
            rtt: Some(Duration::from_micros(1500)),
        })
    }

    #[test]
    fn a_silent_router_is_a_hop_without_an_address() {
        let answers = [
            answer("198.51.100.1", AnswerKind::Router),
            None,
            answer("203.0.113.11", AnswerKind::Destination),
            answer("203.0.113.11", AnswerKind::Destination),
            None,
        ];
        let trail = collate(&answers, &WalkEnd::Exhausted);
        let addresses: Vec<_> = trail.hops.iter().map(|hop| hop.address.as_deref()).collect();
        assert_eq!(addresses, [Some("198.51.100.1"), None, Some("203.0.113.11")]);
        assert_eq!((trail.hops[2].ttl, trail.hops[2].rtt_us), (3, Some(1500)));
        assert_eq!((trail.complete, trail.remark), (true, None));
    }

    #[test]
    fn a_way_that_goes_silent_says_from_where_on() {
        let answers = [answer("198.51.100.1", AnswerKind::Router), None, None];
        let trail = collate(&answers, &WalkEnd::Silence);
        assert_eq!((trail.hops.len(), trail.complete), (1, false));
        assert!(trail.remark.unwrap().contains("from hop 2 on"));
    }

    #[test]
    fn a_refusal_ends_the_way_with_its_reason() {
        let refused = AnswerKind::Refused("administratively prohibited");
        let trail = collate(&[answer("198.51.100.1", refused)], &WalkEnd::Exhausted);
        assert!(!trail.complete);
        assert_eq!(trail.remark.unwrap(), "the last hop refused: administratively prohibited");
    }

    #[test]
    fn nothing_at_all_is_said_so() {
        let error = io::Error::from_raw_os_error(libc::ENETUNREACH);
        let trail = collate(&[], &WalkEnd::Failed(error));
        assert!(trail.hops.is_empty());
        assert!(trail.remark.unwrap().starts_with("no more probes could be sent"));
        let late = collate(&[None, None], &WalkEnd::Deadline);
        assert_eq!(late.remark.unwrap(), "the time was over at hop 1");
    }

    #[test]
    fn an_icmp_message_that_shows_up_in_a_send_is_an_answer() {
        let is_answer = |code| is_answer(&io::Error::from_raw_os_error(code));
        assert!(
            [libc::ECONNREFUSED, libc::ENETUNREACH, libc::ENOPROTOOPT].map(is_answer)[..]
                == [true; 3]
        );
        assert!(!is_answer(libc::EPERM) && !is_answer(libc::ENOBUFS));
    }

    #[test]
    fn icmp_messages_are_told_apart() {
        assert_eq!(classify_v4(11, 0), Some(AnswerKind::Router));
        assert_eq!(classify_v4(3, 3), Some(AnswerKind::Destination));
        assert_eq!(classify_v4(0, 0), None);
        assert_eq!(classify_v6(3, 0), Some(AnswerKind::Router));
        assert_eq!(classify_v6(1, 4), Some(AnswerKind::Destination));
    }

    #[test]
    fn the_error_queue_of_a_real_socket_answers() {
        let destination = "127.0.0.1".parse().unwrap();
        let trail = trace(destination, Instant::now() + Duration::from_secs(30));
        assert!(trail.complete, "{trail:?}");
        assert_eq!(trail.hops.len(), 1);
        assert_eq!(trail.hops[0].address.as_deref(), Some("127.0.0.1"));
    }
}
