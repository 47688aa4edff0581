//! Controller: from a runbook to a report.
//!
//! Modules are listed in the order in which data flows through them.

pub mod plan;
pub mod connect;
pub mod agents;
pub mod record;
pub mod analysis;
pub mod execute;
pub mod history;
pub mod report;
pub mod version;
