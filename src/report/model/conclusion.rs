//! What follows: findings, recommendations, the verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::node::Direction;

#[derive(
    Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Ok,
    Info,
    Warning,
    Critical,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Of the list in the documentation: `per-flow-limit`, `need-not-met`, …
    pub id: String,
    pub severity: Severity,
    /// Null when it is about both, or about no network.
    pub direction: Option<Direction>,
    pub pairs: Vec<String>,
    pub nodes: Vec<String>,
    pub value: Option<f64>,
    /// `bytes_per_second`, `bytes`, `seconds`, …
    pub unit: Option<String>,
    /// `measured`, `likely`, `possible`.
    pub confidence: String,
    pub evidence: Vec<Evidence>,
    /// The needs that it judges.
    pub needs: Vec<JudgedNeed>,
    pub sentence: String,
}

/// A need in one direction beside what was measured for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedNeed {
    /// Null: all threads together.
    pub thread: Option<u32>,
    pub direction: Direction,
    /// Null: all pairs, or no pair carries the thread.
    pub pair: Option<String>,
    /// With headroom.
    pub required_bytes_per_second: f64,
    pub measured_bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub measurement: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    pub measurement: String,
    /// Names of the fields used: `limited.send_buffer_ms`.
    pub fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    pub id: String,
    /// Ids of the findings that it follows from.
    pub findings: Vec<String>,
    /// A sentence.
    pub action: String,
    pub commands: Vec<Command>,
    pub expected_effect: String,
    pub how_to_verify: String,
    pub how_to_undo: String,
    pub risk: String,
    pub needs_root: bool,
    pub licence: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Node names; empty for the network team.
    pub nodes: Vec<String>,
    /// `sysctl`, `sqlnet.ora`, `tnsnames.ora`, `rman`.
    pub kind: String,
    pub lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Met,
    /// Met under conditions that the sentence names.
    Conditional,
    NotMet,
    CannotTell,
    NotTested,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    pub answer: Answer,
    pub sentence: String,
    /// Ids of the findings that it rests on.
    pub findings: Vec<String>,
}
