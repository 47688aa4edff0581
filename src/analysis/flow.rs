//! What is known of a pair's single stream: the evidence that causes are judged by.

use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::bdp;
use super::case::{Alone, Case, at_limit, is_settled, is_wide};
use super::fairness::jain;
use super::finding::{End, Setting};
use super::response;
use super::throughput::{Cpu, PairSummary};
use crate::plan::node::{Direction, NodeId, PairId};

/// A round trip under load that is longer than one without by more than `QUEUE_TIME` and a quarter,
/// of long ones by more than `QUEUE_LONG`, means that a queue stands somewhere on the way.
const QUEUE_SHARE: f64 = 0.25;
const QUEUE_LONG: Duration = Duration::from_millis(5);
const QUEUE_TIME: Duration = Duration::from_millis(1);
/// Connections of a level get at least this share of what one alone gets: the curve is a straight line
/// up to there.
pub const LINEAR: f64 = 0.85;
/// A curve that is straight up to so many connections is none of streams that compete with fewer than
/// 17 others on a full path: n of n + m is then below `LINEAR`.
const FAR: u32 = 4;
/// Jain's index of the streams' bytes above which flows are equal (Jain 1984; 1 is exactly equal).
const EQUAL: f64 = 0.9;
/// Several connections carry this many times what one does.
pub const GAIN: f64 = 1.3;
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
/// So many times its bound a send buffer can hold for a moment: of 256 KiB, sends of 1 MiB that wait
/// had up to 660 kB queued (`ss -m` on Linux 6.18, 20 ms), all of which goes in one burst.
const BURST: u64 = 3;
/// An auto-tuned buffer that reached this share of its maximum wants to be larger.
const AT_BOUND: f64 = 0.9;
/// A thread that ran, or could have run and was not let, for this share of the time has none left.
const THREAD_FULL: f64 = 0.9;
/// So has one that was kept from running for this share of the time, by the quota of its control
/// group or, where the rate comes and goes, by other processes.
const KEPT_MUCH: f64 = 0.5;
/// A quota that took so much, in sum over processors, may be why a thread was kept from running.
pub const QUOTA: f64 = 0.1;
const CORE_FULL: f64 = 0.95;
/// A full core counts against the test only where interrupts or the hypervisor take this much.
const SOFTIRQ_MUCH: f64 = 0.5;
pub const STEAL_MUCH: f64 = 0.2;
/// With fewer bytes sent again no rate that matters is held: at 1 ms, one in a million gives
/// 14 Gbit/s. Whether more of them hold a stream, its rate says.
const LOSS_LEAST: f64 = 0.000_001;
/// A policer drops at least this share of what a stream sends.
const POLICED: f64 = 0.000_5;
/// A window that is half of the time below this share of the largest one offered closes: its reader
/// does not keep up.
const CLOSES: f64 = 0.25;

#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    pub pair: PairId,
    pub sender: NodeId,
    pub receiver: NodeId,
    pub single: Alone<'a>,
    /// The lowest level with several connections.
    pub low: Option<Alone<'a>>,
    /// What the connections of the worst level that is not full get each, of what one alone gets;
    /// `None` where every level is full.
    bend: Option<f64>,
    /// The most connections that get as much each as one alone.
    straight_to: u32,
    /// The highest rate of several connections.
    pub best: Option<Alone<'a>>,
    pub case: &'a Case<'a>,
}

