//! How a run ended: its exit codes, what is missing, and what a reader should know.

use crate::analysis::Analysis;
use crate::analysis::finding::{Confidence, FindingId};
use crate::analysis::throughput::Summary;
use crate::analysis::words::list;
use crate::exit::Exit;
use crate::plan::node::{NodeId, PairId};
use crate::record::event::{RunOutcome, StepFailure, StepOutcome};
use crate::record::measurement::{Failure, FailureCause, Measurement, Series};
use crate::record::run::{RunRecord, StepRecord};
use crate::record::setup::{Setup, StepSetup};

/// Everything that went wrong, each code once, the most severe first.
pub fn exits(record: &RunRecord, analysis: &Analysis) -> Vec<Exit> {
    let mut exits: Vec<Exit> = failures(record).map(|failure| of_cause(failure.cause)).collect();
    match record.outcome {
        Some(RunOutcome::Interrupted) => exits.push(Exit::Interrupted),
        // The controller was killed: what was not reached was not measured.
        None => exits.push(Exit::CannotTell),
        Some(RunOutcome::Completed | RunOutcome::Stopped) => (),
    }
    let asserted =
        |step: &StepRecord| matches!(step.outcome, Some(StepOutcome::AssertionFailed { .. }));
    if record.steps.iter().any(asserted) {
        exits.push(Exit::NotMet);
    }
    exits.extend(analysis.findings.iter().filter_map(|finding| match finding.id {
        FindingId::NeedNotMet => Some(Exit::NotMet),
        FindingId::InstantiationTooSlow if finding.confidence > Confidence::Possible => {
            Some(Exit::NotMet)
        }
        FindingId::NeedCannotBeJudged => Some(Exit::CannotTell),
        _ => None,
    }));
    exits.sort_unstable();
    exits.dedup();
    exits.reverse();
    exits
}

fn of_cause(cause: FailureCause) -> Exit {
    match cause {
        FailureCause::Unreachable => Exit::Unreachable,
        FailureCause::Busy => Exit::Busy,
        FailureCause::Limit => Exit::Limit,
        FailureCause::CouldNotMeasure => Exit::CannotTell,
        FailureCause::Interrupted => Exit::Interrupted,
    }
}

fn failures(record: &RunRecord) -> impl Iterator<Item = &Failure> {
    let lost = record.nodes.values().filter_map(|node| node.lost.as_ref());
    let steps = record.steps.iter().flat_map(step_failures).map(|failure| &failure.failure);
    let pairs = record
        .throughputs()
        .flat_map(|throughput| throughput.pairs.iter())
        .filter_map(|pair| pair.failure.as_ref());
    lost.chain(steps).chain(pairs)
}

fn step_failures(step: &StepRecord) -> &[StepFailure] {
    match &step.outcome {
        Some(StepOutcome::Failed { failures }) => failures,
        _ => &[],
    }
}

/// `passed`, `failed`, …: the word for a step, and its messages.
pub fn of_step(record: &RunRecord, number: usize) -> (&'static str, Vec<String>) {
    let setup = &record.setup.steps[number];
    match record.steps.get(number).and_then(|step| step.outcome.as_ref()) {
        None if setup.excluded => ("excluded", Vec::new()),
        None => ("not_reached", Vec::new()),
        Some(StepOutcome::Passed) => ("passed", Vec::new()),
        Some(StepOutcome::Skipped { reason }) => ("skipped", vec![reason.clone()]),
        Some(StepOutcome::AssertionFailed { texts }) => ("assertion_failed", texts.clone()),
        Some(StepOutcome::Failed { failures }) => {
            ("failed", failures.iter().map(|failure| step_failure(record, failure)).collect())
        }
    }
}

fn step_failure(record: &RunRecord, failure: &StepFailure) -> String {
    match failure.pair {
        Some(pair) => {
            format!("{}: {}", record.setup.pair_name(pair), text(record, &failure.failure))
        }
        None => text(record, &failure.failure),
    }
}

