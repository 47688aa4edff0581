//! Logins as they are met: noise, csh, noexec, passwords, SSH agents, forwarding disabled.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use redoline_lab::harness::LabTest;

use super::scene::{Scene, expect_clean};

pub const TESTS: &[LabTest] = &[
    ("login_noise_and_csh_are_survived", noise_and_csh),
    ("noexec_directories_are_passed_over", noexec),
    ("noexec_everywhere_is_named", noexec_everywhere),
    ("a_password_from_the_environment_opens_the_nodes", password),
    ("the_ssh_agent_s_key_opens_the_nodes", ssh_agent),
    ("hardened_sshd_without_forwarding_and_sftp_is_enough", hardened),
];

fn noise_and_csh() -> Result<()> {
    let scene = Scene::near()?;
    let csh = scene.lab.node("phx1")?;
    csh.set_login_shell("oracle", "/bin/tcsh")?;
    csh.write_file("/home/oracle/.cshrc", "echo Welcome to phx1\n", "oracle", 0o644)?;
    let noisy = scene.lab.node("ash1")?;
    noisy.write_file("/home/oracle/.bashrc", "echo Authorised use only\n", "oracle", 0o644)?;
    scene.run("quick.yaml", &[])?.expect_code(0)?.report()?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}

const AGENT_DIRECTORIES: [&str; 3] = ["/var/tmp", "/dev/shm", "/tmp"];

fn noexec() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("phx1")?;
    for directory in AGENT_DIRECTORIES {
        node.mount_noexec(directory)?;
    }
    scene.run("quick.yaml", &[])?.expect_code(0)?;
    expect_clean(node)
}

fn noexec_everywhere() -> Result<()> {
    let scene = Scene::near()?;
    let node = scene.lab.node("phx1")?;
    for directory in AGENT_DIRECTORIES.into_iter().chain(["/home"]) {
        node.mount_noexec(directory)?;
    }
    let finished = scene.run("quick.yaml", &[])?;
    let report = super::scene::texts(&finished.expect_code(3)?.report()?);
    ensure!(report.contains("noexec") && report.contains("phx1"), "{report}");
    expect_clean(node)
}

fn password() -> Result<()> {
    let scene = Scene::near()?;
    let mut inventory = scene.lab.inventory();
    // A key that no node takes, so that only the password is left.
    inventory.key = scene.lab.client().other_key.clone();
    inventory.ssh.push(("password_from".to_owned(), "{ env: LAB_PASSWORD }".to_owned()));
    let inventory = scene.write("password.yaml", &inventory.to_yaml())?;
    let output = super::scene::redoline()
        .args(["run", "tests/data/runbooks/quick.yaml", "-i"])
        .arg(&inventory)
        .arg("-o")
        .arg(scene.path("password-runs"))
        .env("LAB_PASSWORD", redoline_lab::ssh::PASSWORD)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(0), "{stderr}");
    let leaked = Command::new("grep")
        .args(["-r", redoline_lab::ssh::PASSWORD])
        .arg(scene.path("password-runs"))
        .stdout(Stdio::null())
        .status()?;
    ensure!(leaked.code() == Some(1), "the password stands in a file of the run");
    Ok(())
}

fn ssh_agent() -> Result<()> {
    let scene = Scene::near()?;
    let socket = scene.path("agent.sock");
    let mut agent = Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn()
        .context("failed to start ssh-agent")?;
    let outcome = with_agent(&scene, &socket);
    agent.kill()?;
    agent.wait()?;
    outcome
}

fn with_agent(scene: &Scene, socket: &std::path::Path) -> Result<()> {
    super::scene::wait_until("the socket of ssh-agent", std::time::Duration::from_secs(5), || {
        Ok(socket.exists())
    })?;
    let key = &scene.lab.client().key;
    let added = Command::new("ssh-add")
        .arg(key)
        .env("SSH_AUTH_SOCK", socket)
        .stderr(Stdio::null())
        .status()?;
    ensure!(added.success(), "ssh-add failed");
    let inventory = scene.lab.inventory().to_yaml();
    // Without `key:` the identities of the agent are tried.
    let inventory: String = inventory
        .lines()
        .filter(|line| !line.contains(" key: "))
        .map(|l| format!("{l}\n"))
        .collect();
    let inventory = scene.write("agent.yaml", &inventory)?;
    let output = super::scene::redoline()
        .args(["run", "tests/data/runbooks/quick.yaml", "-i"])
        .arg(&inventory)
        .arg("-o")
        .arg(scene.path("agent-runs"))
        .env("SSH_AUTH_SOCK", socket)
        .output()?;
    ensure!(output.status.code() == Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn hardened() -> Result<()> {
    let scene = Scene::near()?;
    for node in scene.lab.nodes() {
        node.configure_sshd("DisableForwarding yes\nMaxSessions 1\nRekeyLimit 1M\n")?;
    }
    scene.run("quick.yaml", &[])?.expect_code(0)?;
    scene.lab.nodes().iter().try_for_each(expect_clean)
}
