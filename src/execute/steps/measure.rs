//! One measurement of one pair, or of several together.

use futures_util::future::join_all;
use redoline_proto::transfer::SocketRequest;
use redoline_proto::units::{Bytes, BytesPerSecond, milliseconds};

use super::At;
use crate::analysis::throughput::{Summary, summarise};
use crate::execute::failure;
use crate::execute::results::PathResult;
use crate::execute::run::Run;
use crate::execute::transfer::{self, Test};
use crate::plan::node::{NodeId, PairId};
use crate::plan::step::{Nodes, ThroughputSpec};
use crate::record::event::{Event, StepFailure};
use crate::record::measurement::{
    Failure, Measurement, MeasurementId, PairTransfer, Throughput, TransferRequest,
};

/// What is measured: the step's keys, with everything late now known.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub nodes: Nodes,
    pub num_conn: u32,
    pub socket: SocketRequest,
    /// As the runbook has it.
    pub socket_buffer: String,
    pub mtu: Option<u32>,
}

/// A measurement that gave at least a part of its result.
#[derive(Clone, Debug)]
pub struct Measured {
    pub id: MeasurementId,
    pub summary: Summary,
    /// What was asked for; `None` when the system tuned it.
    pub socket_buffer_bytes: Option<u64>,
    pub failures: Vec<StepFailure>,
}

