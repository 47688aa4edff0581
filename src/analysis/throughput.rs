//! One throughput test in numbers: what the receivers got, and what the kernels saw meanwhile.

use std::time::Duration;

use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{StreamEnd, StreamStart};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::host_use::{self, HostUse};
use super::kernel::{self, Kernel};
use super::looks::StopRule;
use super::path::PathSummary;
use super::readings::{end_of, ends, growth, known, last_known, starts};
use super::steady::{Interval, Steady, steady};
use super::sync::{self, SyncSummary};
use super::window::{self, Track, Window};
use crate::plan::node::{Direction, PairId};
use crate::plan::step::Nodes;
use crate::record::measurement::{
    EndRecord, MeasurementId, PairTransfer, Path, Throughput, TransferRequest,
};

#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub id: MeasurementId,
    pub step: usize,
    pub direction: Direction,
    pub request: TransferRequest,
    pub pairs: Vec<PairSummary>,
    /// In which all streams of all pairs without a failure carried data, but those without a byte.
    pub window: Option<Window>,
    /// Of all pairs together, in that window.
    pub steady: Option<Steady>,
    /// Of all pairs together, ramp and tail included.
    pub whole_run: Option<BytesPerSecond>,
    /// What the receivers got, sample by sample, since the first one began.
    pub samples: Vec<TimedInterval>,
    /// Why there is no rate although every pair sent: the path did not carry the MTU asked for.
    pub not_testable: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedInterval {
    pub at: Duration,
    pub interval: Interval,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PairSummary {
    pub pair: PairId,
    /// This pair's part of the common window; `None` when it failed.
    pub steady: Option<Steady>,
    pub whole_run: Option<BytesPerSecond>,
    pub counts: Counts,
    pub rtt: Rtt,
    pub limited: Limited,
    pub congestion_control: BothEnds<Option<String>>,
    pub mss: Option<Bytes>,
    pub path_mtu: Option<Bytes>,
    pub cpu: BothEnds<Option<Cpu>>,
    /// The sender's send buffer and the receiver's receive buffer, the smallest of all streams.
    pub granted: Granted,
    /// The largest window that the receiver offered to a stream.
    pub receive_window: Option<Bytes>,
    pub streams: Vec<StreamSummary>,
    pub failed: bool,
    /// Of a SYNC test.
    pub sync: Option<SyncSummary>,
    /// What else the kernels counted.
    pub kernel: Kernel,
    /// What each end's host carried meanwhile, on every interface.
    pub host: BothEnds<HostUse>,
}

/// Sums over streams; a difference is taken from the reading after connect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub written: Option<u64>,
    pub acked: Option<u64>,
    pub received: Option<u64>,
    pub sent: Option<u64>,
    pub retransmitted: Option<u64>,
}

/// Of the sender's kernel; `p50` is the median of the smoothed round trip under the test's load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rtt {
    pub min: Option<Duration>,
    pub p50: Option<Duration>,
    pub max: Option<Duration>,
    /// Of a probe of the idle path, where there is one.
    pub idle: Option<Idle>,
}

/// Half of the small datagrams on the idle path took at most this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    pub p50: Duration,
    pub probe: MeasurementId,
}

impl Rtt {
    /// What a round trip takes without the test's load: a path that varies by itself is no queue, so
    /// half of the idle ones count where they were probed, else the smallest that was seen.
    pub fn without_load(&self) -> Option<Duration> {
        let idle = self.idle.map(|idle| idle.p50);
        idle.map_or(self.min, |idle| Some(self.min.map_or(idle, |min| idle.max(min))))
    }
}

/// Time in which streams were held, of the time that they had data to send; sums over streams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limited {
    pub busy: Option<Duration>,
    pub receive_window: Option<Duration>,
    pub send_buffer: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BothEnds<T> {
    pub sender: T,
    pub receiver: T,
}

