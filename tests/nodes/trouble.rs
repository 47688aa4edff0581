//! Each trouble names the node, the phase and the way out; the other pairs go on; the report says
//! what is missing; the exit code is right.

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use redoline_lab::harness::LabTest;
use redoline_lab::lab::DATA_PORT;
use redoline_lab::{Carrier, Network};
use serde_json::Value;

use super::scene::{Finished, Scene, agents, expect_clean, texts};

pub const TESTS: &[LabTest] = &[
    ("an_unreachable_node_is_named_and_the_other_pair_goes_on", unreachable_node),
    ("a_wrong_key_says_what_was_tried", wrong_key),
    ("an_unknown_host_key_is_refused_with_its_fingerprint", unknown_host_key),
    ("a_new_host_key_is_taken_on_request_and_the_report_says_so", accepted_host_key),
    ("a_changed_host_key_is_refused_whatever_is_asked", changed_host_key),
    ("a_rejected_data_port_is_told_from_a_dropped_one", data_port),
    ("an_agent_killed_in_a_test_costs_its_pair_only", killed_agent),
    ("a_node_that_stops_answering_costs_its_pair_only", silent_node),
    ("a_node_that_is_cut_off_costs_its_pair_only", cut_off_node),
    ("a_node_of_another_run_is_busy_and_says_whose", busy_node),
];

/// The pair of node 2 was measured, the one of node 1 was not.
fn expect_other_pair(report: &Value) -> Result<()> {
    let measured: Vec<&str> = report["measurements"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|measurement| measurement["failures"].as_array().is_some_and(Vec::is_empty))
        .filter_map(|measurement| measurement["pairs"][0]["pair"].as_str())
        .collect();
    ensure!(measured == ["phx2-ash2"], "measured: {measured:?}");
    let missing = report["run"]["missing"].as_array().map_or(0, Vec::len);
    ensure!(missing > 0, "the report does not say what is missing");
    Ok(())
}

/// Every one of `words` stands in the report and in what the terminal showed.
fn expect_words(finished: &Finished, report: &Value, words: &[&str]) -> Result<()> {
    let (report, terminal) = (texts(report), format!("{}{}", finished.stdout, finished.stderr));
    for word in words {
        ensure!(report.contains(word), "the report does not say `{word}`: {report}");
        ensure!(terminal.contains(word), "the terminal does not say `{word}`: {terminal}");
    }
    Ok(())
}

fn unreachable_node() -> Result<()> {
    let scene = Scene::near()?;
    scene.lab.node("ash1")?.stop_sshd()?;
    let finished = scene.run("quick.yaml", &[])?;
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["ash1", "connect", "refused"])?;
    expect_other_pair(&report)
}

fn wrong_key() -> Result<()> {
    let scene = Scene::near()?;
    let mut inventory = scene.lab.inventory();
    inventory.key = scene.lab.client().other_key.clone();
    let finished = scene.run_with(&inventory, "quick.yaml", &[])?;
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["phx1", "authentication", "id_unknown"])
}

fn unknown_host_key() -> Result<()> {
    let scene = Scene::near()?;
    let mut inventory = scene.lab.inventory();
    inventory.known_hosts = scene.write("empty_known_hosts", "")?;
    let finished = scene.run_with(&inventory, "quick.yaml", &[])?;
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["host key", "SHA256:", "--accept-new-host-keys"])
}

fn accepted_host_key() -> Result<()> {
    let scene = Scene::near()?;
    let mut inventory = scene.lab.inventory();
    inventory.known_hosts = scene.path("new_known_hosts");
    let finished = scene.run_with(&inventory, "quick.yaml", &["--accept-new-host-keys"])?;
    let report = finished.expect_code(0)?.report()?;
    for node in report["topology"]["nodes"].as_array().into_iter().flatten() {
        let accepted = node["accepted_host_key"].as_str().unwrap_or_default();
        ensure!(accepted.contains("SHA256:"), "{node}");
    }
    let strict = scene.run_with(&inventory, "quick.yaml", &[])?;
    let report = strict.expect_code(0)?.report()?;
    ensure!(report["topology"]["nodes"][0]["accepted_host_key"].is_null());
    Ok(())
}

fn changed_host_key() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("ash1")?;
    node.change_host_keys()?;
    let finished = scene.run("quick.yaml", &["--accept-new-host-keys"])?;
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["ash1", "host key", "known_hosts"])?;
    expect_other_pair(&report)
}

fn data_port() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("ash1")?;
    node.reject_port(DATA_PORT)?;
    let rejected = scene.run("quick.yaml", &[])?;
    let report = rejected.expect_code(4)?.report()?;
    expect_words(&rejected, &report, &["phx1", "refused", "5555"])?;
    expect_other_pair(&report)?;

    node.clear_firewall()?;
    node.drop_port(DATA_PORT)?;
    let dropped = scene.run("quick.yaml", &[])?;
    let report = dropped.expect_code(4)?.report()?;
    expect_words(&dropped, &report, &["phx1", "a firewall drops it", "5555"])?;
    expect_other_pair(&report)?;
    expect_clean(node)
}

fn killed_agent() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("ash1")?;
    let mut run = scene.start("quick.yaml", &[])?;
    run.wait_for("test_started")?;
    for agent in agents(node)? {
        node.signal(agent, Signal::SIGKILL)?;
    }
    let finished = run.finish()?;
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["ash1"])?;
    expect_other_pair(&report)?;
    expect_clean(node)
}

fn silent_node() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("ash1")?;
    let mut run = scene.start("quick.yaml", &[])?;
    run.wait_for("test_started")?;
    let stopped = agents(node)?;
    for agent in &stopped {
        node.signal(*agent, Signal::SIGSTOP)?;
    }
    let finished = run.finish()?;
    for agent in &stopped {
        // It may be gone already.
        let _ = node.signal(*agent, Signal::SIGCONT);
    }
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["ash1", "no longer answers"])?;
    expect_other_pair(&report)?;
    expect_clean(node)
}

fn cut_off_node() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("ash1")?;
    let mut run = scene.start("quick.yaml", &[])?;
    run.wait_for("test_started")?;
    scene.lab.set_carrier(node, Network::Management, Carrier::Down)?;
    let finished = run.finish()?;
    let report = finished.expect_code(3)?.report()?;
    expect_words(&finished, &report, &["ash1"])?;
    expect_other_pair(&report)?;
    // The agent hears nothing any more and ends by its lease, without the controller.
    expect_clean(node)
}

fn busy_node() -> Result<()> {
    let scene = Scene::near()?;
    let mut first = scene.start("quick.yaml", &["--set", "duration=20s"])?;
    first.wait_for("test_started")?;
    let second = scene.run("quick.yaml", &[])?;
    let report = second.expect_code(6)?.report()?;
    expect_words(&second, &report, &["phx1", "busy"])?;
    first.signal(Signal::SIGINT)?;
    first.finish()?.expect_code(130)?;
    // Free again at once.
    scene.run("quick.yaml", &[])?.expect_code(0)?;
    Ok(())
}
