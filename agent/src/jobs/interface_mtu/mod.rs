//! An interface's MTU at another value, for as long as somebody listens; restored whatever happens.
//!
//! The agent itself restores it when the job ends, however it ends: finished, cancelled, at its
//! deadline, with the channel, by a signal. Against its own violent death it first starts a
//! guardian, which restores what the agent no longer can.
//!
//! Interfaces upon it that would not come back with it forbid the change; those in other network
//! namespaces cannot be seen.

mod change;
mod guardian;
mod interface;

pub use guardian::{Orders, enable, guard};

use std::time::{Duration, Instant};

use redoline_proto::path::{HoldMtuEvent, HoldMtuJob, MtuHeld, MtuRestored};
use redoline_proto::transfer::{StopCause, Stopped};
use tokio::sync::mpsc;

use self::change::{Change, NotUndone, Setting};
use self::guardian::{Guardian, NoGuardian};
use self::interface::{Claim, Interface, NotHeld};
use super::JobControl;

/// Nobody measures for longer at another MTU, and a guardian does not wait for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How late the job may notice what ends it.
const ATTENTION: Duration = Duration::from_millis(50);

/// Between two looks whether the MTU is still what it is held at.
const LOOK: Duration = Duration::from_secs(1);

/// Why the MTU is not what was asked for.
#[derive(Debug, thiserror::Error)]
enum HoldError {
    #[error(transparent)]
    NotHeld(#[from] NotHeld),
    #[error(
        "the MTU of {interface} is not changed, since nobody would restore it if this agent died"
    )]
    NoGuardian {
        interface: String,
        #[source]
        cause: NoGuardian,
    },
    #[error("{cause}; {}", .complaint.text)]
    NotRestored { cause: NotHeld, complaint: Stopped },
}

/// Tells that it is held, then that it is restored; only the latter when it was never changed.
/// Ends by `Finish` as it should, else with the reason.
pub fn hold(job: &HoldMtuJob, control: &JobControl, events: mpsc::Sender<HoldMtuEvent>) {
    let restored = match Holding::begin(job) {
        Ok(mut holding) => {
            // Nobody listens any more: then the job is cancelled, too.
            let _ = events.blocking_send(HoldMtuEvent::Held(holding.held.clone()));
            let stopped = holding.wait(control, LOOK);
            holding.restore(stopped)
        }
        Err(error) => not_held(job, &error),
    };
    let _ = events.blocking_send(HoldMtuEvent::Restored(restored));
}

fn not_held(job: &HoldMtuJob, error: &HoldError) -> MtuRestored {
    let interface = Interface::of(job.address).ok();
    MtuRestored {
        now_bytes: interface.as_ref().map(|interface| interface.mtu_bytes),
        interface: interface.map(|interface| interface.name).unwrap_or_default(),
        stopped: Some(Stopped { cause: StopCause::System, text: crate::chain(error) }),
    }
}

/// From the change to its undoing.
struct Holding<S: Setting> {
    held: MtuHeld,
    change: Change<S>,
    /// The agent's deadline, which comes before the guardian's.
    end: Instant,
    /// `None` when nothing had to be changed, and again when it is restored.
    guardian: Option<Guardian>,
    _claim: Claim,
}

impl Holding<Interface> {
    fn begin(job: &HoldMtuJob) -> Result<Self, HoldError> {
        let interface = Interface::of(job.address)?;
        interface.check(job.mtu_bytes)?;
        let claim = interface.claim()?;
        let (name, before_bytes) = (interface.name.clone(), interface.mtu_bytes);
        let held = MtuHeld { interface: name.clone(), before_bytes, now_bytes: job.mtu_bytes };
        let time = job.deadline.min(LONGEST);
        let orders = Orders { index: interface.index, before_bytes, time };
        let change = Change::new(interface, name.clone(), before_bytes);
        let end = Instant::now() + time;
        let mut holding = Self { held, change, end, guardian: None, _claim: claim };
        if before_bytes == job.mtu_bytes {
            return Ok(holding);
        }
        let guardian = Guardian::start(&orders)
            .map_err(|cause| HoldError::NoGuardian { interface: name, cause })?;
        // From here on it is restored, even in a panic.
        holding.guardian = Some(guardian);
        holding.make()?;
        Ok(holding)
    }
}

impl<S: Setting> Holding<S> {
    /// The driver is told once; what it makes of it is undone when it is not what was asked for.
    fn make(&mut self) -> Result<(), HoldError> {
        let mtu = self.held.now_bytes;
        match self.change.make(mtu) {
            Ok(()) => {
                if let Some(guardian) = &mut self.guardian {
                    guardian.tell_held(mtu);
                }
                Ok(())
            }
            Err(cause) => match self.undo() {
                Ok(()) => Err(cause.into()),
                Err(complaint) => Err(HoldError::NotRestored { cause, complaint }),
            },
        }
    }

