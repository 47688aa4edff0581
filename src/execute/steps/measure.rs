//! One measurement of one pair, or of several together, in one direction or both at once.

use futures_util::future::join_all;
use redoline_proto::transfer::SocketRequest;
use redoline_proto::units::BytesPerSecond;

use super::At;
use super::announce;
use super::request::{request, test};
use super::room;
use crate::analysis::mtu;
use crate::analysis::sync;
use crate::analysis::throughput::{Summary, summarise};
use crate::execute::failure;
use crate::execute::looks::Looks;
use crate::execute::run::Run;
use crate::execute::transfer::{self, Connected};
use crate::plan::node::{Direction, PairId};
use crate::plan::step::{Nodes, TestTime, ThroughputSpec};
use crate::record::event::StepFailure;
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
    /// At which the interfaces are held meanwhile.
    pub interface_mtu: Option<u32>,
    /// Why this is measured once more, for people.
    pub note: Option<String>,
}

/// A measurement that gave at least a part of its result.
#[derive(Clone, Debug)]
pub struct Measured {
    pub id: MeasurementId,
    pub direction: Direction,
    pub summary: Summary,
    /// What was asked for; `None` when the system tuned it.
    pub socket_buffer_bytes: Option<u64>,
    /// Of both directions.
    pub failures: Vec<StepFailure>,
    /// The other direction, when both were measured at once.
    pub reverse: Option<Box<Measured>>,
}

impl Measured {
    pub fn rate(&self) -> Option<BytesPerSecond> {
        self.summary.rate()
    }

    pub fn half_width(&self) -> Option<BytesPerSecond> {
        self.summary.steady.as_ref().and_then(|steady| steady.half_width)
    }
}

/// Measures `pairs` from one barrier on. An `Err` has nothing of the step's direction that was
/// measured.
pub async fn measure(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> Result<Measured, Vec<StepFailure>> {
    let none = |failure: Failure| vec![StepFailure { pair: None, failure }];
    run.may_start().map_err(none)?;
    if let Some(lacking) = room::lacking(run.plan, pairs, &directions(at, spec)) {
        return Err(none(lacking));
    }
    announce::test(run, at, spec, pairs, parameters).await;
    let directions = transfer_all(run, at, spec, pairs, parameters).await;

    let all = || directions.iter().flat_map(|(_, transfers)| transfers);
    run.count_sent(all().map(sent).sum());
    let failures: Vec<StepFailure> = all()
        .filter_map(|transfer| {
            let failure = transfer.failure.clone()?;
            Some(StepFailure { pair: Some(transfer.pair), failure })
        })
        .collect();
    let mut measured = Vec::new();
    for (direction, transfers) in directions {
        if transfers.iter().all(|transfer| transfer.receiver.samples.is_empty()) {
            continue;
        }
        let request = request(run, spec, pairs, parameters);
        measured.push(keep(run, at, direction, request, transfers).await);
    }
    let place = measured.iter().position(|one| one.direction == at.direction);
    let Some(mut main) = place.map(|place| measured.swap_remove(place)) else {
        return Err(failures);
    };
    main.reverse = measured.pop().map(Box::new);
    Ok(Measured { failures, ..main })
}

/// Takes the measurement into the record, and what it says into the run's results.
async fn keep(
    run: &mut Run<'_>,
    at: At<'_>,
    direction: Direction,
    request: TransferRequest,
    pairs: Vec<PairTransfer>,
) -> Measured {
    let id = run.next_measurement();
    let throughput = Throughput { id, step: at.index, direction, request, pairs };
    let mut summary = mtu::checked(&run.setup, summarise(&throughput));
    for (of_pair, transfer) in summary.pairs.iter_mut().zip(&throughput.pairs) {
        let sync = sync::summarise(&throughput.request, transfer);
        of_pair.sync = of_pair.sync.take().or(sync);
    }
    run.results.add_test(&summary);
    let socket_buffer_bytes = throughput.request.socket.socket_buffer_bytes;
    run.measured(Measurement::Throughput(Box::new(throughput))).await;
    let failures = Vec::new();
    Measured { id, direction, summary, socket_buffer_bytes, failures, reverse: None }
}

/// What a pair's sender sent; of one that was lost, at least what arrived.
pub fn sent(transfer: &PairTransfer) -> u64 {
    let written = transfer.sender.end.as_ref().map_or(0, |end| {
        let streams = end.streams.iter();
        streams.map(|stream| stream.bytes).sum()
    });
    let arrived = transfer.receiver.samples.iter().map(|sample| sample.bytes().0).sum();
    written.max(arrived)
}

fn directions(at: At<'_>, spec: &ThroughputSpec) -> Vec<Direction> {
    match spec.both_directions {
        false => vec![at.direction],
        true => vec![at.direction, at.direction.swapped()],
    }
}

async fn transfer_all(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) -> Vec<(Direction, Vec<PairTransfer>)> {
    let directions = directions(at, spec);
    let test = test(run, spec, pairs, parameters);
    run.promise(test.bytes_max, pairs.len() * directions.len());
    let of_direction = |direction: &Direction| {
        let direction = *direction;
        pairs.iter().map(move |pair| (direction, *pair))
    };
    let wanted: Vec<(Direction, PairId)> = directions.iter().flat_map(of_direction).collect();
    let jobs: Vec<_> = wanted.iter().map(|place| (*place, run.next_job())).collect();
    let run = &*run;
    let connecting = jobs.into_iter().map(|((direction, pair), (job, token))| {
        let test = &test;
        async move {
            match run.ends(pair, direction, at.index) {
                Ok(ends) => transfer::connect(ends, job, token, test).await,
                Err(failure) => Err(failed(pair, failure)),
            }
        }
    });
    // The barrier: nobody starts before everybody's connections stand or have failed.
    let connected = join_all(connecting).await;
    let looks = looks(spec, &directions, &connected);
    let running = connected.into_iter().map(|pair| async {
        match pair {
            Ok(connected) => {
                transfer::run(connected, &run.events, looks.as_ref(), run.promised()).await
            }
            Err(failed) => failed,
        }
    });
    let mut done = join_all(running).await.into_iter();
    let each = |direction| (direction, done.by_ref().take(pairs.len()).collect());
    directions.into_iter().map(each).collect()
}

/// With `duration: auto`: of the pairs whose connections stand.
fn looks(
    spec: &ThroughputSpec,
    directions: &[Direction],
    connected: &[Result<Connected<'_>, PairTransfer>],
) -> Option<Looks> {
    let TestTime::Auto { target, max } = spec.time else { return None };
    let lanes = directions.iter().map(|direction| {
        let standing = connected.iter().flatten().filter(|one| one.direction() == *direction);
        (*direction, standing.map(|one| one.transfer().clone()).collect())
    });
    Some(Looks::new(target, max, lanes))
}

fn failed(pair: PairId, failure: Failure) -> PairTransfer {
    PairTransfer {
        pair,
        sender: Default::default(),
        receiver: Default::default(),
        failure: Some(failure),
    }
}

/// The failure of a value that only the run could tell, and did not.
pub fn no_value(phase: &str, text: impl Into<String>, pair: PairId) -> StepFailure {
    StepFailure { pair: Some(pair), failure: failure::could_not_measure(None, phase, text) }
}
