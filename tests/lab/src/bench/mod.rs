//! Measures the agent beside iperf3 and the barest loop of `send` and `recv`, in turn.
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

pub use bare::{BareEnd, bare};
pub use comparison::{Comparison, Gate};
pub use throughput::{CaseReport, ThroughputSpec, Where, throughput};