/// As numbers of cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    pub threads: f64,
    pub busiest_thread: f64,
    pub host: Option<f64>,
    pub softirq: Option<f64>,
    pub steal: Option<f64>,
    /// 0 to 1.
    pub busiest_core: Option<f64>,
    /// Of that core, 0 to 1.
    pub busiest_core_softirq: Option<f64>,
    /// What the busiest thread waited for a processor although it could have run.
    pub waiting: Option<f64>,
    /// What the control groups were kept from running: a sum over processors and nested groups.
    pub throttled: Option<f64>,
    /// What a thread was kept from running by that at most: the sum over the test's streams.
    pub throttled_each: Option<f64>,
}

/// As getsockopt reports them: on Linux twice what surely carries data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Granted {
    pub send_buffer: Option<Bytes>,
    pub receive_buffer: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StreamSummary {
    pub stream: u32,
    pub local: String,
    pub remote: String,
    pub received: Option<u64>,
    pub retransmitted: Option<u64>,
    pub rtt: Option<Duration>,
    pub min_rtt: Option<Duration>,
    pub granted: Granted,
}

impl Summary {
    /// All pairs sent at a time.
    pub fn together(&self) -> bool {
        self.request.nodes == Nodes::Together
    }

    pub fn pair(&self, pair: PairId) -> Option<&PairSummary> {
        self.pairs.iter().find(|summary| summary.pair == pair)
    }

    /// Every pair of the test gave its part of the sum.
    pub fn complete(&self) -> bool {
        !self.pairs.is_empty() && self.pairs.iter().all(|pair| pair.steady.is_some())
    }

    pub fn rate(&self) -> Option<BytesPerSecond> {
        self.steady.as_ref().map(|steady| steady.rate)
    }

    pub fn min_rtt(&self) -> Option<Duration> {
        self.pairs.iter().filter_map(|pair| pair.rtt.min).min()
    }
}

impl Cpu {
    /// The share of the time that the busiest thread ran or was kept from running: by other
    /// processes (it waited for a processor) or by its control group's quota. 0 to about 1.
    ///
    pub fn occupied(&self) -> f64 {
        self.busiest_thread + self.kept().unwrap_or_default()
    }

    /// The share of the time that the busiest thread was kept from running. 0 to about 1.
    ///
    /// The kernel's count of a thread's waiting has the time under a quota in it (seen on Linux 6.18);
    /// where it does not count, what the quota took of each stream stands in.
    pub fn kept(&self) -> Option<f64> {
        self.waiting.or(self.throttled_each)
    }
}

impl Limited {
    /// Share of the busy time in which the peer's receive window held the streams.
    pub fn receive_window_share(&self) -> Option<f64> {
        share(self.receive_window?, self.busy?)
    }

    /// Share of the busy time in which the send buffer held the streams.
    pub fn send_buffer_share(&self) -> Option<f64> {
        share(self.send_buffer?, self.busy?)
    }
}

impl Counts {
    /// Retransmitted of all sent bytes, 0 to 1.
    pub fn retransmitted_share(&self) -> Option<f64> {
        let sent = self.sent.or(self.acked).filter(|sent| *sent > 0)?;
        Some(self.retransmitted? as f64 / sent as f64)
    }
}

fn share(part: Duration, whole: Duration) -> Option<f64> {
    (!whole.is_zero()).then(|| part.as_secs_f64() / whole.as_secs_f64())
}

pub fn summarise(throughput: &Throughput) -> Summary {
    let alone = throughput.pairs.len() == 1;
    let whole: Vec<&PairTransfer> =
        throughput.pairs.iter().filter(|pair| pair.failure.is_none()).collect();
    let tracks: Option<Vec<Track>> = whole.iter().map(|pair| Track::of(pair, alone)).collect();
    let window = tracks.as_deref().and_then(window::common);
    let min_rtt = whole.iter().filter_map(|pair| min_rtt(&pair.sender)).min();
    let sum = tracks.as_deref().zip(window).map(|(tracks, window)| window::sum(tracks, window));
    let together = sum.and_then(|sum| steady_of(&throughput.request, &sum, min_rtt));
    // What a test that ends by itself did after its last look is no part of its result.
    let judged = window.zip(together.as_ref()).map(|(window, steady)| {
        match throughput.request.auto_target {
            Some(_) => window.first(steady.elapsed()),
            None => window,
        }
    });
    let of_test = |pair: &PairTransfer| {
        let summary = pair_summary(pair, judged.or(window), alone);
        let steady = if alone { together.clone() } else { summary.steady.clone() };
        let sync = sync::summarise(&throughput.request, pair);
        PairSummary { sync, steady: steady.filter(|_| !summary.failed), ..summary }
    };
    let pairs: Vec<PairSummary> = throughput.pairs.iter().map(of_test).collect();
    Summary {
        id: throughput.id,
        step: throughput.step,
        direction: throughput.direction,
        request: throughput.request.clone(),
        window,
        steady: together,
        whole_run: whole_run(&throughput.pairs),
        samples: samples(&throughput.pairs),
        not_testable: None,
        pairs,
    }
}

