//! Runs one point: starts its readers, samples them, stops them in time, and sums up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::UsageWho;
use redoline_proto::storage::{StoragePattern, StoragePoint, StorageProgress, StorageResult};

use super::counters::{Counters, DeviceUse};
use super::engine::{Choice, Engine};
use super::error::StorageError;
use super::offsets::{Blocks, SplitMix64};
use super::pace::Pace;
use super::reader::{self, Done, Reading, Tally};
use super::samples::Sampler;
use super::target::Source;
use super::watch::Watch;
use crate::jobs::cancel::CancelFlag;

/// For all readers to get their memory.
const READY: Duration = Duration::from_secs(30);
/// For reads that are outstanding when a point ends; a path that fails over takes this long.
const DRAIN: Duration = Duration::from_secs(60);
/// The same for a point that was cancelled or failed: its figures are not wanted any more.
const DRAIN_EARLY: Duration = Duration::from_secs(1);
/// How soon a cancelled job notices.
const TICK: Duration = Duration::from_millis(50);

/// What every point of a job shares.
#[derive(Debug)]
pub struct Setting<'a> {
    pub source: Arc<Source>,
    pub sample: Duration,
    pub seed: u64,
    pub pace: Option<Pace>,
    pub cancel: &'a CancelFlag,
}

/// One point of a job, and how it is read.
#[derive(Debug)]
pub struct Task<'a> {
    pub index: usize,
    pub point: &'a StoragePoint,
    pub choice: Choice,
}

/// Refuses what cannot be read before anything is read.
pub fn check(point: &StoragePoint, source: &Source) -> Result<Blocks, StorageError> {
    point.check()?;
    if !point.request_bytes.is_multiple_of(source.alignment_bytes.into()) {
        return Err(StorageError::Unaligned {
            path: source.path.clone(),
            request_bytes: point.request_bytes,
            alignment_bytes: source.alignment_bytes,
        });
    }
    Blocks::of(source.size_bytes, point.request_bytes).ok_or_else(|| StorageError::TooSmall {
        path: source.path.clone(),
        size_bytes: source.size_bytes,
        request_bytes: point.request_bytes,
    })
}

/// Runs one point. A sequential point starts at `position` and moves it on, so that no point reads
/// what the one before left in a cache.
///
/// The measured window opens once all readers are ready and lasts as long as the point asks: reads
/// that end after it are waited for, and are part of the latencies and of the device's figures, but
/// of no rate.
pub fn run(
    setting: &Setting<'_>,
    task: Task<'_>,
    position: &mut u64,
    watch: &mut Watch,
    mut progress: impl FnMut(StorageProgress),
) -> Result<StorageResult, StorageError> {
    let Task { index, point, choice } = task;
    let blocks = check(point, &setting.source)?;
    let reading = Arc::new(Reading {
        source: Arc::clone(&setting.source),
        blocks,
        stop: CancelFlag::new(),
        end: OnceLock::new(),
        pace: setting.pace.clone(),
        cursor: AtomicU64::new(blocks.at(*position)),
        tally: Tally::default(),
    });
    let mut readers = Readers::start(&reading, point, choice.engine, setting.seed ^ index as u64)?;
    readers.gather(setting.cancel, watch)?;
    let disks = setting.source.device.as_ref().map_or(&[][..], |device| &device.disks);
    let before = Counters::read(disks);
    let cpu_before = reader::cpu_us(UsageWho::RUSAGE_SELF);
    let mut sampler = Sampler::start(setting.sample, Duration::from_millis(point.duration_ms));
    let mut done = readers.attend(point, setting.cancel, watch, &mut sampler, &mut progress)?;
    sampler.finish(&reading.tally);
    if choice.engine == Engine::IoUring {
        // The kernel's workers of the ring (NFS needs them) are threads of the process.
        done.cpu_us = reader::cpu_us(UsageWho::RUSAGE_SELF).saturating_sub(cpu_before);
    }
    let tally = &reading.tally;
    let reads = tally.reads.load(Ordering::Relaxed) + tally.late_reads.load(Ordering::Relaxed);
    let used = Counters::read(disks).since(&before, reads, reads * point.request_bytes);
    if point.pattern == StoragePattern::DirectPath {
        *position = blocks.offset(reading.cursor.load(Ordering::Relaxed));
    }
    Ok(summary(point, choice, tally, sampler, done, used))
}

