//! The `path` step, on a way of which everything is known.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redoline::history::run_dir::RunDir;
use redoline::plan::node::Direction;
use redoline::record::measurement::Path;
use redoline::record::run::RunRecord;
use redoline_lab::harness::LabTest;
use redoline_lab::node::REDO_INTERFACE;
use redoline_lab::{LabSpec, WanSpec};
use redoline_proto::path::{ProbeWay, SizeOutcome};
use serde_json::Value;

use super::scene::{Finished, Scene, expect_clean};

pub const TESTS: &[LabTest] =
    &[("a_clean_path_is_known_by_its_round_trip_its_mtu_and_its_interfaces", clean_path)];

const RTT: Duration = Duration::from_millis(10);
/// What a busy machine adds to both ends' processes.
const SLACK: Duration = Duration::from_micros(200);
const TOLERANCE: f64 = 0.05;
const LINK_MBIT_PER_S: f64 = 300.0;

fn clean_path() -> Result<()> {
    let wan = WanSpec::new(RTT, (LINK_MBIT_PER_S * 1e6) as u64);
    let scene = Scene::new(&LabSpec::new(wan).nodes(1))?;
    let finished = scene.run("path.yaml", &[])?;
    let report = finished.expect_code(0)?.report()?;
    let record = record(&finished)?;
    let directions: Vec<_> = record.paths().map(|path| path.direction).collect();
    ensure!(
        directions == [Direction::PrimaryToStandby, Direction::StandbyToPrimary],
        "{directions:?}"
    );
    for path in record.paths() {
        expect_probe(path)?;
        expect_stream(path)?;
    }
    expect_reported(&report)?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

fn expect_reported(report: &Value) -> Result<()> {
    let all = report["measurements"].as_array().into_iter().flatten();
    let paths: Vec<_> = all.filter(|measurement| measurement["kind"] == "path").collect();
    ensure!(paths.len() == 2, "{} of 2 paths", paths.len());
    for path in paths {
        for key in ["path_mtu_bytes", "return_path_mtu_bytes"] {
            ensure!(path[key] == 1500, "{key}: {}", path[key]);
        }
        for end in ["sender", "receiver"] {
            ensure!(path["interface"][end] == REDO_INTERFACE, "{end}: {}", path["interface"]);
        }
        ensure!(path["loss_ratio"] == 0.0, "{}", path["loss_ratio"]);
    }
    Ok(())
}

fn record(finished: &Finished) -> Result<RunRecord> {
    let folder = finished.folder.as_ref().context("no folder")?;
    Ok(RunRecord::fold(&RunDir::open(folder)?.moments()?)?)
}

fn expect_probe(path: &Path) -> Result<()> {
    ensure!(path.failure.is_none(), "{:?}", path.failure);
    let probe = path.probe.as_ref().context("no probe")?;
    ensure!(probe.way == Some(ProbeWay::Udp), "{:?}", probe.way);
    ensure!((probe.sent, probe.answered, probe.reordered) == (100, 100, 0), "{probe:?}");
    let rtt = probe.rtt.as_ref().context("no round trip")?;
    let p50 = Duration::from_secs_f64(rtt.p50_us / 1e6);
    let longest = RTT.mul_f64(1.0 + TOLERANCE) + SLACK;
    ensure!((RTT..=longest).contains(&p50), "{p50:?} where {RTT:?} is emulated");
    ensure!(probe.path_mtu_bytes == Some(1500), "{probe:?}");
    ensure!(probe.return_path_mtu_bytes == Some(1500), "{probe:?}");
    ensure!(probe.interface.as_deref() == Some(REDO_INTERFACE), "{probe:?}");
    ensure!(probe.interface_mtu_bytes == Some(1500), "{probe:?}");
    let full = probe.sizes.iter().find(|size| size.packet_bytes == 1500);
    ensure!(full.is_some_and(|size| size.outcome == SizeOutcome::Passed), "{:?}", probe.sizes);
    Ok(())
}

fn expect_stream(path: &Path) -> Result<()> {
    let stream = path.stream.as_ref().context("no stream")?;
    ensure!(stream.failure.is_none(), "{:?}", stream.failure);
    let end = stream.receiver.end.as_ref().context("the receiver did not say its end")?;
    ensure!(end.stopped.is_none(), "{:?}", end.stopped);
    let bytes: u64 = stream.receiver.samples.iter().map(|sample| sample.bytes().0).sum();
    ensure!(bytes > 0, "the stream carried nothing");
    Ok(())
}
