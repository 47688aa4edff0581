//! What will be done: every name resolved, every number in range.

pub mod access;
pub mod actions;
pub mod clusters;
pub mod combinations;
pub mod cost;
pub mod expression;
pub mod need;
pub mod node;
pub mod options;
pub mod problem;
pub mod remarks;
pub mod requirements;
pub mod resolve;
pub mod results;
pub mod scope;
pub mod select;
pub mod show;
pub mod show_steps;
pub mod step;
pub mod steps;
pub mod storage;
pub mod sweep;
pub mod throughput;

pub use cost::{Cost, cost};
pub use options::Options;
pub use resolve::{from_texts, resolve};
pub use show::show;

use clusters::LeftOut;
use need::{Limits, Need};
use node::{Configuration, Node, NodeId, Pair, PairId};
use step::Step;

/// A run, decided before any node is contacted.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub name: String,
    /// SHA-256 of the runbook's text, in hexadecimal.
    pub runbook_sha256: String,
    pub configuration: Configuration,
    pub nodes: Vec<Node>,
    /// The configuration's own, then those that `nodes: all_to_one` crosses.
    pub pairs: Vec<Pair>,
    /// Where `pairs` begins to be crossed ones: no redo goes there, so no need counts them, `all`
    /// never means them, and results of other steps have none for them.
    pub crossed_from: usize,
    pub left_out: LeftOut,
    /// Of the plan itself, such as that the shorter side's nodes are used again in turn.
    pub remarks: Vec<String>,
    /// `None`: the runbook states none, so no need is judged.
    pub need: Option<Need>,
    pub limits: Limits,
    pub steps: Vec<Step>,
    /// Run at the end, also after a failure; not after an interruption.
    pub finally: Vec<Step>,
    pub formats: Vec<ReportFormat>,
    pub agent: AgentAfterRun,
}

impl Plan {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    pub fn pair(&self, id: PairId) -> Pair {
        self.pairs[id.0]
    }

    /// The configuration's own pairs.
    pub fn own_pairs(&self) -> impl Iterator<Item = PairId> + use<> {
        (0..self.crossed_from).map(PairId)
    }

    pub fn is_crossed(&self, id: PairId) -> bool {
        id.0 >= self.crossed_from
    }

    /// `phx1-ash1`: primary, then standby, in either direction.
    pub fn pair_name(&self, id: PairId) -> String {
        let pair = self.pair(id);
        format!("{}-{}", self.node(pair.primary).name, self.node(pair.standby).name)
    }
}

/// What a run leaves on a node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AgentAfterRun {
    /// Nothing.
    #[default]
    Remove,
    /// The agent's executable, named by its hash, for the next run.
    Keep,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportFormat {
    Html,
    Markdown,
    Json,
}
