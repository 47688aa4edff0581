//! One throughput test of one pair: the receiver listens, the sender connects, waits at the
//! barrier, and both ends are heard out.

use std::pin::pin;
use std::time::Duration;

use redoline_proto::transfer::{
    Batch, Guard, JobId, Payload, ReceiveJob, SendJob, SocketRequest, Token, TransferEvent,
};
use redoline_proto::units::{Bytes, BytesPerSecond};
use tokio::time::timeout;

use super::events::EventSender;
use super::failure;
use crate::agents::client::{AgentError, TransferEvents};
use crate::agents::session::Agent;
use crate::plan::node::{Direction, Node, NodeId, PairId};
use crate::record::event::Event;
use crate::record::measurement::{EndRecord, Failure, FailureCause, PairTransfer};

/// For the receiver to listen, and for the sender's job to be taken.
const PREPARE_DEADLINE: Duration = Duration::from_secs(10);
/// For the data connections; a firewall that drops shows as this running out.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// From the first pair's connections to the barrier; all pairs connect at the same time.
const GO_DEADLINE: Duration = Duration::from_secs(30);
/// After the duration: for queues on the way to empty, and for the last events.
const DRAIN_DEADLINE: Duration = Duration::from_secs(15);
/// For the second end once the first has failed: long enough for a node that is gone to be noticed
/// (a ping every 2 s, and 3 s for its answer).
const GRACE: Duration = Duration::from_secs(8);
/// Between two samples; batch means need many of them.
const SAMPLE: Duration = Duration::from_millis(100);

/// What is asked of both ends of every pair of a test.
#[derive(Clone, Debug)]
pub struct Test {
    pub num_conn: u32,
    pub duration: Duration,
    pub reading: Duration,
    pub message: Bytes,
    pub payload: Payload,
    pub socket: SocketRequest,
    pub rate: Option<BytesPerSecond>,
    pub bytes_max: Option<Bytes>,
    pub guard: Guard,
}

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
    duration: Duration,
    sending: TransferEvents,
    receiving: TransferEvents,
    transfer: PairTransfer,
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
            Ok(Connected { ends, job, duration: test.duration, sending, receiving, transfer })
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
            return failure::of_agent(agent, "data connection", &error);
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
    let listening = "open the data port";
    let receive = receive_job(ends, job, token, test);
    let at_receiver = |error: AgentError| failure::of_agent(ends.receiver, listening, &error);
    let mut receiving =
        ends.receiver.client.receive(receive, PREPARE_DEADLINE).await.map_err(at_receiver)?;
    let port = match receiving.next(PREPARE_DEADLINE).await.map_err(at_receiver)? {
        Some(TransferEvent::Ready { port }) => port,
        other => return Err(unexpected(ends.receiver.node, listening, other)),
    };

    let connecting = "data connection";
    let send = send_job(ends, job, token, port, test);
    let at_sender = |error: AgentError| failure::of_agent(ends.sender, connecting, &error);
    let mut sending = ends.sender.client.send(send, PREPARE_DEADLINE).await.map_err(at_sender)?;
    let patience = CONNECT_DEADLINE + PREPARE_DEADLINE;
    match sending.next(patience).await.map_err(at_sender)? {
        Some(TransferEvent::Connected(connected)) => transfer.sender.connected = Some(connected),
        other => return Err(unexpected(ends.sender.node, connecting, other)),
    }
    match receiving.next(PREPARE_DEADLINE).await.map_err(at_receiver)? {
        Some(TransferEvent::Connected(connected)) => transfer.receiver.connected = Some(connected),
        other => return Err(unexpected(ends.receiver.node, connecting, other)),
    }
    Ok((sending, receiving))
}

