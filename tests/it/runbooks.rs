//! Every file in `runbooks/` makes a plan; every file in `tests/data/bad-*` has its messages.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use redoline::plan::node::Direction;
use redoline::plan::step::{Action, NumConn};
use redoline::plan::{Options, Plan, cost, from_texts, show};
use redoline::runbook::source::Source;
use redoline::runbook::{self, Problem, render_problems};

const EXAMPLE_INVENTORY: &str = "runbooks/inventory.example.yaml";

fn options() -> Options {
    Options {
        home: Some(PathBuf::from("/home/dba")),
        user: Some("dba".to_owned()),
        ..Options::default()
    }
}

fn source(path: &Path) -> Source {
    let name = path.file_name().unwrap().to_string_lossy();
    Source::new(&name, &fs::read_to_string(path).unwrap())
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn plan_of(
    runbook: &str,
    inventory: Option<&str>,
    options: &Options,
) -> Result<Plan, Vec<Problem>> {
    let inventory = inventory.map(|path| source(Path::new(path)));
    from_texts(source(Path::new(runbook)), inventory, options)
}

fn plan_of_text(text: &str, options: &Options) -> Result<Plan, Vec<Problem>> {
    from_texts(Source::new("runbook.yaml", text), None, options)
}

#[track_caller]
fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_bad_runbook_has_its_messages() {
    let files = files("tests/data/bad-runbooks");
    assert!(files.len() >= 20, "{}", files.len());
    for file in files {
        let problems = from_texts(source(&file), None, &options()).unwrap_err();
        assert!(!problems.is_empty(), "{file:?}");
        insta::assert_snapshot!(format!("bad-runbook {}", stem(&file)), render_problems(&problems));
    }
}

#[test]
fn every_bad_inventory_has_its_messages() {
    let runbook = || Source::new("r.yaml", "name: R\nsteps: [{ name: T, topology: {} }]\n");
    for file in files("tests/data/bad-inventories") {
        let problems = from_texts(runbook(), Some(source(&file)), &options()).unwrap_err();
        let text = render_problems(&problems);
        assert!(!text.contains("s3cr3t"), "{text}");
        insta::assert_snapshot!(format!("bad-inventory {}", stem(&file)), text);
    }
}

#[test]
fn every_shipped_runbook_makes_the_plan_it_describes() {
    for (runbook, inventory) in [
        ("demo", None),
        ("pre-migration", Some(EXAMPLE_INVENTORY)),
        ("health-check", Some(EXAMPLE_INVENTORY)),
        ("literal", Some(EXAMPLE_INVENTORY)),
        ("sync", Some(EXAMPLE_INVENTORY)),
        ("jumbo", Some(EXAMPLE_INVENTORY)),
        ("encryption", Some(EXAMPLE_INVENTORY)),
        ("hourly", Some(EXAMPLE_INVENTORY)),
    ] {
        let plan = plan_of(&format!("runbooks/{runbook}.yaml"), inventory, &options());
        let plan = plan.unwrap_or_else(|problems| panic!("{}", render_problems(&problems)));
        insta::assert_snapshot!(format!("plan {runbook}"), show(&plan, &cost(&plan)));
    }
}

#[test]
fn every_shipped_runbook_passes_check_with_the_example_and_with_the_demo_inventory() {
    let files = files("runbooks");
    assert!(files.len() >= 9, "{files:?}");
    for file in files.iter().filter(|file| !file.ends_with("inventory.example.yaml")) {
        for inventory in [None, Some(source(Path::new(EXAMPLE_INVENTORY)))] {
            let plan = from_texts(source(file), inventory, &options());
            assert!(plan.is_ok(), "{file:?}: {}", render_problems(&plan.unwrap_err()));
        }
    }
}

#[test]
fn the_files_of_the_lab_make_plans() {
    for file in files("tests/data/runbooks") {
        let plan = from_texts(source(&file), None, &options());
        assert!(plan.is_ok(), "{file:?}: {}", render_problems(&plan.unwrap_err()));
    }
}

#[test]
fn the_demo_takes_about_a_minute() {
    let plan = plan_of("runbooks/demo.yaml", None, &options()).unwrap();
    let time = cost(&plan).time;
    assert!(time.min.as_secs() <= 40 && time.max.as_secs() <= 110, "{time:?}");
}

/// Time and bytes of the steps that use the network: if all end as early as they can, and at most.
fn network_cost(runbook: &str, inventory: &str) -> [(f64, f64); 2] {
    let inventory = Source::new("i.yaml", inventory);
    let plan = from_texts(source(Path::new(runbook)), Some(inventory), &options()).unwrap();
    let cost = cost(&plan);
    let steps = plan.steps.iter().zip(&cost.steps);
    let of_network = steps.filter(|(step, _)| step.action.is_about_pairs());
    of_network.fold([(0.0, 0.0); 2], |[least, most], (_, cost)| {
        let bytes = |bytes: Option<redoline_proto::units::Bytes>| bytes.unwrap().0 as f64;
        [
            (least.0 + cost.time.min.as_secs_f64(), least.1 + bytes(cost.bytes_least)),
            (most.0 + cost.time.max.as_secs_f64(), most.1 + bytes(cost.bytes)),
        ]
    })
}

#[test]
fn the_assessment_costs_a_fifth_of_the_bytes_and_a_quarter_of_the_time_of_the_documented_procedure()
{
    // A link that is less than what two nodes may send: both share it, as across a WAN.
    let shared = fs::read_to_string(EXAMPLE_INVENTORY).unwrap().replace("10 Gbit/s", "1 Gbit/s");
    let literal = network_cost("runbooks/literal.yaml", &shared);
    let assessment = network_cost("runbooks/pre-migration.yaml", &shared);
    for (literal, assessment) in literal.iter().zip(assessment) {
        let (time, bytes) = (assessment.0 / literal.0, assessment.1 / literal.1);
        assert!(time <= 0.25 && bytes <= 0.2, "time {time}, bytes {bytes}");
    }
}

/// Values as a YAML language server would see them.
fn json(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path).unwrap();
    let mut value: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    value.apply_merge().unwrap();
    serde_json::to_value(value).unwrap()
}

