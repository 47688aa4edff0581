//! An interface's MTU at another value, and back: the agent restores it, and this says whether it is
//! what it was.

use std::time::Duration;

use redoline_proto::path::{HoldMtuEvent, HoldMtuJob, MtuHeld, MtuRestored};
use redoline_proto::transfer::{JobId, StopCause};

use super::failure;
use crate::agents::client::{AgentClient, AgentError, HoldMtuEvents};
use crate::agents::session::Agent;
use crate::plan::node::NodeId;
use crate::record::measurement::{Failure, FailureCause};

const PHASE: &str = "change the MTU";
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// One interface. Dropping it restores the MTU, too, but says nothing.
#[derive(Debug)]
pub struct Hold {
    pub node: NodeId,
    name: String,
    client: AgentClient,
    job: JobId,
    events: HoldMtuEvents,
    held: Option<MtuHeld>,
    /// Nothing more is told.
    over: bool,
}

impl Hold {
    pub async fn begin(agent: &Agent, job: HoldMtuJob) -> Result<Self, Failure> {
        let id = job.job;
        let events = agent.client.hold_mtu(job, ANSWER_DEADLINE).await;
        let events = events.map_err(|error| failure::of_agent(agent, PHASE, &error))?;
        Ok(Self {
            node: agent.node,
            name: agent.name.clone(),
            client: agent.client.clone(),
            job: id,
            events,
            held: None,
            over: false,
        })
    }

    /// Waits until the interface has the new MTU.
    pub async fn held(&mut self) -> Result<MtuHeld, Failure> {
        match self.events.next(ANSWER_DEADLINE).await {
            Ok(Some(HoldMtuEvent::Held(held))) => {
                self.held = Some(held.clone());
                Ok(held)
            }
            Ok(Some(HoldMtuEvent::Restored(restored))) => {
                self.over = true;
                Err(self.refused(restored))
            }
            Ok(None) => {
                self.over = true;
                Err(self.could_not("the agent ended without a word".to_owned()))
            }
            Err(error) => Err(failure::of_client(self.node, &self.name, PHASE, &error, "")),
        }
    }

    /// Has the MTU restored; an `Err` says why it is not known to be what it was, with the way out,
    /// or that it was not held until now.
    pub async fn release(&mut self) -> Result<(), Failure> {
        if self.over {
            return Ok(());
        }
        if let Err(error) = self.client.cancel(self.job, ANSWER_DEADLINE).await {
            // Its events say what became of it.
            tracing::debug!(node = self.node.0, %error, "the MTU's hold was not told to end");
        }
        loop {
            match self.events.next(ANSWER_DEADLINE).await {
                Ok(Some(HoldMtuEvent::Held(held))) => self.held = Some(held),
                Ok(Some(HoldMtuEvent::Restored(restored))) => {
                    self.over = true;
                    return judge(self.held.as_ref(), &restored)
                        .map_err(|text| self.not_held(text, FailureCause::CouldNotMeasure));
                }
                Ok(None) => {
                    self.over = true;
                    let text = self.unknown("the agent ended without a word");
                    return Err(self.not_held(text, FailureCause::CouldNotMeasure));
                }
                Err(error) => {
                    self.over = true;
                    let text = self.unknown(&failure::chain(&error));
                    // An agent that is gone is no worse a failure for having held something.
                    let lost = matches!(error, AgentError::Lost { .. } | AgentError::Silent { .. });
                    let cause = match lost {
                        true => FailureCause::Unreachable,
                        false => FailureCause::CouldNotMeasure,
                    };
                    return Err(self.not_held(text, cause));
                }
            }
        }
    }

    fn refused(&self, restored: MtuRestored) -> Failure {
        let why = restored.stopped.map(|stopped| stopped.text);
        self.could_not(why.unwrap_or_else(|| "the agent gave no reason".to_owned()))
    }

