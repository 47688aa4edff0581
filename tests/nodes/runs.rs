//! What the product is for: whole assessments whose conclusions are known beforehand.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redoline_lab::harness::LabTest;
use redoline_lab::{Inventory, LabNode, LabSpec, WanSpec};
use serde_json::Value;

use super::scene::{
    Finished, Scene, agents, expect_clean, finding_ids, mbit_per_s, measurements, static_agent,
    wait_until,
};

pub const TESTS: &[LabTest] = &[
    ("a_flow_held_per_flow_is_told_from_one_held_by_its_window", per_flow_limit),
    ("a_flow_held_by_its_send_buffer_is_not_blamed_on_the_network", small_send_buffer),
    ("the_pre_migration_runbook_measures_everything_and_leaves_nothing", pre_migration),
    ("the_static_agent_is_what_is_put_on_the_nodes", static_agent_deployed),
    ("no_thread_of_an_agent_is_pinned_to_a_processor", threads_are_not_pinned),
];

fn wan() -> WanSpec {
    WanSpec::new(Duration::from_millis(10), 300_000_000)
}

/// Only root may choose `cubic` where the system allows others only its own default.
fn run_as_root(scene: &Scene, runbook: &str, arguments: &[&str]) -> Result<Finished> {
    let inventory = Inventory { user: "root".to_owned(), ..scene.lab.inventory() };
    scene.run_with(&inventory, runbook, arguments)
}

/// 60 Mbit/s of IP packets of 1500 bytes carry 1448 bytes of payload each.
const PER_FLOW_PAYLOAD_MBIT_PER_S: f64 = 60.0 * 1448.0 / 1500.0;
const LINK_PAYLOAD_MBIT_PER_S: f64 = 300.0 * 1448.0 / 1500.0;

fn per_flow_limit() -> Result<()> {
    let scene = Scene::new(&LabSpec::new(wan().per_flow(60_000_000)))?;
    let finished = run_as_root(&scene, "lab.yaml", &[])?;
    let report = finished.expect_code(1)?.report()?;

    let singles = measurements(&report, 1, "each");
    ensure!(singles.len() == 4, "two pairs in two directions: {}", singles.len());
    for single in &singles {
        let rate = mbit_per_s(single).context("a single stream has no rate")?;
        ensure!((57.0..=58.2).contains(&rate), "{rate} of {PER_FLOW_PAYLOAD_MBIT_PER_S}");
    }
    for ladder in ladders(&report) {
        let best = ladder["best"]["bytes_per_second"].as_f64().unwrap_or(0.0) * 8.0 / 1e6;
        ensure!((best / LINK_PAYLOAD_MBIT_PER_S - 1.0).abs() < 0.03, "aggregate {best}");
        let recommended = ladder["recommended"]["value"].as_f64().unwrap_or(0.0);
        ensure!((recommended - 6.0).abs() < 0.5, "recommended {recommended}");
        ensure!(ladder["stopped_because"] == "plateau", "{ladder}");
    }
    expect_findings(&report, &["per-flow-limit", "need-not-met"], &["window-limited"])?;
    ensure!(report["verdict"]["answer"] == "not_met", "{}", report["verdict"]);
    expect_advice(&report, "per-flow-limit")?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

fn small_send_buffer() -> Result<()> {
    let scene = Scene::new(&LabSpec::new(wan()))?;
    for node in scene.lab.nodes() {
        node.sysctl("net.ipv4.tcp_wmem", "4096 16384 32768")?;
    }
    let finished = run_as_root(&scene, "lab.yaml", &[])?;
    // A segment of 64 KiB is always under way, so that even this buffer carries 10 MiB/s at 10 ms.
    let report = finished.expect_code(0)?.report()?;
    expect_findings(&report, &["window-limited", "need-met"], &["per-flow-limit"])?;
    let advice = expect_advice(&report, "window-limited")?;
    let text = advice.to_string();
    ensure!(text.contains("net.ipv4.tcp_wmem"), "{advice:#}");
    ensure!(
        !report.to_string().contains("per-flow-limit"),
        "something is said of a per-flow limit"
    );
    expect_three_bdp(&report)
}

/// The window finding's value is 3 × the best rate of its direction × the round-trip time.
fn expect_three_bdp(report: &Value) -> Result<()> {
    let findings = report["findings"].as_array().context("no findings")?;
    let windows: Vec<&Value> = findings.iter().filter(|f| f["id"] == "window-limited").collect();
    for finding in windows {
        ensure!(finding["unit"] == "bytes", "{finding}");
        let need = finding["value"].as_f64().context("no value")?;
        let direction = &finding["direction"];
        let best = ladders(report)
            .filter(|ladder| ladder["direction"] == *direction)
            .filter_map(|ladder| ladder["best"]["bytes_per_second"].as_f64())
            .fold(0.0, f64::max);
        let expected = 3.0 * best * 0.010;
        ensure!((need / expected - 1.0).abs() < 0.15, "{need} is not 3 × BDP = {expected}");
        let sentence = finding["sentence"].as_str().unwrap_or_default();
        ensure!(sentence.contains('3') && sentence.contains("BDP"), "{sentence}");
    }
    Ok(())
}

fn ladders(report: &Value) -> impl Iterator<Item = &Value> {
    let series = report["series"].as_array().into_iter().flatten();
    series.filter(|series| series["kind"] == "ladder")
}

fn expect_findings(report: &Value, present: &[&str], absent: &[&str]) -> Result<()> {
    let ids = finding_ids(report);
    for id in present {
        ensure!(ids.contains(id), "no `{id}` in {ids:?}: {:#}", report["findings"]);
    }
    for id in absent {
        ensure!(!ids.contains(id), "`{id}` is wrong: {:#}", report["findings"]);
    }
    Ok(())
}

fn expect_advice<'a>(report: &'a Value, finding: &str) -> Result<&'a Value> {
    let recommendations = report["recommendations"].as_array().context("no recommendations")?;
    recommendations
        .iter()
        .find(|advice| {
            advice["findings"].as_array().is_some_and(|ids| ids.contains(&finding.into()))
        })
        .with_context(|| format!("no advice on `{finding}`: {recommendations:#?}"))
}

