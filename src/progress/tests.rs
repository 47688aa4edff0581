//! A run as its moments, shown as lines and on a terminal in memory.

use std::io::Write;
use std::sync::{Arc, Mutex};

use indicatif::{InMemoryTerm, ProgressDrawTarget};
use redoline_proto::handshake::ClockOffset;
use redoline_proto::transfer::{Payload, Sample, SocketRequest};
use redoline_proto::units::BytesPerSecond;

use super::Progress;
use crate::plan::need::Limits;
use crate::plan::node::{DeclaredNetwork, Direction, NodeId, PairId, Role};
use crate::plan::step::{Nodes, Until};
use crate::record::event::{Event, FORMAT, Moment, RunOutcome, StepFailure, StepOutcome};
use crate::record::measurement::{
    EndRecord, Failure, FailureCause, Measurement, MeasurementId, PairTransfer, Series, SeriesKind,
    StoppedBecause, Throughput, TransferRequest, Variable,
};
use crate::record::setup::{NodeSetup, PairSetup, Setup, StepSetup};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn setup() -> Setup {
    let node = |name: &str, role| NodeSetup {
        name: name.to_owned(),
        role,
        cluster: "c".to_owned(),
        thread: None,
        redo_address: "192.0.2.1".to_owned(),
        access: "local".to_owned(),
    };
    let step = |name: &str, action: &str, direction| StepSetup {
        name: name.to_owned(),
        action: action.to_owned(),
        direction,
        register: None,
        excluded: false,
        pairs: vec![],
        nodes: vec![],
    };
    let (out, back) = (Direction::PrimaryToStandby, Direction::StandbyToPrimary);
    Setup {
        runbook: "Assessment".to_owned(),
        runbook_sha256: String::new(),
        configuration: "orders".to_owned(),
        primary_cluster: "orders-phx".to_owned(),
        standby_cluster: "orders-ash".to_owned(),
        demo: false,
        network: DeclaredNetwork::default(),
        nodes: vec![
            node("phx1", Role::Primary),
            node("ash1", Role::Standby),
            node("ash2", Role::Standby),
        ],
        pairs: vec![
            PairSetup { primary: NodeId(0), standby: NodeId(1) },
            PairSetup { primary: NodeId(0), standby: NodeId(2) },
        ],
        crossed_from: None,
        left_out: crate::plan::clusters::LeftOut::default(),
        need: None,
        limits: Limits::default(),
        steps: vec![
            step("Topology", "topology", out),
            step("Streams", "throughput", out),
            step("Roles swapped", "swap_roles", back),
            step("Streams", "throughput", back),
            step("Enough", "assert", back),
        ],
        finally_from: 5,
        remarks: vec![],
    }
}

fn transfer(pair: usize, failure: Option<Failure>) -> PairTransfer {
    let sample = |from_ns, to_ns| Sample { from_ns, to_ns, stream_bytes: vec![1_250_000, 250_000] };
    let samples = if failure.is_some() {
        vec![]
    } else {
        vec![sample(0, 100_000_000), sample(100_000_000, 200_000_000)]
    };
    PairTransfer {
        pair: PairId(pair),
        sender: EndRecord::default(),
        receiver: EndRecord { samples, ..EndRecord::default() },
        failure,
    }
}

fn measured(pairs: Vec<PairTransfer>) -> Event {
    Event::Measured {
        measurement: Measurement::Throughput(Box::new(Throughput {
            id: MeasurementId(1),
            step: 1,
            direction: Direction::PrimaryToStandby,
            request: TransferRequest {
                nodes: Nodes::Together,
                num_conn: 4,
                duration_ms: 60_000,
                auto_target: None,
                mode: "async".to_owned(),
                acknowledge: None,
                delay_us: None,
                network_timeout_ms: None,
                encoding: None,
                compressible_share: None,
                both_directions: false,
                interface_mtu_bytes: None,
                interval_ms: 100,
                message_bytes: 1 << 20,
                payload: Payload::Random,
                socket_buffer: "4 MiB".to_owned(),
                mtu_bytes: Some(1500),
                socket: SocketRequest::default(),
                rate_limit: None,
            },
            pairs,
        })),
    }
}

fn failure(text: &str) -> Failure {
    Failure {
        node: Some(NodeId(2)),
        phase: "data connection".to_owned(),
        text: text.to_owned(),
        cause: FailureCause::Unreachable,
    }
}

fn live(pair: usize) -> Event {
    Event::Live {
        step: 1,
        pair: Some(PairId(pair)),
        node: None,
        direction: Some(Direction::PrimaryToStandby),
        rate: BytesPerSecond(15_000_000.0),
    }
}

fn test_started() -> Event {
    Event::TestStarted {
        step: 1,
        text: "num_conn 4".to_owned(),
        pairs: vec![PairId(0), PairId(1)],
        node: None,
        expected_ms: 60_000,
    }
}

