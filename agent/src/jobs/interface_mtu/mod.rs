//! An interface's MTU at another value, for as long as somebody listens; restored whatever happens.
//!
//! The agent itself restores it when the job ends, however it ends: finished, cancelled, at its
//! deadline, with the channel, by a signal. Against its own violent death it first starts a
//! guardian, which restores what the agent no longer can.

mod guardian;
mod interface;

pub use guardian::{Orders, enable, guard};

use std::io;
use std::time::{Duration, Instant};

use redoline_proto::path::{HoldMtuEvent, HoldMtuJob, MtuHeld, MtuRestored};
use redoline_proto::transfer::{StopCause, Stopped};
use tokio::sync::mpsc;

use self::guardian::{Guardian, NoGuardian};
use self::interface::{Claim, Interface, NotHeld};
use super::JobControl;

/// Nobody measures for longer at another MTU, and a guardian does not wait for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How late the job may notice what ends it.
const ATTENTION: Duration = Duration::from_millis(50);

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
}

/// Tells that it is held, then that it is restored; only the latter when it was never changed.
/// Ends by `Finish` as it should, else with the reason.
pub fn hold(job: &HoldMtuJob, control: &JobControl, events: mpsc::Sender<HoldMtuEvent>) {
    let restored = match Holding::begin(job) {
        Ok(mut holding) => {
            // Nobody listens any more: then the job is cancelled, too.
            let _ = events.blocking_send(HoldMtuEvent::Held(holding.held.clone()));
            let stopped = holding.wait(job, control);
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
struct Holding {
    held: MtuHeld,
    interface: Interface,
    /// `None` when nothing had to be changed, and again when it is restored.
    guardian: Option<Guardian>,
    _claim: Claim,
}

impl Holding {
    fn begin(job: &HoldMtuJob) -> Result<Self, HoldError> {
        let interface = Interface::of(job.address)?;
        interface.check(job.mtu_bytes)?;
        let claim = interface.claim()?;
        let (name, before_bytes) = (interface.name.clone(), interface.mtu_bytes);
        let held = MtuHeld { interface: name, before_bytes, now_bytes: job.mtu_bytes };
        if before_bytes == job.mtu_bytes {
            return Ok(Self { held, interface, guardian: None, _claim: claim });
        }
        let time = job.deadline.min(LONGEST);
        let orders = Orders { index: interface.index, held: job.mtu_bytes, before_bytes, time };
        let guardian = Guardian::start(&orders)
            .map_err(|cause| HoldError::NoGuardian { interface: held.interface.clone(), cause })?;
        // From here on it is restored with this value, even in a panic.
        let holding = Self { held, interface, guardian: Some(guardian), _claim: claim };
        holding.interface.set(job.mtu_bytes)?;
        Ok(holding)
    }

    /// Until something ends it; says what, unless it was `Finish`.
    fn wait(&mut self, job: &HoldMtuJob, control: &JobControl) -> Option<Stopped> {
        let end = Instant::now() + job.deadline.min(LONGEST);
        loop {
            let stopped = |cause, text: &str| Some(Stopped { cause, text: text.to_owned() });
            if control.finish.is_set() {
                return None;
            }
            if control.cancel.wait_timeout(ATTENTION) {
                return stopped(StopCause::Cancelled, "cancelled");
            }
            if Instant::now() >= end {
                return stopped(StopCause::Deadline, "the MTU was held for as long as was allowed");
            }
            if self.guardian.as_mut().is_some_and(Guardian::is_gone) {
                let text = "the process that would restore the MTU if this agent died has ended";
                return stopped(StopCause::System, text);
            }
        }
    }

    fn restore(mut self, stopped: Option<Stopped>) -> MtuRestored {
        let complaint = self.undo().err();
        MtuRestored {
            interface: self.held.interface.clone(),
            now_bytes: self.interface.current().ok(),
            stopped: complaint.or(stopped),
        }
    }

    /// Only what is still ours; somebody else's change stays. The guardian goes home when nothing
    /// is left for it to do.
    fn undo(&mut self) -> Result<(), Stopped> {
        let Some(guardian) = self.guardian.take() else { return Ok(()) };
        let MtuHeld { interface, before_bytes, now_bytes } = &self.held;
        let failed = |text| Stopped { cause: StopCause::System, text };
        let undone = match self.interface.current() {
            Ok(current) if current == *before_bytes => Ok(()),
            Ok(current) if current != *now_bytes => Err(failed(format!(
                "somebody else set the MTU of {interface} to {current} meanwhile, so it stays; \
                 before the test it was {before_bytes}"
            ))),
            current => {
                let set = current.and_then(|_| self.interface.set_raw(*before_bytes));
                if let Err(error) = set {
                    // Dropped without a word: it tries for some time.
                    drop(guardian);
                    return Err(could_not_restore(interface, *before_bytes, &error));
                }
                Ok(())
            }
        };
        guardian.dismiss();
        undone
    }
}

fn could_not_restore(interface: &str, before_bytes: u32, error: &io::Error) -> Stopped {
    Stopped {
        cause: StopCause::System,
        text: format!(
            "failed to restore the MTU of {interface}: {error}; it is tried again; check it, and \
             if need be: ip link set {interface} mtu {before_bytes}"
        ),
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Err(stopped) = self.undo() {
            tracing::error!("{}", stopped.text);
        }
    }
}
