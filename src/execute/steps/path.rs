//! What the way between two nodes is like: small and large probes, then a short stream whose
//! counters tell what probes cannot.

use std::time::Duration;

use redoline_proto::path::PathProbe;
use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{Payload, SocketRequest};
use redoline_proto::units::{Bytes, milliseconds};

use super::At;
use super::announce;
use super::measure::sent;
use super::request::rate_limit;
use crate::execute::jobs::Test;
use crate::execute::probe::{self, Ask};
use crate::execute::results::PairResult;
use crate::execute::run::Run;
use crate::execute::transfer;
use crate::plan::node::PairId;
use crate::plan::step::PathSpec;
use crate::record::event::StepFailure;
use crate::record::measurement::{
    EndRecord, Failure, FailureCause, Measurement, PairTransfer, Path,
};

/// As large as what Redo Transport writes at once, so that every packet is full.
const MESSAGE: Bytes = Bytes(256 * 1024);
/// A stream without an acknowledged byte for so long is in a black hole: at a round trip of 300 ms
/// the kernel has sent its first segment three times by then.
const STALL_DEADLINE: Duration = Duration::from_secs(4);
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);
/// What the stream needs of the step's deadline when its packets are lost: the agent looks once a
/// second.
const LOST_STREAM: Duration = Duration::from_secs(5);
/// After the last small datagram, for packet sizes to be tried.
const SIZES_MIN: Duration = Duration::from_secs(2);
const READING: Duration = Duration::from_millis(50);

pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &PathSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    for pair in pairs {
        if let Err(failure) = of_pair(run, at, spec, *pair).await {
            let stop = failure.cause == FailureCause::Limit;
            let failure = StepFailure { pair: Some(*pair), failure };
            run.note(std::slice::from_ref(&failure)).await;
            failures.push(failure);
            if stop {
                break;
            }
        }
    }
    failures
}

async fn of_pair(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &PathSpec,
    pair: PairId,
) -> Result<(), Failure> {
    run.may_start()?;
    let expected = spec.spacing.saturating_mul(spec.probes) + spec.load;
    let text = "round trips, packet sizes and a short stream".to_owned();
    announce::anything(run, at, text, &[pair], milliseconds(expected)).await;
    let ask = Ask {
        count: spec.probes,
        spacing: spec.spacing,
        packet_bytes: spec.packet_sizes.clone(),
        deadline: probe_deadline(spec),
    };
    let probed = probe_pair(run, at, pair, &ask).await;
    let gone = matches!(&probed, Err(f) if f.cause != FailureCause::CouldNotMeasure);
    let stream = match gone || spec.load.is_zero() {
        true => None,
        false => Some(stream(run, at, spec, pair).await?),
    };
    let failure = judge(&probed, stream.as_ref());
    keep(run, at, pair, probed, stream).await;
    failure.map_or(Ok(()), Err)
}

/// The stream that follows may need the rest of the step's deadline.
fn probe_deadline(spec: &PathSpec) -> Duration {
    let least = spec.spacing.saturating_mul(spec.probes) + SIZES_MIN;
    spec.deadline.saturating_sub(LOST_STREAM).max(least)
}

/// Also for others who want to know what a path carries.
pub async fn probe_pair(
    run: &mut Run<'_>,
    at: At<'_>,
    pair: PairId,
    ask: &Ask,
) -> Result<PathProbe, Failure> {
    let (job, token) = run.next_job();
    probe::probe(run.ends(pair, at.direction, at.index)?, job, token, ask).await
}

async fn stream(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &PathSpec,
    pair: PairId,
) -> Result<PairTransfer, Failure> {
    let test = Test {
        num_conn: 1,
        duration: spec.load,
        reading: READING,
        message: MESSAGE,
        payload: Payload::Random,
        socket: SocketRequest::default(),
        rate: rate_limit(run, &[pair], false),
        bytes_max: run.bytes_left(),
        guard: run.guard(),
        acknowledge: None,
        delay: None,
        connect_deadline: CONNECT_DEADLINE,
        stall_deadline: Some(STALL_DEADLINE),
        encoding: None,
        compressible: None,
    };
    run.promise(test.bytes_max, 1);
    let (job, token) = run.next_job();
    let ends = run.ends(pair, at.direction, at.index)?;
    let transfer = match transfer::connect(ends, job, token, &test).await {
        Ok(connected) => transfer::run(connected, &run.events, None, run.promised()).await,
        Err(failed) => failed,
    };
    run.count_sent(sent(&transfer));
    Ok(transfer)
}

/// What makes the step fail: a node that is gone, a limit, a probe that could not be asked for, or a
/// path of which nothing came back. A stream that stalls or is refused where probes pass is a result.
fn judge(probed: &Result<PathProbe, Failure>, stream: Option<&PairTransfer>) -> Option<Failure> {
    let measurable = |failure: &&Failure| failure.cause == FailureCause::CouldNotMeasure;
    let of_probe = probed.as_ref().err();
    let of_stream = stream.and_then(|stream| stream.failure.as_ref());
    if let Some(failure) = [of_probe, of_stream].into_iter().flatten().find(|f| !measurable(f)) {
        return Some(failure.clone());
    }
    let came_back = probed.as_ref().is_ok_and(|probe| probe.answered > 0 || probe.way.is_some());
    let connected = stream.is_some_and(|stream| stream.sender.connected.is_some());
    match of_stream {
        Some(failure) if !came_back && !connected => {
            let why = &failure.text;
            let text = format!("no probe came back, nor does a connection come about: {why}");
            Some(Failure { text, ..failure.clone() })
        }
        _ => of_probe.cloned(),
    }
}

