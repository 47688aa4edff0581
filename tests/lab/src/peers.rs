//! Runs sockperf and qperf between two places: what others find for a message and its answer.

use std::{
    net::Ipv4Addr,
    path::Path,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    lab::Lab,
    namespace::{Namespace, Spawned},
    node::LabNode,
};

/// The programs with the packages that have them. A lab can do without.
const PROGRAMS: [&str; 2] = ["sockperf", "qperf"];

/// Neither tool takes a port again at once that it has just used.
const PORTS: std::ops::Range<u16> = 5400..5500;

/// The processor before other programs of the machine: what is asked for is the network's time.
pub(crate) const PUNCTUAL: [&str; 3] = ["chrt", "--rr", "1"];

const LISTEN_DEADLINE: Duration = Duration::from_secs(10);

/// What 41 pings take.
const PING_SECONDS: u64 = 2;

/// Above a test's own seconds: warming up, connecting, printing.
const GRACE: Duration = Duration::from_secs(20);

/// Who asks whom; both may be in the same namespaces.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Sends messages and waits for answers.
    pub sender: &'a Namespace,
    /// Answers.
    pub receiver: &'a Namespace,
    /// The receiver's.
    pub address: Ipv4Addr,
    /// For what the programs say.
    pub folder: &'a Path,
}

impl<'a> Ends<'a> {
    /// Over the WAN of a lab.
    pub fn between(from: &'a LabNode, to: &'a LabNode, lab: &'a Lab) -> Self {
        Self { sender: from, receiver: to, address: to.redo(), folder: lab.dir() }
    }
}

/// Which of the programs is missing, as a reason to leave a test out.
pub fn why_unavailable() -> Option<String> {
    let missing = PROGRAMS.iter().find(|name| !Path::new("/usr/bin").join(name).exists())?;
    Some(format!("needs `{missing}` (package {missing})"))
}

/// The median time from sending a message to having its answer of the same size, by sockperf over
/// TCP. The network's round trip is part of it; sockperf itself prints a half.
pub fn sockperf_round_trip(ends: Ends<'_>, message_bytes: u64, seconds: u64) -> Result<Duration> {
    let target = ends.address.to_string();
    let log = ends.folder.join("sockperf.log");
    let port = next_port();
    let server = ["sockperf", "sr", "--tcp", "-i", &target, "-p", &port];
    let _server = listening(ends.receiver, &server, &port, &log)?;
    let (message, time) = (message_bytes.to_string(), seconds.to_string());
    let client = ["sockperf", "pp", "--tcp", "-i", &target, "-p", &port];
    let client = [&client[..], &["-m", &message, "-t", &time]].concat();
    let output = run(ends.sender, &client, seconds)?;
    let line = output.lines().find(|line| line.contains("percentile 50.000"));
    let half_us: Option<f64> = line.and_then(|line| line.rsplit_once('=')?.1.trim().parse().ok());
    let half_us = half_us.with_context(|| format!("sockperf gave no median: {output}"))?;
    Ok(Duration::from_secs_f64(half_us * 2.0 / 1e6))
}

/// The mean time from sending a message to having its answer of the same size, by qperf's `tcp_lat`,
/// which itself prints a half.
pub fn qperf_round_trip(ends: Ends<'_>, message_bytes: u64, seconds: u64) -> Result<Duration> {
    let log = ends.folder.join("qperf.log");
    let port = next_port();
    let _server = listening(ends.receiver, &["qperf", "-lp", &port], &port, &log)?;
    let (message, time) = (message_bytes.to_string(), seconds.to_string());
    let target = ends.address.to_string();
    let client = ["qperf", "-lp", &port, "-uu", "-t", &time, "-m", &message, &target, "tcp_lat"];
    let output = run(ends.sender, &client, seconds)?;
    // With `-uu` always in nanoseconds.
    let latency = output.split_once("latency").and_then(|(_, rest)| rest.split_once('='));
    let half_ns: Option<f64> = latency.and_then(|(_, text)| {
        let number = text.trim().strip_suffix("ns")?.trim();
        number.replace(',', "").parse().ok()
    });
    let half_ns = half_ns.with_context(|| format!("qperf gave no latency: {output}"))?;
    Ok(Duration::from_secs_f64(half_ns * 2.0 / 1e9))
}

/// The median of ping's round trips.
pub fn ping_round_trip(ends: Ends<'_>) -> Result<Duration> {
    let target = ends.address.to_string();
    let output =
        run(ends.sender, &["ping", "-n", "-c", "41", "-i", "0.05", &target], PING_SECONDS)?;
    let mut times = crate::check::ping_times_ms(&output);
    times.sort_by(f64::total_cmp);
    let median_ms = *times.get(times.len() / 2).context("no ping came back")?;
    Ok(Duration::from_secs_f64(median_ms / 1e3))
}

fn next_port() -> String {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    (PORTS.start + count % (PORTS.end - PORTS.start)).to_string()
}

fn listening(place: &Namespace, argv: &[&str], port: &str, log: &Path) -> Result<Spawned> {
    let server = place.spawn(&[&PUNCTUAL[..], argv].concat(), log)?;
    place.wait_for_listener(port.parse()?, LISTEN_DEADLINE)?;
    Ok(server)
}

fn run(place: &Namespace, argv: &[&str], seconds: u64) -> Result<String> {
    let argv = [&PUNCTUAL[..], argv].concat();
    let output = place.exec_with(&argv, "", Duration::from_secs(seconds) + GRACE)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {text}{error}", argv.join(" "));
    Ok(text)
}
