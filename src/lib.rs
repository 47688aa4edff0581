//! Controller: from a runbook to a report.
//!
//! Modules are listed in the order in which data flows through them.

pub mod runbook;
pub mod plan;
pub mod connect;
pub mod agents;
pub mod execute;
pub mod record;
pub mod analysis;
pub mod advice;
pub mod report;
pub mod history;
pub mod progress;
pub mod commands;
pub mod cli;
pub mod exit;
pub mod version;

/// Runs made from descriptions of paths, for the tests of what a run means.
#[cfg(test)]
#[path = "../tests/support/scenario/mod.rs"]
mod scenario;
