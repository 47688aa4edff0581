//! An interface's MTU is restored at both ends whoever dies while it is held, and nothing is left.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use redoline_lab::harness::LabCase;
use redoline_lab::{Carrier, LabNode, Network};

use super::interface_mtu::{as_root, guardians, is_as_it_was, is_held, scene, wide};
use super::scene::{Running, Scene, agents, expect_clean, texts, wait_until};

/// For the first of three tests to end and the second to begin.
const HELD_DEADLINE: Duration = Duration::from_secs(60);
/// A test that nobody disturbs holds the MTU for longer than it may take to restore it.
const TEST: &str = "duration=24 s";
const RESTORED_DEADLINE: Duration = Duration::from_secs(20);
const SSH_PORT: u16 = 22;

/// Who dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Death {
    Controller,
    /// All of sshd's processes of this run.
    SshSession,
    ParentOfTheAgent,
    Agent,
    /// No process: the cable of the network that the controller comes by.
    Cable,
    /// Nor here: a firewall that forgets the connection.
    Connection,
}

pub fn cases() -> impl Iterator<Item = LabCase> {
    let deaths = [
        ("a_killed_controller", Death::Controller),
        ("a_killed_ssh_session", Death::SshSession),
        ("a_killed_parent_of_the_agent", Death::ParentOfTheAgent),
        ("a_killed_agent", Death::Agent),
        ("a_pulled_cable", Death::Cable),
        ("a_cut_connection", Death::Connection),
    ];
    deaths.into_iter().flat_map(|(name, death)| {
        // What the controller's death does to the nodes is the same for both.
        let nodes = if death == Death::Controller { &["ash1"][..] } else { &["ash1", "phx1"] };
        nodes.iter().map(move |node| {
            let name = format!("{name}_leaves_no_changed_mtu_of_{node}");
            LabCase::new(name, move || dead_man(death, node))
        })
    })
}

fn dead_man(death: Death, node: &str) -> Result<()> {
    let scene = scene(wide(), 1)?;
    let mut run = scene.start_with(&as_root(&scene), "jumbo.yaml", &["--set", TEST])?;
    wait_until_held(&scene, &mut run)?;
    let victim = scene.lab.node(node)?;
    strike(&scene, &run, death, victim)?;
    for node in scene.lab.nodes() {
        let what = format!("the MTU of {} as it was", node.name());
        wait_until(&what, RESTORED_DEADLINE, || is_as_it_was(node))?;
    }
    expect_told(run, death, node)?;
    scene.lab.nodes().iter().try_for_each(expect_nothing_left)
}

/// And the test under way.
fn wait_until_held(scene: &Scene, run: &mut Running) -> Result<()> {
    run.wait_for("test_started")?;
    for node in scene.lab.nodes() {
        let what = format!("the MTU of {} at 9000", node.name());
        wait_until(&what, HELD_DEADLINE, || is_held(node))?;
    }
    wait_until("the test at this MTU", HELD_DEADLINE, || {
        Ok(run.events().matches(r#""type":"test_started""#).count() == 2)
    })?;
    for node in scene.lab.nodes() {
        ensure!(is_held(node)? && guardians(node)?.len() == 1, "{}: not held", node.name());
    }
    Ok(())
}

fn strike(scene: &Scene, run: &Running, death: Death, node: &LabNode) -> Result<()> {
    match death {
        Death::Controller => run.signal(Signal::SIGKILL),
        Death::SshSession => kill_all(node, &ssh_sessions(node)?),
        Death::ParentOfTheAgent => {
            let agents = agents_proper(node)?.into_iter();
            let parents: Result<Vec<i32>> = agents.map(|agent| parent(node, agent)).collect();
            kill_all(node, &parents?)
        }
        Death::Agent => kill_all(node, &agents_proper(node)?),
        Death::Cable => scene.lab.set_carrier(node, Network::Management, Carrier::Down),
        Death::Connection => node.drop_port(SSH_PORT),
    }
}

fn kill_all(node: &LabNode, processes: &[i32]) -> Result<()> {
    ensure!(!processes.is_empty(), "nobody to kill on {}", node.name());
    processes.iter().try_for_each(|process| node.signal(*process, Signal::SIGKILL))
}

/// Without their guardians.
fn agents_proper(node: &LabNode) -> Result<Vec<i32>> {
    let (agents, guardians) = (agents(node)?, guardians(node)?);
    Ok(agents.into_iter().filter(|agent| !guardians.contains(agent)).collect())
}

/// `sshd: root@notty`, or `sshd-session: …`; not the one that listens.
fn ssh_sessions(node: &LabNode) -> Result<Vec<i32>> {
    let processes = node.processes()?;
    let sessions = processes.iter().filter(|process| {
        process.command.starts_with("sshd") && process.command.contains(": root")
    });
    Ok(sessions.map(|process| process.pid).collect())
}

fn parent(node: &LabNode, process: i32) -> Result<i32> {
    let status = node.read_file(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(line.with_context(|| status.clone())?.trim().parse()?)
}

/// A controller that lives says who is gone, and what to look at.
fn expect_told(run: Running, death: Death, node: &str) -> Result<()> {
    let finished = run.finish()?;
    if death == Death::Controller {
        return Ok(());
    }
    let report = finished.expect_code(3)?.report()?;
    let told = texts(&report["run"]);
    for words in [node, "ip link set dev redo0 mtu 1500"] {
        ensure!(told.contains(words), "no `{words}` in {told}");
    }
    Ok(())
}

fn expect_nothing_left(node: &LabNode) -> Result<()> {
    // Its guardian has the name of an agent.
    expect_clean(node)?;
    ensure!(is_as_it_was(node)?, "{}: the MTU is changed again", node.name());
    Ok(())
}
