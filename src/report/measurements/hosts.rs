//! What the hosts did during a test: processors, interfaces, packets dropped for want of time.

use redoline_proto::transfer::InterfaceUse;

use super::super::model;
use crate::analysis::host_use::HostUse;
use crate::analysis::throughput::{Cpu, Summary};
use crate::record::setup::Setup;

pub(super) fn hosts(setup: &Setup, summary: &Summary) -> Vec<model::HostUse> {
    summary
        .pairs
        .iter()
        .flat_map(|pair| {
            let (sender, receiver) = setup.ends(pair.pair, summary.direction);
            [
                (sender, "sender", &pair.cpu.sender, &pair.host.sender),
                (receiver, "receiver", &pair.cpu.receiver, &pair.host.receiver),
            ]
            .map(|(node, end, used, host)| model::HostUse {
                pair: setup.pair_name(pair.pair),
                node: setup.node_name(node).to_owned(),
                end: end.to_owned(),
                cpu: used.as_ref().map(cpu),
                interfaces: interfaces(host),
                softnet_dropped: host.softnet.map(|softnet| softnet.dropped),
                softnet_squeezed: host.softnet.map(|softnet| softnet.squeezed),
            })
        })
        .collect()
}

fn cpu(cpu: &Cpu) -> model::CpuUse {
    model::CpuUse {
        test_cores: cpu.threads,
        busiest_thread_cores: cpu.busiest_thread,
        busiest_thread_waited_cores: cpu.waiting,
        throttled_cores: cpu.throttled,
        host_cores: cpu.host,
        host_softirq_cores: cpu.softirq,
        host_steal_cores: cpu.steal,
        busiest_core_share: cpu.busiest_core,
        busiest_core_softirq_share: cpu.busiest_core_softirq,
    }
}

fn interfaces(host: &HostUse) -> Option<Vec<model::InterfaceUse>> {
    let counted = |one: &&InterfaceUse| {
        **one != InterfaceUse { name: one.name.clone(), ..InterfaceUse::default() }
    };
    let shown = host.interfaces.iter().filter(counted).map(interface).collect();
    (!host.interfaces.is_empty()).then_some(shown)
}

fn interface(one: &InterfaceUse) -> model::InterfaceUse {
    model::InterfaceUse {
        name: one.name.clone(),
        received_bytes: one.received_bytes,
        sent_bytes: one.sent_bytes,
        received_packets: one.received_packets,
        sent_packets: one.sent_packets,
        receive_drops: one.receive_drops,
        send_drops: one.send_drops,
        receive_errors: one.receive_errors,
        send_errors: one.send_errors,
    }
}
