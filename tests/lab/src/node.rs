//! A node of the lab, and what a test may do to it.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    net::{Ipv4Addr, Ipv6Addr},
    ops::Deref,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;

use crate::{
    cgroup::Cgroup,
    namespace::{Namespace, Spawned},
    private_root::{self, Upper},
    ssh::{self, Client},
};

/// Which cluster of the Data Guard configuration a node belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Sends redo.
    Primary,
    /// Receives redo.
    Standby,
}

/// One of a node's two networks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Network {
    /// Where its sshd is reached by the controller.
    Management,
    /// Where redo goes, over the WAN.
    Redo,
}

/// Whether the cable is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    /// Packets pass.
    Up,
    /// Packets vanish in both directions; the node sees that the link is down.
    Down,
}

/// A node. What one can do in its namespaces ([`Namespace`]) one can do on it.
#[derive(Debug)]
pub struct LabNode {
    pub(crate) side: Side,
    pub(crate) management: Ipv4Addr,
    pub(crate) redo: Ipv4Addr,
    pub(crate) redo6: Option<Ipv6Addr>,
    pub(crate) client: Client,
    pub(crate) sshd_log: PathBuf,
    // Before the namespaces: a server is stopped before its init is.
    pub(crate) sshd: Mutex<Option<Spawned>>,
    pub(crate) upper: Upper,
    pub(crate) namespace: Namespace,
}

/// The interface names inside a node.
pub const MANAGEMENT_INTERFACE: &str = "mgmt0";
/// See [`MANAGEMENT_INTERFACE`].
pub const REDO_INTERFACE: &str = "redo0";
/// The second interface of a node that [`crate::Lab::misroute`] was done to.
pub const DETOUR_INTERFACE: &str = "other0";

const SSHD_DEADLINE: Duration = Duration::from_secs(10);

/// Accounts of a node: name, user ID, group ID, home.
const ACCOUNTS: [(&str, u32, u32, &str); 2] =
    [("oracle", 54_321, 54_321, "/home/oracle"), ("grid", 54_331, 54_321, "/home/grid")];

impl LabNode {
    /// The cluster it belongs to.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Where its sshd listens, as the controller reaches it.
    pub fn management(&self) -> Ipv4Addr {
        self.management
    }

    /// Its address for redo.
    pub fn redo(&self) -> Ipv4Addr {
        self.redo
    }

    /// Its IPv6 address for redo, where the lab has IPv6.
    pub fn redo6(&self) -> Option<Ipv6Addr> {
        self.redo6
    }

    /// What its sshd said so far.
    pub fn sshd_log(&self) -> String {
        fs::read_to_string(&self.sshd_log).unwrap_or_default()
    }

    /// The system's `ssh` to this node by the lab's key; add a command and run it.
    pub fn ssh(&self, user: &str) -> Command {
        self.client.command(user, &self.management.to_string())
    }

    /// Starts sshd and waits until it listens.
    pub fn start_sshd(&self) -> Result<()> {
        let mut sshd = self.sshd();
        ensure!(sshd.is_none(), "sshd of `{}` runs already", self.name());
        let argv = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"];
        *sshd = Some(self.spawn(&argv, &self.sshd_log)?);
        self.wait_for_listener(ssh::PORT, SSHD_DEADLINE)
            .with_context(|| format!("sshd said `{}`", self.sshd_log().trim()))
    }

    /// Stops listening for new sessions; those that exist go on.
    pub fn stop_sshd(&self) -> Result<()> {
        if let Some(mut sshd) = self.sshd().take() {
            sshd.signal(Signal::SIGTERM)?;
            sshd.wait(SSHD_DEADLINE)?;
        }
        Ok(())
    }

    /// Stops and starts sshd, so that it reads its configuration and keys again.
    pub fn restart_sshd(&self) -> Result<()> {
        self.stop_sshd()?;
        self.start_sshd()
    }

    /// `SIGSTOP` makes the listening sshd accept TCP connections and say nothing; `SIGCONT` ends it.
    pub fn signal_sshd(&self, signal: Signal) -> Result<()> {
        match &*self.sshd() {
            Some(sshd) => sshd.signal(signal),
            None => bail!("sshd of `{}` does not run", self.name()),
        }
    }