fn run_started() -> Event {
    Event::RunStarted {
        format: FORMAT,
        run_id: "r1".to_owned(),
        version: "0.1.0".to_owned(),
        commit: "abc".to_owned(),
        setup: Box::new(setup()),
    }
}

/// A whole run with everything that can happen to it, an event each second.
fn moments() -> Vec<Moment> {
    let clock = ClockOffset { offset_ns: 0, error_ns: 0, unix_offset_ns: 0 };
    let ready = |node, key: Option<&str>| Event::NodeReady {
        node: NodeId(node),
        clock,
        agent: "/tmp/agent".to_owned(),
        accepted_host_key: key.map(str::to_owned),
    };
    let refused = "port 5555 is closed; open it in firewalld, or set data_port";
    let mut events = vec![
        run_started(),
        ready(0, None),
        ready(1, Some("SHA256:abc")),
        Event::NodeLost { node: NodeId(2), failure: failure("connection \u{1b}[31mrefused\n") },
        Event::StepStarted { step: 0 },
        Event::StepFinished { step: 0, outcome: StepOutcome::Passed },
        Event::StepStarted { step: 1 },
        test_started(),
    ];
    events.extend((0..64).map(|second| live(second % 2)));
    events.extend([
        measured(vec![transfer(0, None), transfer(1, Some(failure(refused)))]),
        Event::SeriesFinished {
            series: Series {
                id: 1,
                step: 1,
                kind: SeriesKind::Ladder,
                variable: Variable::NumConn,
                direction: Some(Direction::PrimaryToStandby),
                pair: Some(PairId(0)),
                node: None,
                points: vec![],
                tolerance: Some(0.03),
                until: Until::Plateau,
                stopped_because: StoppedBecause::Plateau,
            },
        },
        Event::StepFinished {
            step: 1,
            outcome: StepOutcome::Failed {
                failures: vec![StepFailure { pair: Some(PairId(1)), failure: failure(refused) }],
            },
        },
        Event::StepStarted { step: 2 },
        Event::StepFinished { step: 2, outcome: StepOutcome::Passed },
        Event::StepFinished {
            step: 3,
            outcome: StepOutcome::Skipped { reason: "`when` is false".to_owned() },
        },
        Event::StepStarted { step: 4 },
        Event::StepFinished {
            step: 4,
            outcome: StepOutcome::AssertionFailed { texts: vec!["phx1-ash1: rate > 1".to_owned()] },
        },
        Event::Warning { node: None, text: "the load was high".to_owned() },
        Event::NodeReleased { node: NodeId(0), left_behind: None },
        Event::NodeReleased { node: NodeId(1), left_behind: Some("/tmp/agent".to_owned()) },
        Event::RunFinished { outcome: RunOutcome::Completed },
    ]);
    let first_ms = 1_796_063_405_000;
    events
        .into_iter()
        .zip((first_ms..).step_by(1000))
        .map(|(event, unix_ms)| Moment { unix_ms, event })
        .collect()
}

#[test]
fn a_log_has_a_line_for_each_step_and_result() {
    let log = Log::default();
    let mut progress = Progress::lines(log.clone());
    for moment in moments() {
        progress.show(&moment).unwrap();
    }
    insta::assert_snapshot!(log.text());
}

#[test]
fn no_text_of_a_node_steers_the_terminal() {
    let log = Log::default();
    let mut progress = Progress::lines(log.clone());
    for moment in moments() {
        progress.show(&moment).unwrap();
    }
    assert!(log.text().contains("[31mrefused"), "the text is shown");
    assert!(!log.text().chars().any(|c| c.is_control() && c != '\n'));
}

#[test]
fn a_terminal_shows_the_test_that_runs_and_then_none() {
    let term = InMemoryTerm::new(100, 100);
    let mut progress =
        Progress::bars(ProgressDrawTarget::term_like_with_hz(Box::new(term.clone()), 255));
    let moments = moments();
    let until_live =
        moments.iter().position(|m| matches!(m.event, Event::Measured { .. })).unwrap();
    for moment in &moments[..until_live] {
        progress.show(moment).unwrap();
    }
    let contents = term.contents();
    let bar = contents.lines().last().unwrap_or_default();
    assert!(bar.starts_with("[2/5] ="), "{contents}");
    assert!(bar.contains("240 Mbit/s together"), "{contents}");
    for moment in &moments[until_live..] {
        progress.show(moment).unwrap();
    }
    assert!(!term.contents().contains("together"), "{}", term.contents());
    assert!(term.contents().contains("run completed"), "{}", term.contents());
}

#[test]
fn a_stream_that_does_not_begin_at_its_beginning_is_no_reason_to_stop() {
    let log = Log::default();
    let mut progress = Progress::lines(log.clone());
    for moment in moments().iter().skip(1) {
        progress.show(moment).unwrap();
    }
    assert_eq!(log.text(), "");
}