/// By the looks that ended the test, or over all of a test whose length was fixed.
fn steady_of(
    request: &TransferRequest,
    intervals: &[Interval],
    min_rtt: Option<Duration>,
) -> Option<Steady> {
    match request.auto_target {
        Some(target) => StopRule::new(target, Duration::from_millis(request.duration_ms))
            .conclude(intervals, min_rtt),
        None => steady(intervals, min_rtt),
    }
}

/// The stream of a path is one of its own: nothing of it is acknowledged.
pub fn summarise_path(path: &Path) -> PathSummary {
    let stream = path.stream.as_ref().map(|pair| {
        let window = Track::of(pair, true).and_then(|track| window::common(&[track]));
        pair_summary(pair, window, true)
    });
    PathSummary {
        id: path.id,
        step: path.step,
        direction: path.direction,
        pair: path.pair,
        probe: path.probe.clone(),
        stream,
        failure: path.failure.as_ref().map(|failure| failure.text.clone()),
    }
}

fn pair_summary(pair: &PairTransfer, window: Option<Window>, alone: bool) -> PairSummary {
    let track = Track::of(pair, alone);
    let min_rtt = min_rtt(&pair.sender);
    let steady = match (&pair.failure, track, window) {
        (None, Some(track), Some(window)) => steady(&window::sum(&[track], window), min_rtt),
        _ => None,
    };
    let sender = &pair.sender;
    PairSummary {
        pair: pair.pair,
        whole_run: whole_run(std::slice::from_ref(pair)),
        counts: counts(pair),
        rtt: rtt(sender, steady.as_ref()),
        limited: limited(sender),
        congestion_control: BothEnds {
            sender: congestion_control(&pair.sender),
            receiver: congestion_control(&pair.receiver),
        },
        mss: last_known(sender, |tcp| tcp.snd_mss_bytes).map(Bytes),
        path_mtu: last_known(sender, |tcp| tcp.path_mtu_bytes).map(Bytes),
        cpu: BothEnds { sender: cpu(&pair.sender), receiver: cpu(&pair.receiver) },
        granted: Granted {
            send_buffer: smallest(sender, |end| end.send_buffer_bytes, |s| s.send_buffer_bytes),
            receive_buffer: smallest(
                &pair.receiver,
                |end| end.receive_buffer_bytes,
                |s| s.receive_buffer_bytes,
            ),
        },
        receive_window: known(sender, |tcp| tcp.snd_wnd_bytes).max().map(Bytes),
        streams: starts(sender).iter().map(|start| stream(pair, start)).collect(),
        failed: pair.failure.is_some(),
        sync: None,
        kernel: kernel::of(pair, steady.as_ref()),
        host: BothEnds {
            sender: host_use::of(&pair.sender),
            receiver: host_use::of(&pair.receiver),
        },
        steady,
    }
}

