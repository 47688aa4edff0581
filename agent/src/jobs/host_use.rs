//! What the whole host did during a job: its interfaces, its packet backlog, its quota.

use std::collections::BTreeMap;
use std::fs;

use redoline_proto::transfer::{InterfaceUse, SoftnetUse};

use super::throttle::Throttle;

/// More interfaces than this at work are left out: the least busy ones.
const INTERFACES_MAX: usize = 64;

/// Reads the host's counters whenever it is asked.
#[derive(Clone, Debug)]
pub struct HostCounters {
    throttle: Throttle,
}

/// Running totals at one moment; what could not be read is unknown.
#[derive(Clone, Debug, Default)]
pub struct HostTotals {
    interfaces: BTreeMap<String, InterfaceUse>,
    softnet: Option<SoftnetUse>,
    throttled_us: Option<u64>,
}

/// What grew between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostUse {
    /// Only those that carried something, the busiest first.
    pub interfaces: Vec<InterfaceUse>,
    pub softnet: Option<SoftnetUse>,
    pub throttled_us: Option<u64>,
}

impl HostCounters {
    pub fn new() -> Self {
        Self { throttle: Throttle::of_this_process() }
    }

    pub fn read(&self) -> HostTotals {
        let text = |path| fs::read_to_string(path).ok();
        HostTotals {
            interfaces: text("/proc/net/dev").map(|text| parse_dev(&text)).unwrap_or_default(),
            softnet: text("/proc/net/softnet_stat").and_then(|text| parse_softnet(&text)),
            throttled_us: self.throttle.throttled_us(),
        }
    }
}

impl HostTotals {
    pub fn until(&self, later: &Self) -> HostUse {
        // Of one that was not there before, nobody knows since when it counts.
        let mut interfaces: Vec<_> = later
            .interfaces
            .iter()
            .filter_map(|(name, now)| Some(growth(self.interfaces.get(name)?, now)))
            .filter(has_moved)
            .collect();
        interfaces.sort_by_key(|interface| {
            std::cmp::Reverse(interface.received_bytes.saturating_add(interface.sent_bytes))
        });
        interfaces.truncate(INTERFACES_MAX);
        let softnet = self.softnet.zip(later.softnet).map(|(before, now)| SoftnetUse {
            dropped: now.dropped.saturating_sub(before.dropped),
            squeezed: now.squeezed.saturating_sub(before.squeezed),
        });
        let throttled = self.throttled_us.zip(later.throttled_us);
        let throttled_us = throttled.map(|(before, now)| now.saturating_sub(before));
        HostUse { interfaces, softnet, throttled_us }
    }
}

/// A counter that went back belongs to an interface that was made anew under the same name.
fn growth(before: &InterfaceUse, now: &InterfaceUse) -> InterfaceUse {
    let grown = |of: fn(&InterfaceUse) -> u64| of(now).saturating_sub(of(before));
    InterfaceUse {
        name: now.name.clone(),
        received_bytes: grown(|interface| interface.received_bytes),
        sent_bytes: grown(|interface| interface.sent_bytes),
        received_packets: grown(|interface| interface.received_packets),
        sent_packets: grown(|interface| interface.sent_packets),
        receive_drops: grown(|interface| interface.receive_drops),
        send_drops: grown(|interface| interface.send_drops),
        receive_errors: grown(|interface| interface.receive_errors),
        send_errors: grown(|interface| interface.send_errors),
    }
}

fn has_moved(interface: &InterfaceUse) -> bool {
    let still = InterfaceUse { name: interface.name.clone(), ..InterfaceUse::default() };
    *interface != still
}

/// /proc/net/dev. Its drops are `rx_dropped` and `rx_missed_errors` together.
fn parse_dev(text: &str) -> BTreeMap<String, InterfaceUse> {
    text.lines().filter_map(parse_interface).map(|one| (one.name.clone(), one)).collect()
}