/// Measures `pairs` from one barrier on. An `Err` has nothing that was measured.
pub async fn measure(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> Result<Measured, Vec<StepFailure>> {
    let none = |failure: Failure| vec![StepFailure { pair: None, failure }];
    run.may_start().map_err(none)?;
    announce(run, at, spec, pairs, parameters).await;
    let transfers = transfer_all(run, at, spec, pairs, parameters).await;

    run.count_sent(transfers.iter().map(sent).sum());
    let failures: Vec<StepFailure> = transfers
        .iter()
        .filter_map(|transfer| {
            let failure = transfer.failure.clone()?;
            Some(StepFailure { pair: Some(transfer.pair), failure })
        })
        .collect();
    if transfers.iter().all(|transfer| transfer.receiver.samples.is_empty()) {
        return Err(failures);
    }
    let throughput = Throughput {
        id: run.next_measurement(),
        step: at.index,
        direction: at.direction,
        request: request(run, spec, pairs, parameters),
        pairs: transfers,
    };
    let summary = summarise(&throughput);
    remember_paths(run, at, &throughput, &summary);
    let id = throughput.id;
    run.measured(Measurement::Throughput(Box::new(throughput))).await;
    let socket_buffer_bytes = parameters.socket.socket_buffer_bytes;
    Ok(Measured { id, summary, socket_buffer_bytes, failures })
}

/// What a pair's sender sent; of one that was lost, at least what arrived.
fn sent(transfer: &PairTransfer) -> u64 {
    let written = transfer.sender.end.as_ref().map_or(0, |end| {
        let streams = end.streams.iter();
        streams.map(|stream| stream.bytes).sum()
    });
    let arrived = transfer.receiver.samples.iter().map(|sample| sample.bytes().0).sum();
    written.max(arrived)
}

async fn transfer_all(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> Vec<PairTransfer> {
    let test = test(run, spec, pairs, parameters);
    run.promise(test.bytes_max.map(|each| Bytes(each.0.saturating_mul(pairs.len() as u64))));
    let jobs: Vec<_> = pairs.iter().map(|pair| (*pair, run.next_job())).collect();
    let run = &*run;
    let connecting = jobs.into_iter().map(|(pair, (job, token))| {
        let test = &test;
        async move {
            match run.ends(pair, at.direction, at.index) {
                Ok(ends) => transfer::connect(ends, job, token, test).await,
                Err(failure) => Err(failed(pair, failure)),
            }
        }
    });
    // The barrier: nobody starts before everybody's connections stand or have failed.
    let connected = join_all(connecting).await;
    let running = connected.into_iter().map(|pair| async {
        match pair {
            Ok(connected) => transfer::run(connected, &run.events).await,
            Err(failed) => failed,
        }
    });
    join_all(running).await
}

fn failed(pair: PairId, failure: Failure) -> PairTransfer {
    PairTransfer {
        pair,
        sender: Default::default(),
        receiver: Default::default(),
        failure: Some(failure),
    }
}

fn test(run: &Run<'_>, spec: &ThroughputSpec, pairs: &[PairId], parameters: &Parameters) -> Test {
    let senders = pairs.len().max(1) as u64;
    Test {
        num_conn: parameters.num_conn,
        duration: spec.time.longest(),
        reading: spec.interval,
        message: spec.message,
        payload: spec.payload,
        socket: parameters.socket.clone(),
        rate: rate_limit(run, pairs),
        bytes_max: run.bytes_left().map(|left| Bytes((left.0 / senders).max(1))),
        guard: run.guard(),
    }
}

/// The runbook's limit is per node. A node that is in several pairs of this test gets its limit
/// once, so each of those pairs gets its share.
fn rate_limit(run: &Run<'_>, pairs: &[PairId]) -> Option<BytesPerSecond> {
    let pairs_of = |node: NodeId| {
        let has = |pair: &&PairId| {
            let nodes = run.plan.pair(**pair);
            nodes.primary == node || nodes.standby == node
        };
        pairs.iter().filter(has).count()
    };
    let most = (0..run.plan.nodes.len()).map(NodeId).map(pairs_of).max().unwrap_or(1).max(1);
    run.plan.limits.rate.map(|rate| BytesPerSecond(rate.0 / most as f64))
}

fn request(
    run: &Run<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> TransferRequest {
    TransferRequest {
        nodes: parameters.nodes,
        num_conn: parameters.num_conn,
        duration_ms: milliseconds(spec.time.longest()),
        auto_target: None,
        mode: spec.mode.key().to_owned(),
        acknowledge: None,
        delay_us: None,
        network_timeout_ms: None,
        encoding: spec.encoding,
        compressible_share: None,
        both_directions: false,
        interface_mtu_bytes: None,
        interval_ms: milliseconds(spec.interval),
        message_bytes: spec.message.0,
        payload: spec.payload,
        socket_buffer: parameters.socket_buffer.clone(),
        mtu_bytes: parameters.mtu,
        socket: parameters.socket.clone(),
        rate_limit: rate_limit(run, pairs),
    }
}

async fn announce(
    run: &Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) {
    let count = match parameters.num_conn {
        1 => "1 connection".to_owned(),
        many => format!("{many} connections"),
    };
    let mut text = count;
    if parameters.socket_buffer != "auto" {
        text.push_str(&format!(", socket buffer {}", parameters.socket_buffer));
    }
    if let Some(mtu) = parameters.mtu {
        text.push_str(&format!(", MTU {mtu}"));
    }
    run.events
        .send(Event::TestStarted {
            step: at.index,
            text,
            pairs: pairs.to_vec(),
            node: None,
            expected_ms: milliseconds(spec.time.longest()),
        })
        .await;
}

/// Rates and round trips of single pairs are what later bandwidth-delay products rest on.
fn remember_paths(run: &mut Run<'_>, at: At<'_>, throughput: &Throughput, summary: &Summary) {
    for (transfer, of_pair) in throughput.pairs.iter().zip(&summary.pairs) {
        let Some(steady) = &of_pair.steady else { continue };
        run.results.add_path(PathResult {
            pair: transfer.pair,
            direction: at.direction,
            rate: steady.rate,
            min_rtt: of_pair.rtt.min,
        });
    }
}

/// The failure of a value that only the run could tell, and did not.
pub fn no_value(phase: &str, text: impl Into<String>, pair: PairId) -> StepFailure {
    StepFailure { pair: Some(pair), failure: failure::could_not_measure(None, phase, text) }
}
