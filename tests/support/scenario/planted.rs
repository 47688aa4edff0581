//! Faults of a path beside its rates: sizes, interfaces, processors, credit, order, ports.

use redoline_proto::latency::Latency;
use redoline_proto::path::{PathProbe, ProbeWay, SizeOutcome, SizeProbe};
use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{CpuUse, InterfaceUse, SoftnetUse};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::{Blocked, Hosts, Network, optional, time};

/// Interfaces of every node.
pub const INTERFACE: &str = "bond1";
pub const OTHER_INTERFACE: &str = "eth9";
/// Ethernet, IP and TCP headers with timestamps, for each segment.
const HEADERS: u64 = 66;

/// Of one direction.
#[derive(Clone, Debug)]
pub struct Planted {
    pub early: f64,
    pub credit: f64,
    pub mss: Option<u64>,
    pub swallows: bool,
    pub by_icmp: bool,
    pub background: f64,
    pub blocked: Option<Blocked>,
    pub overtaking: f64,
    pub hash: Vec<u32>,
    pub interface_mtu: u32,
    pub remembered: Option<u32>,
    pub receiver_rate: f64,
    pub receiver_quota: Option<f64>,
    pub sender_quota: Option<f64>,
    pub reader_rate: f64,
    pub interrupts: f64,
    pub wrong_interface: bool,
    pub members: Vec<String>,
    pub damaged: f64,
    pub steal: f64,
    pub thread: f64,
    pub coding_rate: f64,
    pub write_us: f64,
}

/// What one end's processors and interfaces did.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub receiving: bool,
    pub bytes: u64,
    pub packets: u64,
    pub seconds: i64,
    /// Of a core.
    pub thread: f64,
    pub kept: f64,
    pub throttled: bool,
}

impl Planted {
    pub fn of(network: &Network, hosts: &Hosts) -> Self {
        let rate = |text: Option<&String>, or: f64| {
            optional::<BytesPerSecond>(text).map_or(or, |rate| rate.0)
        };
        let share = |text: Option<&String>| optional::<Share>(text).map(|share| share.0);
        Self {
            early: rate(network.early.as_ref(), 0.0),
            credit: optional::<Bytes>(network.credit.as_ref()).map_or(0.0, |bytes| bytes.0 as f64),
            mss: network.mss,
            swallows: network.swallows,
            by_icmp: network.by_icmp,
            background: rate(network.background.as_ref(), 0.0),
            blocked: network.blocked,
            overtaking: share(network.overtaking.as_ref()).unwrap_or(0.0),
            hash: network.hash.clone(),
            interface_mtu: hosts.interface_mtu.unwrap_or(1500),
            remembered: hosts.remembered,
            receiver_rate: rate(hosts.receiver_rate.as_ref(), f64::INFINITY),
            receiver_quota: share(hosts.receiver_quota.as_ref()),
            sender_quota: share(hosts.sender_quota.as_ref()),
            reader_rate: rate(hosts.reader_rate.as_ref(), f64::INFINITY),
            interrupts: share(hosts.interrupts.as_ref()).unwrap_or(0.0),
            wrong_interface: hosts.wrong_interface,
            members: hosts.bond_members.clone(),
            damaged: share(hosts.damaged.as_ref()).unwrap_or(0.0),
            thread: share(hosts.thread.as_ref()).unwrap_or(0.1),
            steal: share(hosts.steal.as_ref()).unwrap_or(0.0),
            coding_rate: rate(hosts.coding_rate.as_ref(), f64::INFINITY),
            write_us: hosts.write.as_deref().map_or(0.0, |text| time(text).as_secs_f64() * 1e6),
        }
    }

    /// What each of `count` streams gets of all, in shares that sum up to `count`.
    pub fn weights(&self, count: usize) -> Vec<f64> {
        let flows: u32 = self.hash.iter().sum();
        if flows as usize != count {
            return vec![1.0; count];
        }
        let links = self.hash.len() as f64;
        let each = |flows: &u32| {
            let weight = count as f64 / links / f64::from(*flows);
            std::iter::repeat_n(weight, *flows as usize)
        };
        self.hash.iter().flat_map(each).collect()
    }

    /// Nothing larger than what the path carries comes through.
    pub fn stuck(&self, mtu: u32) -> bool {
        self.swallows && mtu < self.interface_mtu
    }

