//! The closed set of steps and their checked parameters.

use std::time::Duration;

use redoline_proto::encoding::{Compression, Encoding, TlsCipher};
use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::transfer::{Payload, RedoWrite};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use serde::{Deserialize, Serialize};

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
    Path(PathSpec),
    Throughput(ThroughputSpec),
    Sweep(SweepSpec),
    InterfaceMtu(InterfaceMtuSpec),
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
            Self::Path(_) => "path",
            Self::Throughput(_) => "throughput",
            Self::Sweep(_) => "sweep",
            Self::InterfaceMtu(_) => "interface_mtu",
            Self::SwapRoles => "swap_roles",
            Self::StorageRead(_) => "storage_read",
            Self::Assert(_) => "assert",
        }
    }

    /// Uses the network under test, in the step's direction.
    pub fn is_about_pairs(&self) -> bool {
        matches!(self, Self::Path(_)) || self.test().is_some()
    }

    /// The test of a step that sends streams over the network.
    pub fn test(&self) -> Option<&ThroughputSpec> {
        match self {
            Self::Throughput(spec) => Some(spec),
            Self::Sweep(spec) => Some(&spec.throughput),
            Self::InterfaceMtu(spec) => Some(&spec.throughput),
            _ => None,
        }
    }

    /// The pairs of such a step; empty for others.
    pub fn pairs(&self) -> &[PairId] {
        match self {
            Self::Path(spec) => &spec.pairs,
            _ => self.test().map_or(&[], |test| &test.pairs),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TopologySpec {
    /// For what has to be asked of the network (hops).
    pub deadline: Duration,
}

/// What the way between two nodes is like, in the step's direction.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    pub pairs: Vec<PairId>,
    /// Small datagrams, for round trips, loss and order.
    pub probes: u32,
    /// Between two of them.
    pub spacing: Duration,
    /// Packets that are tried beside one of the interface's MTU.
    pub packet_sizes: Vec<u32>,
    /// Of the stream that shows what probes cannot; for the round trip under load.
    pub load: Duration,
    /// Of each probe.
    pub deadline: Duration,
}

/// The same test with the interface's MTU as it is and at another value, which is restored.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfaceMtuSpec {
    pub mtu: u32,
    pub throughput: ThroughputSpec,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputSpec {
    pub pairs: Vec<PairId>,
    pub nodes: Nodes,
    /// The same the other way at the same time.
    pub both_directions: bool,
    pub num_conn: NumConn,
    pub time: TestTime,
    pub mode: Mode,
    /// Between two messages of a stream.
    pub delay: Option<Duration>,
    /// Without an acknowledged byte for this long, a test ends.
    pub network_timeout: Option<Duration>,
    /// Again and again over a longer time.
    pub frequency: Option<Frequency>,
    /// Between two readings of TCP_INFO, and of the rates that progress and report show.
    pub interval: Duration,
    pub message: Bytes,
    pub payload: Payload,
    pub socket_buffer: BufferSize,
    /// Wins over `socket_buffer` for the sender's send buffer.
    pub send_buffer: Option<BufferSize>,
    /// Wins over `socket_buffer` for the receiver's receive buffer.
    pub receive_buffer: Option<BufferSize>,
    /// `None`: the system's default.
    pub congestion_control: Option<String>,
    /// Clamps the MSS; can only lower.
    pub mtu: Option<u32>,
    /// The 6 bits of DiffServ, 0 to 63.
    pub dscp: Option<u32>,
    /// The sender's interface.
    pub device: Option<String>,
    /// Stream i leaves from this port + i.
    pub source_port_base: Option<u16>,
    /// Of each stream (SO_MAX_PACING_RATE).
    pub pacing: Option<BytesPerSecond>,
    pub encoding: Option<Encoding>,
    /// Of a random payload: the share that a good compressor takes out.
    pub compressible: Option<Share>,
}

/// How long a test sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TestTime {
    Fixed(Duration),
    /// Until the rate is known to within `target` (a share), at most for `max`.
    Auto {
        target: f64,
        max: Duration,
    },
}

/// Two consecutive looks have to agree, the first of them after 2 s (`analysis::looks`).
pub const AUTO_TIME_MIN: Duration = Duration::from_secs(3);
/// Less would leave no time to look again.
pub const AUTO_AT_MOST_MIN: Duration = Duration::from_secs(5);

impl TestTime {
    /// The least that it can be.
    pub fn shortest(self) -> Duration {
        match self {
            Self::Fixed(duration) => duration,
            Self::Auto { max, .. } => AUTO_TIME_MIN.min(max),
        }
    }

    /// Its length, or the most that it can be.
    pub fn longest(self) -> Duration {
        match self {
            Self::Fixed(duration) | Self::Auto { max: duration, .. } => duration,
        }
    }
}