fn counts(pair: &PairTransfer) -> Counts {
    let total = |end: &EndRecord| {
        let streams = ends(end);
        (!streams.is_empty()).then(|| streams.iter().map(|stream| stream.bytes).sum::<u64>())
    };
    let written = total(&pair.sender);
    let acked = growth(&pair.sender, |tcp| tcp.bytes_acked);
    let sampled = || {
        let samples = &pair.receiver.samples;
        (!samples.is_empty()).then(|| samples.iter().map(|sample| sample.bytes().0).sum())
    };
    Counts {
        written,
        // The FIN of each stream is counted once its peer has taken it.
        acked: acked.map(|acked| written.map_or(acked, |written| acked.min(written))),
        received: total(&pair.receiver).or_else(sampled),
        sent: growth(&pair.sender, |tcp| tcp.bytes_sent),
        retransmitted: growth(&pair.sender, |tcp| tcp.bytes_retrans),
    }
}

/// The kernel's own minimum where it keeps one, else the smallest round trip that was read.
pub fn min_rtt(sender: &EndRecord) -> Option<Duration> {
    let kept = known(sender, |tcp| tcp.min_rtt_us).min();
    let read = || {
        let idle = starts(sender).iter().filter_map(|start| start.tcp.rtt_us);
        idle.chain(known(sender, |tcp| tcp.rtt_us)).filter(|rtt| *rtt > 0).min()
    };
    // A kernel that has no sample yet says u32::MAX.
    kept.filter(|rtt| (1..u64::from(u32::MAX)).contains(rtt))
        .or_else(read)
        .map(Duration::from_micros)
}

fn rtt(sender: &EndRecord, steady: Option<&Steady>) -> Rtt {
    let truncated = steady.map_or(0, |steady| steady.truncated.as_nanos() as i64);
    let from = sender.started_ns.map_or(i64::MIN, |started| started.saturating_add(truncated));
    let under_load = |reading: &&redoline_proto::transfer::Reading| reading.at_ns >= from;
    let mut loaded: Vec<u64> = sender
        .readings
        .iter()
        .filter(under_load)
        .filter_map(|reading| reading.tcp.rtt_us)
        .filter(|rtt| *rtt > 0)
        .collect();
    loaded.sort_unstable();
    Rtt {
        min: min_rtt(sender),
        p50: loaded.get(loaded.len() / 2).copied().map(Duration::from_micros),
        max: known(sender, |tcp| tcp.rtt_us).max().map(Duration::from_micros),
        idle: None,
    }
}

/// Adds what probes of the idle path say of the round trips: for each test that of its pair which
/// was taken nearest to it. A round trip has no direction.
pub fn with_idle(mut summary: Summary, paths: &[PathSummary]) -> Summary {
    for pair in &mut summary.pairs {
        let idle = paths
            .iter()
            .filter(|path| path.pair == pair.pair)
            .filter_map(|path| Some((path.id, path.idle_rtt().filter(|rtt| rtt.p50_us > 0.0)?)))
            .min_by_key(|(id, _)| id.0.abs_diff(summary.id.0));
        pair.rtt.idle =
            idle.map(|(probe, rtt)| Idle { p50: Duration::from_secs_f64(rtt.p50_us / 1e6), probe });
    }
    summary
}

fn limited(sender: &EndRecord) -> Limited {
    let time =
        |field: fn(&TcpInfo) -> Option<u64>| growth(sender, field).map(Duration::from_micros);
    Limited {
        busy: time(|tcp| tcp.busy_time_us),
        receive_window: time(|tcp| tcp.rwnd_limited_us),
        send_buffer: time(|tcp| tcp.sndbuf_limited_us),
    }
}

/// `None` when it is not known or not the same on all streams.
fn congestion_control(end: &EndRecord) -> Option<String> {
    let (first, rest) = starts(end).split_first()?;
    rest.iter()
        .all(|start| start.congestion_control == first.congestion_control)
        .then(|| first.congestion_control.clone())
}

