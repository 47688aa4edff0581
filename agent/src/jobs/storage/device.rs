//! Which disks a file or a device node lies on, as /sys and the mount table tell.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// A block device with the disks below it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Device {
    /// The kernel's name of the whole device, for example `sda` or `dm-3`.
    pub name: String,
    /// Folders in /sys of the disks at the bottom: members of LVM, RAID and multipath devices.
    pub disks: Vec<PathBuf>,
    pub logical_block_bytes: Option<u32>,
}

/// A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    pub device: (u32, u32),
    pub filesystem: String,
    pub source: String,
}

impl Device {
    /// The device with this number; `None` for numbers without a device (NFS, overlay, tmpfs).
    pub fn find(sys: &Path, number: (u32, u32)) -> Option<Self> {
        let node = sys.join("dev/block").join(format!("{}:{}", number.0, number.1));
        let whole = whole_disk(&fs::canonicalize(node).ok()?);
        let mut disks = BTreeSet::new();
        collect_disks(&whole, &mut disks, 0);
        let logical_block_bytes = fs::read_to_string(whole.join("queue/logical_block_size"))
            .ok()
            .and_then(|text| text.trim().parse().ok());
        Some(Self {
            name: whole.file_name()?.to_string_lossy().into_owned(),
            disks: disks.into_iter().collect(),
            logical_block_bytes,
        })
    }

    /// The device below a file on a mounted file system with device number `number`.
    ///
    /// File systems over several devices (btrfs) have a number of their own; the mount table
    /// names a source then.
    pub fn below(sys: &Path, number: (u32, u32), mount: Option<&Mount>) -> Option<Self> {
        if number.0 != 0 {
            return Self::find(sys, number);
        }
        let source = mount?.source.as_str();
        // Only device nodes are looked at: a stat of an NFS source could hang.
        if !source.starts_with("/dev/") {
            return None;
        }
        let metadata = fs::metadata(source).ok()?;
        let node = metadata.file_type().is_block_device().then(|| metadata.rdev())?;
        Self::find(sys, (major(node), minor(node)))
    }
}

fn whole_disk(node: &Path) -> PathBuf {
    match node.parent() {
        Some(parent) if node.join("partition").exists() => parent.to_owned(),
        _ => node.to_owned(),
    }
}

/// Stacks are rarely deeper than three; the bound ends a loop that cannot be.
fn collect_disks(device: &Path, disks: &mut BTreeSet<PathBuf>, depth: u32) {
    let members: Vec<PathBuf> = fs::read_dir(device.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|member| fs::canonicalize(member.path()).ok())
        .collect();
    if members.is_empty() || depth > 8 {
        disks.insert(device.to_owned());
    }
    for member in members {
        collect_disks(&whole_disk(&member), disks, depth + 1);
    }
}

/// The mount whose files have this device number; the last one, which hides those before it.
pub fn mount_of(mountinfo: &str, number: (u32, u32)) -> Option<Mount> {
    mountinfo.lines().filter_map(parse_mount).rfind(|mount| mount.device == number)
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (place, what) = line.split_once(" - ")?;
    let (major, minor) = place.split(' ').nth(2)?.split_once(':')?;
    let mut what = what.split(' ');
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        filesystem: what.next()?.to_owned(),
        source: what.next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MOUNTINFO: &str = "\
25 1 253:0 / / rw,relatime shared:1 - xfs /dev/mapper/ol-root rw,attr2
31 25 0:27 / /dev/shm rw shared:4 - tmpfs tmpfs rw
40 25 0:45 / /u02 rw,relatime shared:22 - nfs filer:/vol/u02 rw,vers=3
";

    #[test]
    fn a_mount_is_found_by_its_device_number() {
        let root = mount_of(MOUNTINFO, (253, 0)).unwrap();
        assert_eq!(
            (root.filesystem.as_str(), root.source.as_str()),
            ("xfs", "/dev/mapper/ol-root")
        );
        assert_eq!(mount_of(MOUNTINFO, (0, 45)).unwrap().filesystem, "nfs");
        assert_eq!(mount_of(MOUNTINFO, (8, 1)), None);
    }

    /// LVM (`dm-0`) on the second partition of `sda`.
    fn fake_sys(root: &Path) {
        let block = root.join("devices/block");
        fs::create_dir_all(block.join("sda/sda2/partition")).unwrap();
        fs::create_dir_all(block.join("sda/slaves")).unwrap();
        fs::create_dir_all(block.join("dm-0/queue")).unwrap();
        fs::create_dir_all(block.join("dm-0/slaves")).unwrap();
        fs::write(block.join("dm-0/queue/logical_block_size"), "512\n").unwrap();
        symlink(block.join("sda/sda2"), block.join("dm-0/slaves/sda2")).unwrap();
        fs::create_dir_all(root.join("dev/block")).unwrap();
        symlink(block.join("dm-0"), root.join("dev/block/253:0")).unwrap();
        symlink(block.join("sda/sda2"), root.join("dev/block/8:2")).unwrap();
    }

    #[test]
    fn a_logical_volume_lies_on_the_whole_disk_of_its_partition() {
        let root = tempfile::tempdir().unwrap();
        fake_sys(root.path());
        let volume = Device::find(root.path(), (253, 0)).unwrap();
        assert_eq!((volume.name.as_str(), volume.logical_block_bytes), ("dm-0", Some(512)));
        assert_eq!(volume.disks.len(), 1);
        assert!(volume.disks[0].ends_with("block/sda"), "{volume:?}");
        assert_eq!(Device::find(root.path(), (8, 2)).unwrap().name, "sda");
    }

    #[test]
    fn nfs_and_memory_have_no_device() {
        let root = tempfile::tempdir().unwrap();
        fake_sys(root.path());
        let nfs = mount_of(MOUNTINFO, (0, 45));
        assert_eq!(Device::below(root.path(), (0, 45), nfs.as_ref()), None);
    }
}
