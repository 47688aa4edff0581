//! A firewall on the way to the nodes that forgets connections which are silent for a while.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redoline_lab::harness::LabTest;
use redoline_lab::{LabNode, LabSpec, WanSpec};

use super::scene::{Scene, expect_clean, mbit_per_s, measurements};

pub const TESTS: &[LabTest] =
    &[("a_firewall_that_forgets_idle_connections_after_10_s_costs_no_result", forgetful_firewall)];

/// Of a connection, after which its entry is gone.
const TIMEOUT_S: u64 = 10;
/// Longer than an entry lives: while one pair is measured, the other one's nodes have nothing to do.
const TEST_S: u64 = 13;

/// What is of no known connection goes neither in nor out.
const RULES: &str = "\
table inet forgetful {
  chain input { type filter hook input priority 0; ct state invalid drop; }
  chain output { type filter hook output priority 0; ct state invalid drop; }
}
";

fn forget_idle_connections(node: &LabNode) -> Result<()> {
    node.nft(RULES)?;
    let table = "net.netfilter.nf_conntrack_tcp";
    node.sysctl(&format!("{table}_timeout_established"), &TIMEOUT_S.to_string())?;
    // What was not seen from its beginning is no connection.
    node.sysctl(&format!("{table}_loose"), "0")
}

/// A session that says nothing for longer than the table remembers it, and then a word.
fn silent_session(node: &LabNode) -> Result<Child> {
    let script = format!("echo before; sleep {}; echo after", TIMEOUT_S + 4);
    let mut ssh = node.ssh("oracle");
    ssh.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    ssh.spawn().context("failed to start ssh")
}

fn forgetful_firewall() -> Result<()> {
    let wan = WanSpec::new(Duration::from_millis(2), 50_000_000);
    let scene = Scene::new(&LabSpec::new(wan))?;
    scene.lab.nodes().iter().try_for_each(forget_idle_connections)?;
    let mut silent = silent_session(scene.lab.node("phx1")?)?;
    let finished = scene.run("quick.yaml", &["--set", &format!("duration={TEST_S}s")]);
    silent.kill()?;
    silent.wait()?;
    let mut heard = String::new();
    silent.stdout.take().context("no output")?.read_to_string(&mut heard)?;
    ensure!(heard == "before\n", "the firewall forgets nothing: {heard:?}");

    let report = finished?.expect_code(0)?.report()?;
    let singles = measurements(&report, 1, "each");
    ensure!(singles.len() == 2, "two pairs, one after the other: {}", singles.len());
    for single in &singles {
        let rate = mbit_per_s(single).context("a stream has no rate")?;
        ensure!((45.0..50.0).contains(&rate), "{rate} Mbit/s of 48.3");
        let samples = single["samples"].as_array().context("no samples")?;
        let last = samples.last().context("no sample")?;
        let until_ms = last["at_ms"].as_f64().unwrap_or(0.0);
        ensure!(until_ms >= (TEST_S as f64 - 1.0) * 1e3, "samples until {until_ms} ms only");
    }
    scene.lab.nodes().iter().try_for_each(expect_clean)
}
