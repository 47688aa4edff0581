//! The MTU of both ends' interfaces at another value: what is measured, what is not, and that it is
//! what it was before.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redoline_lab::harness::LabTest;
use redoline_lab::node::REDO_INTERFACE;
use redoline_lab::{Icmp, Inventory, LabNode, LabSpec, WanSpec};
use serde_json::{Value, json};

use super::scene::{Finished, Scene, expect_clean, mbit_per_s, texts};

pub const TESTS: &[LabTest] = &[
    ("a_larger_mtu_is_measured_between_two_tests_without_it_and_undone", measured_and_undone),
    ("a_router_that_refuses_the_mtu_is_named_before_anything_is_measured", refused_on_the_way),
    ("a_path_that_swallows_the_mtu_is_known_before_anything_is_measured", lost_on_the_way),
    ("who_may_not_change_an_mtu_is_told_the_way_out", not_root),
];

const AS_IT_WAS: u32 = 1500;
const HELD: u32 = 9000;
const LINK_MBIT_PER_S: f64 = 200.0;
/// Of a step of three tests of 3 s, or of one and a path that swallows what is tried.
const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// Redo networks for jumbo frames, with interfaces at the usual MTU.
pub fn scene(wan: WanSpec, nodes: usize) -> Result<Scene> {
    let spec = LabSpec { lan_mtu: HELD, ..LabSpec::new(wan).nodes(nodes) };
    let scene = Scene::new(&spec)?;
    for node in scene.lab.nodes() {
        node.run(&["ip", "link", "set", REDO_INTERFACE, "mtu", &AS_IT_WAS.to_string()])?;
    }
    Ok(scene)
}

/// A WAN that carries jumbo frames.
pub fn wide() -> WanSpec {
    WanSpec { mtu: HELD, ..narrow() }
}

fn narrow() -> WanSpec {
    WanSpec::new(Duration::from_millis(2), (LINK_MBIT_PER_S * 1e6) as u64)
}

/// Of the redo interface.
pub fn mtu(node: &LabNode) -> Result<u32> {
    let link = node.run(&["ip", "-o", "link", "show", REDO_INTERFACE])?;
    let mut words = link.split_ascii_whitespace().skip_while(|word| *word != "mtu").skip(1);
    words.next().with_context(|| link.clone())?.parse().with_context(|| link.clone())
}

pub fn is_held(node: &LabNode) -> Result<bool> {
    Ok(mtu(node)? == HELD)
}

pub fn is_as_it_was(node: &LabNode) -> Result<bool> {
    Ok(mtu(node)? == AS_IT_WAS)
}

/// The agents' helpers that restore an MTU when an agent no longer can.
pub fn guardians(node: &LabNode) -> Result<Vec<i32>> {
    let processes = node.processes()?;
    let ours = processes.iter().filter(|process| process.command.contains("--restore-mtu"));
    Ok(ours.map(|process| process.pid).collect())
}

pub fn as_root(scene: &Scene) -> Inventory {
    Inventory { user: "root".to_owned(), ..scene.lab.inventory() }
}

fn run_as_root(scene: &Scene) -> Result<Finished> {
    scene.run_with(&as_root(scene), "jumbo.yaml", &[])
}

fn expect_as_it_was(scene: &Scene) -> Result<()> {
    for node in scene.lab.nodes() {
        let now = mtu(node)?;
        ensure!(now == AS_IT_WAS, "{}: the MTU is {now}", node.name());
        expect_clean(node)?;
    }
    Ok(())
}

/// Of a pair's series, which is of the interface's MTU.
fn points<'a>(report: &'a Value, pair: &str) -> Result<&'a Vec<Value>> {
    let all = report["series"].as_array().into_iter().flatten();
    let mut of_pair = all.filter(|series| series["pairs"] == json!([pair]));
    let series = of_pair.next().with_context(|| format!("no series of {pair}"))?;
    ensure!(series["variable"] == "interface_mtu" && series["unit"] == "bytes", "{series}");
    ensure!(series["stopped_because"] == "all_values", "{series}");
    series["points"].as_array().context("no points")
}

fn measurement<'a>(report: &'a Value, point: &Value) -> Result<&'a Value> {
    let all = report["measurements"].as_array().into_iter().flatten();
    let mut ours = all.filter(|measurement| measurement["id"] == point["measurement"]);
    ours.next().with_context(|| format!("no measurement of {point}"))
}

