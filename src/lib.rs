//! Controller: from a runbook to a report.
//!
//! Modules are listed in the order in which data flows through them.

pub mod plan;
pub mod record;
pub mod analysis;
pub mod advice;
pub mod report;
pub mod exit;

#[cfg(test)]
mod scenario;
