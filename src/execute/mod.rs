//! Doing it: from a plan and its nodes to a stream of events.

pub mod events;
pub mod failure;
pub mod results;
pub mod run;
pub mod steps;
pub mod transfer;

use std::time::Duration;

use futures_util::future::join_all;
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
    let connected = tokio::select! {
        () = connect_all(&mut run, surroundings) => true,
        () = cancel.cancelled() => false,
    };
    let outcome = match connected {
        true => all_steps(&mut run, cancel).await,
        false => RunOutcome::Interrupted,
    };
    release_all(run, &surroundings.executables, &events).await;
    events.send(Event::RunFinished { outcome }).await;
    outcome
}

async fn connect_all(run: &mut Run<'_>, surroundings: &Surroundings) {
    let plan = run.plan;
    let clocks = Clocks::new();
    let slots = tokio::sync::Semaphore::new(CONNECTS_AT_ONCE);
    let connecting = plan.nodes.iter().enumerate().map(|(index, node)| {
        let slots = &slots;
        async move {
            let _slot = slots.acquire().await;
            let id = NodeId(index);
            let agent = Agent::begin(
                id,
                node,
                &surroundings.executables,
                &surroundings.agent,
                &surroundings.greeting,
                clocks,
            );
            agent.await.map_err(|error| failure::of_begin(id, &error))
        }
    });
    for agent in join_all(connecting).await {
        match agent {
            Ok(agent) => run.add_agent(agent).await,
            Err(failure) => run.lose(failure).await,
        }
    }
    let failures = run.gather_facts(NO_QUESTIONS).await;
    run.note(&failures).await;
}

async fn all_steps(run: &mut Run<'_>, cancel: &CancellationToken) -> RunOutcome {
    let plan = run.plan;
    let mut outcome = RunOutcome::Completed;
    for (index, step) in plan.steps.iter().enumerate() {
        if outcome != RunOutcome::Completed {
            skip(run, index, "an earlier step ended the run").await;
            continue;
        }
        outcome = one_step(run, index, step, cancel).await;
    }
    for (offset, step) in plan.finally.iter().enumerate() {
        let index = plan.steps.len() + offset;
        if outcome == RunOutcome::Interrupted {
            skip(run, index, "the run was interrupted").await;
            continue;
        }
        let of_step = one_step(run, index, step, cancel).await;
        outcome = if outcome == RunOutcome::Completed { of_step } else { outcome };
    }
    outcome
}

async fn skip(run: &Run<'_>, step: usize, reason: &str) {
    let outcome = StepOutcome::Skipped { reason: reason.to_owned() };
    run.events.send(Event::StepFinished { step, outcome }).await;
}

/// Dropping a step's future cancels its jobs on every agent.
async fn one_step(
    run: &mut Run<'_>,
    index: usize,
    step: &Step,
    cancel: &CancellationToken,
) -> RunOutcome {
    if step.excluded {
        return RunOutcome::Completed;
    }
    run.events.send(Event::StepStarted { step: index }).await;
    let outcome = tokio::select! {
        outcome = timeout(step.timeout, steps::run(run, index, step)) => match outcome {
            Ok(outcome) => outcome,
            Err(_) => failed(FailureCause::CouldNotMeasure, format!(
                "the step did not end within its timeout of {} s; raise `timeout`",
                step.timeout.as_secs()
            )),
        },
        () = cancel.cancelled() => failed(FailureCause::Interrupted, "interrupted".to_owned()),
    };
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