#[test]
fn the_schemas_take_the_shipped_files() {
    for file in files("runbooks").into_iter().chain(files("tests/data/runbooks")) {
        let schema = match file.ends_with("inventory.example.yaml") {
            true => runbook::schema_inventory(),
            false => runbook::schema_runbook(),
        };
        let validator = jsonschema::draft7::new(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&json(&file))
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{file:?}: {errors:#?}");
    }
}

#[test]
fn the_schemas_refuse_what_the_reader_refuses() {
    let runbook = jsonschema::draft7::new(&runbook::schema_runbook()).unwrap();
    for name in
        ["unknown-keys", "no-unit", "missing-keys", "actions", "later-version", "many", "words"]
    {
        let file = format!("tests/data/bad-runbooks/{name}.yaml");
        assert!(!runbook.is_valid(&json(Path::new(&file))), "{name}");
    }
    let inventory = jsonschema::draft7::new(&runbook::schema_inventory()).unwrap();
    for name in ["unknown-keys", "secrets", "later-version"] {
        let file = format!("tests/data/bad-inventories/{name}.yaml");
        assert!(!inventory.is_valid(&json(Path::new(&file))), "{name}");
    }
}

#[test]
fn the_docs_have_every_key_once_per_table() {
    insta::assert_snapshot!("docs tables", runbook::docs_tables());
}

#[test]
fn a_swap_turns_the_direction_of_the_steps_after_it_and_only_keeps_it() {
    let text = "
name: R
steps:
  - { name: A, throughput: {}, register: a }
  - { name: Swap, swap_roles: {} }
  - { name: B, throughput: {}, tags: [night], register: b }
  - { name: Again, repeat: a }
";
    let directions = |options: &Options| -> Vec<(String, Direction, bool)> {
        let plan = plan_of_text(text, options).unwrap();
        let steps = plan.steps.into_iter();
        steps.map(|step| (step.name, step.direction, step.excluded)).collect()
    };
    let (there, back) = (Direction::PrimaryToStandby, Direction::StandbyToPrimary);
    let named = |name: &str, direction, excluded| (name.to_owned(), direction, excluded);
    assert_eq!(
        directions(&options()),
        [
            named("A", there, false),
            named("Swap", back, false),
            named("B", back, false),
            named("A, repeated (standby to primary)", back, false),
        ]
    );
    let only = Options { only: vec!["night".to_owned()], ..options() };
    assert_eq!(
        directions(&only),
        [
            named("A", there, true),
            named("Swap", back, false),
            named("B", back, false),
            named("A, repeated (standby to primary)", back, true),
        ]
    );
    let from = Options { from: Some("b".to_owned()), ..options() };
    assert_eq!(directions(&from)[2], named("B", back, false));
    assert_eq!(directions(&from)[0], named("A", there, true));
}

#[test]
fn a_loop_is_a_step_for_each_item() {
    let text = "
name: R
vars: { sizes: [64 KiB, 1 MiB] }
steps:
  - name: Messages
    loop: \"{{ sizes }}\"
    throughput: { message_length: \"{{ item }}\" }
  - name: Streams, {{ item }} of them
    loop: [2, 4]
    throughput: { num_conn: \"{{ item }}\" }
";
    let plan = plan_of_text(text, &options()).unwrap();
    let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(
        names,
        ["Messages [64 KiB]", "Messages [1 MiB]", "Streams, 2 of them", "Streams, 4 of them"]
    );
    let Action::Throughput(spec) = &plan.steps[3].action else { panic!("{:?}", plan.steps[3]) };
    assert_eq!(spec.num_conn, NumConn::Fixed(4));
}

#[test]
fn anchors_may_stand_under_keys_of_their_own() {
    let text = "
x-test: &test { duration: 2 s, congestion_control: cubic }
name: R
steps:
  - { name: A, throughput: *test }
  - { name: B, throughput: { <<: *test, num_conn: 4 } }
";
    let plan = plan_of_text(text, &options()).unwrap();
    let Action::Throughput(spec) = &plan.steps[1].action else { panic!("{:?}", plan.steps[1]) };
    assert_eq!((&spec.num_conn, spec.time.longest().as_secs()), (&NumConn::Fixed(4), 2));
    assert_eq!(spec.congestion_control.as_deref(), Some("cubic"));
}

#[test]
fn a_need_that_the_run_cannot_judge_is_said_beforehand() {
    let text = "
name: R
need: { redo: { threads: { 1: 100 MiB/s } }, transport: sync }
limits: { rate: 1 Gbit/s, bytes: 1 GiB }
steps: [{ name: A, throughput: { duration: 60 s } }]
";
    let plan = plan_of_text(text, &options()).unwrap();
    assert_eq!(plan.remarks.len(), 2, "{:?}", plan.remarks);
    let shown = show(&plan, &cost(&plan));
    assert!(shown.contains("the limit of 1 GiB would end the run"), "{shown}");
}

#[test]
fn set_replaces_a_variable_and_keeps_its_type() {
    let text = "
name: R
vars: { n: 1, probe: 10 s }
steps:
  - { name: A, throughput: { num_conn: \"{{ n * 2 }}\", duration: \"{{ probe }}\" } }
";
    let set = [("n", "4"), ("probe", "2s")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    let plan = plan_of_text(text, &Options { set: set.into(), ..options() }).unwrap();
    let Action::Throughput(spec) = &plan.steps[0].action else { panic!("{:?}", plan.steps[0]) };
    assert_eq!((&spec.num_conn, spec.time.longest().as_secs()), (&NumConn::Fixed(8), 2));
}

#[test]
fn limit_keeps_the_pairs_of_which_both_ends_are_kept() {
    let limit = |names: &[&str]| Options {
        limit: names.iter().map(|name| (*name).to_owned()).collect(),
        ..options()
    };
    let text = "
name: R
steps:
  - { name: A, throughput: {} }
  - { name: B, throughput: { pairs: [demo-p1-demo-s1] } }
";
    let plan = plan_of_text(text, &limit(&["demo-p2", "demo-s1", "demo-s2"])).unwrap();
    assert_eq!((plan.nodes.len(), plan.pairs.len()), (3, 1));
    assert_eq!(plan.node(plan.pairs[0].primary).name, "demo-p2");
    assert_eq!((plan.left_out.pair_count, plan.left_out.threads.as_slice()), (1, &[1][..]));
    assert_eq!(plan.left_out.limited_to, ["demo-p2", "demo-s1", "demo-s2"]);
    assert_eq!(plan_of_text(text, &options()).unwrap().left_out.pair_count, 0);
    assert!(plan.steps[1].excluded && !plan.steps[0].excluded, "{:?}", plan.steps);
    let problems = plan_of_text(text, &limit(&["demo-p1"])).unwrap_err();
    assert!(render_problems(&problems).contains("leaves no pair"), "{problems:?}");
}

#[test]
fn arguments_that_name_nothing_tell_the_nearest() {
    let arguments = Options { set: vec![("confrim".to_owned(), "1s".to_owned())], ..options() };
    let set = plan_of("runbooks/demo.yaml", None, &arguments).unwrap_err();
    let arguments = Options {
        only: vec!["laddder".to_owned()],
        from: Some("togehter".to_owned()),
        ..options()
    };
    let only = plan_of("runbooks/demo.yaml", None, &arguments).unwrap_err();
    let limit = Options { limit: vec!["demo-p3".to_owned()], ..options() };
    let limit = plan_of("runbooks/demo.yaml", None, &limit).unwrap_err();
    let left_out = Options { only: vec!["together".to_owned()], ..options() };
    let left_out = plan_of("runbooks/demo.yaml", None, &left_out).unwrap_err();
    let all: Vec<Problem> = [set, only, limit, left_out].into_iter().flatten().collect();
    insta::assert_snapshot!("bad arguments", render_problems(&all));
}

#[test]
fn the_mistakes_of_both_files_come_together() {
    let problems = plan_of(
        "tests/data/bad-runbooks/names.yaml",
        Some("tests/data/bad-inventories/addresses.yaml"),
        &options(),
    )
    .unwrap_err();
    for file in ["names.yaml", "addresses.yaml"] {
        assert!(problems.iter().any(|problem| problem.file == file), "{file}: {problems:#?}");
    }
}

const TWO_BY_TWO: &str = "
name: N
defaults: { data_port: PORTS }
primary: { nodes: [{ name: a, redo: 10.0.0.1 }, { name: b, redo: 10.0.0.2 }] }
standby: { nodes: [{ name: x, redo: 10.0.1.1 }, { name: y, redo: 10.0.1.2 }] }
";

const FAN_IN: &str = "
name: R
steps:
  - { name: Fan-in, throughput: { nodes: all_to_one }, register: fan }
  - { name: Each, throughput: {} }
  - { name: Swap, swap_roles: {} }
  - { name: Again, repeat: fan }
  - { name: Enough, assert: { that: fan.bytes_per_second > 1 } }
";

fn fan_in(inventory: &str, options: &Options) -> Result<Plan, Vec<Problem>> {
    let inventory = Source::new("i.yaml", inventory);
    from_texts(Source::new("r.yaml", FAN_IN), Some(inventory), options)
}

#[test]
fn all_to_one_crosses_pairs_that_nothing_else_means() {
    let inventory = TWO_BY_TWO.replace("PORTS", "\"5555-5556\"");
    let plan = fan_in(&inventory, &options()).unwrap();
    let names_of = |step: usize| -> Vec<String> {
        plan.steps[step].action.pairs().iter().map(|id| plan.pair_name(*id)).collect()
    };
    assert_eq!(names_of(0), ["a-x", "b-x"]);
    assert_eq!(names_of(1), ["a-x", "b-y"]);
    assert_eq!(names_of(3), ["a-x", "a-y"]);
    let Action::Assert(spec) = &plan.steps[4].action else { panic!("{:?}", plan.steps[4]) };
    assert_eq!(spec.pairs, plan.steps[3].action.pairs());
    assert_eq!((plan.own_pairs().count(), plan.pairs.len()), (2, 4));
    let setup = redoline::record::setup::Setup::of(&plan);
    assert_eq!((setup.pairs.len(), setup.crossed_from), (4, Some(2)));
    let limited = Options { limit: vec!["b".to_owned(), "y".to_owned()], ..options() };
    let plan = fan_in(&inventory, &limited).unwrap();
    assert_eq!((plan.own_pairs().count(), plan.pairs.len()), (1, 1));
}

#[test]
fn a_receiver_of_several_streams_needs_a_port_for_each() {
    let problems = fan_in(&TWO_BY_TWO.replace("PORTS", "5555"), &options()).unwrap_err();
    let text = render_problems(&problems);
    assert!(text.contains("`x` receives from 2 nodes at once, and has 1 data port"), "{text}");
    assert!(text.contains("data_port: \"5555-5556\""), "{text}");
    assert!(text.contains("`a` receives from 2 nodes at once"), "the way back: {text}");
}

#[test]
fn an_inventory_of_loopback_addresses_makes_no_statement_about_a_network() {
    let demo = |address: &str| {
        let inventory = TWO_BY_TWO.replace("PORTS", "\"5555-5556\"");
        let inventory = inventory.replace("10.0.0", "127.0.0").replace("10.0.1.1", address);
        fan_in(&inventory.replace("10.0.1", "127.0.1"), &options()).unwrap().configuration.demo
    };
    assert!(demo("127.0.1.1"));
    assert!(!demo("192.0.2.1"));
}

#[test]
fn a_sync_test_sends_the_average_redo_write_and_twice_that() {
    let text = |step: &str| {
        format!(
            "name: R\nneed: {{ redo: {{ write_size: 20 KiB, local_write: 0.5 ms }}, transport: fastsync }}\n\
             steps: [{{ name: A, throughput: {{ {step} }} }}]"
        )
    };
    let plan = |step: &str| plan_of_text(&text(step), &options()).unwrap();
    let sizes = [20, 40].map(|kib| redoline_proto::units::Bytes(kib * 1024));
    let Action::Sweep(sweep) = &plan("mode: fastsync").steps[0].action.clone() else { panic!() };
    assert_eq!(sweep.vary, redoline::plan::step::Vary::MessageLength(sizes.to_vec()));
    let together = plan("mode: fastsync, nodes: together");
    let Action::Throughput(spec) = &together.steps[0].action else { panic!("{together:?}") };
    assert_eq!(spec.message, sizes[0]);
    assert_eq!(together.need.unwrap().local_write, Some(std::time::Duration::from_micros(500)));
    assert!(together.remarks.is_empty(), "{:?}", together.remarks);
    assert!(plan("num_conn: 2").remarks[0].contains("no step has `mode: fastsync`"));
}

#[test]
fn what_would_be_measured_in_vain_is_said_beforehand() {
    let text = "
name: R
allow: interface_mtu
steps:
  - { name: Squeezed, sweep: { vary: { compression: [none, lz4] }, throughput: {} } }
  - { name: Jumbo, interface_mtu: { mtu: 9000, throughput: {} } }
";
    let plan = plan_of_text(text, &options()).unwrap();
    assert_eq!(plan.remarks.len(), 2, "{:?}", plan.remarks);
    let shown = show(&plan, &cost(&plan));
    assert!(shown.contains("CHANGED ON THE HOSTS AND RESTORED"), "{shown}");
}

#[test]
fn a_plan_shows_every_parameter() {
    let plan = plan_of("tests/data/runbooks/every-key.yaml", None, &options()).unwrap();
    insta::assert_snapshot!("plan every-key", show(&plan, &cost(&plan)));
}

#[test]
fn waiting_for_the_next_repetition_does_not_triple_the_timeout() {
    let text = "
name: R
steps: [{ name: A, throughput: { duration: 10 s, pairs: first, frequency: 1 h/24 h } }]
";
    let plan = plan_of_text(text, &options()).unwrap();
    let hours = |hours: u64| std::time::Duration::from_secs(hours * 3600);
    assert!((hours(23)..hours(24)).contains(&plan.steps[0].timeout), "{:?}", plan.steps[0]);
}

#[test]
fn unequal_clusters_use_the_shorter_side_again_in_turn() {
    let inventory = "
name: N
primary: { nodes: [{ name: a, redo: 10.0.0.1 }, { name: b, redo: 10.0.0.2 }, { name: c, redo: 10.0.0.3 }] }
standby: { nodes: [{ name: x, redo: 10.0.1.1 }, { name: y, redo: 10.0.1.2 }] }
";
    let runbook = Source::new("r.yaml", "name: R\nsteps: [{ name: T, topology: {} }]\n");
    let plan = from_texts(runbook, Some(Source::new("i.yaml", inventory)), &options()).unwrap();
    let names: Vec<String> = plan
        .pairs
        .iter()
        .map(|pair| format!("{}-{}", plan.node(pair.primary).name, plan.node(pair.standby).name))
        .collect();
    assert_eq!(names, ["a-x", "b-y", "c-x"]);
    assert!(plan.remarks[0].contains("used again in turn"), "{:?}", plan.remarks);
}

/// Texts that look like runbooks far more often than chance would have it.
fn yaml_like() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "name",
        "steps",
        "vars",
        "throughput",
        "num_conn",
        "sweep",
        "vary",
        "repeat",
        "loop",
        "need",
        "redo",
        "{{ item }}",
        "{{",
        "}}",
        "{%",
        "10 s",
        "1",
        ":",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "<<",
        "\"",
        "'",
        "|",
        ">",
        "#",
        "!x ",
        "---\n",
        "\t",
        "é",
        "~",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

#[test]
fn the_longest_expressions_that_are_read_do_not_exhaust_the_stack() {
    for text in
        ["not ".repeat(240), "(".repeat(900), "a.".repeat(450), "a + ".repeat(230), "-".repeat(900)]
    {
        for expression in [format!("{text}a"), format!("{text}a{}", ")".repeat(90))] {
            let text = format!(
                "name: R\nvars: {{ a: 1 }}\nsteps: [{{ name: A, when: \"{expression}\", topology: {{}} }}]"
            );
            _ = plan_of_text(&text, &options());
        }
    }
}

#[test]
fn of_thousands_of_mistakes_the_first_are_told() {
    let text = format!("name: R\nsteps: [{}]", "{ name: 1, topolgy: {} }, ".repeat(3_000));
    let problems = plan_of_text(&text, &options()).unwrap_err();
    assert!(problems.len() < 110, "{}", problems.len());
    assert!(render_problems(&problems).contains("more mistakes from here on"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", like in yaml_like()) {
        for text in [text, like] {
            let runbook = Source::new("r.yaml", &text);
            let inventory = Source::new("i.yaml", &text);
            let plan = from_texts(runbook, Some(inventory), &options());
            prop_assert!(plan.is_err_and(|problems| !render_problems(&problems).is_empty()));
        }
    }

    #[test]
    fn no_change_of_one_place_makes_the_reader_panic(at in 0usize..4000, with in yaml_like()) {
        let mut text = runbook::starting_runbook().to_owned();
        let at = (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.insert_str(at, &with);
        if let Ok(plan) = plan_of_text(&text, &options()) {
            prop_assert!(!show(&plan, &cost(&plan)).is_empty());
        }
    }
}
