//! What a run set out to do: the part of the plan that a report shows, without any credential.

use redoline_proto::units::BytesPerSecond;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::plan::clusters::LeftOut;
use crate::plan::need::{Limits, Need};
use crate::plan::node::{DeclaredNetwork, Direction, NodeId, PairId, Role};
use crate::plan::step::{Action, Step};

/// Kept with the first event, so that a run can be reported without its runbook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    pub runbook: String,
    pub runbook_sha256: String,
    pub configuration: String,
    pub primary_cluster: String,
    pub standby_cluster: String,
    /// All nodes are this machine: no statement about a network follows.
    pub demo: bool,
    pub network: DeclaredNetwork,
    pub nodes: Vec<NodeSetup>,
    pub pairs: Vec<PairSetup>,
    /// Where `pairs` begins to be crossed ones (`Plan::crossed_from`); `None`: none is.
    #[serde(default)]
    pub crossed_from: Option<usize>,
    /// Records of runs without `--limit` need not have it.
    #[serde(default)]
    pub left_out: LeftOut,
    pub need: Option<Need>,
    pub limits: Limits,
    pub steps: Vec<StepSetup>,
    /// Where `steps` begins to be `finally`.
    pub finally_from: usize,
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSetup {
    pub name: String,
    pub role: Role,
    pub cluster: String,
    pub thread: Option<u32>,
    /// What is measured.
    pub redo_address: String,
    /// How it is reached: `ssh oracle@192.0.2.11:22` or `local`.
    pub access: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PairSetup {
    pub primary: NodeId,
    pub standby: NodeId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSetup {
    pub name: String,
    /// `throughput`, `sweep`, …
    pub action: String,
    pub direction: Direction,
    pub register: Option<String>,
    pub excluded: bool,
    /// The pairs it measures; empty for steps about nodes.
    pub pairs: Vec<PairId>,
    /// The nodes it measures; empty for steps about pairs.
    pub nodes: Vec<NodeId>,
}

impl Setup {
    pub fn of(plan: &Plan) -> Self {
        let steps = plan.steps.iter().chain(&plan.finally).map(StepSetup::of).collect();
        Self {
            runbook: plan.name.clone(),
            runbook_sha256: plan.runbook_sha256.clone(),
            configuration: plan.configuration.name.clone(),
            primary_cluster: plan.configuration.primary_cluster.clone(),
            standby_cluster: plan.configuration.standby_cluster.clone(),
            demo: plan.configuration.demo,
            network: plan.configuration.network.clone(),
            nodes: plan.nodes.iter().map(NodeSetup::of).collect(),
            pairs: plan
                .pairs
                .iter()
                .map(|pair| PairSetup { primary: pair.primary, standby: pair.standby })
                .collect(),
            crossed_from: (plan.crossed_from < plan.pairs.len()).then_some(plan.crossed_from),
            left_out: plan.left_out.clone(),
            need: plan.need.clone(),
            limits: plan.limits.clone(),
            steps,
            finally_from: plan.steps.len(),
            remarks: plan.remarks.clone(),
        }
    }

    pub fn node_name(&self, id: NodeId) -> &str {
        &self.nodes[id.0].name
    }

    /// `phx1-ash1`: a pair is named by its primary and its standby node, in either direction.
    pub fn pair_name(&self, id: PairId) -> String {
        let pair = self.pairs[id.0];
        format!("{}-{}", self.node_name(pair.primary), self.node_name(pair.standby))
    }

    /// Sender and receiver of a pair in a direction.
    pub fn ends(&self, id: PairId, direction: Direction) -> (NodeId, NodeId) {
        let pair = self.pairs[id.0];
        match direction {
            Direction::PrimaryToStandby => (pair.primary, pair.standby),
            Direction::StandbyToPrimary => (pair.standby, pair.primary),
        }
    }

    /// The declared bandwidth of the network between the clusters.
    pub fn declared_bandwidth(&self) -> Option<BytesPerSecond> {
        self.network.bandwidth
    }
}

impl NodeSetup {
    fn of(node: &crate::plan::node::Node) -> Self {
        use crate::plan::access::Access;
        let access = match &node.access {
            Access::Local => "local".to_owned(),
            Access::Ssh(ssh) => format!("ssh {}@{} port {}", ssh.user, ssh.host, ssh.port),
        };
        Self {
            name: node.name.clone(),
            role: node.role,
            cluster: node.cluster.clone(),
            thread: node.thread,
            redo_address: node.redo.address.to_string(),
            access,
        }
    }
}

impl StepSetup {
    fn of(step: &Step) -> Self {
        let (pairs, nodes) = match &step.action {
            Action::Throughput(spec) => (spec.pairs.clone(), Vec::new()),
            Action::Sweep(spec) => (spec.throughput.pairs.clone(), Vec::new()),
            Action::Path(spec) => (spec.pairs.clone(), Vec::new()),
            Action::InterfaceMtu(spec) => (spec.throughput.pairs.clone(), Vec::new()),
            Action::StorageRead(spec) => (Vec::new(), spec.nodes.clone()),
            Action::Topology(_) | Action::SwapRoles | Action::Assert(_) => (Vec::new(), Vec::new()),
        };
        Self {
            name: step.name.clone(),
            action: step.action.key().to_owned(),
            direction: step.direction,
            register: step.register.clone(),
            excluded: step.excluded,
            pairs,
            nodes,
        }
    }
}
