//! Asks the two agents of a pair for what the way between them is like.

use std::time::Duration;

use redoline_proto::path::{PathProbe, ProbeJob, ReflectEvent, ReflectJob};
use redoline_proto::transfer::{JobId, Token};

use super::failure;
use super::jobs::PREPARE_DEADLINE;
use super::transfer::Ends;
use crate::agents::client::ReflectEvents;
use crate::record::measurement::{Failure, FailureCause};

/// Beyond the probe's own deadline, for its answer.
const MARGIN: Duration = Duration::from_secs(3);

/// What is tried.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Small datagrams.
    pub count: u32,
    pub spacing: Duration,
    pub packet_bytes: Vec<u32>,
    /// Of the whole probe.
    pub deadline: Duration,
}

/// From the sender of `ends` to its receiver, whose agent answers until this returns or is dropped.
/// Without that answer the sender still has the echo of the receiver's kernel.
pub async fn probe(
    ends: Ends<'_>,
    job: JobId,
    token: Token,
    ask: &Ask,
) -> Result<PathProbe, Failure> {
    let ports = ends.receiver_node.data_ports;
    let (port, no_reflector, _reflecting) = match reflect(ends, job, token, ask).await {
        Ok((port, reflecting)) => (port, None, Some(reflecting)),
        Err(failure) if failure.cause == FailureCause::CouldNotMeasure => {
            (ports.first, Some(failure.text), None)
        }
        Err(failure) => return Err(failure),
    };
    let request = ProbeJob {
        job,
        token,
        address: ends.receiver_node.redo.address,
        port,
        bind_address: Some(ends.sender_node.redo.bind),
        count: ask.count,
        spacing: ask.spacing,
        deadline: ask.deadline,
        packet_bytes: ask.packet_bytes.clone(),
    };
    let answer = ends.sender.client.probe_path(request, ask.deadline + MARGIN).await;
    let mut probe =
        answer.map_err(|error| failure::of_agent(ends.sender, "probe the path", &error))?;
    probe.remarks.extend(no_reflector);
    Ok(probe)
}

async fn reflect(
    ends: Ends<'_>,
    job: JobId,
    token: Token,
    ask: &Ask,
) -> Result<(u16, ReflectEvents), Failure> {
    let phase = "answer probes";
    let ports = ends.receiver_node.data_ports;
    let request = ReflectJob {
        job,
        token,
        bind_address: ends.receiver_node.redo.bind,
        ports: (ports.first, ports.last),
        expected_peer: Some(ends.sender_node.redo.seen_as),
        deadline: ask.deadline + PREPARE_DEADLINE + MARGIN,
    };
    let at_receiver = |error| failure::of_agent(ends.receiver, phase, &error);
    let reflecting = ends.receiver.client.reflect(request, PREPARE_DEADLINE).await;
    let mut reflecting = reflecting.map_err(at_receiver)?;
    let node = Some(ends.receiver.node);
    match reflecting.next(PREPARE_DEADLINE).await.map_err(at_receiver)? {
        Some(ReflectEvent::Ready { port }) => Ok((port, reflecting)),
        Some(ReflectEvent::End(end)) => Err(match end.stopped {
            Some(stopped) => failure::of_stop(ends.receiver.node, phase, &stopped),
            None => failure::could_not_measure(node, phase, "it ended too early"),
        }),
        None => Err(failure::could_not_measure(node, phase, "it ended without a word")),
    }
}
