//! The names that a registered step's results have in expressions.

use super::step::{Action, NumConn};

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
        Action::Throughput(spec) => match spec.num_conn {
            NumConn::Ladder(_) => LADDER,
            NumConn::Fixed(_) | NumConn::Later(_) => PAIR,
        },
        Action::Sweep(_) | Action::InterfaceMtu(_) => PAIR,
        Action::Path(_) => &[],
        Action::StorageRead(_) => NODE,
        Action::Topology(_) | Action::SwapRoles | Action::Assert(_) => &[],
    }
}