fn pre_migration() -> Result<()> {
    let scene = Scene::new(&LabSpec::new(wan()))?;
    let runbook = concat!(env!("CARGO_MANIFEST_DIR"), "/runbooks/pre-migration.yaml");
    let finished = run_as_root(&scene, runbook, &PRE_MIGRATION_SHORT)?;
    let report = finished.report()?;
    ensure!(report["run"]["complete"] == true, "{}", report["run"]);
    expect_every_kind(&report, &finished)?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

/// The shipped runbook, with times and sizes that fit a lab.
const PRE_MIGRATION_SHORT: [&str; 12] = [
    "--set",
    "at_most=5 s",
    "--set",
    "confirm=2 s",
    "--set",
    "read=1 s",
    "--set",
    "scratch_dir=/u02",
    "--set",
    "scratch_size=64 MiB",
    // Here all nodes share one host's processors.
    "--set",
    "cpu=100 %",
];

fn expect_every_kind(report: &Value, finished: &Finished) -> Result<()> {
    let directions = ["primary_to_standby", "standby_to_primary"];
    for pair in ["phx1-ash1", "phx2-ash2"] {
        for direction in directions {
            let has = |variable: &str| {
                report["series"].as_array().into_iter().flatten().any(|series| {
                    series["variable"] == variable
                        && series["direction"] == direction
                        && series["pairs"] == serde_json::json!([pair])
                })
            };
            let of_first = ["socket_buffer", "mtu"].iter().filter(|_| pair == "phx1-ash1");
            for variable in ["num_conn"].iter().chain(of_first) {
                ensure!(has(variable), "no {variable} of {pair} {direction}: {}", finished.stderr);
            }
        }
    }
    for node in report["topology"]["nodes"].as_array().into_iter().flatten() {
        let name = node["name"].as_str().unwrap_or_default();
        ensure!(!node["facts"]["interfaces"].as_array().is_none_or(Vec::is_empty), "{name}");
        let hops = &node["facts"]["routes"][0]["hops"];
        ensure!(hops.as_array().is_some_and(|hops| hops.len() >= 2), "hops of {name}: {hops}");
        let reads = report["measurements"].as_array().into_iter().flatten();
        let of_node = reads.filter(|m| m["kind"] == "storage_read" && m["node"] == name).count();
        ensure!(of_node >= 7, "{of_node} storage points on {name}");
    }
    Ok(())
}

fn static_agent_deployed() -> Result<()> {
    let agent = static_agent();
    let file = std::process::Command::new("file").arg("-b").arg(&agent).output()?;
    let file = String::from_utf8_lossy(&file.stdout).into_owned();
    ensure!(file.contains("static"), "`file` says: {file}");
    let ldd = std::process::Command::new("ldd").arg(&agent).output()?;
    let ldd =
        format!("{}{}", String::from_utf8_lossy(&ldd.stdout), String::from_utf8_lossy(&ldd.stderr));
    ensure!(ldd.contains("statically linked") || ldd.contains("not a dynamic"), "`ldd`: {ldd}");

    // Beside the controller it is preferred: the nodes get it, under its own hash.
    let scene = Scene::near()?;
    let quick = fs::read_to_string(super::scene::data().join("runbooks/quick.yaml"))?;
    let runbook = scene.write("keep.yaml", &format!("agent: keep\n{quick}"))?;
    scene.run(&runbook.to_string_lossy(), &[])?.expect_code(0)?;
    let node = scene.lab.node("phx1")?;
    let sum = std::process::Command::new("sha256sum").arg(&agent).output()?;
    let sum = String::from_utf8_lossy(&sum.stdout);
    let kept = super::scene::leftovers(node)?;
    let named = |path: &std::path::PathBuf| path.to_string_lossy().contains(&sum[..16]);
    ensure!(kept.iter().any(named), "{kept:?} has no {}", &sum[..16]);
    Ok(())
}

/// In the middle of a test: the threads that send and receive as well.
fn threads_are_not_pinned() -> Result<()> {
    const THREADS_LEAST: usize = 3;
    let scene = Scene::near()?;
    let mut run = scene.start("quick.yaml", &["--set", "duration=5s"])?;
    run.wait_for("test_started")?;
    for node in ["phx1", "ash1"] {
        let node = scene.lab.node(node)?;
        let all = processors(node, 1)?;
        wait_until("a test's threads", Duration::from_secs(10), || {
            let mut threads = Vec::new();
            for agent in agents(node)? {
                threads.extend(processors(node, agent)?);
            }
            let pinned = threads.iter().find(|allowed| **allowed != all[0]);
            ensure!(pinned.is_none(), "on {}: {pinned:?} of {all:?}", node.name());
            Ok(threads.len() >= THREADS_LEAST)
        })?;
    }
    run.finish()?.expect_code(0).map(drop)
}

/// On which processors each thread of a process may run, as the kernel shows it (`sched_getaffinity`).
fn processors(node: &LabNode, process: i32) -> Result<Vec<String>> {
    node.enter(|| {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
        // One that ended meanwhile is no longer there to be read.
        let texts = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
        Ok(texts
            .filter_map(|text| {
                let mut lines = text.lines();
                lines
                    .find_map(|line| line.strip_prefix("Cpus_allowed:"))
                    .map(|mask| mask.trim().to_owned())
            })
            .collect())
    })
}
