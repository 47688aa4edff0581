//! The sender's side: looks the way up, sends small datagrams, then searches for the largest that
//! passes; and says what could not be known.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use redoline_proto::path::{PathProbe, ProbeJob, ProbeWay, SizeOutcome};

use super::after;
use super::datagram::smallest_bytes;
use super::echo::{Echo, why_not};
use super::flow::{self, Flow};
use super::line::Line;
use super::search::Search;
use super::sizes::{Back, Patience, Sizes};
use super::small::{self, Small, SmallProbes};
use super::way::Way;
use crate::jobs::JobControl;

/// Fewer would not tell a loss from silence.
const COUNT_MIN: u32 = 3;
/// The reflector answers no faster than this.
const SPACING_MIN: Duration = Duration::from_millis(1);
/// Of the time that is left, for small datagrams of each kind.
const SMALL_SHARE: u32 = 2;

/// Blocks at most for the job's deadline. What it could not find out is `None`, and a remark.
pub fn probe(job: &ProbeJob, control: &JobControl) -> PathProbe {
    let end = after(Instant::now(), job.deadline);
    let mut probing = Probing { job, control, end, found: PathProbe::default() };
    let before = probing.look_up();
    probing.measure(&before);
    if let Ok(now) = Way::look_up(job.bind_address, job.address) {
        probing.found.remarks.extend(before.learned(&now));
    }
    if control.cancel.is_set() {
        probing.remark("cancelled before the end".to_owned());
    }
    probing.found
}

struct Probing<'a> {
    job: &'a ProbeJob,
    control: &'a JobControl,
    end: Instant,
    found: PathProbe,
}

impl Probing<'_> {
    fn look_up(&mut self) -> Way {
        match Way::look_up(self.job.bind_address, self.job.address) {
            Ok(way) => {
                self.found.interface = way.interface.clone();
                self.found.interface_mtu_bytes = way.interface_mtu_bytes;
                self.found.source_address = way.source.map(|source| source.to_string());
                self.found.gateway = way.gateway.map(|gateway| gateway.to_string());
                self.found.remembered_mtu_bytes = way.memory.map(|memory| memory.mtu_bytes);
                self.found.remarks.extend(way.remarks());
                way
            }
            Err(error) => {
                self.remark(format!("no route: {error}"));
                Way::default()
            }
        }
    }

    /// By datagrams to the other agent; where nothing comes back, by ping.
    fn measure(&mut self, way: &Way) {
        let peer = SocketAddr::new(self.job.address, self.job.port);
        let flow = way
            .source
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))
            .and_then(|source| flow::bind(SocketAddr::new(source, 0)))
            .and_then(|socket| Flow::new(socket, peer, self.job.token));
        match flow.and_then(|mut flow| self.by(&mut flow, ProbeWay::Udp)) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => self.remark(format!("failed to probe {peer} by UDP: {error}")),
        }
        if self.control.cancel.is_set() || Instant::now() >= self.end {
            return;
        }
        let echo = Echo::open(way.source, self.job.address, self.job.token);
        let echo = echo.map_err(|error| why_not(&error));
        let by = |mut echo| self.by(&mut echo, ProbeWay::Icmp).map_err(|error| error.to_string());
        if let Err(why) = echo.and_then(by) {
            self.remark(format!("no ping of {}: {why}", self.job.address));
        }
        if self.found.way.is_none() {
            self.remark(
                "nothing small came back, so nothing can be said of large packets: that is no \
                 black hole, but a firewall that passes neither UDP to the data port nor ping, or \
                 no way at all"
                    .to_owned(),
            );
        }
    }

    /// False when nothing small came back.
    fn by(&mut self, line: &mut impl Line, kind: ProbeWay) -> io::Result<bool> {
        let now = Instant::now();
        let left = self.end.saturating_duration_since(now);
        let probes = SmallProbes {
            count: self.job.count.max(COUNT_MIN),
            spacing: self.job.spacing.max(SPACING_MIN),
            packet_bytes: smallest_bytes(self.job.address),
            end: now + left / SMALL_SHARE,
        };
        let small = small::probe(line, probes, &self.control.cancel)?;
        self.take_small(&small, probes.count, kind);
        if small.answered == 0 {
            return Ok(false);
        }
        self.found.way = Some(kind);
        self.search(line, &small, kind)?;
        Ok(true)
    }

    /// What one kind of small datagrams met replaces what the kind before it did, unless that was
    /// all there is.
    fn take_small(&mut self, small: &Small, count: u32, kind: ProbeWay) {
        if small.answered == 0 {
            let peer = match kind {
                ProbeWay::Udp => format!("UDP port {} of {}", self.job.port, self.job.address),
                ProbeWay::Icmp => format!("ping of {}", self.job.address),
            };
            let sent = small.sent;
            self.remark(match small.refused {
                None => format!("{peer}: none of {sent} small packets came back"),
                Some((from, why)) => {
                    format!("{peer}: none of {sent} small packets came back; {from} says `{why}`")
                }
            });
        }
        if small.answered > 0 || kind == ProbeWay::Udp {
            self.found.sent = small.sent;
            self.found.answered = small.answered;
            self.found.reordered = small.reordered;
            self.found.rtt = (small.answered > 0).then(|| small.rtt.summary());
        }
        if small.answered > 0 && small.sent < count && !self.control.cancel.is_set() {
            self.remark(format!(
                "{} of {count} small packets were sent: the time did not suffice for more",
                small.sent
            ));
        }
    }

    fn search(&mut self, line: &mut impl Line, small: &Small, kind: ProbeWay) -> io::Result<()> {
        let small_bytes = smallest_bytes(self.job.address);
        let mtu = self.found.interface_mtu_bytes;
        let back = small.ticket.filter(|_| kind == ProbeWay::Udp).map(|ticket| {
            // What this end's interface does not take cannot arrive.
            let fitting = |size: &&u32| mtu.is_none_or(|most| **size <= most);
            let asked: Vec<u32> = self.job.packet_bytes.iter().filter(fitting).copied().collect();
            Back { search: Search::new(small_bytes, mtu, &asked), ticket }
        });
        let mut sizes = Sizes {
            line,
            there: Search::new(small_bytes, mtu, &self.job.packet_bytes),
            back,
            patience: Patience::after(small.rtt_max, small.loss()),
            small_bytes,
            interface_mtu_bytes: mtu,
            number: small.next_number(),
            asked: HashMap::new(),
            teller: None,
        };
        let searched = sizes.search(self.end, &self.control.cancel);
        let teller = sizes.teller;
        let (there, back) = (sizes.there, sizes.back.map(|back| back.search));
        self.found.sizes = there.sizes();
        self.found.path_mtu_bytes = largest(&there, small_bytes);
        self.found.return_path_mtu_bytes =
            back.as_ref().and_then(|back| largest(back, small_bytes));
        self.remark_on(&there, "the way there");
        if let Some(back) = &back {
            self.remark_on(back, "the way back");
        }
        if let Some(teller) = teller {
            self.remark(format!("{teller} says that packets are too big for what comes behind it"));
        }
        if kind == ProbeWay::Icmp {
            self.remark(
                "judged by ping: a firewall that drops large pings looks like a path that drops \
                 large packets, and of the way back nothing is known"
                    .to_owned(),
            );
        }
        searched
    }

    fn remark_on(&mut self, search: &Search, way: &str) {
        let passed = search.passed_bytes();
        match search.failed() {
            _ if !search.is_finished() => {
                let largest = passed.unwrap_or(smallest_bytes(self.job.address));
                let beyond = search
                    .failed()
                    .map_or(String::new(), |(size, _)| format!(", and it is below {size} bytes"));
                self.remark(format!(
                    "{way}: the time did not suffice to find the path MTU: packets of {largest} \
                     bytes pass{beyond}"
                ));
            }
            Some((size, failed)) if failed.outcome == SizeOutcome::Lost => {
                let largest = passed.unwrap_or(smallest_bytes(self.job.address));
                self.remark(format!(
                    "{way}: packets of {largest} bytes pass, packets of {size} bytes vanish and \
                     nobody says so"
                ));
            }
            _ => {}
        }
    }

    fn remark(&mut self, text: String) {
        self.found.remarks.push(text);
    }
}

