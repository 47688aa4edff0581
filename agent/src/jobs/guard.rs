//! Keeps a job from a host that is loaded, and ends one that costs it more than the runbook allows.

use redoline_proto::transfer::{Guard, StopCause, Stopped};

use super::cpu::{self, CpuTicks};

/// So many looks in a row, a second apart, must be over a limit: one busy second is no reason.
const LOOKS: u32 = 2;

/// Says why no job starts now. The load counts only here: it takes a minute to follow, and what a
/// job adds to it is no reason to end that job.
pub fn may_start(guard: Guard) -> Result<(), Stopped> {
    check_load(&guard, cpu::load_per_cpu())
}

fn check_load(guard: &Guard, load: Option<f64>) -> Result<(), Stopped> {
    match (guard.load_max, load) {
        (Some(max), Some(load)) if load > max => Err(Stopped {
            cause: StopCause::Limit,
            text: format!(
                "the host's 1-minute load is {load:.2} per processor; above {max} no test starts"
            ),
        }),
        _ => Ok(()),
    }
}

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
        self.guard.cpu_share_max?;
        let now = CpuTicks::now();
        let share = self.last.as_ref().zip(now.as_ref()).and_then(|(last, now)| last.until(now));
        self.last = now;
        self.judge(share.map(|load| load.share))
    }

    fn judge(&mut self, cpu_share: Option<f64>) -> Option<Stopped> {
        let Some(text) = excess(&self.guard, cpu_share) else {
            self.over = 0;
            return None;
        };
        self.over += 1;
        (self.over >= LOOKS).then_some(Stopped { cause: StopCause::Limit, text })
    }
}

fn excess(guard: &Guard, cpu_share: Option<f64>) -> Option<String> {
    let (max, share) = (guard.cpu_share_max?.0, cpu_share?);
    (share > max).then(|| {
        let (share, max) = (share * 100.0, max * 100.0);
        format!(
            "the host's processors were {share:.0} % busy for {LOOKS} s; the limit is {max:.0} %"
        )
    })
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
        assert_eq!(watchman.judge(Some(0.95)), None);
        let stopped = watchman.judge(Some(0.912)).unwrap();
        assert_eq!(stopped.cause, StopCause::Limit);
        assert_eq!(stopped.text, "the host's processors were 91 % busy for 2 s; the limit is 80 %");
    }

    #[test]
    fn one_busy_second_is_no_reason() {
        let mut watchman = watchman();
        for share in [0.95, 0.5, 0.95, 0.5] {
            assert_eq!(watchman.judge(Some(share)), None);
        }
    }

    #[test]
    fn a_high_load_lets_no_job_start() {
        let guard = Guard { cpu_share_max: None, load_max: Some(2.0) };
        let stopped = check_load(&guard, Some(3.5)).unwrap_err();
        assert_eq!(stopped.cause, StopCause::Limit);
        assert_eq!(
            stopped.text,
            "the host's 1-minute load is 3.50 per processor; above 2 no test starts"
        );
        assert_eq!(check_load(&guard, Some(2.0)), Ok(()));
        assert_eq!(check_load(&guard, None), Ok(()));
        assert_eq!(check_load(&Guard::default(), Some(99.0)), Ok(()));
    }

    #[test]
    fn a_job_is_not_ended_for_the_load_that_it_makes() {
        let guard = Guard { cpu_share_max: None, load_max: Some(f64::MIN_POSITIVE) };
        let mut watchman = Watchman::new(guard);
        assert_eq!([watchman.look(), watchman.look()], [None, None]);
    }

    #[test]
    fn what_cannot_be_read_ends_nothing() {
        let mut watchman = watchman();
        assert_eq!([watchman.judge(None), watchman.judge(None)], [None, None]);
    }
}
