//! What all renderers show first: each need beside what was measured.
//!
//! Nothing is judged here: a row's answer and measurement are those of the finding about its need.

mod levels;

pub use levels::{Level, levels};

use serde::Serialize;

use super::model::{
    Finding, JudgedNeed, Measurement, Need, Node, Pair, PairEnds, Report, Series, StorageRead,
    Throughput,
};
use crate::plan::node::{Direction, Role};

pub const DIRECTIONS: [Direction; 2] = [Direction::PrimaryToStandby, Direction::StandbyToPrimary];

/// A need in one direction, with headroom, and what was measured for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NeedRow {
    /// `thread 1, phx1 to ash1` or `all threads together`.
    pub subject: String,
    pub direction: Direction,
    pub need_bytes_per_second: f64,
    pub measured_bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub measurement: Option<String>,
    pub judged: Judged,
}

/// What the findings say of one need.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    Met,
    NotMet,
    CannotTell,
    /// No measurement for it, or none of all pairs.
    NotTested,
    /// Measured, but no finding rests on it.
    NotJudged,
}

impl Judged {
    pub fn label(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::CannotTell => "cannot tell",
            Self::NotTested => "not tested",
            Self::NotJudged => "not judged",
        }
    }
}

/// One stream of one pair in one direction, as redo transport uses it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SingleStream {
    pub pair: String,
    pub sender: String,
    pub receiver: String,
    pub direction: Direction,
    pub measurement: Option<String>,
    pub bytes_per_second: Option<f64>,
    pub half_width_bytes_per_second: Option<f64>,
    pub rtt_us: Option<u64>,
    /// What keeps the rate from being final.
    pub not_converged: Option<String>,
}

/// The rows of the need: each thread on each pair of its node and all together, in each direction
/// that was tested.
pub fn need_rows(report: &Report) -> Vec<NeedRow> {
    let Some(need) = &report.need else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for direction in tested_directions(report) {
        for (&thread, &rate) in &need.threads_bytes_per_second {
            rows.extend(thread_rows(report, thread, rate * (1.0 + need.headroom_share), direction));
        }
        rows.extend(total_row(report, need, direction));
    }
    rows
}

fn thread_rows(report: &Report, thread: u32, need: f64, direction: Direction) -> Vec<NeedRow> {
    let carries = |node: &Node| node.role == Role::Primary && node.thread == Some(thread);
    let node = report.topology.nodes.iter().find(|node| carries(node));
    let rows: Vec<NeedRow> = pairs(report)
        .filter(|pair| node.is_some_and(|node| node.name == pair.primary))
        .map(|pair| pair_row(report, thread, pair, need, direction))
        .collect();
    if rows.is_empty() {
        return vec![unmeasured(format!("thread {thread}"), need, direction)];
    }
    rows
}

fn pair_row(report: &Report, thread: u32, pair: &Pair, need: f64, direction: Direction) -> NeedRow {
    let (from, to) = sides(&pair.primary, &pair.standby, direction);
    let subject = format!("thread {thread}, {from} to {to}");
    if let Some((judged, need)) = judged(report, Some(thread), Some(&pair.name), direction) {
        return judged_row(subject, judged, need);
    }
    let Some((test, ends)) = single_stream(report, &pair.name, direction) else {
        return unmeasured(subject, need, direction);
    };
    let row = unmeasured(subject, need, direction);
    not_judged(row, test, ends.bytes_per_second, ends.half_width_bytes_per_second)
}

/// Without a stated total there is a row only where a finding took the sum of the threads.
fn total_row(report: &Report, need: &Need, direction: Direction) -> Option<NeedRow> {
    let subject = "all threads together".to_owned();
    if let Some((judged, need)) = judged(report, None, None, direction) {
        return Some(judged_row(subject, judged, need));
    }
    let total = need.total_bytes_per_second?;
    let row = unmeasured(subject, total * (1.0 + need.headroom_share), direction);
    let all = pairs(report).count();
    let together = throughputs(report)
        .filter(|test| test.direction == direction && test.pairs.len() == all && is_plain(test))
        .filter(|test| all == 1 || test.nodes == "together")
        .max_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
    let Some(test) = together else { return Some(row) };
    let steady = test.steady.as_ref();
    let half_width = steady.and_then(|steady| steady.half_width_bytes_per_second);
    Some(not_judged(row, test, steady.map(|steady| steady.bytes_per_second), half_width))
}

