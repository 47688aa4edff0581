//! Every effective parameter of a throughput test in words: as asked for, as granted, and what the
//! hosts did meanwhile.

use super::format::{self, UNKNOWN};
use super::model::{GrantedEnd, HostUse, InterfaceUse, Throughput};

/// `mode async, each pair alone, message 1 MiB, …`.
pub fn requested(test: &Throughput) -> String {
    let mut parts = vec![
        format!("mode {}", mode(&test.mode)),
        nodes(&test.nodes).to_owned(),
        format!("message {}", format::bytes(Some(test.message_bytes))),
        payload(test),
        duration(test),
        format!("readings every {}", format::milliseconds(Some(test.interval_ms as f64))),
    ];
    parts.extend(test.both_directions.then(|| BOTH_DIRECTIONS.to_owned()));
    parts.extend(test.write.as_ref().map(|write| {
        let size = format::bytes(Some(write.file_bytes));
        format!("each message written to a scratch file of {size} in {}", write.directory)
    }));
    parts.extend(test.encoding.as_ref().map(|encoding| format!("encoding {encoding}")));
    parts.extend(
        test.delay_us
            .map(|us| format!("{} between two messages", format::microseconds(Some(us as f64)))),
    );
    parts.extend(
        test.network_timeout_ms
            .map(|ms| format!("network timeout {}", format::milliseconds(Some(ms as f64)))),
    );
    parts.extend(sockets(test));
    parts.push(match test.rate_limit_bytes_per_second {
        Some(limit) => format!("rate limit {}", format::rate(Some(limit))),
        None => "no rate limit".to_owned(),
    });
    parts.join(", ")
}

pub const BOTH_DIRECTIONS: &str = "both directions at the same time";

/// `sync (AFFIRM)`.
pub fn mode(mode: &str) -> String {
    match mode {
        "sync" => "sync (AFFIRM)".to_owned(),
        "fastsync" => "fastsync (NOAFFIRM)".to_owned(),
        other => other.to_owned(),
    }
}

/// Which pairs sent at a time.
pub fn nodes(nodes: &str) -> &str {
    match nodes {
        "each" => "each pair alone",
        "together" => "all pairs together",
        "all_to_one" => "all to one receiver",
        other => other,
    }
}

fn payload(test: &Throughput) -> String {
    match test.compressible_share {
        None => format!("payload {}", test.payload),
        Some(share) => {
            format!("payload {}, {} compressible", test.payload, format::percent(Some(share)))
        }
    }
}

fn duration(test: &Throughput) -> String {
    let most = format::milliseconds(Some(test.duration_ms as f64));
    match test.auto_target_share {
        None => most,
        Some(target) => {
            format!("until known to ± {}, at most {most}", format::percent(Some(target)))
        }
    }
}

fn sockets(test: &Throughput) -> Vec<String> {
    let asked = &test.requested;
    let exactly = |bytes: Option<u64>| {
        bytes.map_or_else(String::new, |bytes| format!(" ({})", format::bytes(Some(bytes))))
    };
    let mut parts = vec![format!(
        "socket buffer {}{}",
        asked.socket_buffer,
        exactly(asked.socket_buffer_bytes)
    )];
    let of = |name: &str, bytes: Option<u64>| {
        bytes.map(|bytes| format!("{name} {}", format::bytes(Some(bytes))))
    };
    parts.extend(of("send buffer of the sender", asked.send_buffer_bytes));
    parts.extend(of("receive buffer of the receiver", asked.receive_buffer_bytes));
    let control = asked.congestion_control.as_deref().unwrap_or("of the system");
    parts.push(format!("congestion control {control}"));
    let mtu = asked.mtu_bytes.map_or_else(|| "of the path".to_owned(), |mtu| mtu.to_string());
    parts.push(format!("MTU {mtu}"));
    parts.extend(asked.mss_bytes.map(|mss| format!("MSS {mss}")));
    parts.extend(test.interface_mtu_bytes.map(|mtu| format!("interfaces held at MTU {mtu}")));
    parts.extend(asked.dscp.map(|dscp| format!("DSCP {dscp}")));
    parts.extend(asked.device.as_ref().map(|device| format!("device {device}")));
    parts.extend(asked.source_port.map(|port| format!("source ports from {port}")));
    parts.extend(
        asked
            .pacing_bytes_per_second
            .map(|rate| format!("each stream paced at {}", format::network_rate(Some(rate), None))),
    );
    parts
}

/// `send buffer 4 MiB (2 MiB surely usable, at net.ipv4.tcp_wmem[2]), …`.
pub fn granted(test: &Throughput) -> String {
    let granted = &test.granted;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    [
        buffer("send", granted.send_buffer_bytes, granted.usable_send_buffer_bytes)
            + &bounds(test, "sender"),
        buffer("receive", granted.receive_buffer_bytes, granted.usable_receive_buffer_bytes)
            + &bounds(test, "receiver"),
        format!(
            "congestion control {} (sender) and {} (receiver)",
            known(&test.congestion_control.sender),
            known(&test.congestion_control.receiver)
        ),
        format!("MSS {}", format::count(test.mss_bytes)),
        format!("path MTU {}", format::count(test.path_mtu_bytes)),
        format!("largest window offered {}", format::bytes(test.offered_window_bytes)),
    ]
    .join(", ")
}