/// `ash2, data connection: …`.
pub fn text(record: &RunRecord, failure: &Failure) -> String {
    match failure.node {
        Some(node) => {
            format!("{}, {}: {}", record.setup.node_name(node), failure.phase, failure.text)
        }
        None => format!("{}: {}", failure.phase, failure.text),
    }
}

/// What is not in this report, in sentences.
pub fn missing(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let setup = &record.setup;
    let mut missing = match record.outcome {
        Some(RunOutcome::Completed) => Vec::new(),
        Some(RunOutcome::Interrupted) => vec!["The run was interrupted.".to_owned()],
        Some(RunOutcome::Stopped) => vec!["The run was stopped before its end.".to_owned()],
        None => vec![
            "The run did not end properly: the controller was killed or still runs.".to_owned(),
        ],
    };
    missing.extend(record.nodes.iter().filter_map(|(node, state)| {
        let failure = state.lost.as_ref()?;
        Some(format!("Node {} took no further part: {}.", setup.node_name(*node), failure.text))
    }));
    for (number, step) in setup.steps.iter().enumerate() {
        let name = format!("Step {} \"{}\"", number + 1, step.name);
        match of_step(record, number) {
            ("not_reached", _) => missing.push(format!("{name} was not reached.")),
            ("failed", messages) => {
                missing.push(format!("{name} failed: {}.", messages.join("; ")));
            }
            ("skipped", messages) => {
                missing.push(format!("{name} was skipped: {}.", messages.join("; ")));
            }
            ("passed", _) => missing.extend(unmeasured(record, number, step)),
            _ => (),
        }
    }
    missing.extend(record.series.iter().flat_map(|series| untested(record, series)));
    missing.extend(analysis.throughputs.iter().filter_map(|test| not_testable(record, test)));
    missing
}

/// Pairs and nodes of a finished step without a measurement.
fn unmeasured(record: &RunRecord, number: usize, step: &StepSetup) -> Vec<String> {
    let name = format!("Step {} \"{}\"", number + 1, step.name);
    let has_pair = |pair: PairId| {
        let mut tests = record.throughputs().filter(|throughput| throughput.step == number);
        tests.any(|throughput| throughput.pairs.iter().any(|one| one.pair == pair))
            || record.paths().any(|path| path.step == number && path.pair == pair)
    };
    let has_node =
        |node: NodeId| record.storage_reads().any(|read| read.step == number && read.node == node);
    let pairs = step.pairs.iter().filter(|pair| !has_pair(**pair));
    let nodes = step.nodes.iter().filter(|node| !has_node(**node));
    pairs
        .map(|pair| format!("{name} has no result of {}.", record.setup.pair_name(*pair)))
        .chain(
            nodes.map(|node| format!("{name} has no result of {}.", record.setup.node_name(*node))),
        )
        .collect()
}

fn untested(record: &RunRecord, series: &Series) -> Vec<String> {
    let subject = match (series.pair, series.node) {
        (Some(pair), _) => record.setup.pair_name(pair),
        (None, Some(node)) => record.setup.node_name(node).to_owned(),
        (None, None) => return Vec::new(),
    };
    series
        .points
        .iter()
        .filter(|point| point.measurement.is_none())
        .map(|point| {
            let why = point.remark.as_deref().unwrap_or("no result");
            format!("{} = {} on {subject}: {why}.", variable(series), point.label)
        })
        .collect()
}

/// A test that did not reach the MTU it asked for.
fn not_testable(record: &RunRecord, test: &Summary) -> Option<String> {
    let (why, mtu) = (test.not_testable.as_ref()?, test.request.mtu_bytes?);
    let pairs: Vec<String> =
        test.pairs.iter().map(|pair| record.setup.pair_name(pair.pair)).collect();
    let pairs = list(&pairs);
    Some(format!("mtu = {mtu} on {pairs} from {} ({}): {why}.", test.direction, test.id))
}

fn variable(series: &Series) -> &'static str {
    super::series::variable(series.variable)
}