/// How redo is shipped.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mode {
    /// A stream.
    #[default]
    Async,
    /// One message in flight, written by the receiver before it answers (SYNC AFFIRM).
    Sync(RedoWrite),
    /// One message in flight, answered from memory (SYNC NOAFFIRM).
    Fastsync,
}

impl Mode {
    /// As runbooks and reports name it.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync(_) => "sync",
            Self::Fastsync => "fastsync",
        }
    }

    /// Each message waits for its answer.
    pub fn acknowledged(&self) -> bool {
        *self != Self::Async
    }
}

/// A test every `every`, for as long as `during`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frequency {
    pub every: Duration,
    pub during: Duration,
}

impl Frequency {
    /// How many tests that makes; the first begins at once.
    pub fn tests(self) -> u32 {
        let every = self.every.as_nanos().max(1);
        u32::try_from(self.during.as_nanos().div_ceil(every)).unwrap_or(u32::MAX).max(1)
    }
}

/// Which pairs send at a time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Nodes {
    /// One pair after the other.
    #[default]
    Each,
    /// All pairs from one barrier on.
    Together,
    /// All senders to the first receiver, as clients of one SCAN address may.
    AllToOne,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NumConn {
    Fixed(u32),
    /// Known only when the pair's own results are: `{{ ladder.recommended_num_conn }}`.
    Later(Expression),
    Ladder(LadderSpec),
}

/// More and more connections, until a rule says that it is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderSpec {
    pub until: Until,
    pub from: u32,
    /// Of `until: plateau`; the knee has steps of its own.
    pub step: u32,
    pub max: u32,
    /// A level rises when its mean exceeds the reference by more than this share.
    pub tolerance: f64,
}

impl LadderSpec {
    /// Every level up to `max`, in their order.
    pub fn levels(self) -> impl Iterator<Item = u32> {
        let next = move |level: &u32| match self.until {
            Until::Plateau => level.checked_add(self.step.max(1)).filter(|next| *next <= self.max),
            Until::Knee => (*level < self.max).then(|| knee_above(*level).min(self.max)),
        };
        std::iter::successors(Some(self.from).filter(|from| *from <= self.max), next)
    }
}

/// The next of 1, 2, 3, 4, 6, 8, 12, 16, …: steps of √2 in whole numbers.
fn knee_above(level: u32) -> u32 {
    let steps = std::iter::successors(Some((1u32, 2u32)), |(low, high)| {
        Some((*high, if *high < 4 { high + 1 } else { low.saturating_mul(2) }))
    });
    steps.map(|(step, _)| step).find(|step| *step > level).unwrap_or(u32::MAX)
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The documented procedure: three consecutive levels that do not rise.
    #[default]
    Plateau,
    /// Steps of √2, two misses against the best, and the contenders measured again.
    Knee,
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
    MessageLength(Vec<Bytes>),
    /// `None`: in the clear.
    Encryption(Vec<Option<TlsCipher>>),
    /// `None`: as it is.
    Compression(Vec<Option<Compression>>),
}

impl Vary {
    pub fn key(&self) -> &'static str {
        match self {
            Self::SocketBuffer(_) => "socket_buffer",
            Self::Mtu(_) => "mtu",
            Self::MessageLength(_) => "message_length",
            Self::Encryption(_) => "encryption",
            Self::Compression(_) => "compression",
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::SocketBuffer(sizes) => sizes.len(),
            Self::Mtu(sizes) => sizes.len(),
            Self::MessageLength(sizes) => sizes.len(),
            Self::Encryption(ciphers) => ciphers.len(),
            Self::Compression(methods) => methods.len(),
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

impl StorageReadSpec {
    /// For one node to open its target, or to make and fill its scratch file: no storage of a database
    /// is slower than 20 MB/s.
    pub fn prepare_deadline(&self) -> Duration {
        const BYTES_PER_SECOND_MIN: u64 = 20_000_000;
        let filled = match &self.target {
            StorageTarget::Scratch { size, .. } => size.0,
            StorageTarget::File(_) | StorageTarget::Device(_) => 0,
        };
        Duration::from_secs(60 + filled / BYTES_PER_SECOND_MIN)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AssertSpec {
    /// Those on which the steps whose results it reads are done.
    pub pairs: Vec<PairId>,
    /// All must be true, for every one of `pairs`.
    pub that: Vec<Expression>,
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_climbs_in_steps_of_the_square_root_of_two_up_to_its_maximum() {
        let levels = |until, from, max| -> Vec<u32> {
            LadderSpec { until, from, step: 2, max, tolerance: 0.03 }.levels().collect()
        };
        assert_eq!(levels(Until::Knee, 1, 20), [1, 2, 3, 4, 6, 8, 12, 16, 20]);
        assert_eq!(levels(Until::Knee, 5, 12), [5, 6, 8, 12]);
        assert_eq!(levels(Until::Plateau, 2, 9), [2, 4, 6, 8]);
    }
}
