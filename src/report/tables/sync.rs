//! Acknowledgements of SYNC transport, and what of them is the standby's write.

use super::super::format::{self, NONE};
use super::super::model::{CommitOverhead, Latency, PairEnds, Report, Throughput};
use super::super::parameters;
use super::{Row, Table, tests as of_tests};

pub(super) fn tables(report: &Report, step: u32) -> Vec<Table> {
    let tests: Vec<&Throughput> =
        of_tests(report, step).filter(|test| test.mode != "async").collect();
    vec![acknowledgements(&tests, step), writes(&tests, step)]
}

fn acknowledgements(tests: &[&Throughput], step: u32) -> Table {
    let mut notes = vec![
        "From the first byte given to send to the answer, with one message in flight in each \
         connection."
            .to_owned(),
    ];
    notes.extend(commit_notes(tests));
    Table {
        caption: format!("Acknowledgements of SYNC transport in step {step}"),
        head: vec![
            "Id",
            "Way",
            "Mode",
            "Message",
            "num_conn",
            "Messages/s",
            "Mean",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "Max",
            "Longer commit",
        ],
        rows: rows(tests, acknowledgement),
        notes,
    }
}

fn commit_notes(tests: &[&Throughput]) -> Vec<String> {
    let overheads: Vec<&CommitOverhead> =
        tests.iter().filter_map(|test| test.commit_overhead_us.as_ref()).collect();
    let Some(first) = overheads.first() else { return Vec::new() };
    let rule = "LGWR writes locally and sends at the same time, so SYNC makes a commit longer by \
                max(0, remote − local) to remote, by the means.";
    let local = match first.local_write {
        Some(us) => format!("The need states a local log write of {}.", format::microseconds(Some(us))),
        None => "The need states no local log write (need.redo.local_write), so only the upper bound is known.".to_owned(),
    };
    vec![rule.to_owned(), local]
}

fn rows(tests: &[&Throughput], row: fn(&Throughput, &PairEnds) -> Option<Row>) -> Vec<Row> {
    tests.iter().flat_map(|test| test.pairs.iter().filter_map(|ends| row(test, ends))).collect()
}

fn acknowledgement(test: &Throughput, ends: &PairEnds) -> Option<Row> {
    let mut cells = vec![
        test.id.clone(),
        format!("{} to {}", ends.sender, ends.receiver),
        parameters::mode(&test.mode),
        format::bytes(Some(test.message_bytes)),
        test.num_conn.to_string(),
        format::number(ends.messages_per_second),
    ];
    cells.extend(latency(ends.latency_us.as_ref()));
    cells.push(commit(test));
    Some(Row::of(cells))
}

/// Mean, p50, p90, p99, p99.9 and the largest.
fn latency(latency: Option<&Latency>) -> [String; 6] {
    let of = |value: fn(&Latency) -> Option<f64>| format::microseconds(latency.and_then(value));
    [
        of(|latency| latency.mean),
        of(|latency| latency.p50),
        of(|latency| latency.p90),
        of(|latency| latency.p99),
        p999(latency),
        of(|latency| latency.max),
    ]
}

/// Of fewer messages the slowest of a thousand is the slowest of all, so there is none.
const MESSAGES_OF_P999: u64 = 1000;

pub fn p999(latency: Option<&Latency>) -> String {
    let messages = |latency: &Latency| latency.histogram.iter().map(|bucket| bucket.count).sum();
    match latency.map_or(0, messages) {
        messages if messages < MESSAGES_OF_P999 => NONE.to_owned(),
        _ => format::microseconds(latency.and_then(|latency| latency.p999)),
    }
}

/// `1.5 ms to 2 ms`, or `at most 2 ms`. Of several pairs, with the slowest.
pub fn commit(test: &Throughput) -> String {
    let us = |us: f64| format::microseconds(Some(us));
    match &test.commit_overhead_us {
        None => NONE.to_owned(),
        Some(CommitOverhead { low: Some(low), high, .. }) => {
            format!("{} to {}", us(*low), us(*high))
        }
        Some(CommitOverhead { low: None, high, .. }) => format!("at most {}", us(*high)),
    }
}

fn writes(tests: &[&Throughput], step: u32) -> Table {
    let mut notes: Vec<String> = Vec::new();
    for write in tests.iter().filter_map(|test| test.write.as_ref()) {
        let note = format!(
            "Each message is written (O_DIRECT, O_DSYNC) into a scratch file of {} in {} before it is \
             acknowledged.",
            format::bytes(Some(write.file_bytes)),
            write.directory
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Table {
        caption: format!("Of the acknowledgements in step {step}, the standby's write"),
        head: vec![
            "Id",
            "Way",
            "Mean",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "Max",
            "Network, mean",
            "Disk share",
            "Network share",
        ],
        rows: rows(tests, write_row),
        notes,
    }
}

fn write_row(test: &Throughput, ends: &PairEnds) -> Option<Row> {
    let write = ends.write_latency_us.as_ref()?;
    let mut cells = vec![test.id.clone(), format!("{} to {}", ends.sender, ends.receiver)];
    cells.extend(latency(Some(write)));
    cells.extend(shares(test));
    Some(Row::of(cells))
}

/// Of the test as a whole: mean of the network's part, disk's share, network's share.
fn shares(test: &Throughput) -> [String; 3] {
    [
        format::microseconds(test.network_latency_mean_us),
        format::percent(test.disk_share),
        format::percent(test.network_share),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::model::LatencyBucket;
    use super::*;

    #[test]
    fn the_slowest_of_a_thousand_takes_a_thousand_messages() {
        let of = |count: u64| Latency {
            mean: Some(1000.0),
            p50: Some(1000.0),
            p90: Some(1000.0),
            p99: Some(1500.0),
            p999: Some(1900.0),
            max: Some(1950.0),
            histogram: vec![LatencyBucket { upper_us: 2048.0, count }],
        };
        assert_eq!(p999(Some(&of(340))), NONE);
        assert_eq!(p999(Some(&of(1000))), "1.9 ms");
        assert_eq!(p999(None), NONE);
    }
}
