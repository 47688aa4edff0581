//! The state of a run while it goes on: who is there, what was found, what may still be used.

use std::collections::BTreeMap;
use std::time::Duration;

use redoline_proto::facts::HostFacts;
use redoline_proto::path::{HoldMtuJob, MtuHeld};
use redoline_proto::transfer::{Guard, JobId, Token};
use redoline_proto::units::Bytes;

use super::events::EventSender;
use super::hold::Hold;
use super::promise::Promise;
use super::results::Results;
use super::transfer::Ends;
use crate::agents::session::Agent;
use crate::plan::Plan;
use crate::plan::node::{Direction, NodeId, PairId};
use crate::record::event::{Event, StepFailure};
use crate::record::measurement::{
    Failure, FailureCause, Measurement, MeasurementId, Series, SeriesPoint, StoppedBecause,
};
use crate::record::setup::Setup;

/// Owned by the executor; steps borrow it one after the other.
#[derive(Debug)]
pub struct Run<'a> {
    pub plan: &'a Plan,
    /// The plan as the record has it.
    pub setup: Setup,
    pub events: EventSender,
    pub results: Results,
    pub facts: BTreeMap<NodeId, HostFacts>,
    agents: BTreeMap<NodeId, Agent>,
    /// Lost ones are kept apart, so that they too are released at the end.
    lost: BTreeMap<NodeId, (Failure, Option<Agent>)>,
    /// The time of day in minutes after midnight; an argument, so that tests can hold it.
    minute_of_day: fn() -> u16,
    sent: u64,
    /// Of the test that runs, which is charged with what was heard of it when it is cut short.
    promise: Promise,
    open_series: Vec<Series>,
    /// Interfaces whose MTU is not what it was.
    holds: Vec<Hold>,
    measurements: u32,
    series: u32,
    jobs: u64,
}

impl<'a> Run<'a> {
    pub fn new(plan: &'a Plan, events: EventSender, minute_of_day: fn() -> u16) -> Self {
        Self {
            plan,
            setup: Setup::of(plan),
            events,
            results: Results::default(),
            facts: BTreeMap::new(),
            agents: BTreeMap::new(),
            lost: BTreeMap::new(),
            minute_of_day,
            sent: 0,
            promise: Promise::default(),
            open_series: Vec::new(),
            holds: Vec::new(),
            measurements: 0,
            series: 0,
            jobs: 0,
        }
    }

    pub async fn add_agent(&mut self, agent: Agent) {
        let ready = Event::NodeReady {
            node: agent.node,
            clock: agent.clock(),
            agent: agent.origin.clone(),
            accepted_host_key: agent.accepted_host_key.clone(),
        };
        self.events.send(ready).await;
        self.agents.insert(agent.node, agent);
    }

    pub fn agent(&self, node: NodeId) -> Result<&Agent, Failure> {
        match (self.agents.get(&node), self.lost.get(&node)) {
            (Some(agent), _) => Ok(agent),
            (None, Some((failure, _))) => Err(failure.clone()),
            (None, None) => Err(super::failure::could_not_measure(
                Some(node),
                "connect",
                "the node takes no part in this run",
            )),
        }
    }

    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// The node takes no further part; said once.
    pub async fn lose(&mut self, failure: Failure) {
        let Some(node) = failure.node else { return };
        if self.lost.contains_key(&node) {
            return;
        }
        let agent = self.agents.remove(&node);
        self.lost.insert(node, (failure.clone(), agent));
        self.events.send(Event::NodeLost { node, failure }).await;
    }

    /// Takes a step's failures: nodes that are lost take no further part.
    pub async fn note(&mut self, failures: &[StepFailure]) {
        for failure in failures {
            if failure.cause() == FailureCause::Unreachable {
                self.lose(failure.failure.clone()).await;
            }
        }
    }

    /// Every agent, also of nodes that were lost, for the release at the end.
    pub fn into_agents(self) -> Vec<Agent> {
        let lost = self.lost.into_values().filter_map(|(_, agent)| agent);
        self.agents.into_values().chain(lost).collect()
    }

