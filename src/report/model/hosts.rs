//! What the hosts did during a test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One end of a pair during a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUse {
    pub pair: String,
    pub node: String,
    /// `sender` or `receiver`.
    pub end: String,
    /// Null when the agent could not tell, or what it told is impossible.
    pub cpu: Option<CpuUse>,
    /// Those that carried or dropped anything, ours and everybody else's; null when unknown.
    pub interfaces: Option<Vec<InterfaceUse>>,
    /// Packets that the kernel dropped because its queue for a processor was full
    /// (`/proc/net/softnet_stat`).
    pub softnet_dropped: Option<u64>,
    /// Times that it had more packets to take than its budget allowed.
    pub softnet_squeezed: Option<u64>,
}

/// As numbers of cores over the time of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// Of the test's threads.
    pub test_cores: f64,
    /// At 1 the thread cannot do more.
    pub busiest_thread_cores: f64,
    /// What that thread waited for a processor although it could have run.
    pub busiest_thread_waited_cores: Option<f64>,
    /// What a control group's quota kept the test from running.
    pub throttled_cores: Option<f64>,
    pub host_cores: Option<f64>,
    pub host_softirq_cores: Option<f64>,
    pub host_steal_cores: Option<f64>,
    /// 0 to 1.
    pub busiest_core_share: Option<f64>,
    /// That core's time in soft interrupts, 0 to 1.
    pub busiest_core_softirq_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceUse {
    pub name: String,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub sent_packets: u64,
    pub receive_drops: u64,
    pub send_drops: u64,
    pub receive_errors: u64,
    pub send_errors: u64,
}
