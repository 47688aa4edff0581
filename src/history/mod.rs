//! Runs that are kept: one folder a run, its events one JSON object a line.

pub mod format;
pub mod run_dir;
pub mod run_id;
