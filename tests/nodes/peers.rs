//! What others measure of the same WAN, beside what the product does.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redoline_lab::harness::LabCase;
use redoline_lab::peers::{self, Ends};
use redoline_lab::{Inventory, LabSpec, WanSpec};

use super::scene::Scene;

/// Of a message, as of a small redo write.
const MESSAGE_BYTES: u64 = 4096;
const SECONDS: u64 = 3;
/// qperf gives a mean, which other programs on the machine can only raise: so the smallest of a few
/// attempts counts, and those that disagree are measured again.
const ATTEMPTS: usize = 4;
/// Long enough that what a busy machine adds to a mean does not matter.
const RTT: Duration = Duration::from_millis(20);
/// How far apart two tools may be.
const TOLERANCE: f64 = 0.03;
/// What a ping's small packet spares on the way, and the processes at both ends.
const PING_SLACK: Duration = Duration::from_micros(300);

pub fn cases() -> Vec<LabCase> {
    let peers_agree = LabCase::new("sockperf_qperf_and_ping_agree_on_the_round_trip", peers_agree);
    let sync = LabCase::new("sync_latency_is_what_sockperf_and_qperf_find", sync_agrees);
    [peers_agree, sync].into_iter().map(|case| case.unavailable(peers::why_unavailable())).collect()
}

fn scene() -> Result<Scene> {
    let scene = Scene::new(&LabSpec::new(WanSpec::unlimited(RTT)).nodes(1))?;
    for node in scene.lab.nodes() {
        // Neither tool sets its own. BBR would pace the segments of a message: 1.6 ms of 20.
        node.sysctl("net.ipv4.tcp_congestion_control", "reno")?;
    }
    Ok(scene)
}

struct Peers {
    sockperf: Duration,
    qperf: Duration,
    ping: Duration,
}

impl Peers {
    fn measure(scene: &Scene) -> Result<Self> {
        let (from, to) = (scene.lab.node("phx1")?, scene.lab.node("ash1")?);
        let ends = Ends::between(from, to, &scene.lab);
        Ok(Self {
            sockperf: peers::sockperf_round_trip(ends, MESSAGE_BYTES, SECONDS)?,
            qperf: peers::qperf_round_trip(ends, MESSAGE_BYTES, SECONDS)?,
            ping: peers::ping_round_trip(ends)?,
        })
    }

    fn or_smaller(self, other: Self) -> Self {
        Self {
            sockperf: self.sockperf.min(other.sockperf),
            qperf: self.qperf.min(other.qperf),
            ping: self.ping.min(other.ping),
        }
    }

    fn expect_agreement(&self) -> Result<()> {
        let Self { sockperf, qperf, ping } = *self;
        agree("sockperf and qperf", sockperf, qperf)?;
        let longest = RTT.mul_f64(1.0 + TOLERANCE) + PING_SLACK;
        for (name, time) in [("sockperf", sockperf), ("qperf", qperf), ("ping", ping)] {
            let is_right = (RTT.mul_f64(0.99)..longest).contains(&time);
            ensure!(is_right, "{name} finds {time:?} where {RTT:?} is emulated");
        }
        Ok(())
    }

    fn settled(scene: &Scene) -> Result<Self> {
        let mut peers = Self::measure(scene)?;
        for _ in 1..ATTEMPTS {
            if peers.expect_agreement().is_ok() {
                break;
            }
            peers = peers.or_smaller(Self::measure(scene)?);
        }
        peers.expect_agreement()?;
        Ok(peers)
    }
}

fn agree(what: &str, a: Duration, b: Duration) -> Result<()> {
    let ratio = a.as_secs_f64() / b.as_secs_f64();
    ensure!((ratio - 1.0).abs() <= TOLERANCE, "{what}: {a:?} and {b:?}");
    Ok(())
}

fn peers_agree() -> Result<()> {
    Peers::settled(&scene()?).map(drop)
}

const SYNC: &str = "\
name: Synchronous
steps:
  - name: Messages and their acknowledgements
    throughput:
      { num_conn: 1, mode: fastsync, message_length: 4 KiB, duration: 4 s, congestion_control: cubic }
";

fn sync_agrees() -> Result<()> {
    let scene = scene()?;
    let Peers { sockperf, qperf, .. } = Peers::settled(&scene)?;
    let runbook = scene.write("sync.yaml", SYNC)?;
    let inventory = Inventory { user: "root".to_owned(), ..scene.lab.inventory() };
    let finished = scene.run_with(&inventory, &runbook.to_string_lossy(), &[])?;
    let report = finished.expect_code(0)?.report()?;
    let measured = &report["measurements"][0]["latency_us"]["p50"];
    let p50_us = measured.as_f64().with_context(|| format!("no latency: {measured}"))?;
    let latency = Duration::from_secs_f64(p50_us / 1e6);
    agree("redoline and sockperf", latency, sockperf)?;
    agree("redoline and qperf", latency, qperf)
}
