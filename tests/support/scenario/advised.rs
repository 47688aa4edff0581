//! That advice is safe on a production database, and rests on what is sure.

use super::{NeedText, Scenario};
use crate::advice::{CommandKind, Recommendation, advise};
use crate::analysis::finding::{Confidence, FindingId};
use crate::analysis::{Analysis, analyse};
use crate::plan::need::Transport;
use crate::plan::node::NodeId;
use crate::record::event::{StepFailure, StepOutcome};
use crate::record::measurement::{Failure, FailureCause};
use crate::record::run::RunRecord;
use redoline_proto::units::{Bytes, Share};

fn advised(record: &RunRecord) -> Vec<Recommendation> {
    advise(record, &analyse(record))
}

fn found(all: Vec<Recommendation>, id: &str) -> Option<Recommendation> {
    all.into_iter().find(|one| one.id == id)
}

fn lines(one: &Recommendation) -> String {
    let lines: Vec<&str> =
        one.commands.iter().flat_map(|command| &command.lines).map(String::as_str).collect();
    lines.join("\n")
}

fn sync(transport: Transport, steps: &[&str]) -> Scenario {
    let mut scenario = Scenario::named("sync-near");
    scenario.steps = steps.iter().map(|step| (*step).to_owned()).collect();
    scenario.need.as_mut().unwrap().transport = transport;
    scenario
}

#[test]
fn a_run_that_only_tries_sync_asks_for_no_change_of_the_transport() {
    let record = sync(Transport::Async, &["single", "sync 8KiB", "swap", "single"]).record();
    let analysis = analyse(&record);
    assert!(analysis.findings.iter().any(|one| one.id == FindingId::SyncOverhead));
    for one in advise(&record, &analysis) {
        assert_ne!(one.id, "oracle-net-for-sync");
        assert!(!lines(&one).contains("ALTER SYSTEM"), "{}", lines(&one));
    }
}

#[test]
fn a_command_sets_the_mode_that_the_need_states_and_no_shorter_timeout() {
    for (transport, step, mode) in [
        (Transport::Sync, "sync 8KiB", " SYNC AFFIRM "),
        (Transport::Fastsync, "fastsync 8KiB", " SYNC NOAFFIRM "),
    ] {
        let record = sync(transport, &["single", step, "swap", "single"]).record();
        let one = found(advised(&record), "oracle-net-for-sync").unwrap();
        let lines = lines(&one);
        assert!(lines.contains(mode) && !lines.contains("NET_TIMEOUT"), "{lines}");
        assert!(lines.contains("SHOW PARAMETER log_archive_dest_"), "the way back: {lines}");
        assert!(lines.contains("LOG_ARCHIVE_DEST_n="), "it cannot be run as it is: {lines}");
    }
}

#[test]
fn a_fixed_buffer_lowers_no_maximum_and_names_the_former_ones() {
    let mut record = Scenario::named("tuning").record();
    let facts = record.nodes.values_mut().next().unwrap().facts.as_mut().unwrap();
    facts.tcp.core_wmem_max_bytes = Some(64 * Bytes::MIB);
    facts.tcp.core_rmem_max_bytes = Some(4 * Bytes::MIB);
    let one = found(advised(&record), "fixed-socket-buffer").unwrap();
    let sysctl = |name: &str| {
        let node = record.setup.nodes.iter().position(|node| node.name == name).unwrap();
        let here = one.commands.iter().filter(|command| command.kind == CommandKind::Sysctl);
        let here = here.filter(|command| command.nodes.iter().any(|one| one.0 == node));
        here.flat_map(|command| command.lines.clone()).collect::<Vec<_>>()
    };
    assert_eq!(sysctl("phx1"), ["net.core.rmem_max = 16777216"]);
    assert_eq!(sysctl("ash1"), ["net.core.wmem_max = 16777216", "net.core.rmem_max = 16777216"]);
    for former in ["phx1: net.core.rmem_max = 4194304.", "ash1: net.core.wmem_max = 2097152;"] {
        assert!(one.how_to_undo.contains(former), "{}", one.how_to_undo);
    }
    assert!(!lines(&one).contains("SDU"), "{}", lines(&one));
}