/// From the barrier to the end.
pub async fn run(connected: Connected<'_>, events: &EventSender) -> PairTransfer {
    let Connected { ends, job, duration, mut sending, mut receiving, mut transfer } = connected;
    let phase = "transfer";
    if let Err(error) = ends.sender.client.go(job, PREPARE_DEADLINE).await {
        transfer.failure = Some(failure::of_agent(ends.sender, phase, &error));
        return transfer;
    }
    let deadline = duration + DRAIN_DEADLINE;
    let show = |batch: &Batch| show_rate(events, ends, batch);
    let sender = hear_out(&mut sending, &mut transfer.sender, ends.sender, deadline, |_| ());
    let receiver = hear_out(&mut receiving, &mut transfer.receiver, ends.receiver, deadline, show);
    let outcome = both(sender, receiver).await;
    transfer.failure = outcome.err();
    transfer
}

/// Waits for both; once one has failed, the other gets a grace only.
async fn both(
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
async fn hear_out(
    events: &mut TransferEvents,
    record: &mut EndRecord,
    agent: &Agent,
    deadline: Duration,
    on_batch: impl Fn(&Batch),
) -> Result<(), Failure> {
    let phase = "transfer";
    let listening = async {
        loop {
            match events.next(deadline).await {
                Err(error) => return Err(failure::of_agent(agent, phase, &error)),
                Ok(Some(TransferEvent::Started { at_ns })) => record.started_ns = Some(at_ns),
                Ok(Some(TransferEvent::Batch(batch))) => {
                    on_batch(&batch);
                    record.samples.extend(batch.samples);
                    record.readings.extend(batch.readings);
                }
                Ok(Some(TransferEvent::End(end))) => {
                    let stopped =
                        end.stopped.as_ref().map(|why| failure::of_stop(agent.node, phase, why));
                    record.end = Some(end);
                    return stopped.map_or(Ok(()), Err);
                }
                Ok(other) => return Err(unexpected(agent.node, phase, other)),
            }
        }
    };
    match timeout(deadline, listening).await {
        Ok(outcome) => outcome,
        Err(_) => Err(failure::could_not_measure(
            Some(agent.node),
            phase,
            format!("`{}` did not end its test within {} s", agent.name, deadline.as_secs()),
        )),
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

/// An end that stopped by itself, or an agent that does not keep to the order of events.
fn unexpected(node: NodeId, phase: &str, event: Option<TransferEvent>) -> Failure {
    match event {
        Some(TransferEvent::End(end)) => match end.stopped {
            Some(stopped) => failure::of_stop(node, phase, &stopped),
            None => failure::could_not_measure(Some(node), phase, "the test ended too early"),
        },
        _ => failure::could_not_measure(Some(node), phase, "the agent answered out of order"),
    }
}

fn receive_job(ends: Ends<'_>, job: JobId, token: Token, test: &Test) -> ReceiveJob {
    let ports = ends.receiver_node.data_ports;
    ReceiveJob {
        job,
        token,
        bind_address: ends.receiver_node.redo.bind,
        ports: (ports.first, ports.last),
        expected_peer: Some(ends.sender_node.redo.seen_as),
        num_conn: test.num_conn,
        socket: test.socket.clone(),
        deadline: CONNECT_DEADLINE + GO_DEADLINE + test.duration + DRAIN_DEADLINE,
        sample: SAMPLE,
        reading: test.reading,
        guard: test.guard,
        acknowledge: None,
        encoding: None,
    }
}

fn send_job(ends: Ends<'_>, job: JobId, token: Token, port: u16, test: &Test) -> SendJob {
    SendJob {
        job,
        token,
        address: ends.receiver_node.redo.address,
        port,
        bind_address: Some(ends.sender_node.redo.bind),
        num_conn: test.num_conn,
        socket: test.socket.clone(),
        message: test.message,
        payload: test.payload,
        duration: test.duration,
        reading: test.reading,
        connect_deadline: CONNECT_DEADLINE,
        go_deadline: GO_DEADLINE,
        rate: test.rate,
        bytes_max: test.bytes_max,
        guard: test.guard,
        acknowledged: false,
        delay: None,
        stall_deadline: None,
        encoding: None,
        compressible: None,
    }
}
