//! The table: which findings lead to which recommendation.

use super::{Rule, buffers, host, network};
use crate::analysis::finding::FindingId::{
    AgentLeftBehind, Asymmetric, BbrWithoutFq, BelowDeclaredBandwidth, BufferCapped,
    BufferMaximumBelowNeed, ClockSkew, CpuLimited, FixedBufferGain, InstantiationInTime,
    InstantiationTooSlow, JumboGain, LimitedByRunbook, LinkLimited, LossLimited,
    NeedCannotBeJudged, NeedNotMet, NeedUnknown, NotFromDisk, PerFlowLimit, ReadLatencyHigh,
    StandbySlowerThanPrimary, UnevenNodes, UnevenStorage, Unsteady, WindowLimited,
};

/// In the order in which a report shows them.
pub const RULES: &[Rule] = &[
    Rule {
        id: "raise-socket-buffer-maximum",
        on: &[WindowLimited, BufferMaximumBelowNeed, BufferCapped],
        recommend: buffers::raise_maximum,
    },
    Rule { id: "lift-per-flow-limit", on: &[PerFlowLimit], recommend: network::lift_per_flow },
    Rule { id: "more-bandwidth", on: &[LinkLimited], recommend: network::more_bandwidth },
    Rule { id: "find-the-losses", on: &[LossLimited], recommend: network::find_losses },
    Rule { id: "compress-redo", on: &[NeedNotMet], recommend: network::compress_redo },
    Rule {
        id: "rman-channels",
        on: &[PerFlowLimit, InstantiationInTime, InstantiationTooSlow],
        recommend: network::rman_channels,
    },
    Rule { id: "fixed-socket-buffer", on: &[FixedBufferGain], recommend: buffers::fixed },
    Rule { id: "jumbo-frames", on: &[JumboGain], recommend: network::jumbo },
    Rule { id: "free-the-processor", on: &[CpuLimited], recommend: host::free_processor },
    Rule { id: "compare-directions", on: &[Asymmetric], recommend: network::directions },
    Rule { id: "compare-nodes", on: &[UnevenNodes], recommend: host::compare_nodes },
    Rule {
        id: "ask-for-declared-bandwidth",
        on: &[BelowDeclaredBandwidth],
        recommend: network::declared,
    },
    Rule { id: "lift-runbook-limit", on: &[LimitedByRunbook], recommend: network::lift_limit },
    Rule { id: "fair-queue-for-bbr", on: &[BbrWithoutFq], recommend: host::fair_queue },
    Rule {
        id: "measure-again",
        on: &[Unsteady, NeedCannotBeJudged],
        recommend: network::measure_again,
    },
    Rule { id: "state-the-need", on: &[NeedUnknown], recommend: host::state_need },
    Rule {
        id: "slow-storage",
        on: &[ReadLatencyHigh, StandbySlowerThanPrimary, UnevenStorage],
        recommend: host::slow_storage,
    },
    Rule { id: "read-from-the-disks", on: &[NotFromDisk], recommend: host::read_from_disks },
    Rule { id: "set-the-clocks", on: &[ClockSkew], recommend: host::set_clocks },
    Rule { id: "clean-up", on: &[AgentLeftBehind], recommend: host::clean_up },
];
