//! Block devices with their queue limits, as /sys and the mount table tell.

use std::collections::BTreeMap;

use redoline_proto::facts::BlockDevice;

use super::root::Root;

/// A node with more is listed up to here; facts must fit in one message.
const DEVICES_MAX: usize = 400;
const MOUNT_POINTS_MAX: usize = 16;

/// Whole disks, LVM, RAID and multipath devices; nothing is opened, and no mount point is touched.
pub fn read(root: &Root) -> Vec<BlockDevice> {
    let mounts = Mounts::parse(&root.text("/proc/self/mountinfo").unwrap_or_default());
    root.names("/sys/block")
        .iter()
        .filter(|name| is_of_interest(root, name))
        .take(DEVICES_MAX)
        .map(|name| device(root, name, &mounts))
        .collect()
}

fn is_of_interest(root: &Root, name: &str) -> bool {
    const NEVER: [&str; 5] = ["ram", "zram", "sr", "fd", "nbd"];
    let sectors: Option<u64> = root.number(format!("/sys/block/{name}/size"));
    // The paths below an NVMe multipath device are hidden: they cannot be opened.
    let hidden = root.text(format!("/sys/block/{name}/hidden")).as_deref() == Some("1");
    let virtual_drive = NEVER
        .iter()
        .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok()));
    let empty_loop = name.starts_with("loop") && sectors.unwrap_or(0) == 0;
    !hidden && !virtual_drive && !empty_loop
}

fn device(root: &Root, name: &str, mounts: &Mounts) -> BlockDevice {
    let base = format!("/sys/block/{name}");
    let queue = |file: &str| root.text(format!("{base}/queue/{file}"));
    let queue_u32 = |file: &str| queue(file)?.parse().ok();
    let queue_u64 = |file: &str| queue(file)?.parse().ok();
    let sectors: Option<u64> = root.number(format!("{base}/size"));
    BlockDevice {
        name: name.to_owned(),
        // Always in sectors of 512 bytes, whatever the device's own are.
        size_bytes: sectors.and_then(|sectors| sectors.checked_mul(512)),
        rotational: queue("rotational").map(|flag| flag == "1"),
        scheduler: queue("scheduler").and_then(|text| active_scheduler(&text)),
        model: model(root, &base),
        logical_block_bytes: queue_u32("logical_block_size"),
        physical_block_bytes: queue_u32("physical_block_size"),
        max_sectors_kib: queue_u64("max_sectors_kb"),
        max_hw_sectors_kib: queue_u64("max_hw_sectors_kb"),
        max_segments: queue_u32("max_segments"),
        max_segment_bytes: queue_u64("max_segment_size"),
        nr_requests: queue_u32("nr_requests"),
        queue_depth: root.number(format!("{base}/device/queue_depth")),
        members: root.names(format!("{base}/slaves")),
        mount_points: mount_points(root, name, mounts),
    }
}

/// The model of a disk; for LVM and multipath devices their name, which says more than `dm-3`.
fn model(root: &Root, base: &str) -> Option<String> {
    root.text(format!("{base}/dm/name"))
        .or_else(|| root.text(format!("{base}/device/model")))
        .filter(|model| !model.is_empty())
}

/// `mq-deadline kyber [none]`: the one in brackets; a single name has none.
fn active_scheduler(scheduler: &str) -> Option<String> {
    let bracketed =
        scheduler.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    let name = bracketed.unwrap_or(scheduler.trim());
    (!name.is_empty()).then(|| name.to_owned())
}

fn mount_points(root: &Root, name: &str, mounts: &Mounts) -> Vec<String> {
    let base = format!("/sys/block/{name}");
    let mut points = mounts.of(name, root.text(format!("{base}/dev")).as_deref());
    for partition in root.names(&base) {
        if root.exists(format!("{base}/{partition}/partition")) {
            let number = root.text(format!("{base}/{partition}/dev"));
            points.extend(mounts.of(&partition, number.as_deref()));
        }
    }
    points.sort();
    points.dedup();
    points.truncate(MOUNT_POINTS_MAX);
    points
}

