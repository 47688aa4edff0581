//! What was found, with the evidence that it rests on.

use std::fmt;

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::bdp::BufferNeed;
use super::ports::Refusal;
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::measurement::MeasurementId;

macro_rules! finding_ids {
    ($($variant:ident = $text:literal),* $(,)?) => {
        /// Which rule found it; each has a page in the documentation.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum FindingId {
            $($variant),*
        }

        impl FindingId {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As reports and documentation name it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),*
                }
            }
        }
    };
}

finding_ids! {
    LinkLimited = "link-limited",
    WindowLimited = "window-limited",
    PerFlowLimit = "per-flow-limit",
    LossLimited = "loss-limited",
    CpuLimited = "cpu-limited",
    SlowReader = "slow-reader",
    LimitedByRunbook = "limited-by-runbook",
    Asymmetric = "asymmetric",
    UnevenNodes = "uneven-nodes",
    SharedBottleneck = "shared-bottleneck",
    JumboGain = "jumbo-gain",
    JumboNoGain = "jumbo-no-gain",
    BufferCapped = "buffer-capped",
    FixedBufferGain = "fixed-buffer-gain",
    Unsteady = "unsteady",
    SilentStream = "silent-stream",
    BelowDeclaredBandwidth = "below-declared-bandwidth",
    BurstCredit = "burst-credit",
    HashImbalance = "hash-imbalance",
    MtuBlackHole = "mtu-black-hole",
    MtuReduced = "mtu-reduced",
    MssClamped = "mss-clamped",
    RememberedPathMtu = "remembered-path-mtu",
    WrongInterface = "wrong-interface",
    UnreachablePort = "unreachable-port",
    BackgroundTraffic = "background-traffic",
    Bufferbloat = "bufferbloat",
    Reordering = "reordering",
    EncryptionCost = "encryption-cost",
    CompressionCost = "compression-cost",
    LatencyTooHighForSync = "latency-too-high-for-sync",
    SyncOverhead = "sync-overhead",
    CauseUnknown = "cause-unknown",
    NeedMet = "need-met",
    NeedNotMet = "need-not-met",
    NeedUnknown = "need-unknown",
    NeedCannotBeJudged = "need-cannot-be-judged",
    InstantiationInTime = "instantiation-in-time",
    InstantiationTooSlow = "instantiation-too-slow",
    IoSlotsKnee = "io-slots-knee",
    ReadLatencyHigh = "read-latency-high",
    StandbySlowerThanPrimary = "standby-slower-than-primary",
    UnevenStorage = "uneven-storage",
    NotFromDisk = "not-from-disk",
    BbrWithoutFq = "bbr-without-fq",
    BufferMaximumBelowNeed = "buffer-maximum-below-need",
    ClockSkew = "clock-skew",
    InterruptsOnOneCore = "interrupts-on-one-core",
    NicSpeedLow = "nic-speed-low",
    AgentLeftBehind = "agent-left-behind",
}

impl fmt::Display for FindingId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    Ok,
    Info,
    Warning,
    Critical,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Confidence {
    /// Fits what was measured, and so does something else that is named beside it.
    Possible,
    /// Fits what was measured, and nothing else that is looked for does.
    Likely,
    /// Read or measured as such.
    Measured,
}

impl Confidence {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Measured => "measured",
        }
    }
}

/// The unit of a finding's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    BytesPerSecond,
    Bytes,
    Seconds,
    Microseconds,
    /// 0 to 1.
    Share,
    /// Of two quantities; may be above 1.
    Ratio,
    Cores,
    Requests,
}

impl Unit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BytesPerSecond => "bytes_per_second",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Microseconds => "microseconds",
            Self::Share => "share",
            Self::Ratio => "ratio",
            Self::Cores => "cores",
            Self::Requests => "requests",
        }
    }
}

/// A measurement, and which of its fields in report.json were used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Evidence {
    pub measurement: MeasurementId,
    pub fields: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub id: FindingId,
    pub severity: Severity,
    pub confidence: Confidence,
    pub direction: Option<Direction>,
    pub pairs: Vec<PairId>,
    pub nodes: Vec<NodeId>,
    pub value: Option<(f64, Unit)>,
    pub evidence: Vec<Evidence>,
    pub sentence: String,
    /// The needs that it judges; several when findings were merged.
    pub needs: Vec<NeedJudged>,
    /// How it is named behind the first of its kind; `None`: never merged.
    pub also: Option<Also>,
    pub detail: Detail,
}

/// What is said of a finding that is merged with others of its kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Also {
    /// Only findings of one kind are merged: `the need lies within …`.
    pub kind: String,
    /// Whom it is about, and its number: `phx2 to ash2 (57.8 Mbit/s)`.
    pub text: String,
}

