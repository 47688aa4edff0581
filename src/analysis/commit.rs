//! What SYNC transport adds to a commit, and whether the way is short enough for it.

use std::time::Duration;

use super::case::{Case, DIRECTIONS};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::sync::SyncSummary;
use super::throughput::Summary;
use super::words::{milliseconds, percent};
use crate::plan::need::Transport;
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::MeasurementId;

/// SYNC is doubtful above this round trip (MAA: above 5 ms it hurts throughput and needs a test with
/// the application).
const DOUBTFUL: Duration = Duration::from_millis(5);
/// And advised against above this one (MOS 808469.1).
const ADVISED_AGAINST: Duration = Duration::from_millis(10);

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for direction in DIRECTIONS {
        for pair in case.pairs() {
            findings.extend(too_slow(case, pair, direction));
        }
        for mode in modes(case) {
            findings.extend(overheads(case, direction, mode));
        }
    }
    findings
}

/// The SYNC test that is most like LGWR: in the mode that the need states if there is one, of one
/// stream if there is one, with the smallest message.
pub fn plainest<'a>(
    case: &Case<'a>,
    pair: PairId,
    direction: Direction,
) -> Option<(&'a Summary, &'a SyncSummary)> {
    modes(case).into_iter().find_map(|mode| plainest_of(case, pair, direction, mode))
}

/// Both modes of SYNC, the one that the need states first.
fn modes(case: &Case<'_>) -> [&'static str; 2] {
    match case.setup().need.as_ref().map(|need| need.transport) {
        Some(Transport::Sync) => ["sync", "fastsync"],
        _ => ["fastsync", "sync"],
    }
}

fn plainest_of<'a>(
    case: &Case<'a>,
    pair: PairId,
    direction: Direction,
    mode: &str,
) -> Option<(&'a Summary, &'a SyncSummary)> {
    tests(case, pair, direction).filter(|(_, sync)| sync.mode == mode).min_by_key(|(test, sync)| {
        (test.request.delay_us.is_some(), test.request.num_conn, sync.message_bytes)
    })
}

fn tests<'a>(
    case: &Case<'a>,
    pair: PairId,
    direction: Direction,
) -> impl Iterator<Item = (&'a Summary, &'a SyncSummary)> {
    case.throughputs
        .iter()
        .filter(move |test| test.direction == direction && !test.request.both_directions)
        .filter_map(move |test| Some((test, test.pair(pair)?.sync.as_ref()?)))
        .filter(|(_, sync)| sync.messages > 0)
}

fn is_planned(case: &Case<'_>) -> bool {
    case.setup().need.as_ref().is_some_and(|need| need.transport != Transport::Async)
}

/// The idle round trip of a pair: of probes, else the smallest that a kernel saw.
fn round_trip(
    case: &Case<'_>,
    pair: PairId,
    direction: Direction,
) -> Option<(MeasurementId, Duration, &'static str)> {
    let probed = case.paths_of(pair, direction).filter_map(|path| {
        let rtt = Duration::from_secs_f64(path.idle_rtt()?.p50_us / 1e6);
        Some((path.id, rtt, "rtt_us.idle"))
    });
    let tests = case.throughputs.iter().filter(|test| test.direction == direction);
    let streams = tests.filter_map(|test| Some((test.id, test.pair(pair)?.rtt.min?, "rtt_us.min")));
    probed.min_by_key(|one| one.1).or_else(|| streams.min_by_key(|one| one.1))
}

