//! Runs iperf3 between two nodes: the second opinion on what the WAN carries.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::node::LabNode;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Traffic {
    /// TCP streams with CUBIC.
    Tcp { streams: u32 },
    /// One UDP flow at this rate of IP packets, in bit/s, of this payload.
    Udp { rate_bps: u64, payload_bytes: u32 },
}

const PORT: u16 = 5201;

/// Seconds at the start that do not count.
const OMITTED_S: u32 = 3;

/// Bit/s of payload that arrived, over `seconds`.
pub(crate) fn received_bps(
    from: &LabNode,
    to: &LabNode,
    traffic: Traffic,
    seconds: u32,
    log: &Path,
) -> Result<f64> {
    let port = PORT.to_string();
    let mut server = to.spawn(&["iperf3", "-s", "-1", "-p", &port], log)?;
    to.wait_for_listener(PORT, Duration::from_secs(10))?;
    let target = to.redo().to_string();
    let (duration, omitted) = (seconds.to_string(), OMITTED_S.to_string());
    let mut argv =
        vec!["iperf3", "-c", &target, "-p", &port, "-t", &duration, "-O", &omitted, "-J"];
    let arguments = match traffic {
        Traffic::Tcp { streams } => vec!["-C".into(), "cubic".into(), format!("-P{streams}")],
        Traffic::Udp { rate_bps, payload_bytes } => {
            vec!["-u".into(), format!("-b{rate_bps}"), format!("-l{payload_bytes}")]
        }
    };
    argv.extend(arguments.iter().map(String::as_str));
    let deadline = Duration::from_secs(u64::from(seconds + OMITTED_S) + 20);
    let output = from.exec_with(&argv, "", deadline)?;
    let result: Value =
        serde_json::from_slice(&output.stdout).context("failed to read iperf3's result")?;
    server.wait(Duration::from_secs(10))?;
    let received = result["end"]["sum_received"]["bits_per_second"].as_f64();
    received.with_context(|| format!("iperf3 failed: {}", result["error"]))
}