/// name: bytes packets errs drop fifo frame compressed multicast, and the same of what was sent.
fn parse_interface(line: &str) -> Option<InterfaceUse> {
    let (name, numbers) = line.rsplit_once(':')?;
    let numbers: Vec<u64> =
        numbers.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let at = |index: usize| numbers.get(index).copied();
    Some(InterfaceUse {
        name: printable(name.trim()),
        received_bytes: at(0)?,
        received_packets: at(1)?,
        receive_errors: at(2)?,
        receive_drops: at(3)?,
        sent_bytes: at(8)?,
        sent_packets: at(9)?,
        send_errors: at(10)?,
        send_drops: at(11)?,
    })
}

/// The kernel takes nearly any byte into a name; a terminal and a report do not.
fn printable(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_graphic() { char } else { '?' }).collect()
}

/// One line for each processor, in hexadecimal: processed, dropped, time_squeeze, …
fn parse_softnet(text: &str) -> Option<SoftnetUse> {
    let mut all = SoftnetUse::default();
    for line in text.lines() {
        let mut numbers =
            line.split_ascii_whitespace().skip(1).map(|hex| u64::from_str_radix(hex, 16).ok());
        all.dropped += numbers.next()??;
        all.squeezed += numbers.next()??;
    }
    (!text.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  500       5    0    0    0     0          0         0      500       5    0    0    0     0       0          0
  eth0: 1000      10    1    2    0     0          0         0     2000      20    3    4    0     0       0          0
  eth1:    7       1    0    0    0     0          0         0        0       0    0    0    0     0       0          0
";

    fn totals(dev: &str, softnet: &str) -> HostTotals {
        HostTotals {
            interfaces: parse_dev(dev),
            softnet: parse_softnet(softnet),
            throttled_us: None,
        }
    }

    #[test]
    fn only_interfaces_that_carried_something_are_told() {
        let after = BEFORE.replace("2000      20    3    4", "5000      26    3    9");
        let host = totals(BEFORE, "").until(&totals(&after, ""));
        let eth0 = InterfaceUse {
            name: "eth0".to_owned(),
            sent_bytes: 3000,
            sent_packets: 6,
            send_drops: 5,
            ..InterfaceUse::default()
        };
        assert_eq!(host.interfaces, [eth0]);
        assert_eq!((host.softnet, host.throttled_us), (None, None));
    }

    #[test]
    fn all_processors_backlogs_are_summed_up() {
        let before = "0b97daf7 00000001 0000000b 00000000\n0b4224fb 00000000 00000007 00000000\n";
        let after = "0b97db00 00000001 0000001b 00000000\n0b422500 00000002 00000007 00000000\n";
        let host = totals("", before).until(&totals("", after));
        assert_eq!(host.softnet, Some(SoftnetUse { dropped: 2, squeezed: 16 }));
        assert_eq!(parse_softnet("0b97db00\n"), None, "another kernel's file");
    }

    #[test]
    fn an_interface_that_was_not_there_before_is_not_told_with_all_that_it_ever_carried() {
        let later = BEFORE.replace("    7       1", "   99       9");
        let before: String = BEFORE.lines().filter(|line| !line.contains("eth1")).collect();
        assert_eq!(totals(&before, "").until(&totals(&later, "")).interfaces, []);
    }

    #[test]
    fn an_interface_that_was_made_anew_does_not_count_backwards() {
        let after = BEFORE.replace("1000      10", "  10       1");
        let host = totals(BEFORE, "").until(&totals(&after, ""));
        assert_eq!(host.interfaces, []);
    }

    #[test]
    fn a_name_is_shown_without_what_moves_a_cursor() {
        let line = "e\u{1b}[2Jth: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0";
        assert_eq!(parse_interface(line).unwrap().name, "e?[2Jth");
        // An alias as old kernels list it.
        assert_eq!(
            parse_interface("eth0:1: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0").unwrap().name,
            "eth0:1"
        );
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        let totals = HostCounters::new().read();
        assert!(totals.interfaces.contains_key("lo"));
    }
}
