//! The format of a row. Quantities carry units; whatever is not known to the format is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use redoline_lab::units::{parse_bytes, parse_duration, parse_rate_bps, parse_share};
use redoline_lab::{Burst, Icmp, LabSpec, Reorder, WanSpec};
use serde::{Deserialize, Deserializer, de::Error};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What is wrong, as the test's name.
    pub fault: String,
    /// What the product lacks to find it.
    pub awaits: Option<String>,
    pub lab: LabRow,
    /// What is done to nodes, by their names; `all` is each of them.
    #[serde(default)]
    pub on: BTreeMap<String, NodeRow>,
    #[serde(default)]
    pub background: Vec<BackgroundRow>,
    #[serde(default)]
    pub runbook: Runbook,
    /// Variables of the runbook.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    pub expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Runbook {
    /// A file of `tests/data/faults/runbooks`, without its ending.
    Named(String),
    Inline(serde_yaml::Value),
}

impl Default for Runbook {
    fn default() -> Self {
        Self::Named("probe".to_owned())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabRow {
    /// On each side.
    #[serde(default = "one")]
    pub nodes: usize,
    pub lan_mtu: Option<u32>,
    /// IPv6 is there, and redo takes it.
    #[serde(default)]
    pub ipv6: bool,
    pub wan: WanRow,
}

fn one() -> usize {
    1
}

/// As `WanSpec`, whose defaults hold for what is left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WanRow {
    #[serde(deserialize_with = "duration")]
    rtt: Duration,
    #[serde(default, deserialize_with = "rate")]
    rate: Option<u64>,
    #[serde(default, deserialize_with = "rate")]
    reverse_rate: Option<u64>,
    #[serde(default, deserialize_with = "rate")]
    per_flow: Option<u64>,
    #[serde(default, deserialize_with = "bytes")]
    per_flow_burst: Option<u64>,
    #[serde(default, deserialize_with = "bytes")]
    per_flow_queue: Option<u64>,
    #[serde(default, deserialize_with = "bytes")]
    burst: Option<u64>,
    #[serde(default, deserialize_with = "rate")]
    burst_rate: Option<u64>,
    #[serde(default, deserialize_with = "bytes")]
    queue: Option<u64>,
    #[serde(default, deserialize_with = "share")]
    loss: Option<f64>,
    #[serde(default, deserialize_with = "share")]
    reverse_loss: Option<f64>,
    reorder: Option<ReorderRow>,
    mtu: Option<u32>,
    reverse_mtu: Option<u32>,
    icmp: Option<IcmpRow>,
    reverse_icmp: Option<IcmpRow>,
    mss_clamp: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReorderRow {
    every: u64,
    #[serde(deserialize_with = "duration")]
    late: Duration,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IcmpRow {
    Allowed,
    Filtered,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRow {
    /// Of the node's network namespace.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// Of one processor, for the node's agent.
    #[serde(default, deserialize_with = "share")]
    pub cpu: Option<f64>,
    /// What its redo interface sends at most, with a queue of 50 ms.
    #[serde(default, deserialize_with = "rate")]
    pub nic_rate: Option<u64>,
    /// What a firewall on the node does with the data port.
    pub data_port: Option<PortRow>,
    /// A second interface, and the route to the peers through it.
    #[serde(default)]
    pub misroute: bool,
    /// Its agent runs only in this share of the time, in turns of a tenth of a second.
    #[serde(default, deserialize_with = "share")]
    pub held_except: Option<f64>,
    /// Rules for `nft -f` on the node.
    pub nft: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortRow {
    Reject,
    Drop,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundRow {
    pub from: String,
    pub to: String,
    #[serde(deserialize_with = "rate_bps")]
    pub rate: u64,
}

/// What must come out. A warning that is neither in `findings` nor in `also` is one too many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    #[serde(default)]
    pub exit_code: i32,
    /// `not_tested` where nothing is said, since most rows state no need.
    #[serde(default = "not_tested")]
    pub verdict: String,
    #[serde(default)]
    pub findings: Vec<ExpectedFinding>,
    /// Warnings that may come out.
    #[serde(default)]
    pub also: Vec<String>,
    /// Findings that must not come out, whatever their severity.
    #[serde(default)]
    pub absent: Vec<String>,
    #[serde(default)]
    pub rates: Vec<ExpectedRate>,
    #[serde(default)]
    pub times: Vec<ExpectedTime>,
}

fn not_tested() -> String {
    "not_tested".to_owned()
}

/// What is left out may be anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedFinding {
    pub id: String,
    pub direction: Option<String>,
    /// All of them, in any order.
    pub nodes: Option<Vec<String>>,
    /// With its unit; a bare number is a ratio, a share or a count.
    pub value: Option<String>,
    #[serde(default = "five_percent", deserialize_with = "some_share")]
    pub within: f64,
    /// Words of the sentence.
    pub says: Option<String>,
}

/// The steady rate of the longest test with so many connections.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRate {
    pub num_conn: u64,
    #[serde(default = "primary_to_standby")]
    pub direction: String,
    /// All pairs at once rather than each alone.
    #[serde(default)]
    pub together: bool,
    pub pair: Option<String>,
    #[serde(deserialize_with = "rate_bps")]
    pub rate: u64,
    #[serde(default = "five_percent", deserialize_with = "some_share")]
    pub within: f64,
}

/// How long a step may take, from its start to its end, in each direction that it was run in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedTime {
    /// Its name in the runbook.
    pub step: String,
    #[serde(deserialize_with = "duration")]
    pub took_at_most: Duration,
}

fn primary_to_standby() -> String {
    "primary_to_standby".to_owned()
}

fn five_percent() -> f64 {
    0.05
}

impl Row {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_yaml::from_str(&text).with_context(|| path.display().to_string())
    }
}

impl LabRow {
    pub fn spec(&self) -> LabSpec {
        let spec = LabSpec::new(self.wan.spec()).nodes(self.nodes);
        LabSpec { lan_mtu: self.lan_mtu.unwrap_or(spec.lan_mtu), ipv6: self.ipv6, ..spec }
    }
}

impl WanRow {
    fn spec(&self) -> WanSpec {
        let icmp = |row| match row {
            IcmpRow::Allowed => Icmp::Allowed,
            IcmpRow::Filtered => Icmp::Filtered,
        };
        WanSpec {
            rate_bps: self.rate,
            reverse_rate_bps: self.reverse_rate,
            per_flow_bps: self.per_flow,
            per_flow_credit_bytes: self.per_flow_burst.unwrap_or(0),
            per_flow_queue_bytes: self.per_flow_queue,
            burst: self.burst.map(|credit_bytes| Burst { credit_bytes, peak_bps: self.burst_rate }),
            queue_bytes: self.queue,
            loss: self.loss.unwrap_or(0.0),
            reverse_loss: self.reverse_loss,
            reorder: self.reorder.as_ref().map(|row| Reorder { every: row.every, late: row.late }),
            mtu: self.mtu.unwrap_or(1500),
            reverse_mtu: self.reverse_mtu,
            icmp: self.icmp.map_or(Icmp::Allowed, icmp),
            reverse_icmp: self.reverse_icmp.map(icmp),
            mss_clamp: self.mss_clamp,
            ..WanSpec::unlimited(self.rtt)
        }
    }
}

fn quantity<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(|error| D::Error::custom(format!("{error:#}")))
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    quantity(deserializer, parse_duration)
}

fn rate_bps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    quantity(deserializer, parse_rate_bps)
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    quantity(deserializer, parse_rate_bps).map(Some)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    quantity(deserializer, parse_bytes).map(Some)
}

fn some_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    quantity(deserializer, parse_share)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    some_share(deserializer).map(Some)
}
