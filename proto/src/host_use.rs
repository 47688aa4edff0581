//! What a job cost its host, and what else the host did meanwhile.

use serde::{Deserialize, Serialize};

/// What an interface carried during a job: ours and everybody else's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// Growth of `/proc/net/softnet_stat`, all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoftnetUse {
    pub dropped: u64,
    pub squeezed: u64,
}

/// Processor time during a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Of the job's threads.
    pub threads_us: u64,
    pub busiest_thread_us: u64,
    pub elapsed_us: u64,
    /// Of the whole host, as a number of cores.
    pub host_cores: Option<f64>,
    pub host_softirq_cores: Option<f64>,
    pub host_steal_cores: Option<f64>,
    /// 0 to 1.
    pub busiest_core_share: Option<f64>,
    /// That core's softirq time, 0 to 1.
    #[serde(default)]
    pub busiest_core_softirq_share: Option<f64>,
    /// What the busiest thread waited for a processor while it could have run (schedstat).
    #[serde(default)]
    pub busiest_thread_wait_us: Option<u64>,
    /// What the process's control group was throttled (cpu.stat).
    #[serde(default)]
    pub throttled_us: Option<u64>,
}

mirror!(
    InterfaceUse,
    InterfaceUse {
        name,
        received_bytes,
        sent_bytes,
        received_packets,
        sent_packets,
        receive_drops,
        send_drops,
        receive_errors,
        send_errors,
    }
);
mirror!(SoftnetUse, SoftnetUse { dropped, squeezed });
mirror!(
    CpuUse,
    CpuUse {
        threads_us,
        busiest_thread_us,
        elapsed_us,
        host_cores,
        host_softirq_cores,
        host_steal_cores,
        busiest_core_share,
        busiest_core_softirq_share,
        busiest_thread_wait_us,
        throttled_us,
    }
);