fn summary(
    point: &StoragePoint,
    choice: Choice,
    tally: &Tally,
    sampler: Sampler,
    done: Done,
    used: DeviceUse,
) -> StorageResult {
    StorageResult {
        point: *point,
        engine: choice.engine.name().to_owned(),
        engine_reason: choice.reason,
        reads: tally.reads.load(Ordering::Relaxed),
        bytes: tally.bytes.load(Ordering::Relaxed),
        elapsed_ns: u64::try_from(sampler.last_ns - sampler.start_ns).unwrap_or(0),
        samples: sampler.samples,
        latency: done.latency.summary(),
        device_read_ratio: used.read_ratio,
        device_requests_per_read: used.requests_per_read,
        foreign_bytes: used.foreign_bytes,
        cpu_us: done.cpu_us,
        short_reads: tally.short_reads.load(Ordering::Relaxed),
        buffer_pages: "4 KiB".to_owned(),
    }
}

/// Threads at work. They own all that they use: one that a dead disk holds is left to the kernel.
struct Readers {
    reading: Arc<Reading>,
    reports: mpsc::Receiver<Report>,
    running: u32,
    ready: u32,
}

/// What a reader says.
enum Report {
    /// It has its memory and waits for the window.
    Ready,
    Ended(Box<Result<Done, StorageError>>),
}

impl Readers {
    fn start(
        reading: &Arc<Reading>,
        point: &StoragePoint,
        engine: Engine,
        seed: u64,
    ) -> Result<Self, StorageError> {
        let slots = point.outstanding;
        let (report, reports) = mpsc::channel();
        let mut readers = Self { reading: Arc::clone(reading), reports, running: 0, ready: 0 };
        match engine {
            Engine::IoUring => readers.spawn(&report, move |reading, ready| {
                reader::read_with_ring(reading, slots, ready)
            })?,
            Engine::Threads => {
                for _ in 0..slots {
                    readers.spawn(&report, |reading, ready| reader::read_next(reading, ready))?;
                }
            }
            Engine::Pread => {
                for session in 0..slots {
                    let random = SplitMix64::new(seed, session.into());
                    readers.spawn(&report, move |reading, ready| {
                        reader::read_random(reading, random, ready)
                    })?;
                }
            }
        }
        Ok(readers)
    }

    fn spawn(
        &mut self,
        report: &mpsc::Sender<Report>,
        read: impl FnOnce(&Reading, &dyn Fn()) -> Result<Done, StorageError> + Send + 'static,
    ) -> Result<(), StorageError> {
        let (reading, report) = (Arc::clone(&self.reading), report.clone());
        let body = move || {
            // Nobody listens any more when the job gave up on this thread.
            let ready = || drop(report.send(Report::Ready));
            let done = read(&reading, &ready);
            let _ = report.send(Report::Ended(Box::new(done)));
        };
        thread::Builder::new()
            .name("storage-read".to_owned())
            .stack_size(256 << 10)
            .spawn(body)
            .map_err(StorageError::Resources)?;
        self.running += 1;
        Ok(())
    }

    /// Returns when all readers have their memory.
    fn gather(&mut self, cancel: &CancelFlag, watch: &mut Watch) -> Result<(), StorageError> {
        let deadline = Instant::now() + READY;
        while self.ready < self.running {
            self.collect(TICK, &mut Done::default())?;
            look(cancel, watch)?;
            if Instant::now() >= deadline {
                let what = "getting memory for the readers";
                return Err(StorageError::Deadline { what, seconds: READY.as_secs() });
            }
        }
        Ok(())
    }

