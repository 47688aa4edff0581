//! Runs iperf3 between two nodes: the second opinion on what the WAN carries.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::node::LabNode;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) protocol: Protocol,
    pub(crate) streams: u64,
    /// Payload of a UDP packet.
    pub(crate) payload_bytes: u32,
    /// Bit/s of all UDP streams together.
    pub(crate) offered_bps: u64,
}

/// How to send it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// As fast as CUBIC goes.
    Tcp,
    /// At the offered rate.
    Udp,
}

const PORT: u16 = 5201;

/// Seconds at the start that do not count.
const OMITTED_S: u32 = 2;

/// Bit/s of payload that arrived, over `seconds`.
pub(crate) fn received_bps(
    (from, to): (&LabNode, &LabNode),
    traffic: Traffic,
    seconds: u32,
    log: &Path,
) -> Result<f64> {
    let port = PORT.to_string();
    let mut server = to.spawn(&["iperf3", "-s", "-1", "-p", &port], log)?;
    to.wait_for_listener(PORT, Duration::from_secs(10))?;
    let target = to.redo().to_string();
    let (duration, omitted) = (seconds.to_string(), OMITTED_S.to_string());
    let streams = traffic.streams.to_string();
    let mut argv = vec!["iperf3", "-J", "-c", &target, "-p", &port, "-P", &streams];
    argv.extend(["-t", &duration, "-O", &omitted]);
    let arguments = match traffic.protocol {
        Protocol::Tcp => vec!["-C".into(), "cubic".into()],
        Protocol::Udp => {
            let stream_bps = traffic.offered_bps / traffic.streams;
            vec!["-u".into(), format!("-b{stream_bps}"), format!("-l{}", traffic.payload_bytes)]
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