/// What a finding says of one need; the worst of several.
fn judged<'a>(
    report: &'a Report,
    thread: Option<u32>,
    pair: Option<&str>,
    direction: Direction,
) -> Option<(Judged, &'a JudgedNeed)> {
    let about_it = |need: &&JudgedNeed| {
        need.thread == thread
            && need.direction == direction
            && (pair.is_none() || need.pair.as_deref() == pair)
    };
    [
        ("need-not-met", Judged::NotMet),
        ("need-cannot-be-judged", Judged::CannotTell),
        ("need-met", Judged::Met),
    ]
    .into_iter()
    .find_map(|(id, judged)| {
        let findings = report.findings.iter().filter(|finding| finding.id == id);
        let need = findings.flat_map(|finding| &finding.needs).find(about_it)?;
        // Without a measurement there was nothing to judge.
        let judged = if need.measurement.is_none() { Judged::NotTested } else { judged };
        Some((judged, need))
    })
}

fn judged_row(subject: String, judged: Judged, need: &JudgedNeed) -> NeedRow {
    NeedRow {
        subject,
        direction: need.direction,
        need_bytes_per_second: need.required_bytes_per_second,
        measured_bytes_per_second: need.measured_bytes_per_second,
        half_width_bytes_per_second: need.half_width_bytes_per_second,
        measurement: need.measurement.clone(),
        judged,
    }
}

/// A test without a result cannot tell.
fn not_judged(
    row: NeedRow,
    test: &Throughput,
    measured: Option<f64>,
    half_width: Option<f64>,
) -> NeedRow {
    NeedRow {
        measured_bytes_per_second: measured,
        half_width_bytes_per_second: half_width,
        measurement: Some(test.id.clone()),
        judged: if measured.is_some() { Judged::NotJudged } else { Judged::CannotTell },
        ..row
    }
}

fn unmeasured(subject: String, need: f64, direction: Direction) -> NeedRow {
    NeedRow {
        subject,
        direction,
        need_bytes_per_second: need,
        measured_bytes_per_second: None,
        half_width_bytes_per_second: None,
        measurement: None,
        judged: Judged::NotTested,
    }
}

/// Single streams of all pairs in the directions that were tested.
pub fn single_streams(report: &Report) -> Vec<SingleStream> {
    let mut rows = Vec::new();
    for direction in tested_directions(report) {
        for pair in pairs(report) {
            let found = single_stream(report, &pair.name, direction);
            let (test, ends) = (found.map(|(test, _)| test), found.map(|(_, ends)| ends));
            let (sender, receiver) = sides(&pair.primary, &pair.standby, direction);
            rows.push(SingleStream {
                pair: pair.name.clone(),
                sender: sender.to_owned(),
                receiver: receiver.to_owned(),
                direction,
                measurement: test.map(|test| test.id.clone()),
                bytes_per_second: ends.and_then(|ends| ends.bytes_per_second),
                half_width_bytes_per_second: ends.and_then(|ends| ends.half_width_bytes_per_second),
                rtt_us: test.and_then(|test| test.rtt_us.min),
                not_converged: test
                    .and_then(|test| test.steady.as_ref())
                    .and_then(super::wording::not_converged),
            });
        }
    }
    rows
}

/// What one redo transport process would get: the test that a finding about the need rests on,
/// else the one that the analysis would take. A test with a result comes before one without.
pub fn single_stream<'a>(
    report: &'a Report,
    pair: &str,
    direction: Direction,
) -> Option<(&'a Throughput, &'a PairEnds)> {
    let judged = |test: &Throughput| {
        report.findings.iter().flat_map(|finding| &finding.needs).any(|need| {
            need.thread.is_some()
                && need.direction == direction
                && need.pair.as_deref() == Some(pair)
                && need.measurement.as_ref() == Some(&test.id)
        })
    };
    throughputs(report)
        .filter(|test| test.num_conn == 1 && test.direction == direction && is_plain(test))
        .filter(|test| test.pairs.len() == 1 || test.nodes == "each")
        .filter(|test| !varies_messages(report, &test.id))
        .filter_map(|test| test.pairs.iter().find(|ends| ends.pair == pair).map(|e| (test, e)))
        .max_by_key(|(test, ends)| {
            let in_sweep = action_of(report, test.step) == Some("sweep");
            (
                ends.bytes_per_second.is_some(),
                judged(test),
                !in_sweep && is_default(test),
                !in_sweep,
                lasted_ms(test),
            )
        })
}

/// As [`crate::analysis::case::lasted`] has it: of `duration: auto` until it knew its rate.
fn lasted_ms(test: &Throughput) -> u64 {
    let seen = test.steady.as_ref().map_or(0, |steady| steady.truncated_ms + steady.window_ms);
    if 5 * seen >= 4 * test.duration_ms { test.duration_ms } else { seen }
}

