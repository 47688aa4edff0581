//! What is known of a pair's single stream: the evidence that causes are judged by.

use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::bdp;
use super::case::{Alone, Case, at_limit};
use super::finding::{End, Setting};
use super::throughput::{Cpu, PairSummary};
use crate::plan::node::{Direction, NodeId, PairId};

/// A round trip under load above this multiple of the smallest one, and by more than
/// `QUEUE_TIME`, means that a queue stands somewhere on the way.
const QUEUE_RATIO: f64 = 1.25;
const QUEUE_TIME: Duration = Duration::from_millis(1);
/// Connections of the lowest level get at least this share of what one alone gets: the curve is a
/// straight line there.
const LINEAR: f64 = 0.85;
/// Jain's index of the streams' bytes above which flows are equal (Jain 1984; 1 is exactly equal).
const EQUAL: f64 = 0.9;
/// Several connections carry this many times what one does.
const GAIN: f64 = 1.3;
/// A level with this share of the best rate is already full.
const SATURATED: f64 = 0.9;
/// Bytes under way lie within these shares of a buffer that holds them: up to a half of what
/// getsockopt reports is the kernel's own, and a stream is not held at every moment.
const FILLED: std::ops::RangeInclusive<f64> = 0.25..=1.1;
/// A stream was held by a window in this share of its busy time. The kernel's counters step with
/// its jiffies and also count auto-tuning on its way, so they are never a verdict alone.
const HELD: f64 = 0.3;
/// A buffer below its bound takes one more write of up to a GSO segment of 64 KiB; with one in the
/// interface and one half acknowledged, so many bytes can be under way beyond it.
const BEYOND_BUFFER: u64 = 4 * 64 * 1024;
/// An auto-tuned buffer that reached this share of its maximum wants to be larger.
const AT_BOUND: f64 = 0.9;
/// A thread that uses this share of a core has none left.
const THREAD_FULL: f64 = 0.9;
const CORE_FULL: f64 = 0.95;
/// A full core counts against the test only where interrupts or the hypervisor take this much.
const SOFTIRQ_MUCH: f64 = 0.5;
const STEAL_MUCH: f64 = 0.2;
/// Retransmitted share below which losses are the ordinary probing of congestion control.
const LOSSY: f64 = 0.000_5;
/// Mathis et al. 1997: a Reno-like flow gets at most 1.22 × MSS / (RTT × √loss).
const MATHIS: f64 = 1.22;
/// How far from that formula a rate may be and still fit it (CUBIC is not Reno).
const MATHIS_SLACK: f64 = 2.5;

#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    pub pair: PairId,
    pub sender: NodeId,
    pub receiver: NodeId,
    pub single: Alone<'a>,
    /// The lowest level with several connections.
    pub low: Option<Alone<'a>>,
    /// The highest rate of several connections.
    pub best: Option<Alone<'a>>,
    pub case: &'a Case<'a>,
}

/// The shape of the curve of connections at its beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Growth {
    /// Twice the connections, twice the rate.
    Straight,
    /// The lowest level is already full, so the shape before it is not known.
    Unseen,
}

/// The window that holds a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub end: End,
    pub share: f64,
    pub setting: Setting,
    pub bound: Option<Bytes>,
    pub granted: Option<Bytes>,
}

impl<'a> Flow<'a> {
    pub fn of(case: &'a Case<'a>, pair: PairId, direction: Direction) -> Option<Self> {
        let (sender, receiver) = case.setup().ends(pair, direction);
        let levels = case.levels(pair, direction);
        Some(Self {
            pair,
            sender,
            receiver,
            single: case.single(pair, direction)?,
            low: levels.first().copied(),
            best: levels.into_iter().max_by(|a, b| a.steady.rate.0.total_cmp(&b.steady.rate.0)),
            case,
        })
    }

    pub fn rate(&self) -> BytesPerSecond {
        self.single.steady.rate
    }

    pub fn node(&self, end: End) -> NodeId {
        match end {
            End::Sender => self.sender,
            End::Receiver => self.receiver,
        }
    }

    /// A queue stands on the way of the single stream: where it stands, the rate is set.
    pub fn queue(&self) -> bool {
        queue_stands(self.single.pair)
    }

    pub fn lost(&self) -> bool {
        self.single.pair.counts.retransmitted_share().is_some_and(|share| share >= LOSSY)
    }

