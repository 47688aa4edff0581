//! Runs sockperf and qperf between two nodes: what others find for a message and its answer.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{lab::Lab, namespace::Spawned, node::LabNode};

/// The programs with the packages that have them. A lab can do without.
const PROGRAMS: [&str; 2] = ["sockperf", "qperf"];

const SOCKPERF_PORT: &str = "5401";
const QPERF_PORT: &str = "5402";

const LISTEN_DEADLINE: Duration = Duration::from_secs(10);

/// Above a test's own seconds: warming up, connecting, printing.
const GRACE: Duration = Duration::from_secs(20);

/// Which of the programs is missing, as a reason to leave a test out.
pub fn why_unavailable() -> Option<String> {
    let missing = PROGRAMS.iter().find(|name| !Path::new("/usr/bin").join(name).exists())?;
    Some(format!("needs `{missing}` (package {missing})"))
}

/// The median time from sending a message to having its answer of the same size, by sockperf over
/// TCP. The network's round trip is part of it; sockperf itself prints a half.
pub fn sockperf_round_trip(
    (from, to): (&LabNode, &LabNode),
    message_bytes: u64,
    seconds: u64,
    lab: &Lab,
) -> Result<Duration> {
    let target = to.redo().to_string();
    let log = lab.dir().join("sockperf.log");
    let server = ["sockperf", "sr", "--tcp", "-i", &target, "-p", SOCKPERF_PORT];
    let _server = listening(to, &server, SOCKPERF_PORT, &log)?;
    let (message, time) = (message_bytes.to_string(), seconds.to_string());
    let client = ["sockperf", "pp", "--tcp", "-i", &target, "-p", SOCKPERF_PORT];
    let client = [&client[..], &["-m", &message, "-t", &time]].concat();
    let output = run(from, &client, seconds)?;
    let line = output.lines().find(|line| line.contains("percentile 50.000"));
    let half_us: Option<f64> = line.and_then(|line| line.rsplit_once('=')?.1.trim().parse().ok());
    let half_us = half_us.with_context(|| format!("sockperf gave no median: {output}"))?;
    Ok(Duration::from_secs_f64(half_us * 2.0 / 1e6))
}

/// The mean time from sending a message to having its answer of the same size, by qperf's `tcp_lat`,
/// which itself prints a half.
pub fn qperf_round_trip(
    (from, to): (&LabNode, &LabNode),
    message_bytes: u64,
    seconds: u64,
    lab: &Lab,
) -> Result<Duration> {
    let log = lab.dir().join("qperf.log");
    let _server = listening(to, &["qperf", "-lp", QPERF_PORT], QPERF_PORT, &log)?;
    let (message, time) = (message_bytes.to_string(), seconds.to_string());
    let target = to.redo().to_string();
    let client =
        ["qperf", "-lp", QPERF_PORT, "-uu", "-t", &time, "-m", &message, &target, "tcp_lat"];
    let output = run(from, &client, seconds)?;
    // With `-uu` always in nanoseconds.
    let latency = output.split_once("latency").and_then(|(_, rest)| rest.split_once('='));
    let half_ns: Option<f64> = latency.and_then(|(_, text)| {
        let number = text.trim().strip_suffix("ns")?.trim();
        number.replace(',', "").parse().ok()
    });
    let half_ns = half_ns.with_context(|| format!("qperf gave no latency: {output}"))?;
    Ok(Duration::from_secs_f64(half_ns * 2.0 / 1e9))
}

/// The median of ping's round trips between two redo addresses.
pub fn ping_round_trip((from, to): (&LabNode, &LabNode)) -> Result<Duration> {
    let target = to.redo().to_string();
    let output = from.run(&["ping", "-n", "-c", "41", "-i", "0.05", &target])?;
    let mut times = crate::check::ping_times_ms(&output);
    times.sort_by(f64::total_cmp);
    let median_ms = *times.get(times.len() / 2).context("no ping came back")?;
    Ok(Duration::from_secs_f64(median_ms / 1e3))
}

fn listening(node: &LabNode, argv: &[&str], port: &str, log: &Path) -> Result<Spawned> {
    let server = node.spawn(argv, log)?;
    node.wait_for_listener(port.parse()?, LISTEN_DEADLINE)?;
    Ok(server)
}

fn run(node: &LabNode, argv: &[&str], seconds: u64) -> Result<String> {
    let output = node.exec_with(argv, "", Duration::from_secs(seconds) + GRACE)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {text}{error}", argv.join(" "));
    Ok(text)
}