async fn keep(
    run: &mut Run<'_>,
    at: At<'_>,
    pair: PairId,
    probed: Result<PathProbe, Failure>,
    stream: Option<PairTransfer>,
) {
    let (probe, failure) = match probed {
        Ok(probe) => (Some(probe), None),
        Err(failure) => (None, Some(failure)),
    };
    let result = result(probe.as_ref(), stream.as_ref());
    let min_us = probe.as_ref().and_then(|probe| probe.rtt.as_ref()).map(|rtt| rtt.min_us);
    let shortest = min_us.and_then(|us| Duration::try_from_secs_f64(us / 1e6).ok());
    if let Some(rtt) = shortest.filter(|rtt| !rtt.is_zero()) {
        run.results.add_rtt(pair, rtt);
    }
    if let Some(register) = at.register {
        run.results.add_pair(register, at.direction, pair, result);
    }
    let id = run.next_measurement();
    let (step, direction) = (at.index, at.direction);
    let path = Path { id, step, direction, pair, probe, stream, failure };
    run.measured(Measurement::Path(Box::new(path))).await;
}

fn result(probe: Option<&PathProbe>, stream: Option<&PairTransfer>) -> PairResult {
    let loss = |probe: &PathProbe| {
        let known = probe.answered > 0 && probe.sent > 0;
        known.then(|| 1.0 - f64::from(probe.answered.min(probe.sent)) / f64::from(probe.sent))
    };
    PairResult {
        rtt_p50_us: probe.and_then(|probe| probe.rtt.as_ref()).map(|rtt| rtt.p50_us),
        path_mtu_bytes: probe.and_then(|probe| probe.path_mtu_bytes),
        loss_ratio: probe.and_then(loss),
        mss_bytes: stream.and_then(|stream| mss(&stream.sender)),
        ..PairResult::default()
    }
}

/// What segments carried in the end, without options.
fn mss(sender: &EndRecord) -> Option<u64> {
    let of = |tcp: &TcpInfo| tcp.snd_mss_bytes;
    let end = sender.end.as_ref().and_then(|end| end.streams.iter().find_map(|s| of(&s.tcp)));
    let read = || sender.readings.iter().rev().find_map(|reading| of(&reading.tcp));
    let start = || sender.connected.as_ref()?.streams.iter().find_map(|s| of(&s.tcp));
    end.or_else(read).or_else(start)
}

#[cfg(test)]
mod tests {
    use redoline_proto::path::ProbeWay;
    use redoline_proto::transfer::Connected;

    use super::*;
    use crate::execute::failure::could_not_measure;
    use crate::record::event::DATA_PORT_FILTERED;

    fn answered() -> PathProbe {
        PathProbe { way: Some(ProbeWay::Udp), sent: 100, answered: 98, ..PathProbe::default() }
    }

    fn stream(connected: bool, failure: Option<Failure>) -> PairTransfer {
        let start = connected.then(|| Connected { streams: Vec::new(), at_ns: 0 });
        PairTransfer {
            pair: PairId(0),
            sender: EndRecord { connected: start, ..EndRecord::default() },
            receiver: EndRecord::default(),
            failure,
        }
    }

    fn filtered() -> Failure {
        could_not_measure(None, DATA_PORT_FILTERED, "no answer")
    }

    #[test]
    fn a_stream_that_stalls_where_probes_pass_is_a_result() {
        let stalled = could_not_measure(None, "transfer", "acknowledged nothing for 4 s");
        assert_eq!(judge(&Ok(answered()), Some(&stream(true, Some(stalled)))), None);
        assert_eq!(judge(&Ok(answered()), Some(&stream(false, Some(filtered())))), None);
        assert_eq!(judge(&Ok(PathProbe::default()), Some(&stream(true, None))), None);
    }

    #[test]
    fn a_path_of_which_nothing_comes_back_fails_with_what_to_ask_of_whom() {
        let none = PathProbe { sent: 100, ..PathProbe::default() };
        let failure = judge(&Ok(none), Some(&stream(false, Some(filtered())))).unwrap();
        assert_eq!(failure.phase, DATA_PORT_FILTERED);
        assert!(failure.text.ends_with("no answer"), "{}", failure.text);
    }

    #[test]
    fn a_node_that_is_gone_fails_the_step_whatever_else_came_back() {
        let gone = Failure { cause: FailureCause::Unreachable, ..filtered() };
        let failure = judge(&Ok(answered()), Some(&stream(true, Some(gone.clone()))));
        assert_eq!(failure, Some(gone.clone()));
        assert_eq!(judge(&Err(gone.clone()), None), Some(gone));
    }

    #[test]
    fn expressions_see_no_loss_where_nothing_came_back() {
        assert_eq!(result(Some(&PathProbe::default()), None).loss_ratio, None);
        let loss = result(Some(&answered()), None).loss_ratio.unwrap();
        assert!((loss - 0.02).abs() < 1e-9, "{loss}");
    }

    #[test]
    fn a_black_hole_is_known_within_the_deadline_of_the_step() {
        let spec = PathSpec {
            pairs: Vec::new(),
            probes: 100,
            spacing: Duration::from_millis(10),
            packet_sizes: Vec::new(),
            load: Duration::from_secs(2),
            deadline: Duration::from_secs(10),
        };
        assert_eq!(probe_deadline(&spec) + LOST_STREAM, spec.deadline);
        let long = PathSpec { probes: 1000, ..spec };
        assert_eq!(probe_deadline(&long), Duration::from_secs(12), "all of its datagrams are sent");
    }
}