/// The shape of the curve of connections at its beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Growth {
    /// Twice the connections, twice the rate, at every level up to where the path is full.
    Straight,
    /// Straight as far as it was measured, which is not far enough to tell it from `Bent`.
    Short,
    /// Straight at its beginning only: each connection more brings less, long before the best rate.
    /// So do streams that take their parts of a path that others' flows fill: n of n + m.
    Bent,
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
        let single = case.single(pair, direction)?;
        let best =
            levels.iter().copied().max_by(|a, b| a.steady.rate.0.total_cmp(&b.steady.rate.0));
        let low = levels.first().copied();
        let bend = best.and_then(|best| bend(&single, &levels, &best));
        let straight = levels.iter().filter(|level| part_of_one(&single, level) >= LINEAR);
        let straight_to = straight.map(|level| level.num_conn).max().unwrap_or(1);
        Some(Self { pair, sender, receiver, single, low, bend, straight_to, best, case })
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
        self.lost_share().is_some_and(|share| share >= LOSS_LEAST)
    }

    /// Bytes sent again of all sent, after the ramp.
    pub fn lost_share(&self) -> Option<f64> {
        let pair = self.single.pair;
        pair.kernel.lost_share.or_else(|| pair.counts.retransmitted_share())
    }

    /// How the aggregate grows with connections; `None` where it does not grow by much, where the
    /// streams of one test are not equal, or where it is not known what one alone gets.
    pub fn growth(&self) -> Option<Growth> {
        let (low, best) = (self.low?, self.best?);
        let more = best.steady.rate.0 >= GAIN * self.rate().0;
        let equal = jain_of(low.pair).is_none_or(|index| index >= EQUAL);
        if !more || !equal || is_wide(self.single.steady) {
            return None;
        }
        let straight = part_of_one(&self.single, &low) >= LINEAR;
        let bent = self.bend.is_some_and(|least| least < LINEAR);
        match straight {
            true if bent => Some(Growth::Bent),
            true if self.straight_to >= FAR || self.ends() => Some(Growth::Straight),
            true => Some(Growth::Short),
            false => {
                (low.steady.rate.0 >= SATURATED * best.steady.rate.0).then_some(Growth::Unseen)
            }
        }
    }

    /// More connections were tried and brought no more.
    fn ends(&self) -> bool {
        self.case.plateaued(self.pair, self.single.summary.direction)
    }

    /// One connection gets what several get together.
    pub fn fills(&self) -> bool {
        self.best.is_some_and(|best| self.rate().0 >= 0.95 * best.steady.rate.0)
    }

    /// The window that holds the single stream: the buffer has reached its bound, no queue stands on
    /// the way, more was possible, and either the kernel says so or the bytes under way fill it.
    pub fn held(&self) -> Option<Held> {
        let by_cpu = self.cpu_full().is_some() || self.cpu_perhaps_full();
        if self.fills() || self.at_limit() || by_cpu {
            return None;
        }
        self.held_by_counters().or_else(|| self.held_by_size())
    }

    fn held_by_counters(&self) -> Option<Held> {
        let limited = self.single.pair.limited;
        let (window, buffer) = (limited.receive_window_share(), limited.send_buffer_share());
        let (end, share) = match (window, buffer) {
            (Some(window), Some(buffer)) if window > buffer => (End::Receiver, window),
            (_, Some(buffer)) => (End::Sender, buffer),
            (Some(window), None) => (End::Receiver, window),
            (None, None) => return None,
        };
        let held = self.bound(end, share);
        // Where a queue stands, the time that streams wait for a buffer is the queue's.
        let bursts = || {
            self.fills_buffer(&held) && held.granted.is_some_and(|granted| self.is_burst(granted))
        };
        let unread = end == End::Receiver && self.reads_slowly();
        let so = share >= HELD && reached(&held) && !unread && (!self.queue() || bursts());
        so.then_some(held)
    }

    /// The receiver's process does not take what arrived: its window closes although the bytes under
    /// way would fit, it has processor time left, and no queue stands on the way.
    pub fn reads_slowly(&self) -> bool {
        let pair = self.single.pair;
        let waits = pair.limited.receive_window_share().is_some_and(|share| share >= HELD);
        // A reader that stops and goes makes bursts, which queue behind themselves.
        let queued = self.queue() && is_settled(self.single.steady);
        if !waits || queued || full_thread(pair).is_some() {
            return false;
        }
        let fits = self
            .under_way()
            .zip(pair.granted.receive_buffer)
            .is_some_and(|(bytes, of)| (bytes.0 as f64) < FILLED.start() * of.0 as f64);
        let closes = pair
            .kernel
            .offered_window_p50
            .zip(pair.receive_window)
            .is_some_and(|(half, most)| (half.0 as f64) < CLOSES * most.0 as f64);
        fits || closes
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
            let burst = Bytes(most.max(BURST * granted.0));
            reached(held) && fills && (!self.queue() || self.is_burst(burst))
        })
    }

    /// The round trip rose by no more than a burst of so many bytes takes at the path's best rate: a
    /// stream that waits for its buffer sends in bursts, each of which queues behind itself.
    fn is_burst(&self, bytes: Bytes) -> bool {
        let rtt = self.single.pair.rtt;
        let (Some(idle), Some(loaded), Some(best)) = (rtt.without_load(), rtt.p50, self.best)
        else {
            return false;
        };
        let rise = loaded.saturating_sub(idle).saturating_sub(QUEUE_TIME);
        rise.as_secs_f64() * best.steady.rate.0 <= bytes.0 as f64
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
        let socket = &self.single.summary.request.socket;
        let own = match end {
            End::Sender => socket.send_buffer_bytes,
            End::Receiver => socket.receive_buffer_bytes,
        };
        let requested = own.or(socket.socket_buffer_bytes).map(Bytes);
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

    /// Whether the single stream's losses alone would give about its rate; `None` where that is not
    /// known, as of BBR, which does not slow down for them.
    pub fn fits_random_loss(&self) -> Option<bool> {
        Some(response::fits(self.rate(), self.loss_rate()?))
    }

    /// More is sent again than random loss would leave such a rate with, or than BBR cares about: what
    /// drops is a limit.
    pub fn policed(&self) -> bool {
        let bbr = self.single.pair.congestion_control.sender.as_deref();
        let bbr = bbr.is_some_and(|name| name.starts_with("bbr"));
        let much =
            self.lost_share().is_some_and(|share| share >= if bbr { 0.005 } else { POLICED });
        let more = self.loss_rate().is_none_or(|by_loss| {
            !response::fits(self.rate(), by_loss) && self.rate().0 > by_loss.0
        });
        much && more
    }

    /// What a stream with these losses gets (see [`response`]).
    pub fn loss_rate(&self) -> Option<BytesPerSecond> {
        let pair = self.single.pair;
        let rtt = pair.rtt.p50.or(pair.rtt.min)?;
        let control = pair.congestion_control.sender.as_deref();
        response::rate(control, pair.mss?, rtt, self.lost_share()?)
    }

    /// Losses of the best level over those of the single stream: streams that fill a queue lose with
    /// the square of their number, and random loss takes the same part of everything.
    pub fn losses_grow(&self) -> Option<f64> {
        let (best, one) = (self.best?.pair.kernel.lost_share?, self.lost_share()?);
        (one > 0.0).then(|| best / one)
    }

    pub fn at_limit(&self) -> bool {
        at_limit(self.single.summary, self.single.pair)
    }

    /// The end whose thread has no processor time left.
    pub fn cpu_full(&self) -> Option<(End, Cpu)> {
        full_thread(self.single.pair)
    }

    /// A thread has next to no processor time left, and a queue stands on the way: either may hold
    /// the stream.
    pub fn cpu_perhaps_full(&self) -> bool {
        busy_beside_queue(self.single.pair).is_some()
    }
}

