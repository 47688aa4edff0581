//! On which of several tests a need is judged, and what a test with a silent stream is worth.

use super::Scenario;
use crate::analysis::case::Case;
use crate::analysis::sustained::Sustained;
use crate::plan::node::Direction;
use crate::record::measurement::Measurement;
use crate::record::run::RunRecord;
use crate::report::build::build;
use crate::report::model::{Finding, Report};

fn scenario(steps: &[&str]) -> Scenario {
    let steps = steps.iter().map(|step| (*step).to_owned()).collect();
    Scenario { steps, ..Scenario::named("need-met") }
}

/// By which measurement the first thread is judged from primary to standby.
fn of_thread(report: &Report) -> Option<String> {
    let mut needs = report.findings.iter().flat_map(|finding| &finding.needs);
    needs.find(|need| need.thread == Some(1))?.measurement.clone()
}

#[test]
fn a_test_that_ended_by_itself_is_as_long_as_it_took_and_not_as_it_might_have() {
    let report = build(&scenario(&["auto 5", "single"]).record());
    assert_eq!(of_thread(&report).as_deref(), Some("m3"));
    let streams = crate::report::summary::single_streams(&report);
    assert_eq!(streams[0].measurement.as_deref(), Some("m3"));
    let report = build(&Scenario { need: None, ..scenario(&["auto 5", "single"]) }.record());
    let streams = crate::report::summary::single_streams(&report);
    assert_eq!(streams[0].measurement.as_deref(), Some("m3"), "without a need, too");
}

#[test]
fn of_all_nodes_at_once_the_long_test_counts_and_not_the_one_with_the_highest_rate() {
    let mut record = scenario(&["together 2", "together 8"]).record();
    // The last test ended after 5 s.
    let Some(Measurement::Throughput(short)) = record.measurements.last_mut() else { panic!() };
    short.request.duration_ms = 5000;
    for pair in &mut short.pairs {
        pair.receiver.samples.truncate(20);
        for sample in &mut pair.receiver.samples {
            sample.stream_bytes.iter_mut().for_each(|bytes| *bytes *= 2);
        }
        for end in pair.receiver.end.iter_mut().flat_map(|end| &mut end.streams) {
            end.last_byte_ns = pair.receiver.samples.last().map(|sample| sample.to_ns);
        }
    }
    let together = with_case(&record, |case| {
        let rates: Vec<f64> = case.throughputs.iter().filter_map(|t| Some(t.rate()?.0)).collect();
        assert!(rates.last() > rates.first(), "{rates:?}");
        case.together(Direction::PrimaryToStandby).map(|test| test.request.num_conn)
    });
    assert_eq!(together, Some(2));
}

fn with_case<T>(record: &RunRecord, ask: impl FnOnce(&Case<'_>) -> T) -> T {
    let analysis = crate::analysis::analyse(record);
    ask(&Case {
        record,
        throughputs: &analysis.throughputs,
        paths: &analysis.paths,
        storage: &analysis.storage,
        series: &analysis.series,
    })
}

#[test]
fn a_long_test_after_a_short_one_tells_what_is_left_of_it_and_not_the_other_way_round() {
    let mut record = scenario(&["short", "long"]).record();
    let Some(Measurement::Throughput(short)) = record.measurements.first_mut() else { panic!() };
    for sample in short.pairs.iter_mut().flat_map(|pair| &mut pair.receiver.samples) {
        sample.stream_bytes.iter_mut().for_each(|bytes| *bytes *= 2);
    }
    with_case(&record, |case| {
        let sustained = Sustained::of(case, Direction::PrimaryToStandby);
        let of_pair = |seconds: u64| {
            let mut tests = case.throughputs.iter();
            tests.find(|test| test.request.duration_ms == seconds * 1000).unwrap()
        };
        let (short, long) = (of_pair(5), of_pair(120));
        assert_eq!(sustained.after(short), long.rate());
        assert_eq!(sustained.after(long), None);
        assert_eq!(sustained.lowest(), long.rate());
    });
}

fn silent(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.id == "silent-stream").collect()
}

#[test]
fn one_silent_stream_of_several_takes_no_rate_away_and_is_reported() {
    let mut record = scenario(&["connections 4"]).record();
    let whole = build(&record);
    assert!(silent(&whole).is_empty());
    for measurement in &mut record.measurements {
        let Measurement::Throughput(test) = measurement else { continue };
        for pair in &mut test.pairs {
            for sample in &mut pair.receiver.samples {
                sample.stream_bytes[2] = 0;
            }
            for end in pair.receiver.end.iter_mut().flat_map(|end| &mut end.streams) {
                if end.stream == 2 {
                    (end.bytes, end.first_byte_ns, end.last_byte_ns) = (0, None, None);
                }
            }
        }
    }
    let report = build(&record);
    let rate = |report: &Report| {
        let test = crate::report::summary::throughputs(report).next().unwrap();
        test.steady.as_ref().unwrap().bytes_per_second
    };
    assert!((rate(&report) / rate(&whole) - 0.75).abs() < 0.01);
    let findings = silent(&report);
    assert_eq!(findings.len(), 1);
    let sentence = &findings[0].sentence;
    assert!(
        sentence.contains("Of 4 connections from phx1 to ash1, 1 carried no byte"),
        "{sentence}"
    );
    assert!(sentence.contains("198.51.100.11:40002"), "{sentence}");
}