/// Over the time from the first byte to the end; an agent's own meter may have begun later.
fn cpu(end: &EndRecord) -> Option<Cpu> {
    let last = end.end.as_ref()?;
    let began =
        end.started_ns.or_else(|| last.streams.iter().filter_map(|s| s.first_byte_ns).min());
    let span_us = began.map_or(0, |began| (last.at_ns - began).max(0) as u64 / 1000);
    let cpu = &last.cpu;
    let elapsed_us = cpu.elapsed_us.max(span_us);
    let cores = |us: u64| us as f64 / elapsed_us as f64;
    // No thread uses more than one core: such a number was not measured.
    let possible = elapsed_us > 0 && cpu.busiest_thread_us as f64 <= 1.05 * elapsed_us as f64;
    possible.then(|| Cpu {
        threads: cores(cpu.threads_us),
        busiest_thread: cores(cpu.busiest_thread_us),
        host: cpu.host_cores,
        softirq: cpu.host_softirq_cores,
        steal: cpu.host_steal_cores,
        busiest_core: cpu.busiest_core_share,
        busiest_core_softirq: cpu.busiest_core_softirq_share,
        waiting: cpu.busiest_thread_wait_us.map(cores),
        throttled: cpu.throttled_us.map(cores),
        throttled_each: cpu.throttled_us.map(|us| cores(us) / last.streams.len().max(1) as f64),
    })
}

/// At the end of the test, since auto-tuning moves buffers; at its beginning if there is no end.
fn smallest(
    end: &EndRecord,
    at_end: impl Fn(&StreamEnd) -> u64,
    at_start: impl Fn(&StreamStart) -> u64,
) -> Option<Bytes> {
    let last = ends(end).iter().map(at_end).min();
    last.or_else(|| starts(end).iter().map(at_start).min()).map(Bytes)
}

fn stream(pair: &PairTransfer, start: &StreamStart) -> StreamSummary {
    let sent = end_of(&pair.sender, start.stream);
    let received = end_of(&pair.receiver, start.stream);
    let grown = |field: fn(&TcpInfo) -> Option<u64>| {
        Some(field(&sent?.tcp)?.saturating_sub(field(&start.tcp)?))
    };
    let micros = |field: fn(&TcpInfo) -> Option<u64>| {
        sent.and_then(|end| field(&end.tcp)).map(Duration::from_micros)
    };
    StreamSummary {
        stream: start.stream,
        local: start.local.clone(),
        remote: start.remote.clone(),
        received: received.map(|end| end.bytes),
        retransmitted: grown(|tcp| tcp.bytes_retrans),
        rtt: micros(|tcp| tcp.rtt_us),
        min_rtt: micros(|tcp| tcp.min_rtt_us),
        granted: Granted {
            send_buffer: sent.map(|end| Bytes(end.send_buffer_bytes)),
            receive_buffer: received.map(|end| Bytes(end.receive_buffer_bytes)),
        },
    }
}

/// All bytes over the time of the pair that took longest, each by its receiver's own clock.
fn whole_run(pairs: &[PairTransfer]) -> Option<BytesPerSecond> {
    let received: Vec<(u64, f64)> = pairs.iter().filter_map(first_to_last_byte).collect();
    let longest = received.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let bytes: u64 = received.iter().map(|(bytes, _)| bytes).sum();
    (longest > 0.0).then(|| BytesPerSecond(bytes as f64 / longest))
}

fn first_to_last_byte(pair: &PairTransfer) -> Option<(u64, f64)> {
    let bytes = counts(pair).received?;
    let streams = ends(&pair.receiver);
    let samples = &pair.receiver.samples;
    let first = streams.iter().filter_map(|end| end.first_byte_ns).min();
    let last = streams.iter().filter_map(|end| end.last_byte_ns).max();
    let first = first.or_else(|| samples.first().map(|sample| sample.from_ns))?;
    let last = last.or_else(|| samples.last().map(|sample| sample.to_ns))?;
    Some((bytes, (last - first) as f64 / 1e9))
}

fn samples(pairs: &[PairTransfer]) -> Vec<TimedInterval> {
    let tracks: Vec<Track> =
        pairs.iter().filter_map(|pair| Track::of(pair, pairs.len() == 1)).collect();
    let intervals = window::whole_run(&tracks);
    let zero = intervals.first().map_or(0, |(at, _)| *at);
    intervals
        .into_iter()
        .map(|(at, interval)| TimedInterval {
            at: Duration::from_nanos((at - zero).max(0) as u64),
            interval,
        })
        .collect()
}