    pub fn ends(
        &self,
        pair: PairId,
        direction: Direction,
        step: usize,
    ) -> Result<Ends<'_>, Failure> {
        let nodes = self.plan.pair(pair);
        let (sender, receiver) = (nodes.sender(direction), nodes.receiver(direction));
        Ok(Ends {
            pair,
            direction,
            step,
            sender: self.agent(sender)?,
            sender_node: self.plan.node(sender),
            receiver: self.agent(receiver)?,
            receiver_node: self.plan.node(receiver),
        })
    }

    /// What expressions see of a pair. Where a crossed pair has no result of its own, it sees that of
    /// the pair in which its sender sends elsewhere.
    pub fn context(&self, pair: PairId, direction: Direction) -> minijinja::Value {
        let instead = Some(self.own_pair(pair, direction)).filter(|own| *own != pair);
        self.results.context(pair, instead, self.plan.pair(pair), direction)
    }

    /// The shortest round trip seen on a pair; of a crossed one, else on its sender's own.
    pub fn min_rtt(&self, pair: PairId, direction: Direction) -> Option<Duration> {
        let own = || self.results.min_rtt(self.own_pair(pair, direction));
        self.results.min_rtt(pair).or_else(own)
    }

    fn own_pair(&self, pair: PairId, direction: Direction) -> PairId {
        let sender = |id: PairId| self.plan.pair(id).sender(direction);
        let is_crossed = self.plan.is_crossed(pair);
        let own = || self.plan.own_pairs().find(|own| sender(*own) == sender(pair));
        is_crossed.then(own).flatten().unwrap_or(pair)
    }

    pub fn next_job(&mut self) -> (JobId, Token) {
        self.jobs += 1;
        (JobId(self.jobs), Token(rand::random()))
    }

    pub fn next_measurement(&mut self) -> MeasurementId {
        self.measurements += 1;
        MeasurementId(self.measurements)
    }

    /// A ladder or sweep begins; its points are kept here, so that one that is cut short is not
    /// lost. Gives its number.
    pub fn begin_series(&mut self, series: Series) -> u32 {
        self.series += 1;
        self.open_series.push(Series { id: self.series, ..series });
        self.series
    }

    pub fn add_point(&mut self, series: u32, point: SeriesPoint) {
        if let Some(series) = self.open_series.iter_mut().find(|open| open.id == series) {
            series.points.push(point);
        }
    }

    pub async fn finish_series(&mut self, series: u32, stopped_because: StoppedBecause) {
        let place = self.open_series.iter().position(|open| open.id == series);
        if let Some(place) = place {
            let series = Series { stopped_because, ..self.open_series.remove(place) };
            self.events.send(Event::SeriesFinished { series }).await;
        }
    }

    /// After a step that was cut short by its timeout or by Ctrl-C.
    pub async fn abandon_what_is_open(&mut self) {
        self.sent += std::mem::take(&mut self.promise).charge();
        // Its failures are said as warnings; the step has failed already.
        self.release_holds().await;
        while let Some(series) = self.open_series.first().map(|open| open.id) {
            self.finish_series(series, StoppedBecause::Interrupted).await;
        }
    }

    /// Holds the MTU of the interface with a node's redo address; kept here, so that it is restored
    /// before the agents are released, whatever happens to the step.
    ///
    /// # Errors
    /// When the interface cannot be changed; then it is as it was.
    pub async fn hold_mtu(
        &mut self,
        node: NodeId,
        mtu_bytes: u32,
        deadline: Duration,
    ) -> Result<MtuHeld, Failure> {
        let (job, _) = self.next_job();
        let address = self.plan.node(node).redo.bind;
        let hold = Hold::begin(self.agent(node)?, HoldMtuJob { job, address, mtu_bytes, deadline });
        let hold = hold.await?;
        let place = self.holds.len();
        self.holds.push(hold);
        self.holds[place].held().await
    }

    /// Has every interface restored, the last one first, and says which is not as it was or was not
    /// held until now. Gives the same as failures: what was measured meanwhile does not count.
    pub async fn release_holds(&mut self) -> Vec<StepFailure> {
        let mut failures = Vec::new();
        for hold in self.holds.iter_mut().rev() {
            let Err(failure) = hold.release().await else { continue };
            let (node, text) = (failure.node, failure.text.clone());
            failures.push(StepFailure { pair: None, failure });
            self.events.send(Event::Warning { node, text }).await;
        }
        self.holds.clear();
        failures
    }

    pub async fn measured(&mut self, measurement: Measurement) {
        self.events.send(Event::Measured { measurement }).await;
    }

    pub async fn warn(&self, node: Option<NodeId>, text: String) {
        self.events.send(Event::Warning { node, text }).await;
    }

    pub fn guard(&self) -> Guard {
        Guard { cpu_share_max: self.plan.limits.cpu, load_max: self.plan.limits.load }
    }

    /// Before a test: what each of its senders may send. Without a limit nothing needs to be counted.
    pub fn promise(&mut self, each: Option<Bytes>, senders: usize) {
        self.promise = Promise::new(each, senders);
    }

    /// What is heard of the test that runs.
    pub fn promised(&self) -> &Promise {
        &self.promise
    }

    /// After it: what they did send.
    pub fn count_sent(&mut self, bytes: u64) {
        self.promise = Promise::default();
        self.sent += bytes;
    }

    /// What the runbook's `bytes` still allows; `None` without such a limit.
    pub fn bytes_left(&self) -> Option<Bytes> {
        self.plan.limits.bytes.map(|limit| Bytes(limit.0.saturating_sub(self.sent)))
    }

    /// Whether a test may start now: the run's bytes are not used up, and it is within the window.
    pub fn may_start(&self) -> Result<(), Failure> {
        let limit = |text: String| Failure {
            node: None,
            phase: "limits".to_owned(),
            text,
            cause: FailureCause::Limit,
        };
        if self.bytes_left() == Some(Bytes(0)) {
            let bytes = self.plan.limits.bytes.unwrap_or_default();
            return Err(limit(format!("the run has used up its limit of {bytes}")));
        }
        match self.plan.limits.window {
            Some(window) if !window.contains((self.minute_of_day)()) => {
                Err(limit("it is outside the runbook's window for tests".to_owned()))
            }
            _ => Ok(()),
        }
    }
}
