//! One throughput test of one pair: the receiver listens, the sender connects, waits at the
//! barrier, and both ends are heard out.

use std::pin::pin;
use std::time::Duration;

use redoline_proto::transfer::{Batch, JobId, Token, TransferEvent};
use redoline_proto::units::Bytes;

use super::data_port;
use super::events::EventSender;
use super::failure;
use super::hearing::{both, hear_out, unexpected};
use super::jobs::{PREPARE_DEADLINE, Test, receive_job, send_job};
use super::looks::{End, Looks};
use super::promise::Promise;
use crate::agents::client::{AgentError, TransferEvents};
use crate::agents::session::Agent;
use crate::plan::node::{Direction, Node, PairId};
use crate::record::event::Event;
use crate::record::measurement::{EndRecord, Failure, FailureCause, PairTransfer};

const CONNECTING: &str = "data connection";

/// One pair in one direction with its two agents.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    pub pair: PairId,
    pub direction: Direction,
    pub step: usize,
    pub sender: &'a Agent,
    pub sender_node: &'a Node,
    pub receiver: &'a Agent,
    pub receiver_node: &'a Node,
}

/// A pair whose connections all stand; dropping it cancels both jobs.
#[derive(Debug)]
pub struct Connected<'a> {
    ends: Ends<'a>,
    job: JobId,
    deadline: Duration,
    sending: TransferEvents,
    receiving: TransferEvents,
    transfer: PairTransfer,
}

impl Connected<'_> {
    pub fn direction(&self) -> Direction {
        self.ends.direction
    }

    /// Before its first byte.
    pub fn transfer(&self) -> &PairTransfer {
        &self.transfer
    }
}

/// Up to the barrier. An `Err` is the transfer that failed before it.
pub async fn connect<'a>(
    ends: Ends<'a>,
    job: JobId,
    token: Token,
    test: &Test,
) -> Result<Connected<'a>, PairTransfer> {
    let mut transfer = PairTransfer {
        pair: ends.pair,
        sender: EndRecord { clock: Some(ends.sender.clock()), ..EndRecord::default() },
        receiver: EndRecord { clock: Some(ends.receiver.clock()), ..EndRecord::default() },
        failure: None,
    };
    match connect_ends(ends, job, token, test, &mut transfer).await {
        Ok((sending, receiving)) => {
            let deadline = test.run_deadline();
            Ok(Connected { ends, job, deadline, sending, receiving, transfer })
        }
        Err(failure) => {
            transfer.failure = Some(explained(ends, failure).await);
            Err(transfer)
        }
    }
}

/// A connection may have failed because one of its agents is gone.
async fn explained(ends: Ends<'_>, failure: Failure) -> Failure {
    if failure.cause != FailureCause::CouldNotMeasure {
        return failure;
    }
    for agent in [ends.receiver, ends.sender] {
        if let Err(error) = agent.answers().await {
            return failure::of_agent(agent, CONNECTING, &error);
        }
    }
    failure
}

async fn connect_ends(
    ends: Ends<'_>,
    job: JobId,
    token: Token,
    test: &Test,
    transfer: &mut PairTransfer,
) -> Result<(TransferEvents, TransferEvents), Failure> {
    let (mut receiving, port) = listen(ends, job, token, test).await?;
    let send = send_job(ends, job, token, port, test);
    let at_sender = |error: AgentError| failure::of_agent(ends.sender, CONNECTING, &error);
    let mut sending = ends.sender.client.send(send, PREPARE_DEADLINE).await.map_err(at_sender)?;
    let patience = test.connect_deadline + PREPARE_DEADLINE;
    match sending.next(patience).await.map_err(at_sender)? {
        Some(TransferEvent::Connected(connected)) => transfer.sender.connected = Some(connected),
        other => {
            let failure = unexpected(ends.sender.node, CONNECTING, other);
            let (sender, receiver) = (ends.sender_node, ends.receiver_node);
            return Err(data_port::explained(sender, receiver, port, failure));
        }
    }
    let at_receiver = |error: AgentError| failure::of_agent(ends.receiver, CONNECTING, &error);
    match receiving.next(PREPARE_DEADLINE).await.map_err(at_receiver)? {
        Some(TransferEvent::Connected(connected)) => transfer.receiver.connected = Some(connected),
        other => return Err(unexpected(ends.receiver.node, CONNECTING, other)),
    }
    Ok((sending, receiving))
}

