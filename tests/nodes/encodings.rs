//! Encryption and compression, as sweeps over a link that holds the plain rate down.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redoline_lab::harness::LabTest;
use redoline_lab::{Inventory, LabSpec, WanSpec};
use serde_json::Value;

use super::scene::{Scene, expect_clean};

pub const TESTS: &[LabTest] =
    &[("every_encoding_has_a_rate_and_compression_beats_the_plain_one", encodings)];

const LINK_MBIT_PER_S: f64 = 50.0;
const PLAIN_MBIT_PER_S: f64 = LINK_MBIT_PER_S * 1448.0 / 1500.0;
/// A record of TLS 1.3 has 16 KiB of payload, and 22 bytes around it (RFC 8446, section 5.2).
const ENCRYPTED_MBIT_PER_S: f64 = PLAIN_MBIT_PER_S * 16_384.0 / 16_406.0;

fn encodings() -> Result<()> {
    let wan = WanSpec::new(Duration::from_millis(2), (LINK_MBIT_PER_S * 1e6) as u64);
    let scene = Scene::new(&LabSpec::new(wan).nodes(1))?;
    let inventory = Inventory { user: "root".to_owned(), ..scene.lab.inventory() };
    let finished = scene.run_with(&inventory, "encodings.yaml", &[])?;
    let report = finished.expect_code(0)?.report()?;

    let ciphers = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];
    expect_about(&report, "encryption", "none", PLAIN_MBIT_PER_S)?;
    for cipher in ciphers {
        expect_about(&report, "encryption", cipher, ENCRYPTED_MBIT_PER_S)?;
    }
    // The plain bytes are counted: half of them need not travel.
    expect_about(&report, "compression", "none", PLAIN_MBIT_PER_S)?;
    for method in ["lz4", "zlib-1"] {
        let rate = rate(&report, "compression", method)?;
        let share = rate / PLAIN_MBIT_PER_S;
        ensure!((1.5..=2.2).contains(&share), "{method}: {rate} Mbit/s, {share} of the plain rate");
    }
    expect_named(&report)?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

fn rate(report: &Value, variable: &str, label: &str) -> Result<f64> {
    let series = report["series"].as_array().into_iter().flatten();
    let points = series.filter(|series| series["variable"] == variable);
    let mut points = points.flat_map(|series| series["points"].as_array().into_iter().flatten());
    let point = points.find(|point| point["label"] == label);
    let point = point.with_context(|| format!("no {variable} `{label}`"))?;
    let rate = point["bytes_per_second"].as_f64();
    Ok(rate.with_context(|| format!("no rate: {point}"))? * 8.0 / 1e6)
}

fn expect_about(report: &Value, variable: &str, label: &str, expected: f64) -> Result<()> {
    let rate = rate(report, variable, label)?;
    let near = (rate / expected - 1.0).abs() < 0.02;
    ensure!(near, "{variable} {label}: {rate} Mbit/s, not {expected}");
    Ok(())
}

/// Each test says how its bytes travelled.
fn expect_named(report: &Value) -> Result<()> {
    let all = report["measurements"].as_array().into_iter().flatten();
    let encodings: Vec<_> = all.map(|measurement| measurement["encoding"].as_str()).collect();
    let expected = [
        None,
        Some("aes-128-gcm"),
        Some("aes-256-gcm"),
        Some("chacha20-poly1305"),
        None,
        Some("lz4"),
        Some("zlib-1"),
    ];
    ensure!(encodings == expected, "{encodings:?}");
    Ok(())
}
