//! Runs one point: starts its readers, samples them, stops them in time, and sums up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::UsageWho;
use redoline_proto::storage::{StoragePattern, StoragePoint, StorageProgress, StorageResult};

use super::counters::{Counters, DeviceUse};
use super::engine::{self, Allowed, Choice, Engine};
use super::error::StorageError;
use super::offsets::{Blocks, SplitMix64};
use super::pace::Pace;
use super::reader::{self, Done, Reading, Tally};
use super::samples::Sampler;
use super::target::Source;
use super::watch::Watch;
use crate::jobs::cancel::CancelFlag;
use crate::sys::pages::PageBuffer;

pub const OUTSTANDING_MAX: u32 = 256;
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// For reads that are outstanding when a point ends; a path that fails over takes this long.
const DRAIN: Duration = Duration::from_secs(60);
/// The same for a point that was cancelled or failed: its figures are not wanted any more.
const DRAIN_EARLY: Duration = Duration::from_secs(5);
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
    pub allowed: Allowed,
}

/// Refuses what cannot be read before anything is read.
pub fn check(point: &StoragePoint, source: &Source) -> Result<Blocks, StorageError> {
    let invalid = |what, allowed| Err(StorageError::InvalidPoint { what, allowed });
    if point.outstanding == 0 || point.outstanding > OUTSTANDING_MAX {
        return invalid(format!("{} reads at a time", point.outstanding), "1 to 256");
    }
    if point.request_bytes == 0 || point.request_bytes > REQUEST_BYTES_MAX {
        return invalid(format!("reads of {} bytes", point.request_bytes), "1 byte to 32 MiB");
    }
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

/// Runs the point with this index. A sequential point starts at `position` and moves it on, so that
/// no point reads what the one before left in a cache.
pub fn run(
    setting: &Setting<'_>,
    index: usize,
    point: &StoragePoint,
    position: &mut u64,
    watch: &mut Watch,
    mut progress: impl FnMut(StorageProgress),
) -> Result<StorageResult, StorageError> {
    let blocks = check(point, &setting.source)?;
    setting.source.trial_read(point.request_bytes)?;
    let choice = engine::choose(&setting.source, point, setting.pace.is_some(), setting.allowed);
    let reading = Arc::new(Reading {
        source: Arc::clone(&setting.source),
        blocks,
        stop: CancelFlag::new(),
        pace: setting.pace.clone(),
        cursor: AtomicU64::new(blocks.at(*position)),
        tally: Tally::default(),
    });
    let disks = setting.source.device.as_ref().map_or(&[][..], |device| &device.disks);
    let before = Counters::read(disks);
    let cpu_before = reader::cpu_us(UsageWho::RUSAGE_SELF);
    let mut sampler = Sampler::start(setting.sample, point.duration_ms);
    let readers = Readers::start(&reading, point, choice.engine, setting.seed ^ index as u64)?;
    let mut done = readers.attend(point, setting.cancel, watch, &mut sampler, &mut progress)?;
    sampler.finish(&reading.tally);
    if choice.engine == Engine::IoUring {
        // The kernel's workers of the ring (NFS needs them) are threads of the process.
        done.cpu_us = reader::cpu_us(UsageWho::RUSAGE_SELF).saturating_sub(cpu_before);
    }
    let tally = &reading.tally;
    let reads = tally.reads.load(Ordering::Relaxed);
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
    ended: mpsc::Receiver<Result<Done, StorageError>>,
    running: u32,
}

impl Readers {
    fn start(
        reading: &Arc<Reading>,
        point: &StoragePoint,
        engine: Engine,
        seed: u64,
    ) -> Result<Self, StorageError> {
        let slots = point.outstanding;
        let (report, ended) = mpsc::channel();
        let mut readers = Self { reading: Arc::clone(reading), ended, running: 0 };
        let buffer =
            || PageBuffer::new(point.request_bytes as usize).map_err(StorageError::Resources);
        match engine {
            Engine::IoUring => {
                readers.spawn(&report, move |reading| reader::read_with_ring(reading, slots))?;
            }
            Engine::Threads => {
                for _ in 0..slots {
                    let buffer = buffer()?;
                    readers.spawn(&report, move |reading| reader::read_next(reading, buffer))?;
                }
            }
            Engine::Pread => {
                for session in 0..slots {
                    let buffer = buffer()?;
                    let random = SplitMix64::new(seed, session.into());
                    readers.spawn(&report, move |reading| {
                        reader::read_random(reading, buffer, random)
                    })?;
                }
            }
        }
        Ok(readers)
    }

    fn spawn(
        &mut self,
        report: &mpsc::Sender<Result<Done, StorageError>>,
        read: impl FnOnce(&Reading) -> Result<Done, StorageError> + Send + 'static,
    ) -> Result<(), StorageError> {
        let (reading, report) = (Arc::clone(&self.reading), report.clone());
        let body = move || {
            // Nobody listens any more when the job gave up on this thread.
            let _ = report.send(read(&reading));
        };
        thread::Builder::new()
            .name("storage-read".to_owned())
            .stack_size(256 << 10)
            .spawn(body)
            .map_err(StorageError::Resources)?;
        self.running += 1;
        Ok(())
    }

    /// Until the point's time is over, or something ends it earlier; then until all reads ended.
    fn attend(
        mut self,
        point: &StoragePoint,
        cancel: &CancelFlag,
        watch: &mut Watch,
        sampler: &mut Sampler,
        progress: &mut impl FnMut(StorageProgress),
    ) -> Result<Done, StorageError> {
        let mut sum = Done::default();
        let outcome = self.watch_over(point, cancel, watch, sampler, progress, &mut sum);
        let patience = if outcome.is_ok() { DRAIN } else { DRAIN_EARLY };
        let drained = self.drain(patience, &mut sum);
        outcome?;
        drained?;
        Ok(sum)
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
        let started = Instant::now();
        let end = started + Duration::from_millis(point.duration_ms);
        let mut told = started;
        while Instant::now() < end {
            let pause = end.saturating_duration_since(Instant::now());
            self.collect(pause.min(TICK).min(sampler.until_next()), sum)?;
            sampler.sample(&self.reading.tally);
            if cancel.is_set() {
                return Err(StorageError::Cancelled);
            }
            let now = Instant::now();
            if let Some(limit) = watch.check(now) {
                return Err(StorageError::Limit(limit));
            }
            if now.duration_since(told) >= Duration::from_secs(1) {
                told = now;
                progress(describe(point, now.duration_since(started)));
            }
        }
        Ok(())
    }

    fn drain(&mut self, patience: Duration, sum: &mut Done) -> Result<(), StorageError> {
        self.reading.stop.set();
        let deadline = Instant::now() + patience;
        while self.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let what = "outstanding reads";
                return Err(StorageError::Deadline { what, seconds: patience.as_secs() });
            }
            self.collect(left, sum)?;
        }
        Ok(())
    }

    /// Waits for one reader to end, at most for `pause`.
    fn collect(&mut self, pause: Duration, sum: &mut Done) -> Result<(), StorageError> {
        match self.ended.recv_timeout(pause) {
            Ok(done) => {
                self.running = self.running.saturating_sub(1);
                let done = done?;
                sum.latency.merge(&done.latency);
                sum.cpu_us += done.cpu_us;
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            // Only when readers panicked: every other way to end is reported.
            Err(RecvTimeoutError::Disconnected) => {
                let cause = std::io::Error::other("a reading thread ended without a report");
                Err(StorageError::Resources(cause))
            }
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reading.stop.set();
    }
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