/// `None` where the search did not come to its end: what passed until then is only the least that
/// it may be. Small packets pass: else nothing would have been searched for.
fn largest(search: &Search, small_bytes: u32) -> Option<u32> {
    search.is_finished().then(|| search.passed_bytes().unwrap_or(small_bytes))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use redoline_proto::path::{ReflectEvent, ReflectJob};
    use redoline_proto::transfer::{JobId, Token};
    use tokio::sync::mpsc;

    use super::super::reflect;
    use super::super::search::Outcome;
    use super::*;

    #[test]
    fn a_search_that_ran_out_of_time_found_no_path_mtu() {
        let mut search = Search::new(68, Some(9000), &[]);
        let mut record = |size, outcome| {
            search.record(size, Outcome { outcome, told_mtu_bytes: None });
            largest(&search, 68)
        };
        assert_eq!(record(9000, SizeOutcome::Lost), None);
        assert_eq!(record(1500, SizeOutcome::Passed), None, "1500 to 8999");
        assert_eq!(record(1501, SizeOutcome::Lost), Some(1500));
    }

    const TOKEN: Token = Token([0x5a; 16]);

    fn job(port: u16, token: Token) -> ProbeJob {
        ProbeJob {
            job: JobId(2),
            token,
            address: "127.0.0.1".parse().unwrap(),
            port,
            bind_address: Some("127.0.0.1".parse().unwrap()),
            count: 10,
            spacing: Duration::ZERO,
            deadline: Duration::from_secs(30),
            packet_bytes: vec![9000],
        }
    }

    /// What a probe with this token finds of this machine's own reflector.
    fn probed(token: Token) -> PathProbe {
        let reflecting = ReflectJob {
            job: JobId(1),
            token: TOKEN,
            bind_address: "127.0.0.1".parse().unwrap(),
            ports: (0, 0),
            expected_peer: None,
            deadline: Duration::from_secs(60),
        };
        let (sender, mut events) = mpsc::channel(4);
        let control = JobControl::default();
        thread::scope(|scope| {
            scope.spawn(|| reflect(&reflecting, &control, sender));
            let Some(ReflectEvent::Ready { port }) = events.blocking_recv() else {
                panic!("no port")
            };
            let found = probe(&job(port, token), &JobControl::default());
            control.finish.set();
            found
        })
    }

    #[test]
    fn loopback_carries_the_largest_packet_there_is() {
        let found = probed(TOKEN);
        assert_eq!(found.way, Some(ProbeWay::Udp), "{found:?}");
        assert_eq!((found.sent, found.answered), (10, 10));
        assert_eq!(found.path_mtu_bytes, found.interface_mtu_bytes);
        assert_eq!(found.return_path_mtu_bytes, found.interface_mtu_bytes);
        assert!(found.remarks.is_empty(), "{found:?}");
    }

    #[test]
    fn a_reflector_of_another_token_is_no_way() {
        let found = probed(Token([0xa5; 16]));
        assert_ne!(found.way, Some(ProbeWay::Udp));
        assert!(found.remarks[0].contains(" small packets came back"), "{found:?}");
    }
}