    /// Moves the listening sshd into a control group, and with it all logins to come.
    pub(crate) fn move_sshd(&self, cgroup: &Cgroup) -> Result<()> {
        match &*self.sshd() {
            Some(sshd) => cgroup.add(sshd.pid()),
            None => bail!("sshd of `{}` does not run", self.name()),
        }
    }

    /// Puts lines in front of sshd's configuration, where they win, and restarts it.
    pub fn configure_sshd(&self, extra: &str) -> Result<()> {
        self.write_file("/etc/ssh/sshd_config", &ssh::server_config(extra), "root", 0o600)?;
        self.restart_sshd()
    }

    /// Gives the node new host keys; the lab's `known_hosts` keeps the old ones.
    pub fn change_host_keys(&self) -> Result<()> {
        self.make_host_keys()?;
        self.restart_sshd()
    }

    /// Its public host keys, as lines of a `known_hosts` file.
    pub fn host_keys(&self) -> Result<String> {
        let mut lines = String::new();
        for (_, path) in ssh::HOST_KEYS {
            let key = self.read_file(format!("{path}.pub"))?;
            let key: Vec<_> = key.split_ascii_whitespace().take(2).collect();
            lines += &format!("{} {}\n", self.management, key.join(" "));
        }
        Ok(lines)
    }

    /// Changes a user's login shell, for example to `/usr/bin/csh`.
    pub fn set_login_shell(&self, user: &str, shell: &str) -> Result<()> {
        let accounts = self.read_file("/etc/passwd")?;
        let mut found = false;
        let mut changed = String::new();
        for line in accounts.lines() {
            match line.rsplit_once(':') {
                Some((account, _)) if account.starts_with(&format!("{user}:")) => {
                    found = true;
                    changed += &format!("{account}:{shell}\n");
                }
                _ => changed += &format!("{line}\n"),
            }
        }
        ensure!(found, "`{}` has no user `{user}`", self.name());
        self.write_file("/etc/passwd", &changed, "root", 0o644)
    }

    /// Makes a directory (any, if need be by mounting it on itself) one without execution.
    pub fn mount_noexec(&self, directory: impl AsRef<Path> + Sync) -> Result<()> {
        self.enter(|| private_root::forbid_execution(directory.as_ref()))
            .with_context(|| format!("failed to change a mount of `{}`", self.name()))
    }

    /// Writes a file on the node, with its owner (one of [`ssh::USERS`]) and mode.
    pub fn write_file(
        &self,
        path: impl AsRef<Path> + Sync,
        text: &str,
        user: &str,
        mode: u32,
    ) -> Result<()> {
        let path = path.as_ref();
        let (uid, gid) = identity(user)?;
        self.enter(|| {
            fs::write(path, text)?;
            chown(path, Some(uid), Some(gid))?;
            Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
        })
        .with_context(|| format!("failed to write `{}` on `{}`", path.display(), self.name()))
    }

    /// Reads a file of the node.
    pub fn read_file(&self, path: impl AsRef<Path> + Sync) -> Result<String> {
        let path = path.as_ref();
        self.enter(|| Ok(fs::read_to_string(path)?))
            .with_context(|| format!("failed to read `{}` on `{}`", path.display(), self.name()))
    }

    /// All files that are the node's own: those in `/tmp`, `/var/tmp`, `/home`, `/root`, `/dev/shm`,
    /// `/run`, `/u02`, and whatever was written elsewhere, without `/var/log`. Compare before and
    /// after to find what was left.
    pub fn files(&self) -> Result<BTreeSet<PathBuf>> {
        self.upper.files(self)
    }

    /// Answers TCP connections to this port with a reset, as a firewall that rejects.
    pub fn reject_port(&self, port: u16) -> Result<()> {
        self.filter_port(port, "reject with tcp reset")
    }

    /// Drops TCP packets to this port silently, as a firewall that drops.
    pub fn drop_port(&self, port: u16) -> Result<()> {
        self.filter_port(port, "drop")
    }

    /// Takes away all rules that [`LabNode::reject_port`] and [`LabNode::drop_port`] made.
    pub fn clear_firewall(&self) -> Result<()> {
        self.nft("table inet redoline_lab {}\ndelete table inet redoline_lab\n")
    }