    /// What the lowest level's connections get each, of what one alone gets.
    pub fn linearity(&self) -> Option<f64> {
        let low = self.low?;
        Some(low.steady.rate.0 / (f64::from(low.num_conn) * self.rate().0))
    }

    /// How the aggregate grows with connections; `None` where it does not grow by much, or where
    /// the streams of one test are not equal.
    pub fn growth(&self) -> Option<Growth> {
        let (low, best) = (self.low?, self.best?);
        let more = best.steady.rate.0 >= GAIN * self.rate().0;
        let equal = jain(low.pair).is_none_or(|index| index >= EQUAL);
        if !more || !equal {
            return None;
        }
        match () {
            () if self.linearity()? >= LINEAR => Some(Growth::Straight),
            () if low.steady.rate.0 >= SATURATED * best.steady.rate.0 => Some(Growth::Unseen),
            () => None,
        }
    }

    /// One connection gets what several get together.
    pub fn fills(&self) -> bool {
        self.best.is_some_and(|best| self.rate().0 >= 0.95 * best.steady.rate.0)
    }

    /// The window that holds the single stream: the buffer has reached its bound, no queue stands on
    /// the way, more was possible, and either the kernel says so or the bytes under way fill it.
    pub fn held(&self) -> Option<Held> {
        if self.fills() || self.at_limit() || self.cpu_full().is_some() {
            return None;
        }
        self.held_by_counters().or_else(|| self.held_by_size())
    }

    fn held_by_counters(&self) -> Option<Held> {
        if self.queue() {
            return None;
        }
        let limited = self.single.pair.limited;
        let (window, buffer) = (limited.receive_window_share(), limited.send_buffer_share());
        let (end, share) = match (window, buffer) {
            (Some(window), Some(buffer)) if window > buffer => (End::Receiver, window),
            (_, Some(buffer)) => (End::Sender, buffer),
            (Some(window), None) => (End::Receiver, window),
            (None, None) => return None,
        };
        let held = self.bound(end, share);
        (share >= HELD && reached(&held)).then_some(held)
    }

    /// The bytes under way fill the buffer. The only sign on kernels without the counters, and for
    /// buffers below two segments: there Linux 6.18 counts next to no time as held by the send
    /// buffer, although the stream waits for it (measured at 32 KiB and 10 ms).
    fn held_by_size(&self) -> Option<Held> {
        let rtt = self.single.pair.rtt.min?;
        let under_way = self.rate().bytes_in(rtt).0;
        [End::Sender, End::Receiver].into_iter().map(|end| self.bound(end, 0.0)).find(|held| {
            let (Some(_), Some(granted)) = (held.bound, held.granted) else { return false };
            let least = 0.9 * bdp::usable(granted).0 as f64;
            let most = granted.0 + BEYOND_BUFFER;
            let fills = under_way as f64 >= least && under_way <= most;
            reached(held) && fills && (!self.queue() || self.is_burst(Bytes(most)))
        })
    }

    /// The round trip rose by no more than a burst of so many bytes takes at the path's best rate: a
    /// stream that waits for its buffer sends in bursts, each of which queues behind itself.
    fn is_burst(&self, bytes: Bytes) -> bool {
        let rtt = self.single.pair.rtt;
        let (Some(min), Some(loaded), Some(best)) = (rtt.min, rtt.p50, self.best) else {
            return false;
        };
        loaded.saturating_sub(min).as_secs_f64() * best.steady.rate.0 <= bytes.0 as f64
    }

    /// Rate × round trip: what is under way at a time.
    pub fn under_way(&self) -> Option<Bytes> {
        self.single.pair.rtt.min.map(|rtt| self.rate().bytes_in(rtt))
    }

    /// What is under way fits the buffer that is to hold it.
    pub fn fills_buffer(&self, held: &Held) -> bool {
        let share = self.under_way().zip(held.granted);
        share.is_some_and(|(bytes, granted)| FILLED.contains(&(bytes.0 as f64 / granted.0 as f64)))
    }

