//! The executor against agents on this machine, each test with loopback addresses of its own.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redoline::agents::deploy::AgentOptions;
use redoline::agents::executable::{Executable, Executables, Role};
use redoline::agents::session::Greeting;
use redoline::execute::events::{EventSender, QUEUE};
use redoline::execute::{Surroundings, execute};
use redoline::plan::expression::Expression;
use redoline::plan::need::TimeWindow;
use redoline::plan::node::{Direction, NodeId, PairId};
use redoline::plan::step::{
    Action, AssertSpec, Frequency, LadderSpec, Mode, NumConn, PathSpec, Step, StorageReadSpec,
    TestTime, ThroughputSpec, Until,
};
use redoline::plan::{Options, Plan, from_texts};
use redoline::record::event::{DATA_PORT_REFUSED, Event, FORMAT, Moment, StepOutcome};
use redoline::record::measurement::{StoppedBecause, Throughput, Variable};
use redoline::record::run::RunRecord;
use redoline::record::setup::Setup;
use redoline::runbook::source::Source;
use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::transfer::RedoWrite;
use redoline_proto::units::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const RUNBOOK: &str = "
name: Executor
limits: { rate: 80 Mbit/s }
steps:
  - { name: One, throughput: { num_conn: 1, duration: 500 ms, pairs: first }, register: one }
";

/// Of this process and test alone: an agent holds its node's redo address.
fn addresses() -> String {
    static TESTS: AtomicU32 = AtomicU32::new(1);
    let process = std::process::id();
    let test = TESTS.fetch_add(1, Ordering::Relaxed);
    format!("127.{}.{}", 1 + process / 25 % 250, 10 * (process % 25) + test)
}