/// Nothing was asked of the sockets.
fn is_default(test: &Throughput) -> bool {
    let asked = &test.requested;
    asked.socket_buffer == "auto"
        && asked.socket_buffer_bytes.is_none()
        && asked.send_buffer_bytes.is_none()
        && asked.receive_buffer_bytes.is_none()
        && asked.congestion_control.is_none()
        && asked.mtu_bytes.is_none()
        && asked.mss_bytes.is_none()
}

/// As the analysis counts it: an ASYNC stream in one direction that nothing slows down or codes.
fn is_plain(test: &Throughput) -> bool {
    test.mode == "async"
        && test.encoding.is_none()
        && test.delay_us.is_none()
        && test.requested.pacing_bytes_per_second.is_none()
        && test.interface_mtu_bytes.is_none()
        && !test.both_directions
        && test.nodes != "all_to_one"
}

fn varies_messages(report: &Report, id: &str) -> bool {
    let mut sweeps = report.series.iter().filter(|series| series.variable == "message_length");
    sweeps.any(|series| series.points.iter().any(|point| point.measurement.as_deref() == Some(id)))
}

/// Those of the configuration that are not crossed.
pub fn pairs(report: &Report) -> impl Iterator<Item = &Pair> {
    report.configuration.pairs.iter().filter(|pair| !pair.crossed)
}

pub fn throughputs(report: &Report) -> impl Iterator<Item = &Throughput> {
    report.measurements.iter().filter_map(|measurement| match measurement {
        Measurement::Throughput(test) => Some(&**test),
        Measurement::Path(_) | Measurement::StorageRead(_) => None,
    })
}

/// Of each node and pattern the read with the highest rate, in the order of the report.
pub fn best_reads(report: &Report) -> Vec<&StorageRead> {
    let mut best: Vec<&StorageRead> = Vec::new();
    for measurement in &report.measurements {
        let Measurement::StorageRead(read) = measurement else {
            continue;
        };
        let known = best.iter_mut().find(|b| b.node == read.node && b.pattern == read.pattern);
        match known {
            None => best.push(read),
            Some(known) if read.bytes_per_second > known.bytes_per_second => *known = read,
            Some(_) => (),
        }
    }
    best
}

/// Ladders of connections.
pub fn ladders(report: &Report) -> impl Iterator<Item = &Series> {
    report.series.iter().filter(|series| series.variable == "num_conn")
}

/// From primary to standby first; that one also when nothing was measured.
pub fn tested_directions(report: &Report) -> Vec<Direction> {
    DIRECTIONS
        .into_iter()
        .filter(|&direction| {
            direction == Direction::PrimaryToStandby
                || throughputs(report).any(|test| test.direction == direction)
        })
        .collect()
}

/// Findings, the most severe first, otherwise in the order of the report.
pub fn findings_by_severity(report: &Report) -> Vec<&Finding> {
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn action_of(report: &Report, step: u32) -> Option<&str> {
    report.steps.iter().find(|known| known.number == step).map(|known| known.action.as_str())
}

fn rate_of(test: &Throughput) -> f64 {
    test.steady.as_ref().map_or(-1.0, |steady| steady.bytes_per_second)
}

/// Sender and receiver.
fn sides<'a>(primary: &'a str, standby: &'a str, direction: Direction) -> (&'a str, &'a str) {
    match direction {
        Direction::PrimaryToStandby => (primary, standby),
        Direction::StandbyToPrimary => (standby, primary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_row_has_the_answer_of_the_finding_that_rests_on_its_measurement() {
        let rows = need_rows(&samples::whole());
        let answers: Vec<(&str, Judged)> =
            rows.iter().map(|row| (row.subject.as_str(), row.judged)).collect();
        assert_eq!(
            answers,
            [
                ("thread 1, phx1 to ash1", Judged::Met),
                ("thread 2, phx2 to ash2", Judged::NotMet),
                ("all threads together", Judged::Met),
                ("thread 1, ash1 to phx1", Judged::NotJudged),
                ("thread 2, ash2 to phx2", Judged::CannotTell),
                ("all threads together", Judged::NotJudged),
            ]
        );
    }

    #[test]
    fn a_test_without_a_result_cannot_tell() {
        let mut report = samples::broken();
        report.need = samples::whole().need;
        let rows = need_rows(&report);
        assert_eq!(rows[0].judged, Judged::CannotTell);
        assert_eq!(rows[0].measured_bytes_per_second, None);
        assert_eq!(rows[1].judged, Judged::NotTested);
    }

    #[test]
    fn a_thread_has_a_row_for_each_pair_of_its_node() {
        let mut report = samples::whole();
        report.configuration.pairs[1].primary = "phx1".to_owned();
        let threads = need_rows(&report);
        let of_first = threads.iter().filter(|row| row.subject.starts_with("thread 1, phx1"));
        assert_eq!(of_first.count(), 2);
    }
}