    fn filter_port(&self, port: u16, verdict: &str) -> Result<()> {
        self.nft(&format!(
            "table inet redoline_lab {{\n\
             chain input {{ type filter hook input priority 0; }}\n\
             }}\n\
             add rule inet redoline_lab input tcp dport {port} {verdict}\n"
        ))
    }

    fn sshd(&self) -> MutexGuard<'_, Option<Spawned>> {
        self.sshd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accounts, names, keys and configuration of a new node.
    pub(crate) fn furnish(&self, hosts: &str) -> Result<()> {
        self.write_file("/etc/hostname", &format!("{}\n", self.name()), "root", 0o644)?;
        self.write_file("/etc/hosts", hosts, "root", 0o644)?;
        self.add_accounts()?;
        self.add_homes()?;
        self.enter(|| Ok(fs::create_dir_all("/run/sshd")?))
            .context("failed to make `/run/sshd`")?;
        self.make_host_keys()?;
        self.write_file("/etc/ssh/sshd_config", &ssh::server_config(""), "root", 0o600)
    }

    fn add_accounts(&self) -> Result<()> {
        let mut passwd = self.read_file("/etc/passwd")?;
        let mut shadow = self.read_file("/etc/shadow")?;
        for (user, uid, gid, home) in ACCOUNTS {
            let hash = if user == "oracle" { ssh::PASSWORD_HASH } else { "*" };
            passwd = replace_entry(&passwd, user, &format!("x:{uid}:{gid}::{home}:/bin/bash"));
            shadow = replace_entry(&shadow, user, &format!("{hash}:20000:0:99999:7:::"));
        }
        let mut group = self.read_file("/etc/group")?;
        group = replace_entry(&group, "oinstall", "x:54321:oracle,grid");
        group = replace_entry(&group, "dba", "x:54322:oracle");
        self.write_file("/etc/passwd", &passwd, "root", 0o644)?;
        self.write_file("/etc/shadow", &shadow, "root", 0o600)?;
        self.write_file("/etc/group", &group, "root", 0o644)
    }

    fn add_homes(&self) -> Result<()> {
        let key = self.client.public_key()?;
        for user in ssh::USERS {
            let home = home(user);
            let (uid, gid) = identity(user)?;
            self.enter(|| {
                for directory in
                    [home.to_owned(), format!("{home}/.ssh"), format!("/run/user/{uid}")]
                {
                    fs::create_dir_all(&directory)?;
                    chown(&directory, Some(uid), Some(gid))?;
                    fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
                }
                Ok(())
            })
            .with_context(|| format!("failed to make the home of `{user}`"))?;
            self.write_file(format!("{home}/.ssh/authorized_keys"), &key, user, 0o600)?;
        }
        let (uid, gid) = identity("oracle")?;
        self.enter(|| Ok(chown("/u02", Some(uid), Some(gid))?)).context("failed to own `/u02`")
    }

    fn make_host_keys(&self) -> Result<()> {
        for (kind, path) in ssh::HOST_KEYS {
            let script = format!("rm -f {path} && ssh-keygen -q -t {kind} -N '' -f {path}");
            self.run(&["sh", "-c", &script])?;
        }
        Ok(())
    }
}

impl Deref for LabNode {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

fn home(user: &str) -> &'static str {
    ACCOUNTS.iter().find(|account| account.0 == user).map_or("/root", |account| account.3)
}

fn identity(user: &str) -> Result<(u32, u32)> {
    if user == "root" {
        return Ok((0, 0));
    }
    let account = ACCOUNTS.iter().find(|account| account.0 == user);
    account.map(|account| (account.1, account.2)).with_context(|| format!("no user `{user}`"))
}

/// A colon-separated file of `/etc` with this entry instead of any of the same name.
fn replace_entry(file: &str, name: &str, entry: &str) -> String {
    let prefix = format!("{name}:");
    let others = file.lines().filter(|line| !line.starts_with(&prefix));
    let mut changed: String = others.flat_map(|line| [line, "\n"]).collect();
    changed += &format!("{prefix}{entry}\n");
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_replaces_only_its_namesake() {
        let file = "root:x:0\noracle:x:1\noracle2:x:2\n";
        assert_eq!(
            replace_entry(file, "oracle", "x:54321"),
            "root:x:0\noracle2:x:2\noracle:x:54321\n"
        );
    }
}