#[test]
fn maxima_that_are_high_enough_are_left_alone() {
    let mut record = Scenario::named("tuning").record();
    for node in record.nodes.values_mut() {
        let tcp = &mut node.facts.as_mut().unwrap().tcp;
        tcp.core_wmem_max_bytes = Some(16 * Bytes::MIB);
        tcp.core_rmem_max_bytes = Some(Bytes::GIB);
    }
    let one = found(advised(&record), "fixed-socket-buffer").unwrap();
    assert!(one.commands.iter().all(|command| command.kind == CommandKind::TnsnamesOra));
    assert!(!one.needs_root && !one.how_to_undo.contains("maxima"), "{}", one.how_to_undo);
}

#[test]
fn a_larger_buffer_is_a_higher_risk() {
    let risk = |declared: &str, rtt: &str| {
        let mut scenario = Scenario::named("single-only");
        scenario.declared = Some(declared.to_owned());
        scenario.network.rtt = Some(rtt.to_owned());
        found(advised(&scenario.record()), "raise-socket-buffer-maximum").unwrap().risk
    };
    assert!(risk("1 Gbit/s", "10 ms").starts_with("Low. "));
    let moderate = risk("10 Gbit/s", "100 ms");
    assert!(moderate.starts_with("Moderate: 512 MiB are more than the 128 MiB"), "{moderate}");
    assert!(moderate.contains("100 such connections may take 9.77 % of the memory"), "{moderate}");
    let high = risk("10 Gbit/s", "250 ms");
    assert!(high.starts_with("High: 1 GiB "), "{high}");
}

/// The causes of a scenario, each said to be no more than possible.
fn doubted(name: &str) -> (RunRecord, Analysis) {
    let record = Scenario::named(name).record();
    let mut analysis = analyse(&record);
    for finding in &mut analysis.findings {
        finding.confidence = finding.confidence.min(Confidence::Possible);
    }
    (record, analysis)
}

#[test]
fn what_is_only_possible_buys_neither_a_circuit_nor_a_licence() {
    let sure: Vec<&str> =
        advised(&Scenario::named("link-full").record()).iter().map(|one| one.id).collect();
    assert!(sure.contains(&"more-bandwidth") && sure.contains(&"compress-redo"), "{sure:?}");
    for name in ["link-full", "per-flow-limit", "loss-much"] {
        let (record, analysis) = doubted(name);
        for one in advise(&record, &analysis) {
            assert!(!["more-bandwidth", "compress-redo"].contains(&one.id), "{name}: {}", one.id);
        }
    }
}

#[test]
fn a_limit_per_flow_that_is_only_possible_is_asked_about_and_not_to_be_lifted() {
    let (record, analysis) = doubted("per-flow-limit");
    let one = found(advise(&record, &analysis), "lift-per-flow-limit").unwrap();
    assert!(lines(&one).starts_with("Is there a shaper"), "{}", lines(&one));
    assert_eq!(one.how_to_undo, "Nothing is changed.");
    let sure = advised(&Scenario::named("per-flow-limit").record());
    let sure = found(sure, "lift-per-flow-limit").unwrap();
    assert!(lines(&sure).starts_with("Please let a single TCP connection"), "{}", lines(&sure));
}

#[test]
fn compression_has_a_command_only_where_the_network_misses_a_need() {
    let mut scenario = Scenario::named("compression");
    scenario.steps = ["single", "ladder", "compression none zlib-6"].map(str::to_owned).to_vec();
    let met = found(advised(&scenario.record()), "weigh-compression").unwrap();
    assert_eq!(met.commands, []);
    assert_eq!(met.how_to_undo, "Nothing is changed.");
    let threads = [(1, "300 MiB/s".to_owned())].into();
    scenario.need = Some(NeedText { threads, ..NeedText::default() });
    let missed = found(advised(&scenario.record()), "weigh-compression").unwrap();
    assert!(lines(&missed).contains("COMPRESSION=ENABLE"), "{missed:?}");
    assert!(lines(&missed).contains("SHOW PARAMETER"), "{missed:?}");
}

