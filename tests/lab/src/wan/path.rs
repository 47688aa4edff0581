//! One direction of the WAN as a queueing model: flow limit, link limit, loss, delay. It knows
//! packets and times only; reading and writing them is the relay's.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

use super::{
    Punctuality, Reorder,
    flow::FlowKey,
    shaper::{Limit, Shaper},
};

/// What one direction is asked to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathSpec {
    pub(super) delay: Duration,
    pub(super) link: Option<Limit>,
    pub(super) peak_bps: Option<u64>,
    pub(super) flow: Option<Limit>,
    pub(super) loss: f64,
    pub(super) seed: u64,
    pub(super) reorder: Option<Reorder>,
}

/// The packets between one end of the WAN and the other.
#[derive(Debug)]
pub(super) struct Path {
    spec: PathSpec,
    flows: HashMap<FlowKey, Shaper>,
    /// Out of their flow's queue at this time, not yet in the link's.
    shaped: BinaryHeap<Reverse<Shaped>>,
    peak: Option<Shaper>,
    link: Option<Shaper>,
    /// On the way, in the order of arrival at the far end.
    travelling: VecDeque<(u64, Packet)>,
    /// On the way too, and overtaken.
    late: BinaryHeap<Reverse<Shaped>>,
    held_bytes: u64,
    sequence: u64,
    /// Packets that the link let through.
    passed: u64,
    /// Packets that reached the far end, and those of them that did so long after their time.
    punctuality: Punctuality,
    random: u64,
}

type Packet = Box<[u8]>;

/// Ordered by time, then by arrival; packets themselves have no order.
type Shaped = (u64, u64, Packet);

/// What a path holds at most, whatever its limits say.
const HELD_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Idle flows are forgotten above this number.
const FLOWS_KEPT: usize = 4096;

impl Path {
    pub(super) fn new(spec: PathSpec) -> Self {
        let mut path = Self {
            spec: PathSpec { link: None, flow: None, peak_bps: None, ..spec.clone() },
            flows: HashMap::new(),
            shaped: BinaryHeap::new(),
            peak: None,
            link: None,
            travelling: VecDeque::new(),
            late: BinaryHeap::new(),
            held_bytes: 0,
            sequence: 0,
            passed: 0,
            punctuality: Punctuality::default(),
            random: state(spec.seed),
        };
        path.set_spec(spec);
        path
    }

    /// Changes the path; packets that already have a time keep it.
    pub(super) fn set_spec(&mut self, spec: PathSpec) {
        if spec.flow != self.spec.flow {
            self.flows.clear();
        }
        if spec.seed != self.spec.seed {
            self.random = state(spec.seed);
        }
        let peak = spec.peak_bps.map(|rate_bps| Limit {
            rate_bps,
            queue_bytes: spec.link.map_or(u64::MAX, |link| link.queue_bytes),
            credit_bytes: 0,
        });
        change(&mut self.peak, peak);
        change(&mut self.link, spec.link);
        self.spec = spec;
    }

    /// Takes a packet that arrives now, or drops it.
    pub(super) fn accept(&mut self, now_ns: u64, packet: &[u8]) {
        let bytes = packet.len() as u64;
        if self.held_bytes + bytes > HELD_BYTES_MAX {
            return;
        }
        let departure_ns = match self.spec.flow {
            None => Some(now_ns),
            Some(limit) => self.leave_flow(limit, now_ns, packet),
        };
        if let Some(departure_ns) = departure_ns {
            self.held_bytes += bytes;
            self.sequence += 1;
            self.shaped.push(Reverse((departure_ns, self.sequence, packet.into())));
        }
    }

    /// Moves what has left its flow's queue by now through the link.
    ///
    /// Whatever comes later leaves its flow later, so the link sees packets in their true order
    /// however late this is called.
    pub(super) fn advance(&mut self, now_ns: u64) {
        while self.shaped.peek().is_some_and(|Reverse((at_ns, ..))| *at_ns <= now_ns) {
            let Some(Reverse((at_ns, _, packet))) = self.shaped.pop() else { return };
            match self.leave_link(at_ns, packet.len() as u64) {
                Some(departure_ns) => {
                    self.travel(departure_ns + self.spec.delay.as_nanos() as u64, packet);
                }
                None => self.held_bytes -= packet.len() as u64,
            }
        }
    }

