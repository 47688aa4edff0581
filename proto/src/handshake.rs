//! Versions, clocks and the lock on a node: the first words between controller and agent.

use serde::{Deserialize, Serialize};

/// The controller's first call.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    pub protocol: u32,
    pub version: String,
    pub commit: String,
    /// With `owner`, what another run is told when it finds the node busy.
    pub run_id: String,
    pub owner: String,
    /// The address whose lock is taken.
    pub redo_address: String,
    /// Silence for this long ends the agent.
    pub lease_ms: u64,
    pub clock: ClockQuestion,
}

/// The agent's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct HelloAnswer {
    pub protocol: u32,
    pub version: String,
    pub commit: String,
    pub process_id: u32,
    pub clock: ClockAnswer,
}

/// Sent with every beat; the controller's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockQuestion {
    pub sent_ns: i64,
}

/// The first three of the four timestamps of an exchange; the fourth is taken on arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockAnswer {
    pub sent_ns: i64,
    pub received_ns: i64,
    pub answered_ns: i64,
    pub unix_answered_ns: i64,
}

/// How far the agent's monotonic clock is ahead of the controller's, and how sure that is.
///
/// From four timestamps: offset = ((t2 − t1) + (t3 − t4)) / 2, error ≤ ((t4 − t1) − (t3 − t2)) / 2
/// (RFC 5905, section 8).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Agent's monotonic clock minus the controller's.
    pub offset_ns: i64,
    /// Half of the round trip: the offset is within this.
    pub error_ns: i64,
    /// Agent's time of day minus the controller's.
    pub unix_offset_ns: i64,
}

impl ClockOffset {
    /// `arrived_ns`: the controller's monotonic clock when the answer came; `unix_arrived_ns`: its
    /// time of day then.
    pub fn from_exchange(answer: ClockAnswer, arrived_ns: i64, unix_arrived_ns: i64) -> Self {
        let out = answer.received_ns - answer.sent_ns;
        let back = answer.answered_ns - arrived_ns;
        let round_trip = (arrived_ns - answer.sent_ns) - (answer.answered_ns - answer.received_ns);
        let half = (round_trip / 2).max(0);
        Self {
            offset_ns: (out + back) / 2,
            error_ns: half,
            unix_offset_ns: answer.unix_answered_ns + half - unix_arrived_ns,
        }
    }

    /// The same moment by the controller's clock.
    pub fn to_controller_ns(self, agent_ns: i64) -> i64 {
        agent_ns - self.offset_ns
    }

    /// The better known of two offsets.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        if other.error_ns < self.error_ns { other } else { self }
    }
}

mirror!(
    Hello,
    HelloRequest { protocol, version, commit, run_id, owner, redo_address, lease_ms, clock }
);
mirror!(HelloAnswer, HelloReply { protocol, version, commit, process_id, clock });
mirror!(ClockQuestion, BeatRequest { sent_ns });
mirror!(ClockAnswer, BeatReply { sent_ns, received_ns, answered_ns, unix_answered_ns });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_follows_from_four_timestamps() {
        // Agent 1000 ahead; 40 out, 5 there, 60 back.
        let answer =
            ClockAnswer { sent_ns: 0, received_ns: 1040, answered_ns: 1045, unix_answered_ns: 0 };
        let offset = ClockOffset::from_exchange(answer, 105, 0);
        assert_eq!((offset.offset_ns, offset.error_ns), (990, 50));
        assert!((offset.offset_ns - 1000).abs() <= offset.error_ns);
    }
}