/// What each connection of a level gets, of what one alone gets.
fn part_of_one(single: &Alone<'_>, level: &Alone<'_>) -> f64 {
    level.steady.rate.0 / (f64::from(level.num_conn) * single.steady.rate.0)
}

fn bend(single: &Alone<'_>, levels: &[Alone<'_>], best: &Alone<'_>) -> Option<f64> {
    let below = levels.iter().filter(|one| one.steady.rate.0 < SATURATED * best.steady.rate.0);
    below.map(|level| part_of_one(single, level)).min_by(f64::total_cmp)
}

/// Where nothing is known of bound or buffer, the counters stand alone.
fn reached(held: &Held) -> bool {
    match (held.bound, held.granted) {
        (Some(bound), Some(granted)) => granted.0 as f64 >= AT_BOUND * bound.0 as f64,
        _ => true,
    }
}

pub fn queue_stands(pair: &PairSummary) -> bool {
    let Some((idle, loaded)) = pair.rtt.without_load().zip(pair.rtt.p50) else { return false };
    loaded > idle + idle.mul_f64(QUEUE_SHARE).min(QUEUE_LONG) + QUEUE_TIME
}

/// The end with a thread that uses a whole core, or all that it is given. Where a queue stands in
/// the network, a thread that is only busy, or only waits for a processor, does not surely hold the
/// rate; unless the rate comes and goes, as it does behind a thread that now runs and now waits. A
/// quota is used up by nobody whom the network holds.
pub fn full_thread(pair: &PairSummary) -> Option<(End, Cpu)> {
    let comes_and_goes = pair.steady.as_ref().is_some_and(|steady| !is_settled(steady));
    let queue = queue_stands(pair) && !comes_and_goes;
    ends(pair)
        .filter(|(_, cpu)| {
            let waits = comes_and_goes && cpu.waiting.is_some_and(|share| share >= KEPT_MUCH);
            let full = cpu.occupied() >= THREAD_FULL || waits;
            held_by_quota(cpu) || (full && !queue)
        })
        .max_by(|a, b| a.1.occupied().total_cmp(&b.1.occupied()))
}

/// The end with a thread that uses a whole core while a queue stands in the network, at a rate that
/// stays: what is near its end there is not known.
pub fn busy_beside_queue(pair: &PairSummary) -> Option<(End, Cpu)> {
    let open = queue_stands(pair) && full_thread(pair).is_none();
    ends(pair)
        .filter(|(_, cpu)| open && cpu.busiest_thread >= THREAD_FULL)
        .max_by(|a, b| a.1.busiest_thread.total_cmp(&b.1.busiest_thread))
}

/// The quota of its control group kept a thread from running for much of the time.
fn held_by_quota(cpu: &Cpu) -> bool {
    let by_quota = cpu.throttled.is_some_and(|sum| sum >= QUOTA);
    by_quota && cpu.kept().is_some_and(|share| share >= KEPT_MUCH)
}

/// The end with a core that interrupts or the hypervisor keep busy.
pub fn full_core(pair: &PairSummary) -> Option<(End, Cpu)> {
    ends(pair).find(|(_, cpu)| {
        let taken = cpu.softirq.is_some_and(|cores| cores >= SOFTIRQ_MUCH)
            || cpu.steal.is_some_and(|cores| cores >= STEAL_MUCH);
        taken && cpu.busiest_core.is_some_and(|share| share >= CORE_FULL)
    })
}

pub fn ends(pair: &PairSummary) -> impl Iterator<Item = (End, Cpu)> {
    let ends = [(End::Sender, pair.cpu.sender), (End::Receiver, pair.cpu.receiver)];
    ends.into_iter().filter_map(|(end, cpu)| Some((end, cpu?)))
}

fn jain_of(pair: &PairSummary) -> Option<f64> {
    let bytes: Option<Vec<f64>> =
        pair.streams.iter().map(|stream| stream.received.map(|bytes| bytes as f64)).collect();
    jain(&bytes?).filter(|_| pair.streams.len() > 1)
}