fn too_slow(case: &Case<'_>, pair: PairId, direction: Direction) -> Option<Finding> {
    let sync = plainest(case, pair, direction);
    if !is_planned(case) && sync.is_none() {
        return None;
    }
    let trip = round_trip(case, pair, direction);
    let answer = sync.map(|(test, sync)| {
        (test.id, Duration::from_secs_f64(sync.total.mean_us / 1e6), "latency_us.mean")
    });
    let far = |one: &(MeasurementId, Duration, &'static str)| one.1 > DOUBTFUL;
    let (id, time, field) = trip.filter(far).or_else(|| answer.filter(far))?;
    let longest = trip.into_iter().chain(answer).map(|one| one.1).max()?;
    let against = longest > ADVISED_AGAINST;
    let severity = match against && is_planned(case) {
        true => Severity::Critical,
        false => Severity::Warning,
    };
    let what = match field {
        "latency_us.mean" => "An acknowledgement",
        _ => "The round trip",
    };
    let why = match against {
        true => "Oracle advises against SYNC above 10 ms",
        false => "above 5 ms SYNC slows commits noticeably and needs a test with the application",
    };
    let parts = sync.map_or(String::new(), |(_, sync)| format!(" {}", shares(sync)));
    let sentence = format!(
        "{what} from {} takes {}: {why}.{parts}",
        case.way(pair, direction),
        milliseconds(time)
    );
    let (sender, receiver) = case.setup().ends(pair, direction);
    let mut finding =
        Finding::new(FindingId::LatencyTooHighForSync, severity, Confidence::Measured, sentence)
            .direction(direction)
            .pairs([pair])
            .nodes([sender, receiver])
            .value(time.as_secs_f64() * 1e6, Unit::Microseconds)
            .evidence(id, &[field])
            .also(
                format!("{against} {field} {direction}"),
                format!("{} ({})", case.way(pair, direction), milliseconds(time)),
            );
    if let Some((id, ..)) = answer {
        finding.add_evidence(id, &["latency_us", "write_latency_us"]);
    }
    Some(finding)
}

/// `An acknowledgement takes 2.3 ms on average, 99 % at most 4.1 ms; 40 % of it is the write.`
pub fn shares(sync: &SyncSummary) -> String {
    let micros = |us: f64| milliseconds(Duration::from_secs_f64(us.max(0.0) / 1e6));
    let parts = match (&sync.write, sync.network_share()) {
        (Some(_), Some(network)) => format!(
            "{} of it are the standby's write, {} network and processors",
            percent(1.0 - network),
            percent(network)
        ),
        _ => "nothing was written before the answer".to_owned(),
    };
    format!(
        "A message of {} is acknowledged after {} on average, 99 % of them within {}; {parts}.",
        redoline_proto::units::Bytes(sync.message_bytes),
        micros(sync.total.mean_us),
        micros(sync.total.p99_us),
    )
}

/// `With SYNC AFFIRM a commit takes 1.2 ms to 2.1 ms longer`, or the upper bound alone.
pub fn cost(case: &Case<'_>, sync: &SyncSummary) -> String {
    let micros = |us: f64| milliseconds(Duration::from_secs_f64(us.max(0.0) / 1e6));
    let mode = if sync.mode == "fastsync" { "SYNC NOAFFIRM (FASTSYNC)" } else { "SYNC AFFIRM" };
    let local = case.setup().need.as_ref().and_then(|need| need.local_write);
    match sync.commit_overhead_us(local) {
        (Some(low), high) => format!(
            "With {mode} a commit takes {} to {} longer than without a standby (the local log write takes {}, \
             at the same time)",
            micros(low),
            micros(high),
            local.map_or_else(String::new, milliseconds),
        ),
        (None, high) => format!(
            "With {mode} a commit takes up to {} longer than without a standby; how much less, the local log \
             write tells (need.redo.local_write)",
            micros(high)
        ),
    }
}

/// What a mode costs on each pair, the pair that pays most first: the others are named behind it.
fn overheads(case: &Case<'_>, direction: Direction, mode: &str) -> Vec<Finding> {
    let of_pairs = case.pairs().filter_map(|pair| overhead(case, pair, direction, mode));
    let mut findings: Vec<Finding> = of_pairs.collect();
    let cost = |finding: &Finding| finding.value.map_or(0.0, |(high_us, _)| high_us);
    findings.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    findings
}

fn overhead(case: &Case<'_>, pair: PairId, direction: Direction, mode: &str) -> Option<Finding> {
    let (test, sync) = plainest_of(case, pair, direction, mode)?;
    let rate = sync
        .messages_per_second
        .filter(|_| test.request.num_conn == 1)
        .map_or(String::new(), |rate| {
            format!(" One process gets {rate:.0} messages per second at most.")
        });
    let larger = tests(case, pair, direction)
        .filter(|(other, one)| {
            other.request.num_conn == test.request.num_conn
                && one.mode == sync.mode
                && one.message_bytes > sync.message_bytes
        })
        .max_by_key(|(_, one)| one.message_bytes);
    let larger = larger.map_or(String::new(), |(_, one)| format!(" {}", shares(one)));
    let sentence = format!(
        "{}, from {}. {}{larger}{rate}",
        cost(case, sync),
        case.way(pair, direction),
        shares(sync),
    );
    let (low, high) =
        sync.commit_overhead_us(case.setup().need.as_ref().and_then(|need| need.local_write));
    let (sender, receiver) = case.setup().ends(pair, direction);
    Some(
        Finding::new(FindingId::SyncOverhead, Severity::Info, Confidence::Measured, sentence)
            .direction(direction)
            .pairs([pair])
            .nodes([sender, receiver])
            .value(high, Unit::Microseconds)
            .evidence(test.id, &["latency_us", "write_latency_us", "commit_overhead_us"])
            .also(
                format!("{} {direction}", sync.mode),
                format!(
                    "{} ({})",
                    case.way(pair, direction),
                    milliseconds(Duration::from_secs_f64(high / 1e6))
                ),
            )
            .detail(Detail::Commit { low_us: low, high_us: high }),
    )
}
