//! Where both ends run: one network namespace with its loopback, or two nodes across the lab's WAN.

use std::{
    net::Ipv4Addr,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::inventory::Inventory;
use crate::lab::{Lab, LabSpec};
use crate::namespace::{Namespace, Spawned};
use crate::peers::Ends;
use crate::wan::WanSpec;

/// A sender's place and a receiver's.
#[derive(Debug)]
pub(super) enum Place {
    /// Both in a namespace of their own, which carries nothing else.
    Loopback(Namespace),
    Wan(Box<Lab>),
}

const LOOPBACK_SENDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const LOOPBACK_RECEIVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

impl Place {
    pub(super) fn loopback() -> Result<Self> {
        let (namespace, ()) = Namespace::create("bench", || Ok(()))?;
        namespace.run(&["ip", "link", "set", "lo", "up"])?;
        Ok(Self::Loopback(namespace))
    }

    pub(super) fn wan(wan: WanSpec) -> Result<Self> {
        Lab::up(&LabSpec::new(wan).nodes(1)).map(|lab| Self::Wan(Box::new(lab)))
    }

    pub(super) fn start_sender(&self, argv: &[&str], log: &Path) -> Result<Spawned> {
        match self {
            Self::Loopback(namespace) => namespace.spawn_in_this_session(argv, log),
            Self::Wan(lab) => lab.nodes().first().context("no sender")?.spawn(argv, log),
        }
    }

    /// Returns when it listens. Sessions are as the agents have them: both ends in one on the
    /// loopback, where the controller starts them, and each in its own where sshd does.
    pub(super) fn start_receiver(&self, argv: &[&str], port: u16, log: &Path) -> Result<Spawned> {
        let (started, namespace) = match self {
            Self::Loopback(namespace) => (namespace.spawn_in_this_session(argv, log)?, namespace),
            Self::Wan(lab) => {
                let node = lab.nodes().last().context("no receiver")?;
                (node.spawn(argv, log)?, &**node)
            }
        };
        namespace.wait_for_listener(port, Duration::from_secs(10))?;
        Ok(started)
    }

    /// What a receiver binds to.
    pub(super) fn receiver_address(&self) -> Result<Ipv4Addr> {
        match self {
            Self::Loopback(_) => Ok(LOOPBACK_RECEIVER),
            Self::Wan(lab) => Ok(lab.nodes().last().context("no receiver")?.redo()),
        }
    }

    /// For programs that ask and answer.
    pub(super) fn ends<'a>(&'a self, folder: &'a Path) -> Result<Ends<'a>> {
        let (sender, receiver): (&Namespace, &Namespace) = match self {
            Self::Loopback(namespace) => (namespace, namespace),
            Self::Wan(lab) => (
                lab.nodes().first().context("no sender")?,
                lab.nodes().last().context("no receiver")?,
            ),
        };
        Ok(Ends { sender, receiver, address: self.receiver_address()?, folder })
    }

    /// For programs that do not choose their own.
    pub(super) fn use_congestion_control(&self, name: &str) -> Result<()> {
        let all: Vec<&Namespace> = match self {
            Self::Loopback(namespace) => vec![namespace],
            Self::Wan(lab) => lab.nodes().iter().map(|node| &**node).collect(),
        };
        all.iter().try_for_each(|one| one.sysctl("net.ipv4.tcp_congestion_control", name))
    }

    /// For the controller: from the first to the last node.
    pub(super) fn inventory(&self) -> String {
        match self {
            Self::Loopback(_) => format!(
                "name: bench\ndefaults: {{ ssh: {{ via: local }} }}\n\
                 primary: {{ nodes: [{{ name: sender, redo: {LOOPBACK_SENDER} }}] }}\n\
                 standby: {{ nodes: [{{ name: receiver, redo: {LOOPBACK_RECEIVER} }}] }}\n"
            ),
            // Others than root may not choose CUBIC where it is not the default.
            Self::Wan(lab) => Inventory { user: "root".to_owned(), ..lab.inventory() }.to_yaml(),
        }
    }

    /// Runs a program where the controller belongs, and waits for its end.
    pub(super) fn control(&self, argv: &[&str], deadline: Duration) -> Result<Output> {
        match self {
            Self::Loopback(namespace) => namespace.exec_with(argv, "", deadline),
            // In a session of its own, so that it does not take processor time from the relay.
            Self::Wan(_) => Command::new("setsid")
                .args(["--wait", "timeout", "-k", "2", &deadline.as_secs_f64().to_string()])
                .args(argv)
                .output()
                .with_context(|| format!("failed to run `{}`", argv.join(" "))),
        }
    }
}

/// CPU time in seconds of all child processes that were waited for.
pub(super) fn children_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("failed to read CPU times")?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(microseconds as f64 / 1e6)
}

/// What a program left in its file of output.
pub(super) fn output_of(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read `{}`", path.display()))
}
