//! Threads that read: each until it is stopped, counting as it goes.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::error::StorageError;
use super::offsets::{Blocks, SplitMix64};
use super::pace::Pace;
use super::target::Source;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::latency::LatencyRecorder;
use crate::sys::pages::PageBuffer;
use crate::sys::read_ring::{AGAIN_MAX, AGAIN_PAUSE, Completion, ReadRing};

/// What all readers of a point share.
#[derive(Debug)]
pub struct Reading {
    pub source: Arc<Source>,
    pub blocks: Blocks,
    pub stop: CancelFlag,
    /// When the measured window ends, known once it starts; see [`Reading::wait_for_start`].
    pub end: OnceLock<Instant>,
    pub pace: Option<Pace>,
    /// The next block of a sequential pattern.
    pub cursor: AtomicU64,
    pub tally: Tally,
}

/// Reads that ended so far.
#[derive(Debug, Default)]
pub struct Tally {
    pub reads: AtomicU64,
    pub bytes: AtomicU64,
    pub short_reads: AtomicU64,
    /// That ended after the window: they cost the device, but belong to no rate.
    pub late_reads: AtomicU64,
}

/// What a reader leaves behind.
#[derive(Debug, Default)]
pub struct Done {
    pub latency: LatencyRecorder,
    /// Processor time of the thread.
    pub cpu_us: u64,
}

impl Reading {
    /// Waits for the window, as every reader does once it has its buffers.
    ///
    /// Whoever gives the point up sets `stop` and then an end.
    pub fn wait_for_start(&self) {
        self.end.wait();
    }

    fn may_go_on(&self) -> bool {
        let bytes = self.blocks.request_bytes;
        !self.is_over(Instant::now())
            && self.pace.as_ref().is_none_or(|pace| pace.wait(bytes, &self.stop))
    }

    /// No read starts any more.
    fn is_over(&self, now: Instant) -> bool {
        self.stop.is_set() || self.end.get().is_some_and(|end| now >= *end)
    }