/// A plan of one step on one pair; `change` makes the step what is to be tested.
fn plan(standby: &str, change: impl FnOnce(&mut ThroughputSpec)) -> Plan {
    let own = addresses();
    let standby = standby.replace("OWN", &own);
    let inventory = format!(
        "name: here
defaults: {{ ssh: {{ via: local }}, data_port: \"15551-15560\" }}
primary:
  cluster: left
  nodes: [ {{ name: left1, thread: 1, redo: {own}.11 }} ]
standby:
  cluster: right
  nodes: [ {{ name: right1, redo: {standby} }} ]
"
    );
    let inventory = Source::new("inventory", &inventory);
    let runbook = Source::new("runbook", RUNBOOK);
    let mut plan = from_texts(runbook, Some(inventory), &Options::default()).unwrap();
    let step = &mut plan.steps[0];
    step.timeout = Duration::from_secs(60);
    let Action::Throughput(spec) = &mut step.action else { panic!("{:?}", step.action) };
    change(spec);
    plan
}

/// Two nodes on either side.
fn plan_of_four(steps: &str) -> Plan {
    let own = addresses();
    let inventory = format!(
        "name: here
defaults: {{ ssh: {{ via: local }}, data_port: \"15551-15560\" }}
primary:
  cluster: left
  nodes:
    - {{ name: left1, thread: 1, redo: {own}.11 }}
    - {{ name: left2, thread: 2, redo: {own}.12 }}
standby:
  cluster: right
  nodes:
    - {{ name: right1, redo: {own}.21 }}
    - {{ name: right2, redo: {own}.22 }}
"
    );
    let runbook = format!("name: Executor\nlimits: {{ rate: 80 Mbit/s }}\nsteps:\n{steps}");
    let sources = (Source::new("runbook", &runbook), Source::new("inventory", &inventory));
    from_texts(sources.0, Some(sources.1), &Options::default()).unwrap()
}

fn run(plan: &Plan) -> RunRecord {
    run_with(plan, || 0, |_| false)
}

/// `minute_of_day`: the controller's clock. The run is cancelled at the first event that is `enough`.
fn run_with(plan: &Plan, minute_of_day: fn() -> u16, enough: fn(&Event) -> bool) -> RunRecord {
    let path = Path::new(env!("CARGO_BIN_EXE_redoline"));
    let itself = Executable::read(path, Role::Controller).unwrap();
    let surroundings = Surroundings {
        executables: Executables::new(vec![itself]),
        agent: AgentOptions::default(),
        greeting: Greeting {
            run_id: "r1".to_owned(),
            owner: "test".to_owned(),
            version: "0",
            commit: "0",
        },
        cancel: CancellationToken::new(),
        minute_of_day,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (queue, mut events) = mpsc::channel(QUEUE);
        let cancel = surroundings.cancel.clone();
        let reading = tokio::spawn(async move {
            let mut moments = Vec::new();
            while let Some(event) = events.recv().await {
                if enough(&event) {
                    cancel.cancel();
                }
                moments.push(Moment { unix_ms: 0, event });
            }
            moments
        });
        let events = EventSender::new(queue);
        let started = Event::RunStarted {
            format: FORMAT,
            run_id: "r1".to_owned(),
            version: String::new(),
            commit: String::new(),
            setup: Box::new(Setup::of(plan)),
        };
        events.send(started).await;
        execute(plan, &surroundings, events).await;
        let record = RunRecord::fold(&reading.await.unwrap()).unwrap();
        for node in record.nodes.values() {
            assert_eq!(node.left_behind, None);
        }
        record
    })
}

fn passed(record: &RunRecord) {
    assert_eq!(record.steps[0].outcome, Some(StepOutcome::Passed));
    assert_eq!(record.warnings, []);
}

/// When the receiver of the first pair got its first and its last bytes.
fn span_ns(test: &Throughput) -> (i64, i64) {
    let samples = &test.pairs[0].receiver.samples;
    (samples[0].from_ns, samples[samples.len() - 1].to_ns)
}

#[test]
fn an_auto_test_ends_when_its_rate_is_known() {
    let plan = plan("OWN.21", |spec| {
        spec.time = TestTime::Auto { target: 0.1, max: Duration::from_secs(30) };
    });
    let record = run(&plan);
    passed(&record);
    let test = record.throughputs().next().unwrap();
    assert_eq!(test.request.auto_target, Some(0.1));
    assert_eq!(test.request.duration_ms, 30_000);
    let (from, to) = span_ns(test);
    assert!(to - from < 25_000_000_000, "it took {} s", (to - from) as f64 / 1e9);
    assert!(test.pairs[0].sender.end.as_ref().unwrap().stopped.is_none());
}

#[test]
fn both_directions_are_two_measurements_from_one_barrier() {
    let record = run(&plan("OWN.21", |spec| {
        spec.both_directions = true;
        spec.time = TestTime::Fixed(Duration::from_secs(2));
    }));
    passed(&record);
    let tests: Vec<_> = record.throughputs().collect();
    let directions: Vec<_> = tests.iter().map(|test| test.direction).collect();
    assert_eq!(directions, [Direction::PrimaryToStandby, Direction::StandbyToPrimary]);
    assert!(tests.iter().all(|test| test.request.both_directions));
    // One clock, since both nodes are this machine.
    let ((a, b), (c, d)) = (span_ns(tests[0]), span_ns(tests[1]));
    assert!(a.max(c) < b.min(d), "{a} to {b}, {c} to {d}");
    // The limit of each node is shared.
    let share = tests[0].request.rate_limit.unwrap().0;
    assert!((share - 5e6).abs() < 1.0, "{share}");
}

#[test]
fn a_knee_measures_its_contenders_again_and_keeps_the_order() {
    let ladder = LadderSpec { until: Until::Knee, from: 1, step: 1, max: 8, tolerance: 0.2 };
    let record = run(&plan("OWN.21", |spec| spec.num_conn = NumConn::Ladder(ladder)));
    passed(&record);
    let series = &record.series[0];
    assert_eq!(series.stopped_because, StoppedBecause::Knee);
    let levels: Vec<&str> = series.points.iter().map(|point| point.label.as_str()).collect();
    assert_eq!(levels[..4], ["1", "2", "3", "4"], "the limit holds each level to the same");
    let [a, b, c, d] = levels[4..] else { panic!("{levels:?}") };
    assert_eq!((a, b), (d, c), "{levels:?}");
    let ids: Vec<_> = series.points.iter().map(|point| point.measurement.unwrap().0).collect();
    assert_eq!(ids, (1..=8).collect::<Vec<_>>());
}

#[test]
fn a_test_is_repeated_at_its_times() {
    let frequency = Frequency { every: Duration::from_secs(1), during: Duration::from_secs(3) };
    let record = run(&plan("OWN.21", |spec| spec.frequency = Some(frequency)));
    passed(&record);
    let series = &record.series[0];
    assert_eq!(
        (series.variable, series.stopped_because),
        (Variable::Time, StoppedBecause::AllValues)
    );
    let begins: Vec<i64> = record.throughputs().map(|test| span_ns(test).0).collect();
    assert!((1..=3).contains(&begins.len()), "{begins:?}");
    assert_eq!(series.points.len(), begins.len());
    assert!(begins.windows(2).all(|two| two[1] - two[0] > 500_000_000), "{begins:?}");
}

#[test]
fn all_senders_reach_one_receiver_with_what_was_found_on_their_own_pairs() {
    let plan = plan_of_four(
        "  - { name: Up, register: up, throughput: { num_conn: { until: plateau, from: 1, step: 1, max: 4 }, duration: 500 ms } }
  - { name: In, throughput: { nodes: all_to_one, num_conn: \"{{ up.recommended_num_conn }}\", duration: 500 ms } }
  - { name: Enough, assert: { that: up.recommended_num_conn > 0 } }
",
    );
    let record = run(&plan);
    let outcomes: Vec<_> = record.steps.iter().map(|step| step.outcome.clone().unwrap()).collect();
    assert_eq!(outcomes, [StepOutcome::Passed, StepOutcome::Passed, StepOutcome::Passed]);
    let test = record.throughputs().last().unwrap();
    let ends: Vec<_> = test.pairs.iter().map(|pair| plan.pair_name(pair.pair)).collect();
    assert_eq!(ends, ["left1-right1", "left2-right1"]);
    let share = test.request.rate_limit.unwrap().0;
    assert!((share - 5e6).abs() < 1.0, "the receiver's limit is shared: {share}");
}

#[test]
fn a_path_is_kept_with_its_stream() {
    let mut plan = plan("OWN.21", |_| ());
    let Action::Throughput(spec) = &plan.steps[0].action else { panic!() };
    plan.steps[0].action = Action::Path(PathSpec {
        pairs: spec.pairs.clone(),
        probes: 20,
        spacing: Duration::from_millis(5),
        packet_sizes: Vec::new(),
        load: Duration::from_secs(1),
        deadline: Duration::from_secs(10),
    });
    let record = run(&plan);
    passed(&record);
    let path = record.paths().next().unwrap();
    assert!(path.probe.is_some(), "{:?}", path.failure);
    let stream = path.stream.as_ref().unwrap();
    assert_eq!(stream.failure, None);
    assert!(!stream.receiver.samples.is_empty());
}

#[test]
fn a_sync_test_registers_how_long_its_messages_waited() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().to_str().unwrap().to_owned();
    let mut plan = plan("OWN.21", |spec| {
        spec.mode = Mode::Sync(RedoWrite { dir, file_bytes: 8 << 20 });
        spec.message = Bytes(8192);
    });
    let that = ["one.latency_p50_us > 1", "one.latency_p99_us >= one.latency_p50_us"];
    let that = that.into_iter().chain(["one.messages_per_second > 1"]);
    let that = that.map(|text| Expression::parse(text).unwrap()).collect();
    let assert = Action::Assert(AssertSpec { that, message: None, pairs: vec![PairId(0)] });
    plan.steps.push(Step { action: assert, register: None, ..plan.steps[0].clone() });
    let record = run(&plan);
    passed(&record);
    assert_eq!(record.steps[1].outcome, Some(StepOutcome::Passed));
    let test = record.throughputs().next().unwrap();
    assert_eq!(test.request.mode, "sync");
    assert_eq!(test.request.acknowledge.as_ref().unwrap().message_bytes, 8192);
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_port_that_is_refused_although_the_receiver_listens_is_told_apart() {
    let standby = "{ address: OWN.99, bind: OWN.21, seen_as: OWN.21 }";
    let record = run(&plan(standby, |_| ()));
    let Some(StepOutcome::Failed { failures }) = &record.steps[0].outcome else {
        panic!("{:?}", record.steps[0].outcome)
    };
    let failure = &failures[0].failure;
    assert_eq!(failure.phase, DATA_PORT_REFUSED);
    for part in ["connection refused", "right1", "TCP ports 15551 to 15560"] {
        assert!(failure.text.contains(part), "{}", failure.text);
    }
}

#[test]
fn a_step_that_is_cut_short_leaves_the_other_steps_their_bytes() {
    let mut plan = plan("OWN.21", |_| ());
    plan.limits.bytes = Some(Bytes(500 * Bytes::GIB));
    let short = plan.steps[0].clone();
    let step = &mut plan.steps[0];
    step.timeout = Duration::from_secs(2);
    let Action::Throughput(spec) = &mut step.action else { panic!() };
    spec.time = TestTime::Fixed(Duration::from_secs(60));
    plan.steps.push(short);
    let record = run(&plan);
    assert!(matches!(record.steps[0].outcome, Some(StepOutcome::Failed { .. })));
    assert_eq!(record.steps[1].outcome, Some(StepOutcome::Passed));
}

#[test]
fn a_repetition_outside_the_window_is_left_out_and_the_next_is_tried() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let minute_of_day = || match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 => 12 * 60,
        _ => 0,
    };
    let frequency = Frequency { every: Duration::from_secs(1), during: Duration::from_secs(10) };
    let mut plan = plan("OWN.21", |spec| spec.frequency = Some(frequency));
    plan.limits.window = Some(TimeWindow { from_minute: 22 * 60, to_minute: 5 * 60 });
    let record = run_with(&plan, minute_of_day, |event| matches!(event, Event::Measured { .. }));
    let series = &record.series[0];
    assert_eq!(series.points[0].measurement, None);
    let why = series.points[0].remark.as_deref();
    assert_eq!(why, Some("it is outside the runbook's window for tests"));
    assert_eq!(record.throughputs().count(), 1);
}

#[test]
fn the_points_of_a_storage_step_that_is_cut_short_are_kept_as_its_series() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = scratch.path().to_str().unwrap().to_owned();
    let mut plan = plan("OWN.21", |_| ());
    plan.steps[0].action = Action::StorageRead(StorageReadSpec {
        nodes: vec![NodeId(0)],
        target: StorageTarget::Scratch { dir, size: Bytes(8 * Bytes::MIB) },
        patterns: vec![StoragePattern::SingleBlock],
        block: Bytes(8192),
        request: Bytes(1 << 20),
        sessions: vec![1, 2, 3, 4, 5, 6, 7, 8],
        slots: Vec::new(),
        duration: Duration::from_millis(500),
    });
    let record = run_with(&plan, || 0, |event| matches!(event, Event::Measured { .. }));
    assert!(matches!(record.steps[0].outcome, Some(StepOutcome::Failed { .. })));
    let series = &record.series[0];
    assert_eq!(
        (series.variable, series.stopped_because),
        (Variable::Sessions, StoppedBecause::Interrupted)
    );
    assert_eq!(series.node, Some(NodeId(0)));
    assert_eq!(series.points[0].measurement.map(|id| id.0), Some(1));
}