    /// Opens the window; until its end, or until something ends it earlier; then until all reads
    /// ended.
    fn attend(
        mut self,
        point: &StoragePoint,
        cancel: &CancelFlag,
        watch: &mut Watch,
        sampler: &mut Sampler,
        progress: &mut impl FnMut(StorageProgress),
    ) -> Result<Done, StorageError> {
        let mut sum = Done::default();
        // Set by nobody else while this value lives.
        let _ = self.reading.end.set(sampler.end());
        let watched = self.watch_over(point, cancel, watch, sampler, progress, &mut sum);
        self.reading.stop.set();
        let ended = watched.and_then(|()| self.drain(cancel, watch, &mut sum));
        if ended.is_err() {
            self.leave(&mut sum);
        }
        ended.map(|()| sum)
    }

    fn watch_over(
        &mut self,
        point: &StoragePoint,
        cancel: &CancelFlag,
        watch: &mut Watch,
        sampler: &mut Sampler,
        progress: &mut impl FnMut(StorageProgress),
        sum: &mut Done,
    ) -> Result<(), StorageError> {
        let (started, end) = (Instant::now(), sampler.end());
        let mut told = started;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.collect(left.min(TICK).min(sampler.until_next()), sum)?;
            sampler.sample(&self.reading.tally);
            look(cancel, watch)?;
            let now = Instant::now();
            if now.duration_since(told) >= Duration::from_secs(1) {
                told = now;
                progress(describe(point, now.duration_since(started)));
            }
        }
    }

    /// Waits for what is outstanding.
    fn drain(
        &mut self,
        cancel: &CancelFlag,
        watch: &mut Watch,
        sum: &mut Done,
    ) -> Result<(), StorageError> {
        let deadline = Instant::now() + DRAIN;
        while self.running > 0 {
            self.collect(TICK, sum)?;
            look(cancel, watch)?;
            if Instant::now() >= deadline {
                let what = "outstanding reads";
                return Err(StorageError::Deadline { what, seconds: DRAIN.as_secs() });
            }
        }
        Ok(())
    }

    /// Gives the readers a moment to end; what they say is not wanted any more.
    fn leave(&mut self, sum: &mut Done) {
        let deadline = Instant::now() + DRAIN_EARLY;
        while self.running > 0 && Instant::now() < deadline {
            let _ = self.collect(TICK, sum);
        }
    }

    /// Waits for one reader to say something, at most for `pause`.
    fn collect(&mut self, pause: Duration, sum: &mut Done) -> Result<(), StorageError> {
        match self.reports.recv_timeout(pause) {
            Ok(Report::Ready) => {
                self.ready += 1;
                Ok(())
            }
            Ok(Report::Ended(done)) => {
                self.running = self.running.saturating_sub(1);
                let done = (*done)?;
                sum.latency.merge(&done.latency);
                sum.cpu_us += done.cpu_us;
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            // Only when readers panicked: every other way to end is reported.
            Err(RecvTimeoutError::Disconnected) => {
                self.running = 0;
                let cause = std::io::Error::other("a reading thread ended without a report");
                Err(StorageError::Resources(cause))
            }
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reading.stop.set();
        // Wakes readers whose window never came.
        let _ = self.reading.end.set(Instant::now());
    }
}

/// Whether the job has to end now.
fn look(cancel: &CancelFlag, watch: &mut Watch) -> Result<(), StorageError> {
    if cancel.is_set() {
        return Err(StorageError::Cancelled);
    }
    watch.check(Instant::now()).map_or(Ok(()), |limit| Err(StorageError::Limit(limit)))
}

fn describe(point: &StoragePoint, passed: Duration) -> StorageProgress {
    let pattern = match point.pattern {
        StoragePattern::SingleBlock => "single block reads, sessions",
        StoragePattern::DirectPath => "direct path reads, outstanding",
    };
    let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
    StorageProgress {
        text: format!("{pattern}: {}", point.outstanding),
        share_done: (passed_ms as f64 / point.duration_ms as f64).min(1.0),
    }
}
