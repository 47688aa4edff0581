//! Streams that carried nothing while the others of their test did.

use super::case::{Case, DIRECTIONS};
use super::finding::{Confidence, Finding, FindingId, Severity, Unit};
use super::throughput::{PairSummary, StreamSummary, Summary};
use super::words::{count, steady};
use crate::plan::node::Direction;

/// For each direction the first test with the most of them.
pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    DIRECTIONS.into_iter().filter_map(|direction| of(case, direction)).collect()
}

/// A pair's part of a test, and its streams without a byte.
struct Seen<'a> {
    test: &'a Summary,
    pair: &'a PairSummary,
    silent: Vec<&'a StreamSummary>,
}

fn of(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let tests = case.throughputs.iter().filter(|test| test.direction == direction);
    let seen: Vec<Seen<'_>> = tests
        .flat_map(|test| test.pairs.iter().map(move |pair| (test, pair)))
        .filter(|(_, pair)| pair.steady.is_some())
        .map(|(test, pair)| Seen { test, pair, silent: silent(pair) })
        .filter(|seen| !seen.silent.is_empty())
        .collect();
    let worst = seen.iter().rev().max_by_key(|seen| seen.silent.len())?;
    let (stream, of) = (worst.silent.first()?, worst.pair.streams.len());
    let others = worst.pair.steady.as_ref().map_or_else(String::new, steady);
    let sentence = format!(
        "Of {} from {}, {} carried no byte ({} to {}{}), while the others carried {others}, which \
         stands for all of them. One of several ways may swallow what is hashed onto it.",
        count(of as u32, "connection"),
        case.way(worst.pair.pair, direction),
        worst.silent.len(),
        stream.local,
        stream.remote,
        if worst.silent.len() > 1 { ", …" } else { "" },
    );
    let id = FindingId::SilentStream;
    let mut finding = Finding::new(id, Severity::Warning, Confidence::Measured, sentence)
        .direction(direction)
        .value(worst.silent.len() as f64 / of as f64, Unit::Share);
    for Seen { test, pair, .. } in &seen {
        let (sender, receiver) = case.setup().ends(pair.pair, direction);
        if !finding.pairs.contains(&pair.pair) {
            finding = finding.pairs([pair.pair]);
        }
        finding = finding
            .nodes([sender, receiver])
            .evidence(test.id, &["streams[].received_bytes", "steady.bytes_per_second"]);
    }
    Some(finding)
}

fn silent(pair: &PairSummary) -> Vec<&StreamSummary> {
    pair.streams.iter().filter(|stream| stream.received == Some(0)).collect()
}
