//! Ends a job that costs the host more than the runbook allows.

use redoline_proto::transfer::{Guard, StopCause, Stopped};

use super::cpu::{self, CpuTicks};

/// So many looks in a row, a second apart, must be over a limit: one busy second is no reason.
const LOOKS: u32 = 2;

/// Looks at the host once a second.
#[derive(Debug)]
pub struct Watchman {
    guard: Guard,
    last: Option<CpuTicks>,
    over: u32,
}

impl Watchman {
    pub fn new(guard: Guard) -> Self {
        Self { guard, last: CpuTicks::now(), over: 0 }
    }

    /// Call once a second; says why the job has to end.
    pub fn look(&mut self) -> Option<Stopped> {
        if self.guard == Guard::default() {
            return None;
        }
        let now = CpuTicks::now();
        let share = self.last.as_ref().zip(now.as_ref()).and_then(|(last, now)| last.until(now));
        self.last = now;
        self.judge(share.map(|load| load.share), cpu::load_per_cpu())
    }

    fn judge(&mut self, cpu_share: Option<f64>, load: Option<f64>) -> Option<Stopped> {
        let Some(text) = excess(&self.guard, cpu_share, load) else {
            self.over = 0;
            return None;
        };
        self.over += 1;
        (self.over >= LOOKS).then_some(Stopped { cause: StopCause::Limit, text })
    }
}

fn excess(guard: &Guard, cpu_share: Option<f64>, load: Option<f64>) -> Option<String> {
    if let (Some(max), Some(share)) = (guard.cpu_share_max, cpu_share)
        && share > max.0
    {
        let (share, max) = (share * 100.0, max.0 * 100.0);
        return Some(format!(
            "the host's processors were {share:.0} % busy for {LOOKS} s; the limit is {max:.0} %"
        ));
    }
    match (guard.load_max, load) {
        (Some(max), Some(load)) if load > max => Some(format!(
            "the host's 1-minute load was {load:.2} per processor for {LOOKS} s; the limit is {max}"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use redoline_proto::units::Share;

    use super::*;

    fn watchman() -> Watchman {
        Watchman::new(Guard { cpu_share_max: Some(Share(0.8)), load_max: Some(2.0) })
    }

    #[test]
    fn two_seconds_over_the_limit_end_the_job() {
        let mut watchman = watchman();
        assert_eq!(watchman.judge(Some(0.95), None), None);
        let stopped = watchman.judge(Some(0.912), None).unwrap();
        assert_eq!(stopped.cause, StopCause::Limit);
        assert_eq!(stopped.text, "the host's processors were 91 % busy for 2 s; the limit is 80 %");
    }

    #[test]
    fn one_busy_second_is_no_reason() {
        let mut watchman = watchman();
        for share in [0.95, 0.5, 0.95, 0.5] {
            assert_eq!(watchman.judge(Some(share), Some(1.0)), None);
        }
    }

    #[test]
    fn a_high_load_ends_the_job() {
        let mut watchman = watchman();
        watchman.judge(None, Some(3.5));
        let text = watchman.judge(None, Some(3.5)).unwrap().text;
        assert_eq!(text, "the host's 1-minute load was 3.50 per processor for 2 s; the limit is 2");
    }

    #[test]
    fn what_cannot_be_read_ends_nothing() {
        let mut watchman = watchman();
        assert_eq!([watchman.judge(None, None), watchman.judge(None, None)], [None, None]);
    }
}
