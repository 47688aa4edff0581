//! How long the control groups of this process were kept from running by their quota.

use std::fs;
use std::path::{Path, PathBuf};

/// The `cpu.stat` of this process's control group and of those above it: a quota may be anywhere on
/// the way, and each group counts only its own.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    files: Vec<PathBuf>,
}

impl Throttle {
    /// Version 1 and version 2 of control groups, wherever they are mounted.
    pub fn of_this_process() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let files = cpu_stat_files(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        Self { files }
    }

    /// Summed up over processors and groups, since the groups were made; `None` where no group says.
    pub fn throttled_us(&self) -> Option<u64> {
        let texts = self.files.iter().filter_map(|file| fs::read_to_string(file).ok());
        texts.filter_map(|text| parse_throttled_us(&text)).reduce(u64::saturating_add)
    }
}

/// `throttled_usec` of version 2 or `throttled_time` of version 1, which is in nanoseconds.
fn parse_throttled_us(text: &str) -> Option<u64> {
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", us) => us.trim().parse().ok(),
        ("throttled_time", ns) => ns.trim().parse::<u64>().ok().map(|ns| ns / 1000),
        _ => None,
    })
}

/// `cgroup`: /proc/self/cgroup; `mountinfo`: /proc/self/mountinfo (proc(5)).
fn cpu_stat_files(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in cgroup.lines() {
        // hierarchy:controllers:path
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_cpu = controllers.split(',').any(|controller| controller == "cpu");
        if !controllers.is_empty() && !is_cpu {
            continue;
        }
        let mount = mountinfo.lines().filter_map(parse_mount).find(|mount| {
            if is_cpu { mount.version == 1 && mount.has_cpu } else { mount.version == 2 }
        });
        files.extend(mount.into_iter().flat_map(|mount| mount.stat_files(path)));
    }
    files
}

struct CgroupMount<'a> {
    /// What of the hierarchy is mounted.
    root: &'a str,
    point: &'a str,
    version: u32,
    has_cpu: bool,
}

/// id parent device root point options [optional…] - type source options
fn parse_mount(line: &str) -> Option<CgroupMount<'_>> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let mut fields = kind.split(' ');
    let version = match fields.next()? {
        "cgroup" => 1,
        "cgroup2" => 2,
        _ => return None,
    };
    let has_cpu = fields.nth(1)?.split(',').any(|option| option == "cpu");
    Some(CgroupMount { root, point, version, has_cpu })
}

impl CgroupMount<'_> {
    fn stat_files(&self, path: &str) -> Vec<PathBuf> {
        let path = match self.root {
            "/" => path,
            root => path.strip_prefix(root).unwrap_or(path),
        };
        let below = Path::new(path.trim_start_matches('/'));
        below.ancestors().map(|group| Path::new(self.point).join(group).join("cpu.stat")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(cgroup: &str, mountinfo: &str) -> Vec<String> {
        let files = cpu_stat_files(cgroup, mountinfo);
        files.into_iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn version_2_is_read_up_to_the_root() {
        let mounts =
            "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(
            files("0::/user.slice/session-3.scope", mounts),
            [
                "/sys/fs/cgroup/user.slice/session-3.scope/cpu.stat",
                "/sys/fs/cgroup/user.slice/cpu.stat",
                "/sys/fs/cgroup/cpu.stat",
            ]
        );
    }

    #[test]
    fn version_1_is_read_where_its_cpu_controller_is_mounted() {
        let mounts = "30 25 0:27 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n\
            31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct";
        let groups = "5:cpuset:/x\n4:cpu,cpuacct:/system.slice/sshd.service\n1:name=systemd:/y\n";
        assert_eq!(
            files(groups, mounts),
            [
                "/sys/fs/cgroup/cpu,cpuacct/system.slice/sshd.service/cpu.stat",
                "/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.stat",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.stat",
            ]
        );
    }

    #[test]
    fn a_container_sees_its_part_of_the_tree() {
        let mounts = "31 25 0:28 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu";
        assert_eq!(files("4:cpu:/docker/ab", mounts), ["/sys/fs/cgroup/cpu/cpu.stat"]);
        assert_eq!(files("4:cpu:/docker/ab", ""), [""; 0]);
    }

    #[test]
    fn both_versions_say_how_long_they_throttled() {
        let new = "usage_usec 9\nnr_periods 5\nnr_throttled 2\nthrottled_usec 1500\n";
        assert_eq!(parse_throttled_us(new), Some(1500));
        let old = "nr_periods 5\nnr_throttled 2\nthrottled_time 1500999\n";
        assert_eq!(parse_throttled_us(old), Some(1500));
        assert_eq!(parse_throttled_us("usage_usec 9\n"), None);
    }

    #[test]
    fn a_process_without_groups_does_not_know() {
        assert_eq!(Throttle::default().throttled_us(), None);
    }
}