async fn listen(
    ends: Ends<'_>,
    job: JobId,
    token: Token,
    test: &Test,
) -> Result<(TransferEvents, u16), Failure> {
    let phase = "open the data port";
    let deadline = test.prepare_deadline();
    let receive = receive_job(ends, job, token, test);
    let at_receiver = |error: AgentError| failure::of_agent(ends.receiver, phase, &error);
    let mut receiving =
        ends.receiver.client.receive(receive, PREPARE_DEADLINE).await.map_err(at_receiver)?;
    match receiving.next(deadline).await.map_err(at_receiver)? {
        Some(TransferEvent::Ready { port }) => Ok((receiving, port)),
        other => Err(unexpected(ends.receiver.node, phase, other)),
    }
}

/// From the barrier to the end, which comes early when `looks` say that enough is known.
pub async fn run(
    connected: Connected<'_>,
    events: &EventSender,
    looks: Option<&Looks>,
    promise: &Promise,
) -> PairTransfer {
    let Connected { ends, job, deadline, mut sending, mut receiving, mut transfer } = connected;
    if let Err(error) = ends.sender.client.go(job, PREPARE_DEADLINE).await {
        transfer.failure = Some(failure::of_agent(ends.sender, "transfer", &error));
        leave(ends, looks);
        return transfer;
    }
    let heard = |end: End, batch: &Batch| {
        promise.hear(end, batch);
        if let Some(looked) = looks.and_then(|l| l.hear(ends.direction, ends.pair, end, batch)) {
            let (step, direction) = (ends.step, ends.direction);
            events.show(Event::Looked { step, direction, half_width_share: looked.share });
        }
    };
    let at_receiver = |batch: &Batch| {
        show_rate(events, ends, batch);
        heard(End::Receiver, batch);
    };
    let at_sender = |batch: &Batch| heard(End::Sender, batch);
    let outcome = {
        let sender = hear_out(&mut sending, &mut transfer.sender, ends.sender, deadline, at_sender);
        let receiver =
            hear_out(&mut receiving, &mut transfer.receiver, ends.receiver, deadline, at_receiver);
        let mut ended = pin!(both(sender, receiver));
        tokio::select! {
            outcome = &mut ended => outcome,
            () = finish(ends, job, looks) => ended.await,
        }
    };
    transfer.failure = outcome.err().or_else(|| nothing_arrived(ends, &transfer));
    if transfer.failure.is_some() {
        leave(ends, looks);
    }
    transfer
}

/// A test that ran its course, and of which not one byte came through: `send` takes what a black hole
/// swallows.
fn nothing_arrived(ends: Ends<'_>, transfer: &PairTransfer) -> Option<Failure> {
    let written: u64 = transfer.sender.end.as_ref()?.streams.iter().map(|one| one.bytes).sum();
    let received: u64 = transfer.receiver.end.as_ref()?.streams.iter().map(|one| one.bytes).sum();
    (written > 0 && received == 0).then(|| {
        let (from, to) = (&ends.sender.name, &ends.receiver.name);
        let text = format!(
            "the connections from `{from}` to `{to}` stood, but nothing of what was sent arrived: \
             packets of full size vanish on the way; a `path` step tells which sizes pass"
        );
        failure::could_not_measure(Some(ends.sender.node), "transfer", text)
    })
}

/// The others' looks go on without this pair.
fn leave(ends: Ends<'_>, looks: Option<&Looks>) {
    if let Some(looks) = looks {
        looks.leave(ends.direction, ends.pair);
    }
}

/// Waits until enough is known, then ends the sender; without a rule it waits for ever.
async fn finish(ends: Ends<'_>, job: JobId, looks: Option<&Looks>) {
    let Some(looks) = looks else { return std::future::pending().await };
    looks.enough().await;
    if let Err(error) = ends.sender.client.finish(job, PREPARE_DEADLINE).await {
        // A sender that is gone shows in its events; one that goes on ends at its time limit.
        tracing::debug!(node = ends.sender.node.0, %error, "the sender was not told to finish");
    }
}

fn show_rate(events: &EventSender, ends: Ends<'_>, batch: &Batch) {
    let bytes = batch.samples.iter().map(|sample| sample.bytes().0).sum();
    let (Some(first), Some(last)) = (batch.samples.first(), batch.samples.last()) else {
        return;
    };
    let elapsed = u64::try_from(last.to_ns - first.from_ns).unwrap_or(0);
    if let Some(rate) = Bytes(bytes).over(Duration::from_nanos(elapsed)) {
        events.show(Event::Live {
            step: ends.step,
            pair: Some(ends.pair),
            node: None,
            direction: Some(ends.direction),
            rate,
        });
    }
}