/// How it was measured, where a reader might think otherwise.
pub fn remarks(record: &RunRecord) -> Vec<String> {
    let setup = &record.setup;
    let mut remarks = Vec::new();
    if setup.demo {
        remarks
            .push("Loopback: all nodes are this machine; no statement about a network.".to_owned());
    }
    remarks.extend(setup.remarks.iter().cloned());
    let first = setup.steps.first().map(|step| step.direction);
    if setup.steps.iter().any(|step| Some(step.direction) != first) {
        remarks.push(
            "Roles were swapped as a test direction only; no database switchover took place."
                .to_owned(),
        );
    }
    for (number, step) in setup.steps.iter().enumerate() {
        if let Some(scope) = scope(record, number) {
            remarks.push(format!("Step {} \"{}\" ran {scope}.", number + 1, step.name));
        }
    }
    remarks.extend(not_judged(setup));
    remarks.extend(record.nodes.iter().filter_map(|(node, state)| {
        let key = state.accepted_host_key.as_ref()?;
        Some(format!("The unknown host key of {} was accepted: {key}.", setup.node_name(*node)))
    }));
    remarks.extend(record.warnings.iter().map(|(node, text)| match node {
        Some(node) => format!("{}: {text}", setup.node_name(*node)),
        None => text.clone(),
    }));
    remarks
}

/// Threads with a need whose node `--limit` left out.
fn not_judged(setup: &Setup) -> Option<String> {
    let left_out = &setup.left_out;
    let stated =
        |thread: &u32| setup.need.as_ref().is_some_and(|need| need.threads.contains_key(thread));
    let threads: Vec<String> =
        left_out.threads.iter().copied().filter(stated).map(|t| t.to_string()).collect();
    let (noun, verb) = if threads.len() == 1 { ("thread", "is") } else { ("threads", "are") };
    (!threads.is_empty()).then(|| {
        format!(
            "The need of {noun} {} {verb} not judged: the run was limited to {}.",
            list(&threads),
            list(&left_out.limited_to)
        )
    })
}

/// `on pair phx1-ash1 only` or `on node ash1 only`, where a step does not cover all of them.
pub fn scope(record: &RunRecord, number: usize) -> Option<String> {
    let setup = &record.setup;
    let step = setup.steps.get(number)?;
    let some = |covered: usize, all: usize| covered > 0 && covered < all;
    // Crossed pairs belong to steps that are about all nodes.
    let own = setup.crossed_from.unwrap_or(setup.pairs.len());
    let crossed = step.pairs.iter().any(|pair| pair.0 >= own);
    let (noun, names): (&str, Vec<String>) = if !crossed && some(step.pairs.len(), own) {
        ("pair", step.pairs.iter().map(|pair| setup.pair_name(*pair)).collect())
    } else if some(step.nodes.len(), setup.nodes.len()) {
        ("node", step.nodes.iter().map(|node| setup.node_name(*node).to_owned()).collect())
    } else {
        return None;
    };
    let plural = if names.len() == 1 { "" } else { "s" };
    Some(format!("on {noun}{plural} {} only", list(&names)))
}

/// Failures of a measurement's pairs.
pub fn of_measurement(record: &RunRecord, measurement: &Measurement) -> Vec<String> {
    let named = |(pair, failure): (PairId, &Failure)| {
        format!("{}: {}", record.setup.pair_name(pair), text(record, failure))
    };
    match measurement {
        Measurement::Throughput(throughput) => {
            let pairs = throughput.pairs.iter();
            pairs.filter_map(|pair| Some(named((pair.pair, pair.failure.as_ref()?)))).collect()
        }
        Measurement::Path(path) => {
            let stream = path.stream.as_ref().and_then(|stream| stream.failure.as_ref());
            [path.failure.as_ref(), stream]
                .into_iter()
                .flatten()
                .map(|failure| named((path.pair, failure)))
                .collect()
        }
        Measurement::StorageRead(_) => Vec::new(),
    }
}
