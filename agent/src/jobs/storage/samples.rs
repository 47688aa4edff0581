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
    /// Of the window; nothing after it is part of a sample.
    end: Instant,
    end_ns: i64,
    pub start_ns: i64,
    pub last_ns: i64,
    last_reads: u64,
    last_bytes: u64,
    pub samples: Vec<StorageSample>,
}

impl Sampler {
    /// Starts the window. A long point gets longer intervals rather than more than its message can
    /// carry.
    pub fn start(asked: Duration, duration: Duration) -> Self {
        let interval = asked.max(duration / SAMPLES_MAX).max(SAMPLE_MIN);
        let (now, now_ns) = (Instant::now(), monotonic_ns());
        Self {
            interval,
            next: now + interval,
            end: now + duration,
            end_ns: now_ns.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)),
            start_ns: now_ns,
            last_ns: now_ns,
            last_reads: 0,
            last_bytes: 0,
            samples: Vec::new(),
        }
    }

    pub fn end(&self) -> Instant {
        self.end
    }

    pub fn until_next(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    pub fn sample(&mut self, tally: &Tally) {
        let now_ns = monotonic_ns();
        if self.until_next().is_zero() && now_ns < self.end_ns {
            self.cut(tally, now_ns);
            // Never two at once after a stall.
            self.next = (self.next + self.interval).max(Instant::now() + self.interval / 2);
        }
    }

    /// The rest up to the end of the window, once no read of it can come any more. A short rest is
    /// part of the sample before it: its own rate would be noise.
    pub fn finish(&mut self, tally: &Tally) {
        self.cut(tally, self.end_ns);
        let [.., before, rest] = &mut self.samples[..] else { return };
        if Duration::from_nanos((rest.to_ns - rest.from_ns).unsigned_abs()) < self.interval / 2 {
            before.to_ns = rest.to_ns;
            before.reads += rest.reads;
            before.bytes += rest.bytes;
            self.samples.pop();
        }
    }

    fn cut(&mut self, tally: &Tally, now_ns: i64) {
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
        let mut sampler = Sampler::start(Duration::from_secs(3600), Duration::from_secs(1));
        let tally = Tally::default();
        tally.reads.store(10, Ordering::Relaxed);
        sampler.cut(&tally, sampler.start_ns + 999_000_000);
        tally.reads.store(12, Ordering::Relaxed);
        sampler.finish(&tally);
        assert_eq!(sampler.samples.len(), 1);
        assert_eq!((sampler.samples[0].reads, sampler.samples[0].to_ns), (12, sampler.last_ns));
        assert_eq!(sampler.last_ns - sampler.start_ns, 1_000_000_000, "whenever that was called");
    }

    #[test]
    fn a_long_point_has_no_more_samples_than_a_message_holds() {
        let day = Duration::from_secs(86_400);
        let sampler = Sampler::start(Duration::from_millis(100), day);
        assert!(day.div_duration_f64(sampler.interval) <= 4000.0);
    }
}