/// Mount points by device number, and by the name of a device node for file systems that have a
/// number of their own (btrfs).
#[derive(Debug, Default)]
struct Mounts(BTreeMap<String, Vec<String>>);

impl Mounts {
    /// proc_pid_mountinfo(5).
    fn parse(mountinfo: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some((place, what)) = line.split_once(" - ") else { continue };
            let fields: Vec<&str> = place.split(' ').collect();
            let (Some(number), Some(point)) = (fields.get(2), fields.get(4)) else { continue };
            let source = what.split(' ').nth(1).and_then(|source| source.strip_prefix("/dev/"));
            for key in [Some(*number), source].into_iter().flatten() {
                mounts.0.entry(key.to_owned()).or_default().push(unescape(point));
            }
        }
        mounts
    }

    fn of(&self, name: &str, number: Option<&str>) -> Vec<String> {
        [Some(name), number]
            .into_iter()
            .flatten()
            .filter_map(|key| self.0.get(key))
            .flatten()
            .cloned()
            .collect()
    }
}

/// Spaces, tabs, line ends and backslashes stand there as octal numbers.
fn unescape(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(point.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::super::root::tree;
    use super::*;

    #[test]
    fn a_disk_and_the_volume_on_it_are_read() {
        let (_dir, root) = tree(&[
            ("/sys/block/sda/size", "41943040\n"),
            ("/sys/block/sda/dev", "8:0\n"),
            ("/sys/block/sda/device/model", "VIRTUAL-DISK    \n"),
            ("/sys/block/sda/device/queue_depth", "64\n"),
            ("/sys/block/sda/queue/scheduler", "noop [deadline] cfq \n"),
            ("/sys/block/sda/queue/rotational", "1\n"),
            ("/sys/block/sda/queue/max_sectors_kb", "1280\n"),
            ("/sys/block/sda/sda1/partition", "1\n"),
            ("/sys/block/sda/sda1/dev", "8:1\n"),
            ("/sys/block/dm-0/size", "2097152\n"),
            ("/sys/block/dm-0/dev", "253:0\n"),
            ("/sys/block/dm-0/dm/name", "ol-root\n"),
            ("/sys/block/dm-0/slaves/sda2", ""),
            ("/sys/block/loop0/size", "0\n"),
            ("/sys/block/zram0/size", "100\n"),
            ("/sys/block/nvme0c0n1/hidden", "1\n"),
            (
                "/proc/self/mountinfo",
                "25 1 253:0 / / rw shared:1 - xfs /dev/mapper/ol-root rw\n\
                 30 25 8:1 / /boot\\040old rw - xfs /dev/sda1 rw\n",
            ),
        ]);
        let devices = read(&root);
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["dm-0", "sda"]);
        let [volume, disk] = &devices[..] else { panic!("{devices:?}") };
        assert_eq!(
            (volume.model.as_deref(), &*volume.members),
            (Some("ol-root"), &["sda2".into()][..])
        );
        assert_eq!(volume.mount_points, ["/"]);
        assert_eq!((disk.size_bytes, disk.rotational), (Some(21_474_836_480), Some(true)));
        assert_eq!((disk.scheduler.as_deref(), disk.queue_depth), (Some("deadline"), Some(64)));
        assert_eq!((disk.max_sectors_kib, disk.max_segments), (Some(1280), None));
        assert_eq!(disk.model.as_deref(), Some("VIRTUAL-DISK"));
        assert_eq!(disk.mount_points, ["/boot old"]);
    }

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(active_scheduler("[mq-deadline] kyber none").as_deref(), Some("mq-deadline"));
        assert_eq!(active_scheduler("none").as_deref(), Some("none"));
        assert_eq!(active_scheduler(""), None);
    }

    #[test]
    fn a_file_system_with_a_number_of_its_own_is_found_by_its_source() {
        let mounts = Mounts::parse("36 1 0:32 /root / rw - btrfs /dev/vdb2 rw,subvol=/root\n");
        assert_eq!(mounts.of("vdb2", Some("252:18")), ["/"]);
        assert!(mounts.of("vdb1", None).is_empty());
    }
}
