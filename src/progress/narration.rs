//! From moments to lines: what happened, with what failed and the way out.

use redoline_proto::units::BytesPerSecond;

use super::measured::measured;
use super::test::RunningTest as Test;
use crate::plan::node::{NodeId, PairId};
use crate::record::event::{Event, Moment, RunOutcome, StepFailure, StepOutcome};
use crate::record::measurement::{Failure, Series, SeriesKind, StoppedBecause, Variable};
use crate::record::setup::Setup;

pub(super) use super::test::RunningTest;

/// A log gets a rate at most this often; on a terminal the bar shows it.
const LIVE_LINE_MS: i64 = 30_000;

/// Whether a rate that runs is worth a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LiveLines {
    /// Now and then: a log has nothing else to show that a long test goes on.
    Some,
    /// A bar shows it.
    None,
}

/// Remembers what is needed to name things.
#[derive(Debug)]
pub(super) struct Narrator {
    live_lines: LiveLines,
    setup: Option<Setup>,
    step_started_ms: Option<i64>,
    test: Option<Test>,
    last_live_line_ms: i64,
}

impl Narrator {
    pub(super) fn new(live_lines: LiveLines) -> Self {
        let (setup, step_started_ms, test) = (None, None, None);
        Self { live_lines, setup, step_started_ms, test, last_live_line_ms: 0 }
    }

    /// The test that runs, for a bar.
    pub(super) fn test(&self) -> Option<&Test> {
        self.test.as_ref()
    }

    /// The lines that a moment is worth, each with its time of day in UTC.
    pub(super) fn tell(&mut self, moment: &Moment) -> Vec<String> {
        let at = time_of_day(moment.unix_ms);
        self.lines(moment)
            .into_iter()
            .map(|line| format!("{at} {}", printable(&line).trim_end()))
            .collect()
    }

    fn lines(&mut self, moment: &Moment) -> Vec<String> {
        if let Event::RunStarted { run_id, setup, .. } = &moment.event {
            self.setup = Some((**setup).clone());
            return vec![run_started(run_id, setup)];
        }
        let Some(setup) = self.setup.clone() else {
            return Vec::new();
        };
        match &moment.event {
            Event::RunStarted { .. } | Event::NodeFacts { .. } => Vec::new(),
            Event::NodeReady { node, accepted_host_key, .. } => {
                vec![node_ready(&setup, *node, accepted_host_key.as_deref())]
            }
            Event::NodeLost { node, failure } => {
                let name = node_name(&setup, *node);
                vec![format!("{name} lost: {}: {}", failure.phase, failure.text)]
            }
            Event::StepStarted { step } => {
                self.step_started_ms = Some(moment.unix_ms);
                self.test = None;
                vec![step_started(&setup, *step)]
            }
            Event::StepFinished { step, outcome } => {
                self.test = None;
                let took = self.step_started_ms.take().map(|start| moment.unix_ms - start);
                step_finished(&setup, *step, outcome, took)
            }
            Event::TestStarted { step, text, pairs, node, expected_ms } => {
                let places = places(&setup, pairs, *node);
                let place = step_place(&setup, *step);
                self.test = Some(Test::new(place, text, places, *expected_ms, moment.unix_ms));
                self.last_live_line_ms = moment.unix_ms;
                Vec::new()
            }
            Event::Looked { half_width_share, .. } => {
                if let Some(test) = &mut self.test {
                    test.looked(*half_width_share);
                }
                Vec::new()
            }
            Event::Live { pair, node, rate, .. } => self.live(moment.unix_ms, *pair, *node, *rate),
            Event::Measured { measurement } => {
                self.test = None;
                vec![format!("  {}", measured(&setup, measurement))]
            }
            Event::SeriesFinished { series } => {
                vec![format!("  {}", series_finished(&setup, series))]
            }
            Event::Warning { node, text } => vec![warning(&setup, *node, text)],
            Event::NodeReleased { node, left_behind } => left_behind
                .iter()
                .map(|left| warning(&setup, Some(*node), &format!("left behind: {left}")))
                .collect(),
            Event::RunFinished { outcome } => {
                self.test = None;
                vec![run_finished(*outcome).to_owned()]
            }
        }
    }

    fn live(
        &mut self,
        unix_ms: i64,
        pair: Option<PairId>,
        node: Option<NodeId>,
        rate: BytesPerSecond,
    ) -> Vec<String> {
        let Some(test) = &mut self.test else {
            return Vec::new();
        };
        test.live(unix_ms, (pair, node), rate);
        let soon = unix_ms - self.last_live_line_ms < LIVE_LINE_MS;
        if soon || self.live_lines == LiveLines::None {
            return Vec::new();
        }
        self.last_live_line_ms = unix_ms;
        vec![format!("  {}", test.text())]
    }
}

fn run_started(run_id: &str, setup: &Setup) -> String {
    format!(
        "run {run_id}: {}, {} and {}, {} nodes, {} steps (times are UTC)",
        setup.runbook,
        setup.primary_cluster,
        setup.standby_cluster,
        setup.nodes.len(),
        setup.steps.iter().filter(|step| !step.excluded).count()
    )
}

