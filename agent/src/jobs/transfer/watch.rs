//! Watches a test while its streams run: samples, limits, deadlines, and its end.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redoline_proto::transfer::{Acknowledgements, CpuUse, Guard, StopCause, Stopped, StreamEnd};

use super::outlet::Outlet;
use super::sampler::Sampler;
use super::stalled::Stalled;
use super::stopped;
use super::stream::{Finish, Stream};
use super::sync::Tally;
use crate::jobs::JobControl;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::cpu::{CpuTicks, ThreadUse};
use crate::jobs::guard::Watchman;
use crate::jobs::host_use::{HostCounters, HostTotals, HostUse};
use crate::sys::clock::monotonic_ns;
use crate::sys::tcp;

/// How late a cancelled test may notice.
const ATTENTION: Duration = Duration::from_millis(50);

/// Samples and readings closer together than this would be most of the work.
const INTERVAL_MIN: Duration = Duration::from_millis(5);

/// Between two batches: `duration: auto` looks at what has been told, and waits for it.
const SHIP: Duration = Duration::from_millis(500);

/// For threads to end once their sockets are shut down.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// What is watched, and how.
#[derive(Debug)]
pub struct Watch<'a> {
    pub streams: &'a [Arc<Stream>],
    pub finishes: Receiver<Finish>,
    /// Made before the first byte moved.
    pub sampler: Sampler<'a>,
    pub control: &'a JobControl,
    /// Set here; ends the threads of the streams.
    pub halt: &'a CancelFlag,
    pub outlet: &'a Outlet,
    pub sample: Duration,
    pub reading: Duration,
    pub guard: Guard,
    /// Of the whole test.
    pub deadline: Instant,
    /// Makes a stream's thread see `halt` and its socket close without delay.
    pub break_off: fn(&Stream),
    /// Read before the first byte moved.
    pub host: (HostCounters, HostTotals),
    /// For a sender: whether the peer still takes anything.
    pub stalled: Option<Stalled>,
}

/// What a test came to.
#[derive(Debug)]
pub struct Outcome {
    pub streams: Vec<StreamEnd>,
    pub cpu: CpuUse,
    pub stopped: Option<Stopped>,
    pub host: HostUse,
    pub acknowledgements: Option<Acknowledgements>,
}

struct Rounds {
    sample: Round,
    reading: Round,
    ship: Round,
    second: Round,
}