    fn travel(&mut self, arrival_ns: u64, packet: Packet) {
        self.passed += 1;
        if let Some(Reorder { every, late }) = self.spec.reorder
            && self.passed.is_multiple_of(every)
        {
            let late_ns = arrival_ns + late.as_nanos() as u64;
            self.late.push(Reverse((late_ns, self.passed, packet)));
            return;
        }
        let previous_ns = self.travelling.back().map_or(0, |(at_ns, _)| *at_ns);
        self.travelling.push_back((arrival_ns.max(previous_ns), packet));
    }

    /// The next packet that has reached the far end.
    pub(super) fn arrived(&mut self, now_ns: u64) -> Option<Packet> {
        let late_ns = self.late.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let is_due = |at_ns: Option<u64>| at_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let (at_ns, packet) = if is_due(late_ns) {
            let Reverse((at_ns, _, packet)) = self.late.pop()?;
            (at_ns, packet)
        } else if is_due(self.travelling.front().map(|(at_ns, _)| *at_ns)) {
            self.travelling.pop_front()?
        } else {
            return None;
        };
        self.punctuality.arrived(now_ns.saturating_sub(at_ns));
        self.held_bytes -= packet.len() as u64;
        Some(packet)
    }

    /// How well this path's relay kept its times so far.
    pub(super) fn punctuality(&self) -> Punctuality {
        self.punctuality
    }