/// Two pairs whose ladders recommend several connections each, on a path that they share.
fn copied(steps: &[&str]) -> Recommendation {
    let mut scenario = Scenario::named("sum-of-threads");
    scenario.network.per_flow = Some("60 Mbit/s".to_owned());
    scenario.steps = steps.iter().map(|step| (*step).to_owned()).collect();
    let need = scenario.need.as_mut().unwrap();
    need.database_size = Some("100 GiB".to_owned());
    need.instantiate_within = Some("24h".to_owned());
    found(advised(&scenario.record()), "rman-channels").unwrap()
}

#[test]
fn pairs_that_share_the_path_need_fewer_channels_than_their_ladders_in_sum() {
    let channels = |one: &Recommendation| lines(one).matches("ALLOCATE CHANNEL").count();
    let apart = copied(&["single", "ladder"]);
    assert!(apart.action.contains("were not measured"), "{}", apart.action);
    let at_once = copied(&["single", "ladder", "together"]);
    assert!(at_once.action.contains("fewer are enough"), "{}", at_once.action);
    assert!(channels(&at_once) < channels(&apart), "{} {}", lines(&at_once), lines(&apart));
    assert!(channels(&at_once) >= 5, "they fill the path: {}", lines(&at_once));
    assert!(at_once.commands.iter().all(|command| command.kind == CommandKind::Rman));
    assert!(!lines(&at_once).contains("CONFIGURE"), "{}", lines(&at_once));
}

#[test]
fn what_would_tell_a_cause_is_a_step_more_and_not_the_one_that_did_not_tell_it() {
    let one = found(advised(&Scenario::named("cause-unknown").record()), "find-the-cause").unwrap();
    assert!(!one.how_to_verify.contains("--only"), "{}", one.how_to_verify);
    assert!(one.how_to_verify.starts_with("Add the step"), "{}", one.how_to_verify);
}

#[test]
fn a_copy_that_cannot_be_judged_asks_for_all_nodes_at_once() {
    let record = Scenario::named("copy-never-together").record();
    let one = found(advised(&record), "measure-again").unwrap();
    assert!(one.action.contains("nodes: together"), "{}", one.action);
    assert!(!one.how_to_verify.contains("--only"), "{}", one.how_to_verify);
}

#[test]
fn a_rate_that_is_only_unsteady_leaves_no_need_open() {
    let record = Scenario::named("burst").record();
    let mut analysis = analyse(&record);
    analysis.findings.retain(|one| one.id == FindingId::Unsteady);
    assert!(!analysis.findings.is_empty());
    let one = found(advise(&record, &analysis), "measure-again").unwrap();
    assert!(!one.action.contains("need"), "{}", one.action);
}

#[test]
fn a_run_that_limits_cpu_ended_is_told_what_to_do_about_the_host() {
    let mut record = Scenario::named("single-only").record();
    assert!(found(advised(&record), "quieten-the-host").is_none());
    record.setup.limits.cpu = Some(Share(0.8));
    let text = "the host's processors were 93 % busy for 3 s; the limit is 80 %".to_owned();
    let (node, phase) = (Some(NodeId(0)), "transfer".to_owned());
    let failure = Failure { node, phase, text, cause: FailureCause::Limit };
    let failures = vec![StepFailure { pair: None, failure }];
    record.steps[0].outcome = Some(StepOutcome::Failed { failures });
    let first = advised(&record).remove(0);
    assert_eq!(first.id, "quieten-the-host");
    assert!(first.action.contains("limits.cpu (80 %) ended the run"), "{}", first.action);
    assert!(first.action.contains("93 % busy"), "{}", first.action);
}
