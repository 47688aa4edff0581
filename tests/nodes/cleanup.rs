//! Whatever happens to a run, no process and no file of ours is left on a node.

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use redoline_lab::harness::LabTest;

use super::scene::{Scene, agents, expect_clean, leftovers, redoline};

pub const TESTS: &[LabTest] = &[
    ("a_run_that_succeeds_leaves_nothing", after_success),
    ("ctrl_c_leaves_nothing_and_still_gives_a_report", after_interrupt),
    ("a_killed_controller_leaves_nothing", after_kill),
    ("a_kept_agent_is_used_again_and_clean_removes_it", kept_agent),
    ("a_killed_controller_leaves_no_scratch_file", scratch_file),
];

fn all_clean(scene: &Scene) -> Result<()> {
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

fn after_success() -> Result<()> {
    let scene = Scene::near()?;
    scene.run("quick.yaml", &[])?.expect_code(0)?;
    all_clean(&scene)
}

fn after_interrupt() -> Result<()> {
    let scene = Scene::near()?;
    let mut run = scene.start("quick.yaml", &["--set", "duration=60s"])?;
    run.wait_for("test_started")?;
    run.signal(Signal::SIGINT)?;
    let finished = run.finish()?;
    let report = finished.expect_code(130)?.report()?;
    ensure!(report["run"]["complete"] == false && report["run"]["outcome"] == "interrupted");
    all_clean(&scene)
}

fn after_kill() -> Result<()> {
    let scene = Scene::near()?;
    let mut run = scene.start("quick.yaml", &["--set", "duration=60s"])?;
    run.wait_for("test_started")?;
    run.signal(Signal::SIGKILL)?;
    let killed = run.finish()?;
    all_clean(&scene)?;
    // What was kept up to then still gives a report.
    let folder = killed.folder.unwrap_or_default();
    let shown = redoline().arg("report").arg(folder).output()?;
    ensure!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    Ok(())
}

fn kept_agent() -> Result<()> {
    let scene = Scene::near()?;
    let quick = std::fs::read_to_string(super::scene::data().join("runbooks/quick.yaml"))?;
    let keep = scene.write("keep.yaml", &format!("agent: keep\n{quick}"))?;
    let keep = keep.to_string_lossy();
    scene.run(&keep, &[])?.expect_code(0)?;
    let node = scene.lab.node("phx1")?;
    ensure!(agents(node)?.is_empty(), "an agent still runs");
    let kept = leftovers(node)?;
    ensure!(kept.iter().any(|path| path.to_string_lossy().contains("redoline-agent-")), "{kept:?}");

    let again = scene.run(&keep, &[])?;
    let report = again.expect_code(0)?.report()?;
    ensure!(report["topology"]["nodes"][0]["agent"] == "was on the node", "{}", report["topology"]);

    let inventory = scene.write("clean.yaml", &scene.lab.inventory().to_yaml())?;
    let cleaned = redoline().arg("clean").arg("-i").arg(inventory).output()?;
    ensure!(cleaned.status.success(), "{}", String::from_utf8_lossy(&cleaned.stderr));
    all_clean(&scene)
}

fn scratch_file() -> Result<()> {
    let scene = Scene::near()?;
    let runbook = scene.write(
        "scratch.yaml",
        "name: Scratch\nsteps:\n  - name: Reads\n    storage_read: { scratch: { dir: /home/oracle, \
         size: 64 MiB }, patterns: [single_block], duration: 60 s, nodes: first }\n",
    )?;
    let mut run = scene.start(&runbook.to_string_lossy(), &[])?;
    run.wait_for("test_started")?;
    run.signal(Signal::SIGKILL)?;
    run.finish()?;
    all_clean(&scene)
}
