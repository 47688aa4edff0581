//! Controller: from a runbook to a report.

pub mod plan;
pub mod connect;
pub mod agents;