    pub fn probe(&self, rtt_us: u64, (mtu, back_mtu): (u32, u32), loss: f64) -> PathProbe {
        let most = self.interface_mtu;
        let passes = mtu.min(most);
        let outcome = if self.swallows { SizeOutcome::Lost } else { SizeOutcome::TooBigThere };
        let too_big = SizeProbe {
            packet_bytes: most,
            outcome,
            told_mtu_bytes: (!self.swallows).then_some(passes),
        };
        let passed =
            SizeProbe { packet_bytes: passes, outcome: SizeOutcome::Passed, told_mtu_bytes: None };
        let sizes = if passes < most { vec![too_big, passed] } else { vec![passed] };
        let way = if self.by_icmp { ProbeWay::Icmp } else { ProbeWay::Udp };
        PathProbe {
            interface: Some(INTERFACE.to_owned()),
            interface_mtu_bytes: Some(most),
            remembered_mtu_bytes: self.remembered,
            way: Some(way),
            sent: 100,
            answered: (100.0 * (1.0 - loss)).round() as u32,
            reordered: (100.0 * self.overtaking).round() as u32,
            rtt: Some(latency(rtt_us as f64, 100)),
            sizes,
            path_mtu_bytes: Some(passes),
            return_path_mtu_bytes: Some(back_mtu.min(most)),
            ..PathProbe::default()
        }
    }

    /// A connection that is under way and gets nothing through.
    pub fn silent(&self) -> TcpInfo {
        TcpInfo {
            backoff: Some(4),
            unacked_packets: Some(10),
            snd_cwnd_packets: Some(1),
            ..TcpInfo::default()
        }
    }

    pub fn interfaces(&self, work: Work) -> Vec<InterfaceUse> {
        let wire = work.bytes + work.packets * HEADERS;
        let others = (self.background * work.seconds as f64) as u64;
        let elsewhere = self.wrong_interface && !work.receiving;
        let own = others + if elsewhere { 0 } else { wire };
        let of = |name: &str, bytes: u64| match work.receiving {
            true => InterfaceUse {
                name: name.to_owned(),
                received_bytes: bytes,
                receive_errors: (work.packets as f64 * self.damaged) as u64,
                ..InterfaceUse::default()
            },
            false => {
                InterfaceUse { name: name.to_owned(), sent_bytes: bytes, ..InterfaceUse::default() }
            }
        };
        let mut interfaces =
            vec![of(INTERFACE, own), of(OTHER_INTERFACE, if elsewhere { wire } else { 1000 })];
        let flows: u32 = self.hash.iter().sum::<u32>().max(1);
        let parts = self.members.iter().zip(self.hash.iter().chain(std::iter::repeat(&0)));
        interfaces
            .extend(parts.map(|(name, part)| of(name, own * u64::from(*part) / u64::from(flows))));
        interfaces
    }

    pub fn softnet(&self) -> SoftnetUse {
        let busy = u64::from(self.interrupts > 0.5);
        SoftnetUse { dropped: 120 * busy, squeezed: 4000 * busy }
    }

    pub fn cpu(&self, work: Work) -> CpuUse {
        let elapsed_us = work.seconds as u64 * 1_000_000;
        let of = |share: f64| (elapsed_us as f64 * share) as u64;
        let full = work.thread > 0.9;
        let interrupts = if work.receiving { self.interrupts } else { 0.0 };
        CpuUse {
            threads_us: of(work.thread) + elapsed_us / 50,
            busiest_thread_us: of(work.thread),
            elapsed_us,
            host_cores: Some(if full { 1.3 } else { 0.4 } + interrupts),
            host_softirq_cores: Some(0.1),
            host_steal_cores: Some(self.steal),
            busiest_core_share: Some(interrupts.max(if full { 0.99 } else { 0.4 })),
            busiest_core_softirq_share: Some(interrupts),
            busiest_thread_wait_us: Some(of(work.kept)),
            throttled_us: Some(if work.throttled { of(work.kept) } else { 0 }),
        }
    }
}

pub fn latency(mean_us: f64, count: u64) -> Latency {
    Latency {
        count,
        mean_us,
        min_us: mean_us * 0.95,
        p50_us: mean_us,
        p90_us: mean_us * 1.1,
        p99_us: mean_us * 1.4,
        p999_us: mean_us * 2.0,
        max_us: mean_us * 3.0,
        buckets: Vec::new(),
    }
}
