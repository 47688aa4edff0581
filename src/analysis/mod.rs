//! What a run means: summaries, findings with their evidence, and the verdict. Pure.

pub mod bdp;
pub mod plateau;
pub mod steady;
pub mod throughput;
pub mod window;

/// Grows with every change of a rule, so that a report tells by which rules it was made.
pub const ANALYSIS_VERSION: u32 = 1;