    fn next_sequential(&self) -> u64 {
        self.blocks.offset(self.cursor.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts a read that ended at `now`. Rates are of the window; latencies are of every read that
    /// it began, or the longest would be missing.
    fn count(
        &self,
        offset: u64,
        length: u64,
        (started, now): (Instant, Instant),
        latency: &mut LatencyRecorder,
    ) -> Result<(), StorageError> {
        if length == 0 {
            return Err(StorageError::Shrunk { path: self.source.path.clone(), offset });
        }
        latency.record(now - started);
        if self.end.get().is_some_and(|end| now > *end) {
            self.tally.late_reads.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.tally.reads.fetch_add(1, Ordering::Relaxed);
        self.tally.bytes.fetch_add(length, Ordering::Relaxed);
        if length < self.blocks.request_bytes {
            self.tally.short_reads.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn read_error(&self, offset: u64, cause: io::Error) -> StorageError {
        self.source.read_error(offset, self.blocks.request_bytes, cause)
    }
}

/// One session of `db file sequential read`: one random block after the other.
///
/// Like all readers it calls `ready` once it has its memory, and then waits for the window.
pub fn read_random(
    reading: &Reading,
    mut random: SplitMix64,
    ready: impl FnOnce(),
) -> Result<Done, StorageError> {
    let next_offset = || reading.blocks.offset(random.below(reading.blocks.count));
    read_synchronously(reading, next_offset, ready)
}

/// One of the threads that together keep a number of sequential reads outstanding.
pub fn read_next(reading: &Reading, ready: impl FnOnce()) -> Result<Done, StorageError> {
    read_synchronously(reading, || reading.next_sequential(), ready)
}

fn read_synchronously(
    reading: &Reading,
    mut next_offset: impl FnMut() -> u64,
    ready: impl FnOnce(),
) -> Result<Done, StorageError> {
    let request_bytes = reading.blocks.request_bytes as usize;
    let mut buffer = PageBuffer::new(request_bytes).map_err(StorageError::Resources)?;
    let mut latency = LatencyRecorder::default();
    ready();
    reading.wait_for_start();
    let cpu_before = cpu_us(UsageWho::RUSAGE_THREAD);
    while reading.may_go_on() {
        let offset = next_offset();
        let started = Instant::now();
        let length = read_at(&reading.source, &mut buffer, offset)
            .map_err(|cause| reading.read_error(offset, cause))?;
        reading.count(offset, length as u64, (started, Instant::now()), &mut latency)?;
    }
    Ok(Done { latency, cpu_us: cpu_us(UsageWho::RUSAGE_THREAD).saturating_sub(cpu_before) })
}

fn read_at(source: &Source, buffer: &mut PageBuffer, offset: u64) -> io::Result<usize> {
    loop {
        match source.file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            other => return other,
        }
    }
}

/// `direct path read`: one thread, each slot submitted again as soon as it completes.
pub fn read_with_ring(
    reading: &Reading,
    slots: u32,
    ready: impl FnOnce(),
) -> Result<Done, StorageError> {
    let request_bytes = reading.blocks.request_bytes as usize;
    let ring = ReadRing::new(Arc::clone(&reading.source.file), slots, request_bytes)
        .map_err(StorageError::Resources)?;
    let requests = vec![Request { offset: 0, started: Instant::now() }; slots as usize];
    let idle = (0..slots).rev().collect();
    let latency = LatencyRecorder::default();
    let mut reader = RingReader { reading, ring, requests, idle, turn: None, again: 0, latency };
    ready();
    reading.wait_for_start();
    let cpu_before = cpu_us(UsageWho::RUSAGE_THREAD);
    let outcome = reader.run();
    let latency = std::mem::take(&mut reader.latency);
    // Waits for what is outstanding after an error.
    drop(reader);
    outcome?;
    Ok(Done { latency, cpu_us: cpu_us(UsageWho::RUSAGE_THREAD).saturating_sub(cpu_before) })
}

#[derive(Clone, Copy, Debug)]
struct Request {
    offset: u64,
    started: Instant,
}

struct RingReader<'a> {
    reading: &'a Reading,
    ring: ReadRing,
    /// By slot.
    requests: Vec<Request>,
    idle: Vec<u32>,
    /// When the pace lets the next read go.
    turn: Option<Instant>,
    /// Reads in a row that the kernel wants to be asked for again.
    again: u32,
    latency: LatencyRecorder,
}

impl RingReader<'_> {
    fn run(&mut self) -> Result<(), StorageError> {
        loop {
            let pause = self.submit_idle()?;
            if self.ring.in_flight() > 0 {
                self.reap(pause)?;
            } else if self.reading.stop.wait_timeout(pause) {
                return Ok(());
            }
        }
    }

    /// Submits into idle slots until the pace holds or the window is over; then how long to wait at
    /// most.
    fn submit_idle(&mut self) -> Result<Duration, StorageError> {
        const PAUSE_MAX: Duration = Duration::from_millis(100);
        while let Some(&slot) = self.idle.last() {
            let now = Instant::now();
            if self.reading.is_over(now) {
                break;
            }
            if let Some(pace) = &self.reading.pace {
                let bytes = self.reading.blocks.request_bytes;
                let turn = *self.turn.get_or_insert_with(|| pace.reserve(bytes, now));
                if turn > now {
                    return Ok((turn - now).min(PAUSE_MAX));
                }
            }
            self.turn = None;
            self.idle.pop();
            let offset = self.reading.next_sequential();
            self.requests[slot as usize] = Request { offset, started: now };
            self.ring
                .submit(slot, offset)
                .map_err(|cause| self.reading.read_error(offset, cause))?;
        }
        Ok(PAUSE_MAX)
    }

    fn reap(&mut self, pause: Duration) -> Result<(), StorageError> {
        let ended = self.ring.wait(pause).map_err(|cause| self.reading.read_error(0, cause))?;
        let now = Instant::now();
        for completion in ended {
            self.settle(completion, now)?;
        }
        Ok(())
    }

    fn settle(&mut self, completion: Completion, now: Instant) -> Result<(), StorageError> {
        let Request { offset, started } = self.requests[completion.slot as usize];
        self.idle.push(completion.slot);
        match completion.outcome {
            Ok(length) => {
                self.again = 0;
                self.reading.count(offset, length.into(), (started, now), &mut self.latency)
            }
            // Not read at all: its place in the file is skipped, and it is not counted.
            Err(cause) if is_retry(&cause) && self.again < AGAIN_MAX => {
                self.again += 1;
                thread::sleep(AGAIN_PAUSE);
                Ok(())
            }
            Err(cause) => Err(self.reading.read_error(offset, cause)),
        }
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}

/// Processor time of a thread or the process; getrusage does not fail for either.
pub fn cpu_us(who: UsageWho) -> u64 {
    let Ok(usage) = getrusage(who) else { return 0 };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    u64::try_from(micros).unwrap_or(0)
}