    /// Until something ends it; says what, unless it was `Finish`. Looks at the MTU every `look`.
    fn wait(&mut self, control: &JobControl, look: Duration) -> Option<Stopped> {
        let mut next_look = Instant::now() + look;
        loop {
            let stopped = |cause, text: &str| Some(Stopped { cause, text: text.to_owned() });
            if control.finish.is_set() {
                return None;
            }
            if control.cancel.wait_timeout(ATTENTION) {
                return stopped(StopCause::Cancelled, "cancelled");
            }
            let now = Instant::now();
            if now >= self.end {
                return stopped(StopCause::Deadline, "the MTU was held for as long as was allowed");
            }
            if self.guardian.as_mut().is_some_and(Guardian::is_gone) {
                let text = "the process that would restore the MTU if this agent died has ended";
                return stopped(StopCause::System, text);
            }
            if now >= next_look {
                next_look = now + look;
                if let Some(strayed) = self.change.strayed(self.held.now_bytes) {
                    return Some(strayed);
                }
            }
        }
    }

    fn restore(mut self, stopped: Option<Stopped>) -> MtuRestored {
        // Between the last look and the end as well, and also back to what it was before.
        let strayed = self.change.strayed(self.held.now_bytes);
        let complaint = self.undo().err();
        MtuRestored {
            interface: self.held.interface.clone(),
            now_bytes: self.change.current(),
            stopped: complaint.or(strayed).or(stopped),
        }
    }

    /// The guardian goes home when nothing is left for it to do.
    fn undo(&mut self) -> Result<(), Stopped> {
        let undone = self.change.undo();
        match (self.guardian.take(), &undone) {
            // Dropped without a word: it tries for some time.
            (Some(guardian), Err(NotUndone::Failed(_))) => drop(guardian),
            (Some(guardian), _) => guardian.dismiss(),
            (None, _) => {}
        }
        undone.map_err(NotUndone::into_stopped)
    }
}

impl<S: Setting> Drop for Holding<S> {
    fn drop(&mut self) {
        if let Err(stopped) = self.undo() {
            tracing::error!("{}", stopped.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::change::tests::Driver;
    use super::*;

    /// At 9000, on an interface of this number, which there is none of.
    fn holding(driver: &Driver, index: u32) -> Holding<Driver> {
        let held = MtuHeld { interface: "ib0".to_owned(), before_bytes: 1500, now_bytes: 9000 };
        Holding {
            held,
            change: Change::new(driver.clone(), "ib0".to_owned(), 1500),
            end: Instant::now() + Duration::from_secs(60),
            guardian: None,
            _claim: interface::claim_of(index).unwrap(),
        }
    }

    #[test]
    fn a_clamped_mtu_is_restored_before_its_refusal_is_told() {
        let driver = Driver::new(1500, 2044);
        let mut holding = holding(&driver, u32::MAX - 2);
        let error = holding.make().unwrap_err().to_string();
        assert_eq!(error, "ib0 took an MTU of 2044 where 9000 was asked for");
        assert_eq!(driver.now(), 1500);
    }

    #[test]
    fn an_mtu_that_somebody_changes_ends_the_hold_also_when_it_is_the_former_one() {
        for (place, mtu) in [(3, 1500), (4, 4000)] {
            let driver = Driver::new(1500, 9000);
            let mut holding = holding(&driver, u32::MAX - place);
            holding.make().unwrap();
            driver.becomes(mtu);
            let stopped = holding.wait(&JobControl::default(), Duration::ZERO).unwrap();
            assert_eq!(stopped.cause, StopCause::System);
            assert_eq!(
                stopped.text,
                format!(
                    "somebody else set the MTU of ib0 to {mtu} while the test held it at 9000: for \
                     an unknown part of the time it was another"
                )
            );
            assert_eq!(holding.restore(None).now_bytes, Some(mtu));
        }
    }

    #[test]
    fn a_change_between_the_last_look_and_the_end_is_told_too() {
        let driver = Driver::new(1500, 9000);
        let mut holding = holding(&driver, u32::MAX - 5);
        holding.make().unwrap();
        driver.becomes(1500);
        let control = JobControl::default();
        control.finish.set();
        assert_eq!(holding.wait(&control, Duration::ZERO), None);
        let restored = holding.restore(None);
        assert!(restored.stopped.unwrap().text.contains("to 1500 while the test held it at 9000"));
    }

    #[test]
    fn a_hold_that_nobody_disturbs_ends_without_a_complaint() {
        let driver = Driver::new(1500, 9000);
        let mut holding = holding(&driver, u32::MAX - 6);
        holding.make().unwrap();
        holding.end = Instant::now();
        let stopped = holding.wait(&JobControl::default(), Duration::ZERO);
        assert_eq!(stopped.as_ref().unwrap().cause, StopCause::Deadline);
        let restored = holding.restore(stopped.clone());
        assert_eq!((restored.now_bytes, restored.stopped), (Some(1500), stopped));
    }
}