fn buffer(name: &str, granted: Option<u64>, usable: Option<u64>) -> String {
    let usable = usable.map_or_else(String::new, |usable| {
        format!(" ({} surely usable)", format::bytes(Some(usable)))
    });
    format!("{name} buffer {}{usable}", format::bytes(granted))
}

/// ` at net.core.wmem_max on phx1, set past the maximum on phx2`; empty where nothing bound it.
fn bounds(test: &Throughput, end: &str) -> String {
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    for one in test.granted.ends.iter().filter(|one| one.end == end) {
        for what in bound(one) {
            match parts.iter_mut().find(|part| part.0 == what) {
                Some((_, nodes)) if nodes.contains(&&*one.node) => (),
                Some((_, nodes)) => nodes.push(&one.node),
                None => parts.push((what, vec![&one.node])),
            }
        }
    }
    let on = |(what, nodes): &(String, Vec<&str>)| format!(" {what} on {}", nodes.join(" and "));
    parts.iter().map(on).collect::<Vec<String>>().join(";")
}

fn bound(one: &GrantedEnd) -> Vec<String> {
    let at = one.bound_by.as_ref().map(|setting| format!("at {setting}"));
    let forced = (one.forced == Some(true)).then(|| "set past the maximum".to_owned());
    at.into_iter().chain(forced).collect()
}

/// `phx1 (sender): test 0.4 cores, …; ens3 sent 1.1 GiB, received 20 MiB`; `None` when the host told
/// nothing.
pub fn host(host: &HostUse) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(cpu) = &host.cpu {
        let cores = |cores: f64| format::number(Some(cores));
        parts.push(format!("test {} cores", cores(cpu.test_cores)));
        parts.push(format!("busiest thread {}", cores(cpu.busiest_thread_cores)));
        let more = [
            ("that waited", cpu.busiest_thread_waited_cores),
            ("kept from running by a quota", cpu.throttled_cores),
            ("whole host", cpu.host_cores),
            ("soft interrupts", cpu.host_softirq_cores),
            ("stolen by the hypervisor", cpu.host_steal_cores),
        ];
        parts.extend(
            more.iter().filter_map(|(what, value)| Some(format!("{what} {}", cores((*value)?)))),
        );
        parts.extend(
            cpu.busiest_core_share.map(|share| busiest_core(share, cpu.busiest_core_softirq_share)),
        );
    }
    parts.extend(host.interfaces.iter().flatten().map(interface));
    parts.extend(softnet(host));
    (!parts.is_empty()).then(|| format!("{} ({}): {}", host.node, host.end, parts.join(", ")))
}

fn busiest_core(share: f64, softirq: Option<f64>) -> String {
    let softirq = softirq.map_or_else(String::new, |share| {
        format!(" ({} in soft interrupts)", format::percent(Some(share)))
    });
    format!("busiest core {}{softirq}", format::percent(Some(share)))
}

fn interface(one: &InterfaceUse) -> String {
    let mut text = format!(
        "{} sent {}, received {}",
        one.name,
        format::bytes(Some(one.sent_bytes)),
        format::bytes(Some(one.received_bytes))
    );
    text.push_str(&lost_packets(one).map_or_else(String::new, |lost| format!(" ({lost})")));
    text
}

/// `dropped 3 sent and 0 received`; `None` where nothing was dropped.
fn lost_packets(one: &InterfaceUse) -> Option<String> {
    let of = |name: &str, sent: u64, received: u64| {
        (sent + received > 0).then(|| {
            let (sent, received) = (format::count(Some(sent)), format::count(Some(received)));
            format!("{name} {sent} on sending and {received} on receiving")
        })
    };
    let parts: Vec<String> = [
        of("dropped", one.send_drops, one.receive_drops),
        of("errors", one.send_errors, one.receive_errors),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn softnet(host: &HostUse) -> Option<String> {
    let (dropped, squeezed) = (host.softnet_dropped, host.softnet_squeezed);
    let any = dropped.unwrap_or(0) + squeezed.unwrap_or(0) > 0;
    any.then(|| {
        format!(
            "the kernel dropped {} packets for want of time and ran out of its budget {} times",
            format::count(dropped),
            format::count(squeezed)
        )
    })
}

/// Only what a reader must not miss: packets dropped and time kept from running.
pub fn host_losses(host: &HostUse) -> Option<String> {
    let mut parts = Vec::new();
    for one in host.interfaces.iter().flatten() {
        parts.extend(lost_packets(one).map(|lost| format!("{}: {lost}", one.name)));
    }
    parts.extend(host.softnet_dropped.filter(|dropped| *dropped > 0).and_then(|_| softnet(host)));
    let throttled = host.cpu.as_ref().and_then(|cpu| cpu.throttled_cores);
    parts.extend(throttled.filter(|cores| *cores > 0.0).map(|cores| {
        format!("a quota kept the test from running, {} cores", format::number(Some(cores)))
    }));
    (!parts.is_empty()).then(|| format!("{} ({}): {}", host.node, host.end, parts.join(", ")))
}