    fn bound(&self, end: End, share: f64) -> Held {
        let requested = self.single.summary.request.socket.socket_buffer_bytes.map(Bytes);
        let fixed = requested.is_some();
        let tcp = self.case.facts(self.node(end)).map(|facts| &facts.tcp);
        let granted = match end {
            End::Sender => self.single.pair.granted.send_buffer,
            End::Receiver => self.single.pair.granted.receive_buffer,
        };
        let as_asked = requested
            .zip(granted)
            .is_some_and(|(requested, granted)| !bdp::capped(requested, granted));
        if as_asked {
            return Held { end, share, setting: Setting::Requested, bound: granted, granted };
        }
        let (setting, bound) = match (end, fixed) {
            (End::Sender, false) => (Setting::TcpWmem, tcp.and_then(|tcp| tcp.wmem_max_bytes)),
            (End::Receiver, false) => (Setting::TcpRmem, tcp.and_then(|tcp| tcp.rmem_max_bytes)),
            (End::Sender, true) => (Setting::CoreWmem, tcp.and_then(|tcp| tcp.core_wmem_max_bytes)),
            (End::Receiver, true) => {
                (Setting::CoreRmem, tcp.and_then(|tcp| tcp.core_rmem_max_bytes))
            }
        };
        Held { end, share, setting, bound: bound.map(Bytes), granted }
    }

    /// Whether the single stream's losses alone would give about its rate.
    pub fn fits_random_loss(&self) -> Option<bool> {
        let bound = self.loss_rate()?;
        let ratio = self.rate().0 / bound.0;
        Some((1.0 / MATHIS_SLACK..=MATHIS_SLACK).contains(&ratio))
    }

    /// 1.22 × MSS / (RTT × √loss).
    pub fn loss_rate(&self) -> Option<BytesPerSecond> {
        let pair = self.single.pair;
        let rtt = pair.rtt.p50.or(pair.rtt.min)?.as_secs_f64();
        let loss = pair.counts.retransmitted_share().filter(|loss| *loss > 0.0)?;
        (rtt > 0.0).then_some(BytesPerSecond(MATHIS * pair.mss?.0 as f64 / (rtt * loss.sqrt())))
    }

    pub fn at_limit(&self) -> bool {
        at_limit(self.single.summary, self.single.pair)
    }

    /// The end whose thread has no processor time left.
    pub fn cpu_full(&self) -> Option<(End, Cpu)> {
        full_thread(self.single.pair)
    }
}

/// Where nothing is known of bound or buffer, the counters stand alone.
fn reached(held: &Held) -> bool {
    match (held.bound, held.granted) {
        (Some(bound), Some(granted)) => granted.0 as f64 >= AT_BOUND * bound.0 as f64,
        _ => true,
    }
}

pub fn queue_stands(pair: &PairSummary) -> bool {
    pair.rtt.min.zip(pair.rtt.p50).is_some_and(|(min, loaded)| {
        loaded > min.mul_f64(QUEUE_RATIO) && loaded > min.mul_f64(QUEUE_RATIO) + QUEUE_TIME
    })
}

/// The end with a thread that uses a whole core.
pub fn full_thread(pair: &PairSummary) -> Option<(End, Cpu)> {
    ends(pair).find(|(_, cpu)| cpu.busiest_thread >= THREAD_FULL)
}

/// The end with a core that interrupts or the hypervisor keep busy.
pub fn full_core(pair: &PairSummary) -> Option<(End, Cpu)> {
    ends(pair).find(|(_, cpu)| {
        let taken = cpu.softirq.is_some_and(|cores| cores >= SOFTIRQ_MUCH)
            || cpu.steal.is_some_and(|cores| cores >= STEAL_MUCH);
        taken && cpu.busiest_core.is_some_and(|share| share >= CORE_FULL)
    })
}

fn ends(pair: &PairSummary) -> impl Iterator<Item = (End, Cpu)> {
    let ends = [(End::Sender, pair.cpu.sender), (End::Receiver, pair.cpu.receiver)];
    ends.into_iter().filter_map(|(end, cpu)| Some((end, cpu?)))
}

/// (Σx)² / (n·Σx²) of the streams' bytes.
fn jain(pair: &PairSummary) -> Option<f64> {
    let bytes: Option<Vec<f64>> =
        pair.streams.iter().map(|stream| stream.received.map(|bytes| bytes as f64)).collect();
    let bytes = bytes.filter(|bytes| bytes.len() > 1)?;
    let (sum, squares) =
        bytes.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (bytes.len() as f64 * squares))
}
