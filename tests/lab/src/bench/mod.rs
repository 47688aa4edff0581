//! Measures the agent beside iperf3 and the barest loop of `send` and `recv`, its messages beside those
//! of sockperf and qperf, in turn, and the short runbook beside the documented procedure.
//!
//! Modules are listed from the pure parts to the whole.

mod statistics;
mod outcome;
mod comparison;
mod place;
mod agent;
mod iperf3;
mod bare;
mod throughput;
mod procedures;
mod sync;

pub use bare::{BareEnd, bare};
pub use comparison::{Comparison, Gate};
pub use procedures::{Procedure, Procedures, procedures};
pub use sync::{SyncReport, sync};
pub use throughput::{CaseReport, ThroughputSpec, Where, throughput};
