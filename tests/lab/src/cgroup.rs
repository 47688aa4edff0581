//! A control group for the processes of a node, by version 1 or 2 of the kernel's interface.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;

/// A control group with the processor controller. The lab directory's janitor removes it, since that
/// can only be done when all its processes are gone.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

/// Where groups with the processor controller are made, by version 1.
const ROOT_1: &str = "/sys/fs/cgroup/cpu";

/// The same by version 2.
const ROOT_2: &str = "/sys/fs/cgroup";

/// How often a quota is dealt out: short enough that a slow processor is emulated rather than one
/// that stops at times.
const PERIOD_US: u64 = 10_000;

/// The smallest quota that the kernel takes.
const QUOTA_US_MIN: u64 = 1_000;

impl Cgroup {
    /// Makes a group; fails where the processor controller is not given to groups.
    pub(crate) fn create(name: &str) -> Result<Self> {
        let (root, version) = root()?;
        let path = root.join(name);
        match fs::create_dir(&path) {
            // A second limit for the same node replaces the first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.with_context(|| format!("failed to make `{}`", path.display()))?,
        }
        Ok(Self { path, version })
    }

    /// Lets all processes of the group together have this share of one processor.
    pub(crate) fn limit_cpu(&self, share: f64) -> Result<()> {
        let (quota_us, period_us) = quota(share);
        match self.version {
            Version::One => {
                self.write("cpu.cfs_period_us", &period_us.to_string())?;
                self.write("cpu.cfs_quota_us", &quota_us.to_string())
            }
            Version::Two => self.write("cpu.max", &format!("{quota_us} {period_us}")),
        }
    }

    /// Moves a process into the group; those that it starts from now on are born there.
    pub(crate) fn add(&self, process: Pid) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// Where process IDs are written to, by the writer's own PID namespace.
    pub(crate) fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value)
            .with_context(|| format!("failed to write `{value}` to `{}`", path.display()))
    }
}

/// The directories in which a lab's groups may be, for whoever removes them.
pub(crate) fn roots() -> [&'static Path; 2] {
    [Path::new(ROOT_1), Path::new(ROOT_2)]
}

fn root() -> Result<(&'static Path, Version)> {
    let [one, two] = roots();
    if one.join("cpu.cfs_quota_us").exists() {
        return Ok((one, Version::One));
    }
    let given = fs::read_to_string(two.join("cgroup.subtree_control")).unwrap_or_default();
    if given.split_ascii_whitespace().any(|controller| controller == "cpu") {
        return Ok((two, Version::Two));
    }
    bail!("this machine gives its control groups no processor controller")
}

/// Microseconds in so many microseconds: a longer period where the quota would be too small.
fn quota(share: f64) -> (u64, u64) {
    let quota_us = (share * PERIOD_US as f64) as u64;
    if quota_us >= QUOTA_US_MIN {
        return (quota_us, PERIOD_US);
    }
    (QUOTA_US_MIN, ((QUOTA_US_MIN as f64 / share) as u64).min(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_get_the_smallest_quota_in_a_longer_time() {
        assert_eq!(quota(0.5), (5_000, 10_000));
        assert_eq!(quota(1.5), (15_000, 10_000));
        assert_eq!(quota(0.02), (1_000, 50_000));
    }
}