fn node_ready(setup: &Setup, node: NodeId, accepted_host_key: Option<&str>) -> String {
    let name = node_name(setup, node);
    match accepted_host_key {
        None => format!("{name} ready"),
        Some(key) => format!("{name} ready; its unknown host key was accepted: {key}"),
    }
}

fn step_started(setup: &Setup, step: usize) -> String {
    let place = step_place(setup, step);
    let Some(known) = setup.steps.get(step) else {
        return place;
    };
    match known.action.as_str() {
        "swap_roles" => {
            format!("{place} {}: test direction only; no database switchover", known.name)
        }
        "topology" | "storage_read" | "assert" => format!("{place} {}", known.name),
        _ => format!("{place} {}, {}", known.name, known.direction),
    }
}

fn step_finished(
    setup: &Setup,
    step: usize,
    outcome: &StepOutcome,
    took_ms: Option<i64>,
) -> Vec<String> {
    let place = step_place(setup, step);
    let took = took_ms.map(|ms| format!(" in {}", super::test::seconds(ms))).unwrap_or_default();
    match outcome {
        StepOutcome::Passed => vec![format!("{place} passed{took}")],
        StepOutcome::Skipped { reason } => vec![format!("{place} skipped: {reason}")],
        StepOutcome::Failed { failures } => {
            let mut lines = vec![format!("{place} failed{took}")];
            lines.extend(failures.iter().map(|failure| step_failure(setup, failure)));
            lines
        }
        StepOutcome::AssertionFailed { texts } => {
            let mut lines = vec![format!("{place} assertion failed{took}")];
            lines.extend(texts.iter().map(|text| format!("    {text}")));
            lines
        }
    }
}

fn step_failure(setup: &Setup, failure: &StepFailure) -> String {
    let text = failure_text(setup, &failure.failure);
    match failure.pair {
        None => format!("    {text}"),
        Some(pair) => format!("    {}: {text}", pair_name(setup, pair)),
    }
}

/// Node, phase and text; the text names the way out.
fn failure_text(setup: &Setup, failure: &Failure) -> String {
    match failure.node {
        None => format!("{}: {}", failure.phase, failure.text),
        Some(node) => format!("{}, {}: {}", node_name(setup, node), failure.phase, failure.text),
    }
}

fn series_finished(setup: &Setup, series: &Series) -> String {
    let place = match (series.pair, series.node) {
        (Some(pair), _) => pair_name(setup, pair),
        (None, Some(node)) => node_name(setup, node),
        (None, None) => String::new(),
    };
    let kind = match series.kind {
        SeriesKind::Ladder => "ladder",
        SeriesKind::Sweep => "sweep",
    };
    let variable = match series.variable {
        Variable::NumConn => "num_conn",
        Variable::SocketBuffer => "socket buffer",
        Variable::Mtu => "MTU",
        Variable::InterfaceMtu => "interface MTU",
        Variable::MessageLength => "message length",
        Variable::Encryption => "encryption",
        Variable::Compression => "compression",
        Variable::Time => "time",
        Variable::Slots => "slots",
        Variable::Sessions => "sessions",
    };
    let why = match series.stopped_because {
        StoppedBecause::Plateau => "the rate rises no more",
        StoppedBecause::Knee => "the rate rises no more, contenders measured again",
        StoppedBecause::Maximum => "the highest level is reached, still rising",
        StoppedBecause::AllValues => "every value was tried",
        StoppedBecause::Failure => "a level could not be measured",
        StoppedBecause::Interrupted => "interrupted",
    };
    format!("s{} {kind} of {variable} on {place}: {why}", series.id)
}

fn warning(setup: &Setup, node: Option<NodeId>, text: &str) -> String {
    match node {
        None => format!("warning: {text}"),
        Some(node) => format!("warning: {}: {text}", node_name(setup, node)),
    }
}

fn run_finished(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Completed => "run completed",
        RunOutcome::Interrupted => "run interrupted",
        RunOutcome::Stopped => "run stopped",
    }
}

fn places(setup: &Setup, pairs: &[PairId], node: Option<NodeId>) -> Vec<String> {
    let nodes = node.into_iter().map(|node| node_name(setup, node));
    pairs.iter().map(|pair| pair_name(setup, *pair)).chain(nodes).collect()
}

/// `[3/11]`.
fn step_place(setup: &Setup, step: usize) -> String {
    format!("[{}/{}]", step + 1, setup.steps.len())
}

/// Damaged files may name nodes that are not there.
pub(super) fn node_name(setup: &Setup, node: NodeId) -> String {
    setup.nodes.get(node.0).map_or_else(|| "?".to_owned(), |node| node.name.clone())
}

pub(super) fn pair_name(setup: &Setup, pair: PairId) -> String {
    match setup.pairs.get(pair.0) {
        None => "?".to_owned(),
        Some(_) => setup.pair_name(pair),
    }
}

/// `18:30:05`, UTC.
fn time_of_day(unix_ms: i64) -> String {
    let seconds = unix_ms.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Nodes and runbooks supply texts; none of them steers the terminal.
pub(super) fn printable(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}
