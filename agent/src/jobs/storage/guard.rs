//! Watches the host while storage is read, and says when a limit of the runbook is passed.

use std::fs;
use std::time::{Duration, Instant};

use redoline_proto::transfer::Guard;
use redoline_proto::units::Share;

use super::counters::HostTicks;

/// How long the processors may be above the limit: shorter peaks are normal.
const PATIENCE: u32 = 2;
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Watch {
    guard: Guard,
    next: Instant,
    ticks: Option<HostTicks>,
    /// Seconds in a row above the limit.
    above: u32,
}

impl Watch {
    pub fn new(guard: Guard, now: Instant) -> Self {
        Self { guard, next: now + INTERVAL, ticks: HostTicks::read(), above: 0 }
    }

    /// Looks once a second; the text says which limit was passed.
    pub fn check(&mut self, now: Instant) -> Option<String> {
        if now < self.next {
            return None;
        }
        self.next = now + INTERVAL;
        let ticks = HostTicks::read();
        let share = match (&self.ticks, &ticks) {
            (Some(before), Some(after)) => after.busy_share_since(before),
            _ => None,
        };
        self.ticks = ticks;
        self.judge(share, load_per_cpu())
    }

    fn judge(&mut self, busy: Option<f64>, load: Option<f64>) -> Option<String> {
        if let (Some(load), Some(load_max)) = (load, self.guard.load_max)
            && load > load_max
        {
            return Some(format!(
                "the load average is {load:.2} per processor, above the limit of {load_max}"
            ));
        }
        let (busy, limit) = (busy?, self.guard.cpu_share_max?);
        self.above = if busy > limit.0 { self.above + 1 } else { 0 };
        (self.above >= PATIENCE).then(|| {
            format!(
                "the host's processors were {} busy for {PATIENCE} s, above the limit of {limit}",
                Share(busy)
            )
        })
    }
}

fn load_per_cpu() -> Option<f64> {
    let loadavg = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = loadavg.split_ascii_whitespace().next()?.parse().ok()?;
    let cpus = std::thread::available_parallelism().ok()?;
    Some(load / cpus.get() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(guard: Guard) -> Watch {
        Watch { guard, next: Instant::now(), ticks: None, above: 0 }
    }

    #[test]
    fn two_seconds_above_the_limit_end_the_job_and_one_does_not() {
        let mut watch = watch(Guard { cpu_share_max: Some(Share(0.8)), load_max: None });
        assert_eq!(watch.judge(Some(0.9), None), None);
        assert_eq!(watch.judge(Some(0.7), None), None);
        assert_eq!(watch.judge(Some(0.9), None), None);
        let text = watch.judge(Some(0.9), None).unwrap();
        assert!(text.contains("90 %") && text.contains("80 %"), "{text}");
    }

    #[test]
    fn load_above_the_limit_ends_the_job_at_once() {
        let mut watch = watch(Guard { cpu_share_max: None, load_max: Some(2.0) });
        assert_eq!(watch.judge(None, Some(1.9)), None);
        assert!(watch.judge(None, Some(2.1)).is_some());
    }

    #[test]
    fn without_limits_nothing_ends() {
        let mut watch = watch(Guard::default());
        assert!((0..10).all(|_| watch.judge(Some(1.0), Some(99.0)).is_none()));
    }
}
