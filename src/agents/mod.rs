//! Agents on nodes: which executable, how it gets there, and how it is started.

pub mod executable;
pub mod deploy;
