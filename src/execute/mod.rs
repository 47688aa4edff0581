//! Doing it: from a plan and its nodes to a stream of events.

pub mod data_port;
pub mod events;
pub mod facts;
pub mod failure;
pub mod hearing;
pub mod hold;
pub mod jobs;
pub mod looks;
pub mod probe;
pub mod promise;
pub mod results;
pub mod run;
pub mod steps;
pub mod transfer;

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::events::EventSender;
use self::run::Run;
use crate::agents::deploy::AgentOptions;
use crate::agents::executable::Executables;
use crate::agents::session::{Agent, Clocks, Greeting};
use crate::plan::Plan;
use crate::plan::node::NodeId;
use crate::plan::step::{OnError, Step};
use crate::record::event::{Event, RunOutcome, StepFailure, StepOutcome};
use crate::record::measurement::{Failure, FailureCause};

/// Everything beside the plan that a run needs.
#[derive(Debug)]
pub struct Surroundings {
    pub executables: Executables,
    pub agent: AgentOptions,
    pub greeting: Greeting,
    /// Ctrl-C.
    pub cancel: CancellationToken,
    /// The time of day in minutes after midnight.
    pub minute_of_day: fn() -> u16,
}

/// For one agent to end and its node to be looked at.
const RELEASE_DEADLINE: Duration = Duration::from_secs(10);
/// SSH servers drop connections at random above ten unauthenticated ones (MaxStartups 10:30:100).
const CONNECTS_AT_ONCE: usize = 8;
/// For facts without questions to the network.
const NO_QUESTIONS: Duration = Duration::ZERO;

/// Runs the plan. Whatever happens, agents are released and `RunFinished` is the last event.
pub async fn execute(plan: &Plan, surroundings: &Surroundings, events: EventSender) -> RunOutcome {
    let cancel = &surroundings.cancel;
    let mut run = Run::new(plan, events.clone(), surroundings.minute_of_day);
    connect_all(&mut run, surroundings).await;
    let outcome = all_steps(&mut run, cancel).await;
    release_all(run, &surroundings.executables, &events).await;
    events.send(Event::RunFinished { outcome }).await;
    outcome
}

/// Each agent is handed over as soon as it answers, so that an interruption releases it.
async fn connect_all(run: &mut Run<'_>, surroundings: &Surroundings) {
    let plan = run.plan;
    let clocks = Clocks::new();
    let slots = tokio::sync::Semaphore::new(CONNECTS_AT_ONCE);
    let mut connecting: FuturesUnordered<_> = (0..plan.nodes.len())
        .map(NodeId)
        .map(|id| {
            let slots = &slots;
            async move {
                let _slot = slots.acquire().await;
                begin(id, plan, surroundings, clocks).await
            }
        })
        .collect();
    loop {
        let agent = tokio::select! {
            agent = connecting.next() => agent,
            () = surroundings.cancel.cancelled() => return,
        };
        match agent {
            Some(Ok(agent)) => run.add_agent(agent).await,
            Some(Err(failure)) => run.lose(failure).await,
            None => break,
        }
    }
    let failures = run.gather_facts(NO_QUESTIONS).await;
    for failure in &failures {
        run.warn(failure.failure.node, failure.failure.text.clone()).await;
    }
    run.note(&failures).await;
}

async fn begin(
    id: NodeId,
    plan: &Plan,
    surroundings: &Surroundings,
    clocks: Clocks,
) -> Result<Agent, Failure> {
    let Surroundings { executables, agent, greeting, .. } = surroundings;
    let agent = Agent::begin(id, plan.node(id), executables, agent, greeting, clocks);
    agent.await.map_err(|error| failure::of_begin(id, &error))
}

/// `finally` runs whatever happened before it, except an interruption.
async fn all_steps(run: &mut Run<'_>, cancel: &CancellationToken) -> RunOutcome {
    let plan = run.plan;
    let mut outcome = RunOutcome::Completed;
    for (index, step) in plan.steps.iter().chain(&plan.finally).enumerate() {
        let finally = plan.steps.len() <= index;
        if cancel.is_cancelled() {
            outcome = RunOutcome::Interrupted;
        }
        let why_not = match outcome {
            RunOutcome::Interrupted => Some("the run was interrupted"),
            RunOutcome::Stopped if !finally => Some("an earlier step ended the run"),
            RunOutcome::Stopped | RunOutcome::Completed => None,
        };
        let of_step = match why_not {
            _ if step.excluded => RunOutcome::Completed,
            Some(reason) => skip(run, index, reason).await,
            None => one_step(run, index, step, cancel).await,
        };
        if outcome == RunOutcome::Completed || of_step == RunOutcome::Interrupted {
            outcome = of_step;
        }
    }
    outcome
}

async fn skip(run: &Run<'_>, step: usize, reason: &str) -> RunOutcome {
    let outcome = StepOutcome::Skipped { reason: reason.to_owned() };
    run.events.send(Event::StepFinished { step, outcome }).await;
    RunOutcome::Completed
}

/// Dropping a step's future cancels its jobs on every agent.
async fn one_step(
    run: &mut Run<'_>,
    index: usize,
    step: &Step,
    cancel: &CancellationToken,
) -> RunOutcome {
    run.events.send(Event::StepStarted { step: index }).await;
    let outcome = tokio::select! {
        outcome = timeout(step.timeout, steps::run(run, index, step)) => match outcome {
            Ok(outcome) => outcome,
            Err(_) => failed(FailureCause::CouldNotMeasure, format!(
                "the step did not end within its timeout of {:?}; raise `timeout`",
                step.timeout
            )),
        },
        () = cancel.cancelled() => failed(FailureCause::Interrupted, "interrupted".to_owned()),
    };
    run.abandon_what_is_open().await;
    let after = what_follows(step, &outcome);
    run.events.send(Event::StepFinished { step: index, outcome }).await;
    after
}

fn failed(cause: FailureCause, text: String) -> StepOutcome {
    let failure = Failure { node: None, phase: "step".to_owned(), text, cause };
    StepOutcome::Failed { failures: vec![StepFailure { pair: None, failure }] }
}

/// A limit ends the run: what it protects is not ours to weigh.
fn what_follows(step: &Step, outcome: &StepOutcome) -> RunOutcome {
    let has = |cause| match outcome {
        StepOutcome::Failed { failures } => failures.iter().any(|f| f.cause() == cause),
        _ => false,
    };
    let bad = matches!(outcome, StepOutcome::Failed { .. } | StepOutcome::AssertionFailed { .. });
    match () {
        () if has(FailureCause::Interrupted) => RunOutcome::Interrupted,
        () if has(FailureCause::Limit) => RunOutcome::Stopped,
        () if bad && step.on_error == OnError::Stop => RunOutcome::Stopped,
        () => RunOutcome::Completed,
    }
}

async fn release_all(run: Run<'_>, executables: &Executables, events: &EventSender) {
    let releasing = run.into_agents().into_iter().map(|agent| async move {
        let node = agent.node;
        (node, agent.release(executables, RELEASE_DEADLINE).await)
    });
    for (node, left_behind) in join_all(releasing).await {
        events.send(Event::NodeReleased { node, left_behind }).await;
    }
}
