//! Test data: runs made from the description of a path, as a network engineer would write it.
//!
//! The files are in `tests/data/scenarios/`. The model is simple on purpose: a flow gets the least
//! of its own limit, its window over the round trip, what losses leave, and its part of the link.

mod path;
mod planted;
mod run;
mod setup;
mod storage;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::plan::clusters::LeftOut;
use crate::record::event::Moment;
use crate::record::run::RunRecord;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub scenario: String,
    /// All nodes are this machine.
    #[serde(default)]
    pub demo: bool,
    #[serde(default = "one")]
    pub pairs: usize,
    pub network: Network,
    /// What differs from standby to primary.
    #[serde(default)]
    pub back: Option<Network>,
    #[serde(default)]
    pub hosts: Hosts,
    pub declared: Option<String>,
    pub need: Option<NeedText>,
    pub limit: Option<String>,
    /// What `--limit` kept away; the pairs that are left are `pairs`.
    #[serde(default)]
    pub left_out: LeftOut,
    pub steps: Vec<String>,
    pub storage: Option<StorageText>,
    /// `after step 3`: the number of steps that were finished.
    pub interrupted_after: Option<usize>,
    /// A node that is lost when this step begins (from 1).
    pub lost: Option<Lost>,
    /// What the agent could not remove from a node.
    #[serde(default)]
    pub left_behind: BTreeMap<String, String>,
    /// Seconds that a node's clock is ahead.
    #[serde(default)]
    pub clock_ahead: BTreeMap<String, f64>,
    pub expect: Expectation,
}

fn one() -> usize {
    1
}

