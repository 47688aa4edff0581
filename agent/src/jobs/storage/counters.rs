//! What the kernel counts of reads: parsers, and what differences mean.

use std::fs;
use std::path::PathBuf;

/// Reads that a block device completed since boot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeviceReads {
    pub requests: u64,
    pub bytes: u64,
}

/// Counters at one moment; unknown is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Bytes that this process made devices read (`read_bytes` of /proc/self/io).
    own_bytes: Option<u64>,
    /// The sum over the disks below the file.
    device: Option<DeviceReads>,
}

/// Where bytes came from during a point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceUse {
    pub read_ratio: Option<f64>,
    pub requests_per_read: Option<f64>,
    pub foreign_bytes: Option<u64>,
}

/// Above this share of foreign bytes, requests cannot be said to be ours.
const FOREIGN_SHARE_MAX: f64 = 0.05;

impl Counters {
    /// Reads the process's counter and those of `disks`, folders below /sys.
    pub fn read(disks: &[PathBuf]) -> Self {
        let own_bytes =
            fs::read_to_string("/proc/self/io").ok().and_then(|text| parse_read_bytes(&text));
        Self { own_bytes, device: sum_of_disks(disks) }
    }

    /// What happened since `before`, when `reads` reads asked for `requested_bytes`.
    pub fn since(&self, before: &Self, reads: u64, requested_bytes: u64) -> DeviceUse {
        let own = difference(before.own_bytes, self.own_bytes);
        let requests = difference(
            before.device.map(|device| device.requests),
            self.device.map(|device| device.requests),
        );
        let device_bytes = difference(
            before.device.map(|device| device.bytes),
            self.device.map(|device| device.bytes),
        );
        let foreign_bytes = match (device_bytes, own) {
            (Some(device), Some(own)) => Some(device.saturating_sub(own)),
            _ => None,
        };
        let undisturbed = match (device_bytes, foreign_bytes) {
            (Some(device), Some(foreign)) => foreign as f64 <= device as f64 * FOREIGN_SHARE_MAX,
            _ => false,
        };
        DeviceUse {
            read_ratio: own.and_then(|own| ratio(own, requested_bytes)),
            requests_per_read: requests
                .filter(|_| undisturbed)
                .and_then(|requests| ratio(requests, reads)),
            foreign_bytes,
        }
    }
}

fn sum_of_disks(disks: &[PathBuf]) -> Option<DeviceReads> {
    if disks.is_empty() {
        return None;
    }
    let mut sum = DeviceReads::default();
    for disk in disks {
        let reads = parse_block_stat(&fs::read_to_string(disk.join("stat")).ok()?)?;
        sum.requests += reads.requests;
        sum.bytes += reads.bytes;
    }
    Some(sum)
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn parse_read_bytes(process_io: &str) -> Option<u64> {
    let line = process_io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

/// Fields 1 and 3 of `stat` (Documentation/block/stat.rst); sectors are of 512 bytes always.
fn parse_block_stat(stat: &str) -> Option<DeviceReads> {
    let mut fields = stat.split_ascii_whitespace();
    let requests = fields.next()?.parse().ok()?;
    let sectors: u64 = fields.nth(1)?.parse().ok()?;
    Some(DeviceReads { requests, bytes: sectors * 512 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(own_bytes: u64, requests: u64, bytes: u64) -> Counters {
        Counters { own_bytes: Some(own_bytes), device: Some(DeviceReads { requests, bytes }) }
    }

    #[test]
    fn the_kernels_texts_are_understood() {
        let io = "rchar: 10\nwchar: 2\nsyscr: 3\nsyscw: 1\nread_bytes: 8192\nwrite_bytes: 0\n";
        assert_eq!(parse_read_bytes(io), Some(8192));
        // Linux 4.14 has 11 fields, newer kernels 15 and 17.
        let stat = "  1200  34 9600 55 7 8 9 10 0 11 12\n";
        assert_eq!(parse_block_stat(stat), Some(DeviceReads { requests: 1200, bytes: 9600 * 512 }));
    }

    #[test]
    fn garbage_is_unknown_not_zero() {
        assert_eq!(parse_read_bytes("rchar: 1\n"), None);
        assert_eq!(parse_block_stat("12"), None);
    }

    #[test]
    fn reads_from_the_device_have_ratio_one() {
        let used = counters(2_097_152, 4, 2_097_152).since(&counters(0, 0, 0), 2, 2_097_152);
        assert_eq!(used.read_ratio, Some(1.0));
        assert_eq!(used.requests_per_read, Some(2.0));
        assert_eq!(used.foreign_bytes, Some(0));
    }

    #[test]
    fn reads_from_memory_have_ratio_zero() {
        let used = counters(5, 7, 9).since(&counters(5, 7, 9), 100, 819_200);
        assert_eq!((used.read_ratio, used.requests_per_read), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn the_split_is_unknown_when_others_read_too() {
        let used = counters(1000, 10, 2000).since(&counters(0, 0, 0), 10, 1000);
        assert_eq!((used.requests_per_read, used.foreign_bytes), (None, Some(1000)));
    }

    #[test]
    fn without_counters_nothing_is_claimed() {
        let none = Counters::default();
        assert_eq!(none.since(&none, 10, 1000), DeviceUse::default());
        assert_eq!(counters(0, 0, 0).since(&counters(0, 0, 0), 0, 0).read_ratio, None);
    }
}
