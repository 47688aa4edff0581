//! The names that a registered step's results have in expressions.

use super::step::{Action, NumConn, ThroughputSpec};

/// Of a throughput or sweep step, on the pair that asks; of a sweep, of its best point.
pub const PAIR: &[&str] = &[
    "bytes_per_second",
    "half_width_bytes_per_second",
    "total_bytes_per_second",
    "min_rtt_us",
    "retransmitted_bytes",
];

/// Of a ladder, on the pair that asks: its best level, and the number to use.
pub const LADDER: &[&str] = &[
    "bytes_per_second",
    "half_width_bytes_per_second",
    "total_bytes_per_second",
    "min_rtt_us",
    "retransmitted_bytes",
    "recommended_num_conn",
    "best_num_conn",
];

/// Of a step in a SYNC mode; of several message lengths, of the one with the highest rate.
pub const SYNC: &[&str] = &[
    "bytes_per_second",
    "half_width_bytes_per_second",
    "total_bytes_per_second",
    "min_rtt_us",
    "retransmitted_bytes",
    "messages_per_second",
    "latency_p50_us",
    "latency_p99_us",
];

/// Of a path step, on the pair that asks.
pub const PATH: &[&str] = &["rtt_p50_us", "loss_ratio", "path_mtu_bytes", "mss_bytes"];

/// Of a storage step, on the sending node of the pair that asks.
pub const NODE: &[&str] = &[
    "single_block_p50_us",
    "single_block_p99_us",
    "direct_path_bytes_per_second",
    "device_read_ratio",
];

/// What an expression may read of this action's results.
pub fn fields(action: &Action) -> &'static [&'static str] {
    match action {
        Action::Throughput(spec) => of_test(spec),
        Action::Sweep(spec) => of_test(&spec.throughput),
        Action::InterfaceMtu(spec) => of_test(&spec.throughput),
        Action::Path(_) => PATH,
        Action::StorageRead(_) => NODE,
        Action::Topology(_) | Action::SwapRoles | Action::Assert(_) => &[],
    }
}

fn of_test(spec: &ThroughputSpec) -> &'static [&'static str] {
    match spec.num_conn {
        NumConn::Ladder(_) => LADDER,
        NumConn::Fixed(_) | NumConn::Later(_) if spec.mode.acknowledged() => SYNC,
        NumConn::Fixed(_) | NumConn::Later(_) => PAIR,
    }
}
