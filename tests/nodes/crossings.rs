//! Several pairs or both directions at the same time: who gets what of a shared link.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use redoline_lab::harness::LabTest;
use redoline_lab::{Inventory, LabSpec, WanSpec};
use serde_json::Value;

use super::scene::{Finished, Scene, expect_clean, mbit_per_s};

pub const TESTS: &[LabTest] = &[
    ("all_senders_with_one_receiver_share_the_rate_of_the_link", all_to_one),
    ("both_directions_at_a_time_each_get_the_rate_of_their_own_link", both_directions),
];

const FORWARD_MBIT_PER_S: f64 = 200.0;
const BACK_MBIT_PER_S: f64 = 150.0;
/// Packets of 1500 bytes carry 1448 of payload each.
const PAYLOAD: f64 = 1448.0 / 1500.0;

fn wan() -> WanSpec {
    let reverse_rate_bps = Some((BACK_MBIT_PER_S * 1e6) as u64);
    let rate = (FORWARD_MBIT_PER_S * 1e6) as u64;
    // Acknowledgements wait in the queue of the other direction: a long one would hold both down.
    let queue_bytes = Some(128 * 1024);
    WanSpec { reverse_rate_bps, queue_bytes, ..WanSpec::new(Duration::from_millis(5), rate) }
}

fn run_as_root(scene: &Scene, runbook: &str) -> Result<Finished> {
    // A receiver has a port for each of its senders.
    let inventory = Inventory { user: "root".to_owned(), data_ports: 2, ..scene.lab.inventory() };
    scene.run_with(&inventory, runbook, &[])
}

fn all_to_one() -> Result<()> {
    let scene = Scene::new(&LabSpec::new(wan()))?;
    let finished = run_as_root(&scene, "all-to-one.yaml")?;
    let report = finished.expect_code(0)?.report()?;
    let [all] = &report["measurements"].as_array().context("no measurements")?[..] else {
        bail!("{:#}", report["measurements"])
    };
    ensure!(all["nodes"] == "all_to_one", "{}", all["nodes"]);
    let sum = mbit_per_s(all).context("no rate")?;
    expect_about("the sum", sum, FORWARD_MBIT_PER_S * PAYLOAD, 0.05)?;
    let pairs = all["pairs"].as_array().context("no pairs")?;
    let names: Vec<_> = pairs.iter().filter_map(|pair| pair["pair"].as_str()).collect();
    ensure!(names == ["phx1-ash1", "phx2-ash1"], "{names:?}");
    let shares: Vec<f64> =
        pairs.iter().filter_map(|pair| pair["bytes_per_second"].as_f64()).collect();
    ensure!(shares.len() == 2 && shares.iter().all(|share| *share > 0.0), "{pairs:?}");
    // Of about the same window: they add up.
    expect_about("the shares", shares.iter().sum::<f64>() * 8.0 / 1e6, sum, 0.01)?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

fn both_directions() -> Result<()> {
    let scene = Scene::new(&LabSpec::new(wan()).nodes(1))?;
    let finished = run_as_root(&scene, "both-directions.yaml")?;
    let report = finished.expect_code(0)?.report()?;
    let measurements = report["measurements"].as_array().context("no measurements")?;
    ensure!(measurements.len() == 2, "{} measurements", measurements.len());
    for (direction, link, sender) in [
        ("primary_to_standby", FORWARD_MBIT_PER_S, "phx1"),
        ("standby_to_primary", BACK_MBIT_PER_S, "ash1"),
    ] {
        let one = of_direction(measurements, direction)?;
        ensure!(one["both_directions"] == true && one["pairs"][0]["sender"] == sender, "{one}");
        // Acknowledgements of the other direction take their part of the link.
        expect_about(direction, mbit_per_s(one).context("no rate")?, link * PAYLOAD, 0.05)?;
    }
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

fn of_direction<'a>(measurements: &'a [Value], direction: &str) -> Result<&'a Value> {
    let one = measurements.iter().find(|one| one["direction"] == direction);
    one.with_context(|| format!("nothing {direction}"))
}

fn expect_about(what: &str, value: f64, expected: f64, tolerance: f64) -> Result<()> {
    ensure!((value / expected - 1.0).abs() <= tolerance, "{what}: {value}, not {expected}");
    Ok(())
}