    /// When there is something to do next without a further packet, in nanoseconds.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let shaped = self.shaped.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let travelling = self.travelling.front().map(|(at_ns, _)| *at_ns);
        let late = self.late.peek().map(|Reverse((at_ns, ..))| *at_ns);
        shaped.into_iter().chain(travelling).chain(late).min()
    }

    fn leave_flow(&mut self, limit: Limit, now_ns: u64, packet: &[u8]) -> Option<u64> {
        if self.flows.len() > FLOWS_KEPT {
            self.flows.retain(|_, shaper| !shaper.is_idle(now_ns));
        }
        let key = FlowKey::of(packet)?;
        let shaper = self.flows.entry(key).or_insert_with(|| Shaper::new(limit));
        shaper.depart(now_ns, packet.len() as u64)
    }

    fn leave_link(&mut self, at_ns: u64, bytes: u64) -> Option<u64> {
        let mut at_ns = at_ns;
        if let Some(peak) = &mut self.peak {
            at_ns = peak.depart(at_ns, bytes)?;
        }
        if let Some(link) = &mut self.link {
            at_ns = link.depart(at_ns, bytes)?;
        }
        if self.spec.loss > 0.0 && self.draw() < self.spec.loss {
            return None;
        }
        Some(at_ns)
    }

    /// A number in [0, 1): xorshift64*, since a test wants the same losses every time.
    fn draw(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Never zero, which xorshift would not leave, and unlike for seeds that are alike.
fn state(seed: u64) -> u64 {
    (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1
}

fn change(shaper: &mut Option<Shaper>, limit: Option<Limit>) {
    match (shaper.as_mut(), limit) {
        (Some(shaper), Some(limit)) => shaper.set_limit(limit),
        (_, limit) => *shaper = limit.map(Shaper::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn packet(flow: u8) -> Vec<u8> {
        let mut packet = vec![0; 1500];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[21] = flow;
        packet
    }

    fn spec() -> PathSpec {
        let delay = Duration::from_millis(5);
        PathSpec {
            delay,
            link: None,
            peak_bps: None,
            flow: None,
            loss: 0.0,
            seed: 1,
            reorder: None,
        }
    }

    fn limit(rate_bps: u64) -> Limit {
        Limit { rate_bps, queue_bytes: 1_000_000, credit_bytes: 0 }
    }

    /// Sends these flows' packets at time zero; gives (flow, arrival in ms).
    fn travel(spec: PathSpec, flows: &[u8]) -> Vec<(u8, u64)> {
        let mut path = Path::new(spec);
        for flow in flows {
            path.accept(0, &packet(*flow));
        }
        let mut arrivals = Vec::new();
        while let Some(now_ns) = path.next_ns() {
            path.advance(now_ns);
            while let Some(packet) = path.arrived(now_ns) {
                arrivals.push((packet[21], now_ns / MS));
            }
        }
        assert_eq!(path.held_bytes, 0);
        arrivals
    }

    fn times(arrivals: Vec<(u8, u64)>) -> Vec<u64> {
        arrivals.into_iter().map(|(_, ms)| ms).collect()
    }

    #[test]
    fn without_limits_a_packet_is_only_delayed() {
        assert_eq!(travel(spec(), &[1, 2]), [(1, 5), (2, 5)]);
    }

    #[test]
    fn the_link_serves_flows_in_the_order_of_arrival() {
        let spec = PathSpec { link: Some(limit(12_000_000)), ..spec() };
        assert_eq!(travel(spec, &[1, 1, 2]), [(1, 6), (1, 7), (2, 8)]);
    }

    #[test]
    fn a_flow_limit_holds_each_flow_back_by_itself() {
        let spec = PathSpec { flow: Some(limit(12_000_000)), ..spec() };
        assert_eq!(travel(spec, &[1, 1, 2]), [(1, 6), (2, 6), (1, 7)]);
    }

    #[test]
    fn the_link_takes_what_flows_let_go() {
        let spec =
            PathSpec { flow: Some(limit(12_000_000)), link: Some(limit(6_000_000)), ..spec() };
        assert_eq!(travel(spec, &[1, 1, 2]), [(1, 8), (2, 10), (1, 12)]);
    }

    #[test]
    fn credit_is_spent_at_the_peak_rate_and_then_the_link_s_own_holds() {
        let link = Limit { credit_bytes: 3000, ..limit(12_000_000) };
        let spec = PathSpec { link: Some(link), peak_bps: Some(24_000_000), ..spec() };
        // Half a millisecond apart, then a whole one.
        assert_eq!(times(travel(spec, &[1; 6])), [5, 6, 6, 7, 8, 9]);
    }

    #[test]
    fn a_late_look_gives_the_same_times_as_a_punctual_one() {
        let spec =
            PathSpec { flow: Some(limit(12_000_000)), link: Some(limit(6_000_000)), ..spec() };
        let mut path = Path::new(spec);
        for flow in [1, 1, 2] {
            path.accept(0, &packet(flow));
        }
        path.advance(100 * MS);
        let times: Vec<_> = path.travelling.iter().map(|(at_ns, _)| at_ns / MS).collect();
        assert_eq!(times, [8, 10, 12]);
    }

    #[test]
    fn loss_takes_its_share() {
        let arrived = travel(PathSpec { loss: 0.1, ..spec() }, &[1; 20_000]).len();
        assert!((17_700..18_300).contains(&arrived), "{arrived} of 20000 arrived");
    }

    #[test]
    fn the_same_seed_takes_the_same_packets_and_another_takes_others() {
        let flows: Vec<u8> = (0..200).collect();
        let lossy = |seed| travel(PathSpec { loss: 0.1, seed, ..spec() }, &flows);
        assert_eq!(lossy(1), lossy(1));
        assert_ne!(lossy(1), lossy(2));
    }

    #[test]
    fn credit_is_each_flow_s_own_and_what_exceeds_it_is_dropped_without_a_queue() {
        let flow = Limit { queue_bytes: 0, credit_bytes: 3000, ..limit(12_000_000) };
        let arrivals = travel(PathSpec { flow: Some(flow), ..spec() }, &[1, 1, 1, 1, 1, 2]);
        // Two by credit, one at the rate.
        assert_eq!(arrivals, [(1, 5), (1, 5), (2, 5), (1, 6)]);
    }

    #[test]
    fn one_packet_in_so_many_is_overtaken() {
        let reorder = Some(Reorder { every: 2, late: Duration::from_millis(3) });
        let spec = PathSpec { link: Some(limit(12_000_000)), reorder, ..spec() };
        let arrivals = travel(spec, &[1, 2, 3, 4]);
        assert_eq!(arrivals, [(1, 6), (3, 8), (2, 10), (4, 12)]);
    }

    #[test]
    fn a_shorter_delay_does_not_reorder() {
        let mut path = Path::new(spec());
        path.accept(0, &packet(1));
        path.advance(0);
        path.set_spec(PathSpec { delay: Duration::from_millis(1), ..spec() });
        path.accept(MS, &packet(2));
        path.advance(MS);
        assert!(path.arrived(4 * MS).is_none());
        assert_eq!(path.arrived(5 * MS).unwrap()[21], 1);
        assert_eq!(path.arrived(5 * MS).unwrap()[21], 2);
    }
}
