//! Asks the nodes what they are, and what their ways to each other are.

use std::time::Duration;

use futures_util::future::join_all;
use redoline_proto::facts::{FactsRequest, Peer};

use super::failure;
use super::run::Run;
use crate::plan::node::NodeId;
use crate::record::event::{Event, StepFailure};

impl Run<'_> {
    /// The facts that a node is asked for: itself, and its ways to the peers of its pairs.
    pub fn facts_request(&self, node: NodeId) -> FactsRequest {
        let mut peers: Vec<NodeId> = self
            .plan
            .pairs
            .iter()
            .filter_map(|pair| match (pair.primary == node, pair.standby == node) {
                (true, _) => Some(pair.standby),
                (_, true) => Some(pair.primary),
                _ => None,
            })
            .collect();
        peers.dedup();
        let peer = |id: NodeId| Peer {
            name: self.plan.node(id).name.clone(),
            address: self.plan.node(id).redo.address.to_string(),
        };
        FactsRequest {
            peers: peers.into_iter().map(peer).collect(),
            redo_address: self.plan.node(node).redo.bind.to_string(),
            deadline_ms: 0,
        }
    }

    /// Asks every node for its facts at once; `hops` bounds what the network is asked.
    pub async fn gather_facts(&mut self, hops: Duration) -> Vec<StepFailure> {
        let requests: Vec<_> =
            self.agents().map(|agent| (agent, self.facts_request(agent.node))).collect();
        let answers = requests.into_iter().map(|(agent, request)| async move {
            (agent.node, agent.facts(request, hops).await, agent)
        });
        let mut failures = Vec::new();
        let mut gathered = Vec::new();
        for (node, answer, agent) in join_all(answers).await {
            match answer {
                Ok(facts) => gathered.push((node, facts)),
                Err(error) => failures.push(StepFailure {
                    pair: None,
                    failure: failure::of_agent(agent, "gather facts", &error),
                }),
            }
        }
        for (node, facts) in gathered {
            self.facts.insert(node, facts.clone());
            self.events.send(Event::NodeFacts { node, facts: Box::new(facts) }).await;
        }
        failures
    }
}
