//! Cuts the course of a point into intervals, by the clock of all samples of an agent.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redoline_proto::storage::StorageSample;

use super::reader::Tally;
use crate::sys::clock::monotonic_ns;

/// A result must fit in one message.
const SAMPLES_MAX: u32 = 4000;
const SAMPLE_MIN: Duration = Duration::from_millis(10);

/// The samples so far, and when the next one is due.
#[derive(Debug)]
pub struct Sampler {
    interval: Duration,
    next: Instant,
    pub start_ns: i64,
    pub last_ns: i64,
    last_reads: u64,
    last_bytes: u64,
    pub samples: Vec<StorageSample>,
}

impl Sampler {
    /// A long point gets longer intervals rather than more than its message can carry.
    pub fn start(asked: Duration, duration_ms: u64) -> Self {
        let interval = asked.max(Duration::from_millis(duration_ms) / SAMPLES_MAX).max(SAMPLE_MIN);
        let now_ns = monotonic_ns();
        Self {
            interval,
            next: Instant::now() + interval,
            start_ns: now_ns,
            last_ns: now_ns,
            last_reads: 0,
            last_bytes: 0,
            samples: Vec::new(),
        }
    }

    pub fn until_next(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    pub fn sample(&mut self, tally: &Tally) {
        if self.until_next().is_zero() {
            self.cut(tally);
            // Never two at once after a stall.
            self.next = (self.next + self.interval).max(Instant::now() + self.interval / 2);
        }
    }

    /// The rest, with the reads that were outstanding at the end. A short rest is part of the
    /// sample before it: its own rate would be noise.
    pub fn finish(&mut self, tally: &Tally) {
        self.cut(tally);
        let [.., before, rest] = &mut self.samples[..] else { return };
        if Duration::from_nanos((rest.to_ns - rest.from_ns).unsigned_abs()) < self.interval / 2 {
            before.to_ns = rest.to_ns;
            before.reads += rest.reads;
            before.bytes += rest.bytes;
            self.samples.pop();
        }
    }

    fn cut(&mut self, tally: &Tally) {
        let now_ns = monotonic_ns();
        let reads = tally.reads.load(Ordering::Relaxed);
        let bytes = tally.bytes.load(Ordering::Relaxed);
        self.samples.push(StorageSample {
            from_ns: self.last_ns,
            to_ns: now_ns,
            reads: reads - self.last_reads,
            bytes: bytes - self.last_bytes,
        });
        (self.last_ns, self.last_reads, self.last_bytes) = (now_ns, reads, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_rest_belongs_to_the_sample_before_it() {
        let mut sampler = Sampler::start(Duration::from_secs(3600), 1000);
        let tally = Tally::default();
        tally.reads.store(10, Ordering::Relaxed);
        sampler.cut(&tally);
        tally.reads.store(12, Ordering::Relaxed);
        sampler.finish(&tally);
        assert_eq!(sampler.samples.len(), 1);
        assert_eq!((sampler.samples[0].reads, sampler.samples[0].to_ns), (12, sampler.last_ns));
    }

    #[test]
    fn a_long_point_has_no_more_samples_than_a_message_holds() {
        let day_ms = 86_400_000;
        let sampler = Sampler::start(Duration::from_millis(100), day_ms);
        assert!(Duration::from_millis(day_ms).div_duration_f64(sampler.interval) <= 4000.0);
    }
}
