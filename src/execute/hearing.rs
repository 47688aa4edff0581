//! Hears both ends of a running test out, and decides which of two failures counts.

use std::pin::pin;
use std::time::Duration;

use redoline_proto::transfer::{Batch, TransferEvent};
use tokio::time::timeout;

use super::failure;
use crate::agents::client::TransferEvents;
use crate::agents::session::Agent;
use crate::plan::node::NodeId;
use crate::record::measurement::{EndRecord, Failure, FailureCause};

const PHASE: &str = "transfer";
/// For the second end once the first has failed: long enough for a node that is gone to be noticed
/// (a ping every 2 s, and 3 s for its answer).
const GRACE: Duration = Duration::from_secs(8);

/// Waits for both; once one has failed, the other gets a grace only.
pub async fn both(
    sender: impl Future<Output = Result<(), Failure>>,
    receiver: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let (mut sender, mut receiver) = (pin!(sender), pin!(receiver));
    tokio::select! {
        first = &mut sender => second(first, receiver).await,
        first = &mut receiver => second(first, sender).await,
    }
}

/// The first failure counts, unless the second explains it: an end whose peer is gone sees a
/// connection break before the controller sees the node gone.
async fn second(
    first: Result<(), Failure>,
    other: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let Err(failure) = first else { return other.await };
    if failure.cause == FailureCause::Unreachable {
        return Err(failure);
    }
    match timeout(GRACE, other).await {
        Ok(Err(cause)) if cause.cause == FailureCause::Unreachable => Err(cause),
        _ => Err(failure),
    }
}

/// Keeps everything that one end tells, until its end.
pub async fn hear_out(
    events: &mut TransferEvents,
    record: &mut EndRecord,
    agent: &Agent,
    deadline: Duration,
    on_batch: impl Fn(&Batch),
) -> Result<(), Failure> {
    let listening = async {
        loop {
            match events.next(deadline).await {
                Err(error) => return Err(failure::of_agent(agent, PHASE, &error)),
                Ok(Some(TransferEvent::Started { at_ns })) => record.started_ns = Some(at_ns),
                Ok(Some(TransferEvent::Batch(batch))) => {
                    on_batch(&batch);
                    record.samples.extend(batch.samples);
                    record.readings.extend(batch.readings);
                }
                Ok(Some(TransferEvent::End(end))) => {
                    let stopped =
                        end.stopped.as_ref().map(|why| failure::of_stop(agent.node, PHASE, why));
                    record.end = Some(end);
                    return stopped.map_or(Ok(()), Err);
                }
                Ok(other) => return Err(unexpected(agent.node, PHASE, other)),
            }
        }
    };
    match timeout(deadline, listening).await {
        Ok(outcome) => outcome,
        Err(_) => Err(failure::could_not_measure(
            Some(agent.node),
            PHASE,
            format!("`{}` did not end its test within {} s", agent.name, deadline.as_secs()),
        )),
    }
}

/// An end that stopped by itself, or an agent that does not keep to the order of events.
pub fn unexpected(node: NodeId, phase: &str, event: Option<TransferEvent>) -> Failure {
    match event {
        Some(TransferEvent::End(end)) => match end.stopped {
            Some(stopped) => failure::of_stop(node, phase, &stopped),
            None => failure::could_not_measure(Some(node), phase, "the test ended too early"),
        },
        _ => failure::could_not_measure(Some(node), phase, "the agent answered out of order"),
    }
}