impl Watch<'_> {
    /// Returns when all streams have ended, or a moment after they were told to.
    pub fn run(mut self) -> Outcome {
        let mut finished: Vec<Option<Finish>> = self.streams.iter().map(|_| None).collect();
        let mut watchman = Watchman::new(self.guard);
        let mut rounds = Rounds::new(&self);
        let mut meter = Meter::start();
        let mut stop: Option<(Stopped, Instant)> = None;

        while finished.iter().any(Option::is_none) {
            match self.finishes.recv_timeout(rounds.pause()) {
                Ok(finish) => {
                    let place = finish.stream;
                    finished[place] = Some(finish);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            let second = rounds.second.is_due(now);
            match &stop {
                Some((_, since)) if now > *since + LAST_WAIT => break,
                Some(_) => {}
                None => {
                    let look = second.then_some(&mut watchman);
                    let reason = self.reason_to_stop(&finished, look, now);
                    stop = reason.map(|stopped| (self.halt_all(stopped), now));
                }
            }
            // Looked at each time round, since a sender samples as rarely as once a second.
            let first_byte_ns = if meter.flowing { None } else { self.first_byte_ns() };
            if let Some(began_ns) = first_byte_ns {
                meter = Meter::of_a_flow(began_ns);
                self.sampler.sample();
            } else if !meter.flowing {
                self.put_off();
            }
            if rounds.sample.is_due(now) {
                self.sampler.sample();
            }
            if rounds.reading.is_due(now) {
                self.sampler.read();
            }
            // The first one at once: whoever looks on sees that bytes flow.
            if rounds.ship.is_due(now) || first_byte_ns.is_some() {
                self.sampler.ship(self.outlet);
            }
        }
        self.cut_off(&finished);
        self.sampler.finish(self.outlet);
        self.outcome(finished, &meter, stop.map(|(stopped, _)| stopped))
    }

    fn reason_to_stop(
        &mut self,
        finished: &[Option<Finish>],
        watchman: Option<&mut Watchman>,
        now: Instant,
    ) -> Option<Stopped> {
        if self.control.cancel.is_set() {
            return Some(stopped(StopCause::Cancelled, "cancelled"));
        }
        if now > self.deadline {
            return Some(stopped(StopCause::Deadline, "the test did not end within its deadline"));
        }
        let trouble = finished.iter().flatten().find_map(Finish::trouble);
        // The rest needs system calls and is looked at once a second.
        trouble.cloned().or_else(|| {
            let stalled = self.stalled.as_mut();
            watchman?.look().or_else(|| stalled?.look(self.streams, now))
        })
    }

    /// Of all streams; `None` while nothing has flowed.
    fn first_byte_ns(&self) -> Option<i64> {
        self.streams.iter().filter_map(|stream| stream.progress.first_byte_ns()).min()
    }

    /// Nothing has flowed yet: what the host did so far is none of the job's.
    fn put_off(&mut self) {
        let totals = self.host.0.read();
        if self.streams.iter().all(|stream| stream.progress.bytes() == 0) {
            self.host.1 = totals;
        }
    }

    fn halt_all(&self, stopped: Stopped) -> Stopped {
        self.halt.set();
        // Wakes those that wait for their next turn.
        self.control.finish.set();
        self.streams.iter().for_each(|stream| (self.break_off)(stream));
        stopped
    }

    /// What did not come to its end goes now: telling the rest may have to wait for a listener, and
    /// the peer and the network must not.
    fn cut_off(&self, finished: &[Option<Finish>]) {
        for (stream, finish) in self.streams.iter().zip(finished) {
            if finish.as_ref().is_none_or(|finish| !finish.drained) {
                // One that has gone already is what is wanted.
                let _ = tcp::reset(&stream.socket);
            }
        }
    }

    fn outcome(
        &self,
        finished: Vec<Option<Finish>>,
        meter: &Meter,
        stop: Option<Stopped>,
    ) -> Outcome {
        let lost = finished.iter().any(Option::is_none);
        let lost = lost.then(|| stopped(StopCause::System, "a stream's thread did not end"));
        let early = finished.iter().flatten().find_map(|finish| finish.course.stopped().cloned());
        let mut threads = vec![ThreadUse::now().since(meter.watcher)];
        threads.extend(finished.iter().flatten().map(|finish| finish.processor));
        let tallies = finished.iter().flatten().filter_map(|finish| finish.tally.as_deref());
        let acknowledgements = Tally::acknowledgements(tallies);
        let host = self.host.1.until(&self.host.0.read());
        let cpu = meter.cpu_use(&threads, host.throttled_us);
        let streams = self.streams.iter().zip(finished).map(|(stream, finish)| match finish {
            Some(finish) => stream.end(finish.last_words, finish.drained),
            None => stream.end(Default::default(), false),
        });
        Outcome {
            streams: streams.collect(),
            cpu,
            stopped: stop.or(early).or(lost),
            host,
            acknowledgements,
        }
    }
}

impl Rounds {
    fn new(watch: &Watch<'_>) -> Self {
        Self {
            sample: Round::every(watch.sample.max(INTERVAL_MIN)),
            reading: Round::every(watch.reading.max(INTERVAL_MIN)),
            ship: Round::every(SHIP),
            second: Round::every(Duration::from_secs(1)),
        }
    }

    fn pause(&self) -> Duration {
        let next =
            self.sample.next.min(self.reading.next).min(self.ship.next).min(self.second.next);
        next.saturating_duration_since(Instant::now()).min(ATTENTION)
    }
}

/// Comes round at fixed times; a round that was missed is not made up for.
struct Round {
    next: Instant,
    every: Duration,
}

impl Round {
    fn every(every: Duration) -> Self {
        Self { next: Instant::now() + every, every }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.next += self.every;
        if self.next <= now {
            self.next = now + self.every;
        }
        true
    }
}

/// What the processors did from its start on.
struct Meter {
    began_ns: i64,
    ticks: Option<CpuTicks>,
    /// Of the watching thread, up to then.
    watcher: ThreadUse,
    flowing: bool,
}

impl Meter {
    fn start() -> Self {
        Self {
            began_ns: monotonic_ns(),
            ticks: CpuTicks::now(),
            watcher: ThreadUse::now(),
            flowing: false,
        }
    }

    /// From its first byte on, which was noticed a moment later: before it, the host only waited.
    fn of_a_flow(began_ns: i64) -> Self {
        Self { began_ns, flowing: true, ..Self::start() }
    }

    fn cpu_use(&self, threads: &[ThreadUse], throttled_us: Option<u64>) -> CpuUse {
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = CpuTicks::now();
        let host = self.ticks.as_ref().zip(now.as_ref()).and_then(|(then, now)| then.until(now));
        let busiest = threads.iter().max_by_key(|thread| thread.cpu).copied().unwrap_or_default();
        CpuUse {
            threads_us: microseconds(threads.iter().map(|thread| thread.cpu).sum()),
            busiest_thread_us: microseconds(busiest.cpu),
            elapsed_us: (monotonic_ns() - self.began_ns).unsigned_abs() / 1000,
            host_cores: host.map(|load| load.busy_cores),
            host_softirq_cores: host.map(|load| load.softirq_cores),
            host_steal_cores: host.map(|load| load.steal_cores),
            busiest_core_share: host.map(|load| load.busiest_core_share),
            busiest_core_softirq_share: host.map(|load| load.busiest_core_softirq_share),
            busiest_thread_wait_us: busiest.wait.map(microseconds),
            throttled_us,
        }
    }
}
