//! What the ways between nodes are like: round trips, loss, packet sizes, interfaces.

use super::super::format::{self, NONE, UNKNOWN};
use super::super::model::{BothEnds, Measurement, Path, Report, SizeProbe};
use super::super::wording;
use super::{Row, Table};

pub(super) fn tables(report: &Report, step: u32) -> Vec<Table> {
    let paths: Vec<&Path> = report
        .measurements
        .iter()
        .filter_map(|measurement| match measurement {
            Measurement::Path(path) if path.step == step => Some(&**path),
            _ => None,
        })
        .collect();
    vec![round_trips(&paths, step), sizes(&paths, step)]
}

fn round_trips(paths: &[&Path], step: u32) -> Table {
    Table {
        caption: format!("Round trips and loss of the paths in step {step}"),
        head: vec![
            "Id",
            "Way",
            "RTT idle p50 / p99 / max",
            "RTT loaded p50 / p99 / max",
            "Load",
            "Loss",
            "Probes",
            "Reordered",
            "Retransmitted under load",
        ],
        rows: paths.iter().map(|path| round_trip(path)).collect(),
        notes: vec![
            "Idle: of small probes. Loaded: the kernel's smoothed round trip while one stream sent \
             as fast as it could."
                .to_owned(),
        ],
    }
}

fn round_trip(path: &Path) -> Row {
    let cells = vec![
        path.id.clone(),
        way(path),
        idle(path),
        loaded(path),
        load(path),
        format::percent(path.loss_ratio),
        probes(path),
        format::count(path.reordered_probes.map(u64::from)),
        format::bytes(path.retransmitted_bytes),
    ];
    Row { anchor: Some(path.id.clone()), cells }
}

fn load(path: &Path) -> String {
    match (path.load_bytes_per_second, path.acked_bytes) {
        (None, Some(0)) => "not one byte was acknowledged".to_owned(),
        (rate, _) => format::rate(rate),
    }
}

/// `phx1 to ash1`.
pub fn way(path: &Path) -> String {
    format!("{} to {}", path.sender, path.receiver)
}

pub fn idle(path: &Path) -> String {
    match &path.rtt_us.idle {
        None => UNKNOWN.to_owned(),
        Some(idle) => three(idle.p50, idle.p99, idle.max),
    }
}

pub fn loaded(path: &Path) -> String {
    let rtt = &path.rtt_us;
    let us = |us: Option<u64>| us.map(|us| us as f64);
    match rtt.loaded_p50 {
        None => UNKNOWN.to_owned(),
        Some(_) => three(us(rtt.loaded_p50), us(rtt.loaded_p99), us(rtt.loaded_max)),
    }
}

fn three(a: Option<f64>, b: Option<f64>, c: Option<f64>) -> String {
    [a, b, c].map(format::microseconds).join(" / ")
}

fn probes(path: &Path) -> String {
    let (Some(sent), Some(answered)) = (path.probes, path.answered_probes) else {
        return UNKNOWN.to_owned();
    };
    let way = path.way.as_deref().map_or_else(String::new, |way| format!(" ({way})"));
    format!("{answered} of {sent} answered{way}")
}

fn sizes(paths: &[&Path], step: u32) -> Table {
    let mut notes: Vec<String> = Vec::new();
    for path in paths {
        let of_path = path.remarks.iter().chain(&path.failures);
        notes.extend(of_path.map(|text| format!("{}: {text}", path.id)));
    }
    Table {
        caption: format!("Packet sizes and interfaces of the paths in step {step}"),
        head: vec![
            "Id",
            "Path MTU there / back",
            "Remembered",
            "MSS",
            "Sizes tried",
            "Interface at the sender",
            "Interface at the receiver",
            "From",
            "Gateway",
        ],
        rows: paths.iter().map(|path| size_row(path)).collect(),
        notes,
    }
}

fn size_row(path: &Path) -> Row {
    Row::of([
        path.id.clone(),
        mtus(path),
        path.remembered_mtu_bytes.map_or_else(|| NONE.to_owned(), |mtu| mtu.to_string()),
        format::count(path.mss_bytes),
        wording::or_none(&path.sizes.iter().map(size).collect::<Vec<String>>()),
        interface(path, |ends| &ends.sender, path.interface_mtu_bytes.sender),
        interface(path, |ends| &ends.receiver, path.interface_mtu_bytes.receiver),
        format::text(path.source_address.as_deref()),
        path.gateway.clone().unwrap_or_else(|| NONE.to_owned()),
    ])
}

/// `1500 / 1500`.
pub fn mtus(path: &Path) -> String {
    let mtu = |mtu: Option<u32>| format::count(mtu.map(u64::from));
    format!("{} / {}", mtu(path.path_mtu_bytes), mtu(path.return_path_mtu_bytes))
}

fn size(size: &SizeProbe) -> String {
    let told = size.told_mtu_bytes.map_or_else(String::new, |mtu| format!(" (told to send {mtu})"));
    let outcome = match size.outcome.as_str() {
        "too_big_here" => "too big for this node's interface or route",
        "too_big_there" => "too big for a router on the way",
        "lost" => "lost without a word",
        other => other,
    };
    format!("{} {outcome}{told}", size.packet_bytes)
}

/// `ens3, MTU 9000; carried by ens4`: the second only where it is another one.
fn interface(
    path: &Path,
    end: fn(&BothEnds<Option<String>>) -> &Option<String>,
    mtu: Option<u32>,
) -> String {
    let (route, used) = (end(&path.interface), end(&path.used_interface));
    let mut text = format::text(route.as_deref());
    text.push_str(&mtu.map_or_else(String::new, |mtu| format!(", MTU {mtu}")));
    match used {
        Some(used) if Some(used) != route.as_ref() => {
            text.push_str(&format!("; carried by {used}"));
        }
        Some(_) => text.push_str("; carried the stream"),
        None => (),
    }
    text
}
