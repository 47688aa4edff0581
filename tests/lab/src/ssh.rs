//! Keys and configuration of the nodes' sshd, and what a client needs to trust them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// The port of every node's sshd.
pub const PORT: u16 = 22;

/// The users with a login on every node. Each takes the lab's key; `oracle` also [`PASSWORD`].
pub const USERS: [&str; 3] = ["oracle", "grid", "root"];

/// The password of `oracle` on every node of every lab. It opens nothing else.
pub const PASSWORD: &str = "redo-Lab-1";

/// The hash of [`PASSWORD`], as `/etc/shadow` has it.
pub(crate) const PASSWORD_HASH: &str = "$6$redoline$kRmY6fkPf62pTSpVJxxFVFHTgvvAnKoOWBMolIs4aH0SwtFe/\
CIRlvmLY05IxJt2S2BZPWZlDG60gkpIo3/Xo1";

/// The host keys of every node.
pub(crate) const HOST_KEYS: [(&str, &str); 2] =
    [("ed25519", "/etc/ssh/ssh_host_ed25519_key"), ("ecdsa", "/etc/ssh/ssh_host_ecdsa_key")];

/// A client's files: its private key (the public one is beside it, `.pub`) and the known hosts.
#[derive(Clone, Debug)]
pub struct Client {
    /// A private key that every node accepts.
    pub key: PathBuf,
    /// A private key that no node accepts.
    pub other_key: PathBuf,
    /// The host keys of all nodes, as they were when the lab came up.
    pub known_hosts: PathBuf,
}

impl Client {
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let client = Self {
            key: directory.join("id_ed25519"),
            other_key: directory.join("id_unknown"),
            known_hosts: directory.join("known_hosts"),
        };
        for key in [&client.key, &client.other_key] {
            generate_key(key)?;
        }
        fs::write(&client.known_hosts, "").context("failed to write `known_hosts`")?;
        Ok(client)
    }

    pub(crate) fn public_key(&self) -> Result<String> {
        let path = self.key.with_extension("pub");
        fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))
    }

    /// The system's `ssh` to this user and address, without the machine's own configuration.
    pub fn command(&self, user: &str, address: &str) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        ssh.args(["-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"]);
        ssh.arg("-o").arg(format!("UserKnownHostsFile={}", self.known_hosts.display()));
        ssh.arg("-o").arg("GlobalKnownHostsFile=/dev/null");
        ssh.arg("-i").arg(&self.key).arg("-p").arg(PORT.to_string());
        ssh.arg(format!("{user}@{address}")).stdin(Stdio::null());
        ssh
    }
}

/// The server's configuration. Lines in `extra` come first, and so win.
pub(crate) fn server_config(extra: &str) -> String {
    let host_keys: String = HOST_KEYS.iter().map(|(_, path)| format!("HostKey {path}\n")).collect();
    format!(
        "{extra}\n\
         Port {PORT}\n\
         {host_keys}\
         UsePAM no\n\
         UseDNS no\n\
         PubkeyAuthentication yes\n\
         PasswordAuthentication yes\n\
         PermitRootLogin prohibit-password\n\
         PrintMotd no\n\
         PidFile /run/sshd.pid\n\
         Subsystem sftp internal-sftp\n"
    )
}

fn generate_key(path: &Path) -> Result<()> {
    let output = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "redoline-lab", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .context("failed to run `ssh-keygen`")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ssh-keygen` failed: {}", message.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_lines_come_before_the_defaults_since_the_first_value_wins() {
        let config = server_config("PasswordAuthentication no");
        let extra = config.find("PasswordAuthentication no").unwrap();
        assert!(extra < config.find("PasswordAuthentication yes").unwrap());
    }
}
