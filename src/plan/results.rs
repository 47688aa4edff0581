//! The names that a registered step's results have in expressions.

use super::step::{Action, NumConn};

/// Of one throughput test, on the pair that asks. Rates are in bytes per second.
pub const THROUGHPUT: &[&str] =
    &["rate", "half_width", "num_conn", "rtt_min_us", "retransmitted_bytes"];

/// Of a ladder: `rate` and `half_width` are those of the recommended level.
pub const LADDER: &[&str] = &["rate", "half_width", "recommended_num_conn", "best_num_conn"];

/// Of a sweep: the value of the varied key with the highest rate, and that rate.
pub const SWEEP: &[&str] = &["rate", "half_width", "best"];

/// Of a storage step, over its points: the highest rate and IOPS, the lowest median latency.
pub const STORAGE_READ: &[&str] = &["rate", "iops", "latency_p50_us"];

/// What an expression may read of this action's results.
pub fn fields(action: &Action) -> &'static [&'static str] {
    match action {
        Action::Throughput(spec) => match spec.num_conn {
            NumConn::Ladder(_) => LADDER,
            NumConn::Fixed(_) | NumConn::Later(_) => THROUGHPUT,
        },
        Action::Sweep(_) => SWEEP,
        Action::StorageRead(_) => STORAGE_READ,
        Action::Topology(_) | Action::SwapRoles | Action::Assert(_) => &[],
    }
}
