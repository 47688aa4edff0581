//! What will be done: every name resolved, every number in range.

pub mod access;