    fn not_held(&self, text: String, cause: FailureCause) -> Failure {
        Failure { node: Some(self.node), phase: PHASE.to_owned(), text, cause }
    }

    fn could_not(&self, text: String) -> Failure {
        failure::could_not_measure(Some(self.node), PHASE, format!("`{}`: {text}", self.name))
    }

    /// An agent that is gone has restored it or will, once its lease is over.
    fn unknown(&self, why: &str) -> String {
        let Some(held) = &self.held else {
            return format!("it is not known whether an interface's MTU was changed: {why}");
        };
        format!(
            "it is not known whether `{}` has its MTU back ({why}); the agent restores it when it \
             loses its controller: look with `ip link show {0}`, it was {before}, and set it with \
             `ip link set dev {0} mtu {before}`",
            held.interface,
            before = held.before_bytes
        )
    }
}

/// An interface that has its MTU back may have had it back too early: the agent says so.
fn judge(held: Option<&MtuHeld>, restored: &MtuRestored) -> Result<(), String> {
    let Some(held) = held else { return Ok(()) };
    // To be cancelled is how a hold ends.
    let stopped = restored.stopped.as_ref().filter(|why| why.cause != StopCause::Cancelled);
    match (not_as_it_was(held, restored), stopped) {
        (found, None) => found,
        (Ok(()), Some(why)) => Err(format!(
            "the MTU of `{}` was not {} for the whole test: {}",
            held.interface, held.now_bytes, why.text
        )),
        (Err(found), Some(why)) => Err(format!("{found} ({})", why.text)),
    }
}

fn not_as_it_was(held: &MtuHeld, restored: &MtuRestored) -> Result<(), String> {
    let (interface, before) = (&held.interface, held.before_bytes);
    let found = match restored.now_bytes {
        Some(now) if now == before => return Ok(()),
        Some(now) => format!("the MTU of `{interface}` is {now}, and was {before} before the test"),
        None => format!("the MTU of `{interface}` cannot be read; it was {before}"),
    };
    Err(format!("{found}; set it with `ip link set dev {interface} mtu {before}`"))
}

#[cfg(test)]
mod tests {
    use redoline_proto::transfer::Stopped;

    use super::*;

    fn held() -> MtuHeld {
        MtuHeld { interface: "eth1".to_owned(), before_bytes: 1500, now_bytes: 9000 }
    }

    fn restored(now_bytes: Option<u32>) -> MtuRestored {
        MtuRestored { interface: "eth1".to_owned(), now_bytes, stopped: None }
    }

    #[test]
    fn an_mtu_that_is_what_it_was_is_nothing_to_warn_of() {
        assert_eq!(judge(Some(&held()), &restored(Some(1500))), Ok(()));
        assert_eq!(judge(None, &restored(Some(1500))), Ok(()), "it was never changed");
    }

    #[test]
    fn an_mtu_that_was_back_before_the_test_was_over_is_a_hold_that_failed() {
        for cause in [StopCause::System, StopCause::Deadline, StopCause::Peer] {
            let text = "somebody else set the MTU of eth1 to 1500 meanwhile".to_owned();
            let stopped = Some(Stopped { cause, text });
            let back = MtuRestored { stopped, ..restored(Some(1500)) };
            let text = judge(Some(&held()), &back).unwrap_err();
            assert!(text.contains("was not 9000 for the whole test: somebody else"), "{text}");
        }
        let stopped = Some(Stopped { cause: StopCause::Cancelled, text: "cancelled".to_owned() });
        let back = MtuRestored { stopped, ..restored(Some(1500)) };
        assert_eq!(judge(Some(&held()), &back), Ok(()), "its controller ended it");
    }

    #[test]
    fn an_mtu_that_is_not_what_it_was_comes_with_the_command_that_restores_it() {
        for now in [Some(9000), None] {
            let text = judge(Some(&held()), &restored(now)).unwrap_err();
            assert!(text.ends_with("`ip link set dev eth1 mtu 1500`"), "{text}");
        }
    }
}