/// A direction of the path between the clusters. Rates are of IP packets of 1500 bytes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    pub rtt: Option<String>,
    /// What half of the round trips take more than the smallest, with and without load.
    pub jitter: Option<String>,
    /// Others' streams that always fill the link: so many of ours get their part beside them.
    pub competing: u32,
    pub link: Option<String>,
    pub per_flow: Option<String>,
    /// How long a packet waits where the rate is held.
    pub queue: Option<String>,
    /// Random loss.
    pub loss: Option<String>,
    /// What a policer drops of a flow that it holds.
    pub dropped: Option<String>,
    /// Of all bytes, lost in slow start.
    pub ramp_loss: Option<String>,
    /// Of the rate, between samples.
    pub noise: Option<String>,
    /// What the second pair gets of the first one's single stream.
    pub second_pair: Option<String>,
    /// The largest MTU that the path carries, whatever the interfaces say.
    pub mtu: Option<u32>,
    /// How much more one stream gets with an MTU of 9000.
    pub jumbo_gain: Option<String>,
    /// The rate falls to this share of itself after two thirds of a test.
    pub falls_to: Option<String>,
    /// At the beginning of a test, a fifth of the rate for so long.
    pub stall: Option<String>,
    /// What a test gets at the beginning, until it has used up the credit.
    pub early: Option<String>,
    pub credit: Option<String>,
    /// To which something on the way clamps segments, with their options.
    pub mss: Option<u64>,
    /// What is larger than `mtu` vanishes without a word.
    pub swallows: bool,
    /// The receiver's agent is not reached, so its kernel answers the probes.
    pub by_icmp: bool,
    /// Of others, the same way through the same interfaces.
    pub background: Option<String>,
    /// The data port.
    pub blocked: Option<Blocked>,
    /// Part of the packets that overtake others.
    pub overtaking: Option<String>,
    /// Flows on each of several equal links, where so many are sent.
    pub hash: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocked {
    Reject,
    Drop,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosts {
    /// Third value of net.ipv4.tcp_wmem on the primary's nodes and on the standby's.
    pub send_buffer_max: Option<String>,
    /// Third value of net.ipv4.tcp_rmem.
    pub receive_buffer_max: Option<String>,
    /// net.core.wmem_max and rmem_max.
    pub fixed_buffer_max: Option<String>,
    /// What a sender's thread can send with a whole core.
    pub cpu_rate: Option<String>,
    pub congestion_control: Option<String>,
    pub qdisc: Option<String>,
    pub driver: Option<String>,
    /// A kernel without the newer fields of TCP_INFO.
    pub old_kernel: bool,
    /// A stream that waits for its send buffer sends in bursts that add so much to its round trip,
    /// and the kernel counts none of the waiting: as Linux 6.18 does with buffers below 128 KiB.
    pub bursts: Option<String>,
    pub interface_mtu: Option<u32>,
    /// A path MTU that the senders' kernels knew before.
    pub remembered: Option<u32>,
    /// What a receiver can take with what its processor gives it.
    pub receiver_rate: Option<String>,
    /// Of a core, that a control group leaves to the receivers and to the senders.
    pub receiver_quota: Option<String>,
    pub sender_quota: Option<String>,
    /// What a receiver takes, having processor time left.
    pub reader_rate: Option<String>,
    /// Of the receivers' busiest core.
    pub interrupts: Option<String>,
    pub speed_mbit: Option<u64>,
    /// The senders' data leave by another interface than the one with the redo address.
    pub wrong_interface: bool,
    pub bond_members: Vec<String>,
    /// Of each of them.
    pub member_mbit: Option<u64>,
    /// Of the packets, those that a receiver's interface finds damaged.
    pub damaged: Option<String>,
    /// Of a core, what a thread uses although it holds nothing.
    pub thread: Option<String>,
    /// What the hypervisor takes of the hosts' cores.
    pub steal: Option<String>,
    /// What one stream gets when it is encrypted or compressed.
    pub coding_rate: Option<String>,
    /// To the standby's scratch file.
    pub write: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NeedText {
    pub threads: BTreeMap<u32, String>,
    pub total: Option<String>,
    pub headroom: Option<String>,
    pub transport: crate::plan::need::Transport,
    pub local_write: Option<String>,
    pub database_size: Option<String>,
    pub instantiate_within: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageText {
    pub primary: Disks,
    pub standby: Disks,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disks {
    pub highest: String,
    /// Outstanding requests that reach it.
    pub knee: u32,
    /// Of half of the single block reads.
    pub block_latency: String,
    #[serde(default)]
    pub from_device: Option<String>,
    /// What the second node gets of the first one's rate.
    #[serde(default)]
    pub second_node: Option<String>,
    /// Of the blocks.
    #[serde(default)]
    pub zeros: Option<String>,
    /// The engine does not know what came from the device.
    #[serde(default)]
    pub ratio_unknown: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    pub node: String,
    pub step: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Ids that must be found.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Ids whose confidence must be this.
    #[serde(default)]
    pub likely: Vec<String>,
    #[serde(default)]
    pub possible: Vec<String>,
    /// Ids that must not be.
    #[serde(default)]
    pub absent: Vec<String>,
    /// None at all but those in `findings`.
    #[serde(default)]
    pub nothing_else: bool,
    #[serde(default)]
    pub recommendations: Vec<String>,
    /// None at all but those in `recommendations`.
    #[serde(default)]
    pub only_recommended: bool,
    pub verdict: String,
    pub exit_code: u8,
    /// Value and unit of findings, to 3 %: `1087500 bytes`; `none` for none.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Pieces of the findings' sentences.
    #[serde(default)]
    pub sentences: Vec<String>,
    /// Pieces of the run's remarks.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Pieces of what is missing.
    #[serde(default)]
    pub missing: Vec<String>,
    /// What must not be anywhere in the report.
    #[serde(default)]
    pub nowhere: Vec<String>,
    /// Pieces of the verdict's sentence.
    #[serde(default)]
    pub says: Vec<String>,
}

impl Scenario {
    /// By the name of its file, without `.yaml`.
    pub fn named(name: &str) -> Self {
        let path = format!("{}/tests/data/scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect(&path);
        serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn names() -> Vec<String> {
        let folder = format!("{}/tests/data/scenarios", env!("CARGO_MANIFEST_DIR"));
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                Some(entry.unwrap().path().file_stem()?.to_string_lossy().into_owned())
            })
            .collect();
        names.sort();
        names
    }

    /// What the executor would have told.
    pub fn events(&self) -> Vec<Moment> {
        run::Run::of(self).events()
    }

    pub fn record(&self) -> RunRecord {
        RunRecord::fold(&self.events()).unwrap()
    }
}

/// A quantity with its unit.
fn quantity<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Display,
{
    text.parse().unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

fn optional<T: std::str::FromStr>(text: Option<&String>) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    text.map(|text| quantity(text))
}

fn time(text: &str) -> std::time::Duration {
    redoline_proto::units::parse_duration(text).unwrap_or_else(|error| panic!("{error}"))
}

mod advised;
mod carried;
mod counters;
mod needs;
mod reported;
mod summaries;
mod tests;
