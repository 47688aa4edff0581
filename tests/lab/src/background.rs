//! Traffic between two nodes that is not the controller's: others use the network too.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::{
    lab::Lab,
    namespace::Spawned,
    node::{LabNode, REDO_INTERFACE},
};

/// Traffic that goes on until this is dropped.
#[derive(Debug)]
pub struct Background {
    _sender: Spawned,
    _receiver: Spawned,
}

const PORT: u16 = 5301;

/// Payload of a packet; with its headers it fits every MTU that a WAN should have.
const PAYLOAD_BYTES: u64 = 1200;

/// IP and UDP headers.
const HEADER_BYTES: u64 = 28;

/// Packets that must have come before it counts as running.
const PACKETS: u64 = 20;

const DEADLINE: Duration = Duration::from_secs(10);

impl Lab {
    /// Sends UDP packets from one node's redo interface to another's, at this rate of IP packets in
    /// bit/s. When this returns, they arrive.
    pub fn background(&self, from: &LabNode, to: &LabNode, rate_bps: u64) -> Result<Background> {
        let (port, log) = (PORT.to_string(), self.dir().join("background.log"));
        let _receiver = to.spawn(&["iperf3", "-s", "-1", "-p", &port], &log)?;
        to.wait_for_listener(PORT, DEADLINE)?;
        let before = received_packets(to)?;
        let target = to.redo().to_string();
        let payload = PAYLOAD_BYTES.to_string();
        let payload_bps = (rate_bps * PAYLOAD_BYTES / (PAYLOAD_BYTES + HEADER_BYTES)).to_string();
        let mut argv = vec!["iperf3", "-u", "-c", &target, "-p", &port, "-t", "3600"];
        argv.extend(["-l", &payload, "-b", &payload_bps]);
        let _sender = from.spawn(&argv, &log)?;
        let end = Instant::now() + DEADLINE;
        while received_packets(to)? < before + PACKETS {
            ensure!(Instant::now() < end, "no background traffic reaches `{}`", to.name());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Background { _sender, _receiver })
    }
}

fn received_packets(node: &LabNode) -> Result<u64> {
    let path = format!("/sys/class/net/{REDO_INTERFACE}/statistics/rx_packets");
    node.read_file(&path)?.trim().parse().with_context(|| format!("failed to read `{path}`"))
}
