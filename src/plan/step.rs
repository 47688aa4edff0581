//! The closed set of steps and their checked parameters.

use std::time::Duration;

use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::transfer::Payload;
use redoline_proto::units::Bytes;

use super::expression::Expression;
use super::node::{Direction, NodeId, PairId};

/// One step of a run. Direction, pairs and nodes are fixed here, so that `--only`, `--from` and
/// `resume` keep them.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    /// Under which its results are found.
    pub register: Option<String>,
    pub direction: Direction,
    /// Evaluated before the step; a false one skips it.
    pub when: Option<Expression>,
    pub tags: Vec<String>,
    /// For the whole step.
    pub timeout: Duration,
    pub on_error: OnError,
    pub action: Action,
    /// Where the runbook has it.
    pub line: usize,
    /// Set by `--only` and `--from`: shown in the plan, not run.
    pub excluded: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnError {
    /// The run goes on with the next step.
    #[default]
    Continue,
    /// The remaining steps are skipped; `finally` runs.
    Stop,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Topology(TopologySpec),
    Throughput(ThroughputSpec),
    Sweep(SweepSpec),
    /// Marks where the test direction turns; the steps after it carry the new one.
    SwapRoles,
    StorageRead(StorageReadSpec),
    Assert(AssertSpec),
}

impl Action {
    /// The action's key in a runbook.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Topology(_) => "topology",
            Self::Throughput(_) => "throughput",
            Self::Sweep(_) => "sweep",
            Self::SwapRoles => "swap_roles",
            Self::StorageRead(_) => "storage_read",
            Self::Assert(_) => "assert",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TopologySpec {
    /// For what has to be asked of the network (hops).
    pub deadline: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputSpec {
    pub pairs: Vec<PairId>,
    pub nodes: Nodes,
    pub num_conn: NumConn,
    pub duration: Duration,
    /// Between two readings of TCP_INFO, and of the rates that progress and report show.
    pub interval: Duration,
    pub message: Bytes,
    pub payload: Payload,
    pub socket_buffer: BufferSize,
    /// `None`: the system's default.
    pub congestion_control: Option<String>,
    /// Clamps the MSS; can only lower.
    pub mtu: Option<u32>,
}

/// Which pairs send at a time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Nodes {
    /// One pair after the other.
    #[default]
    Each,
    /// All pairs from one barrier on.
    Together,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NumConn {
    Fixed(u32),
    /// Known only when the pair's own results are: `{{ ladder.recommended_num_conn }}`.
    Later(Expression),
    Ladder(LadderSpec),
}

/// The documented procedure: from 2 by 2 until three consecutive levels do not rise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderSpec {
    pub from: u32,
    pub step: u32,
    pub max: u32,
    /// A level rises when its mean exceeds the reference by more than this share.
    pub tolerance: f64,
}

/// How many consecutive levels that do not rise end a ladder (source document, task 3, step 2).
pub const LEVELS_WITHOUT_RISE: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum BufferSize {
    /// The system tunes it.
    #[default]
    Auto,
    Fixed(Bytes),
    /// This many times the bandwidth-delay product, known when the step runs.
    TimesBdp(f64),
}

impl std::fmt::Display for BufferSize {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Fixed(bytes) => write!(formatter, "{bytes}"),
            Self::TimesBdp(factor) => write!(formatter, "{factor}xBDP"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SweepSpec {
    pub vary: Vary,
    /// Its varied key is overwritten at each point.
    pub throughput: ThroughputSpec,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Vary {
    SocketBuffer(Vec<BufferSize>),
    Mtu(Vec<u32>),
}

impl Vary {
    pub fn key(&self) -> &'static str {
        match self {
            Self::SocketBuffer(_) => "socket_buffer",
            Self::Mtu(_) => "mtu",
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::SocketBuffer(sizes) => sizes.len(),
            Self::Mtu(sizes) => sizes.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct StorageReadSpec {
    pub nodes: Vec<NodeId>,
    pub target: StorageTarget,
    pub patterns: Vec<StoragePattern>,
    /// Of `single_block`.
    pub block: Bytes,
    /// Of `direct_path`.
    pub request: Bytes,
    /// Concurrent readers of `single_block`, one point each.
    pub sessions: Vec<u32>,
    /// Outstanding requests of `direct_path`, one point each.
    pub slots: Vec<u32>,
    /// Of each point.
    pub duration: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AssertSpec {
    /// All must be true, for every pair.
    pub that: Vec<Expression>,
    pub message: Option<String>,
}
