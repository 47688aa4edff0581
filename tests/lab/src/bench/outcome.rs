//! What one run of any of the programs came to.

/// What arrived at the receiver, and what it cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Received per second, after the warm-up.
    pub bytes_per_second: f64,
    /// User and system time of sender and receiver together, over the whole run.
    pub cpu_s_per_gib: f64,
    /// The agent's own steady-state rate; `None` for the others.
    pub steady_bytes_per_second: Option<f64>,
}

pub(super) const GIB: f64 = 1_073_741_824.0;

/// Not counted at the start of every run: slow start, and the first growth of the buffers.
pub(super) const WARM_UP_S: u32 = 1;

/// What both ends are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) streams: u32,
    /// Of each `send`; programs that let it be chosen read as much at a time, too.
    pub(super) message_bytes: u64,
    /// Counted, after the warm-up.
    pub(super) seconds: u32,
}

impl Load {
    /// Of a run, warm-up included.
    pub(super) fn whole_seconds(self) -> u32 {
        self.seconds + WARM_UP_S
    }
}
