//! How a node is reached for control: over SSH, or as a child process of the controller.

use std::fmt;
use std::path::PathBuf;

/// The way to a node's shell.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Access {
    /// A child process of the controller, on this machine.
    Local,
    /// An SSH session.
    Ssh(Box<SshAccess>),
}

/// Where an agent's executable is tried on a node, in this order, unless the inventory names a
/// directory: some of these are mounted noexec on hardened hosts.
pub const AGENT_DIRS: &[&str] =
    &["$XDG_RUNTIME_DIR", "/var/tmp", "~/.cache", "/dev/shm", "/tmp", "~"];

/// Everything an SSH session needs; resolved from the inventory, so nothing is looked up later.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshAccess {
    /// Management address or name; never `host:port` in one string.
    pub host: String,
    pub port: u16,
    pub user: String,
    /// Private key file; when absent, the SSH agent's identities are tried.
    pub key: Option<PathBuf>,
    /// Tried last, by the methods `password` and `keyboard-interactive`.
    pub password: Option<Secret>,
    /// All are read; only the first is written to, and only by `HostKeyPolicy::AcceptNew`.
    pub known_hosts: Vec<PathBuf>,
    pub host_key_policy: HostKeyPolicy,
}

/// What to do with a host whose key is in no known_hosts file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostKeyPolicy {
    /// Refuse it.
    Strict,
    /// Take it, append it to the first known_hosts file, and say so in the report.
    AcceptNew,
}

/// A text that appears in no output: its `Debug` is masked and it has no `Display`.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one call that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}