fn measured_and_undone() -> Result<()> {
    let scene = scene(wide(), 2)?;
    let finished = run_as_root(&scene)?;
    let report = finished.expect_code(0)?.report()?;
    for pair in ["phx1-ash1", "phx2-ash2"] {
        expect_a_b_a(&report, points(&report, pair)?)?;
    }
    ensure!(report["run"]["remarks"] == json!([]), "{}", report["run"]["remarks"]);
    expect_as_it_was(&scene)
}

fn expect_a_b_a(report: &Value, points: &[Value]) -> Result<()> {
    let values: Vec<_> = points.iter().map(|point| point["value"].as_f64()).collect();
    ensure!(values == [1500.0, 9000.0, 1500.0].map(Some), "{points:#?}");
    for (point, held) in points.iter().zip([None, Some(HELD), None]) {
        let measurement = measurement(report, point)?;
        ensure!(measurement["interface_mtu_bytes"] == json!(held), "{point}");
        // Of each packet, 20 bytes are IP's, 20 TCP's, and 12 its timestamps.
        let mtu = held.unwrap_or(AS_IT_WAS);
        ensure!(measurement["mss_bytes"] == mtu - 52, "{mtu}: {}", measurement["mss_bytes"]);
        let rate = mbit_per_s(measurement).with_context(|| point.to_string())?;
        let expected = LINK_MBIT_PER_S * f64::from(mtu - 52) / f64::from(mtu);
        ensure!((rate / expected - 1.0).abs() < 0.01, "{mtu}: {rate} Mbit/s, not {expected}");
    }
    Ok(())
}

fn refused_on_the_way() -> Result<()> {
    not_carried(Icmp::Allowed, "are refused by a router on the way, which carries 1500")
}

fn lost_on_the_way() -> Result<()> {
    not_carried(Icmp::Filtered, "are lost without a word")
}

fn not_carried(icmp: Icmp, words: &str) -> Result<()> {
    let scene = scene(WanSpec { icmp, ..narrow() }, 1)?;
    let finished = run_as_root(&scene)?;
    let report = finished.expect_code(0)?.report()?;
    let points = points(&report, "phx1-ash1")?;
    ensure!(points[0]["bytes_per_second"].is_f64(), "{points:#?}");
    let jumbo = points.iter().find(|point| point["value"] == 9000.0).context("no jumbo point")?;
    ensure!(jumbo["measurement"].is_null() && jumbo["bytes_per_second"].is_null(), "{jumbo}");
    let remark = jumbo["remark"].as_str().unwrap_or_default();
    ensure!(remark.contains("packets of 9000 bytes") && remark.contains(words), "{remark}");
    let measurements = report["measurements"].as_array().context("no measurements")?;
    let held = measurements.iter().filter(|one| !one["interface_mtu_bytes"].is_null()).count();
    ensure!(held == 0, "it was measured although the path does not carry it");
    expect_within_deadline(&report["steps"][0])?;
    expect_as_it_was(&scene)
}

fn expect_within_deadline(step: &Value) -> Result<()> {
    let time = |key: &str| -> Result<jiff::Timestamp> {
        Ok(step[key].as_str().with_context(|| step.to_string())?.parse()?)
    };
    let took = time("started")?.duration_until(time("ended")?).unsigned_abs();
    ensure!(took < STEP_DEADLINE, "the step took {took:?}");
    Ok(())
}

fn not_root() -> Result<()> {
    let scene = scene(wide(), 1)?;
    let jumbo = std::fs::read_to_string(super::scene::data().join("runbooks/jumbo.yaml"))?;
    // Nor may it choose this.
    let runbook = scene.write("jumbo.yaml", &jumbo.replace(", congestion_control: cubic", ""))?;
    let finished = scene.run(&runbook.to_string_lossy(), &["--set", "duration=1 s"])?;
    let report = finished.expect_code(4)?.report()?;
    ensure!(report["steps"][0]["outcome"] == "failed", "{}", report["steps"]);
    let messages = texts(&report["steps"][0]["messages"]);
    for words in ["may not set the MTU of redo0", "CAP_NET_ADMIN", "`user: root`"] {
        ensure!(messages.contains(words), "no `{words}` in {messages}");
    }
    let measurements = report["measurements"].as_array().context("no measurements")?;
    ensure!(measurements.len() == 1, "{} tests", measurements.len());
    expect_as_it_was(&scene)
}