/// The numbers that advice is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Detail {
    #[default]
    None,
    Window(WindowBound),
    PerFlow(PerFlow),
    /// What a node's maximum has to be raised to.
    Buffers(BufferNeed),
    /// Seconds that copying the database takes, without and with redo made meanwhile.
    Instantiation {
        quiet_seconds: f64,
        busy_seconds: f64,
        goal_seconds: f64,
    },
    Limit(BytesPerSecond),
    Slots {
        knee: u32,
        highest_tried: u32,
    },
    Mtu(u32),
    /// A data port that is not reached; the port where a failure named it.
    Port {
        refusal: Refusal,
        port: Option<u16>,
    },
    /// What a path lends at the beginning, and what it sustains.
    Credit {
        sustained: BytesPerSecond,
        credit: Bytes,
    },
    /// The rate with over the one without, and the share of the bytes that crossed the network.
    Coding {
        ratio: f64,
        wire_share: Option<f64>,
    },
    /// Bounds of what SYNC adds to a commit.
    Commit {
        low_us: Option<f64>,
        high_us: f64,
    },
    /// A socket buffer that was asked for and did better than auto-tuning.
    FixedBuffer(Bytes),
}

/// Which buffer holds a single stream, and what bounds that buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowBound {
    pub end: End,
    pub setting: Setting,
    /// The setting's value, where the node told it.
    pub bound: Option<Bytes>,
    pub stream: BytesPerSecond,
    pub need: Option<BufferNeed>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Sender,
    Receiver,
}

/// What bounds a socket buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Setting {
    /// `net.ipv4.tcp_wmem[2]`: auto-tuned send buffers.
    TcpWmem,
    /// `net.ipv4.tcp_rmem[2]`: auto-tuned receive buffers.
    TcpRmem,
    /// `net.core.wmem_max`: SO_SNDBUF.
    CoreWmem,
    /// `net.core.rmem_max`: SO_RCVBUF.
    CoreRmem,
    /// The size that was asked for was granted.
    Requested,
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TcpWmem => "the maximum of net.ipv4.tcp_wmem",
            Self::TcpRmem => "the maximum of net.ipv4.tcp_rmem",
            Self::CoreWmem => "net.core.wmem_max",
            Self::CoreRmem => "net.core.rmem_max",
            Self::Requested => "the size that was asked for",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerFlow {
    pub stream: BytesPerSecond,
    /// What `num_conn` connections carry together.
    pub aggregate: BytesPerSecond,
    /// The smallest number of connections that gives about the best rate.
    pub num_conn: u32,
}

/// A need in one direction beside what was measured for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeedJudged {
    /// `None`: all threads together.
    pub thread: Option<u32>,
    pub direction: Direction,
    /// Of a thread; `None` when no pair carries it.
    pub pair: Option<PairId>,
    /// With headroom.
    pub required: BytesPerSecond,
    pub measured: Option<BytesPerSecond>,
    pub half_width: Option<BytesPerSecond>,
    pub measurement: Option<MeasurementId>,
}

impl Finding {
    pub fn new(
        id: FindingId,
        severity: Severity,
        confidence: Confidence,
        sentence: impl Into<String>,
    ) -> Self {
        Self {
            id,
            severity,
            confidence,
            direction: None,
            pairs: Vec::new(),
            nodes: Vec::new(),
            value: None,
            evidence: Vec::new(),
            sentence: sentence.into(),
            needs: Vec::new(),
            also: None,
            detail: Detail::None,
        }
    }

    #[must_use]
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = Some(direction);
        self
    }

    #[must_use]
    pub fn pairs(mut self, pairs: impl IntoIterator<Item = PairId>) -> Self {
        self.pairs.extend(pairs);
        self
    }

    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        for node in nodes {
            if !self.nodes.contains(&node) {
                self.nodes.push(node);
            }
        }
        self
    }

    #[must_use]
    pub fn value(mut self, value: f64, unit: Unit) -> Self {
        self.value = Some((value, unit));
        self
    }

    #[must_use]
    pub fn evidence(mut self, measurement: MeasurementId, fields: &[&'static str]) -> Self {
        self.add_evidence(measurement, fields);
        self
    }

    pub fn add_evidence(&mut self, measurement: MeasurementId, fields: &[&'static str]) {
        match self.evidence.iter_mut().find(|one| one.measurement == measurement) {
            Some(known) => {
                for field in fields {
                    if !known.fields.contains(field) {
                        known.fields.push(field);
                    }
                }
            }
            None => self.evidence.push(Evidence { measurement, fields: fields.to_vec() }),
        }
    }

    #[must_use]
    pub fn need(mut self, need: NeedJudged) -> Self {
        self.needs.push(need);
        self
    }

    /// Lets it be merged with others of its id and `kind`.
    #[must_use]
    pub fn also(mut self, kind: impl Into<String>, text: impl Into<String>) -> Self {
        self.also = Some(Also { kind: kind.into(), text: text.into() });
        self
    }

    #[must_use]
    pub fn detail(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }
}
