//! A run with every kind of network test beside plain streams: paths, SYNC, a knee, repeated tests,
//! codings, another interface MTU, both directions, all to one.

use super::super::model::*;
use super::frame::frame;
use super::network::{next_id, point, push, test};
use super::{BACK, MBIT, OUT};
use crate::plan::need::Transport;

const KIB: u64 = 1024;

/// Two pairs over a WAN with 10 ms; SYNC is planned, and the local log write is known.
pub fn wide() -> Report {
    let mut report = frame();
    report.configuration.pairs.push(Pair {
        name: "phx2-ash1".to_owned(),
        primary: "phx2".to_owned(),
        standby: "ash1".to_owned(),
        crossed: true,
    });
    if let Some(need) = &mut report.need {
        need.transport = Transport::Sync;
        need.local_write_us = Some(500.0);
    }
    report.steps = steps(&report);
    add_paths(&mut report);
    add_knee(&mut report);
    add_at_the_same_time(&mut report);
    add_sync(&mut report);
    add_repeated(&mut report);
    add_codings(&mut report);
    add_interface_mtu(&mut report);
    report.verdict.sentence = "No need was judged.".to_owned();
    report
}

/// The same with something hostile wherever a peer or a runbook is quoted.
pub fn hostile() -> Report {
    let evil = "<script>\u{1b}[31m|`x`\r\n# h\"'&".to_owned();
    let mut report = wide();
    for measurement in &mut report.measurements {
        match measurement {
            Measurement::Path(path) => {
                path.sender.clone_from(&evil);
                path.way = Some(evil.clone());
                path.interface = both(&evil, &evil);
                path.used_interface = both("other", &evil);
                path.source_address = Some(evil.clone());
                path.gateway = Some(evil.clone());
                path.remarks = vec![evil.clone()];
                path.failures = vec![evil.clone()];
                path.sizes[0].outcome.clone_from(&evil);
            }
            Measurement::Throughput(test) => poison(test, &evil),
            Measurement::StorageRead(_) => (),
        }
    }
    for series in &mut report.series {
        series.pairs = vec![evil.clone()];
        series.points[0].label.clone_from(&evil);
        series.points[0].remark = Some(evil.clone());
    }
    report
}

fn poison(test: &mut Throughput, evil: &str) {
    if test.mode != "async" {
        test.mode = format!("sync{evil}");
    }
    test.nodes = evil.to_owned();
    test.encoding = Some(evil.to_owned());
    test.requested.device = Some(evil.to_owned());
    test.congestion_control.sender = Some(evil.to_owned());
    for ends in &mut test.pairs {
        ends.receiver = evil.to_owned();
    }
    for end in &mut test.granted.ends {
        end.node = evil.to_owned();
        end.bound_by = Some(evil.to_owned());
    }
    for host in &mut test.hosts {
        host.node = evil.to_owned();
        for interface in host.interfaces.iter_mut().flatten() {
            interface.name = evil.to_owned();
            interface.send_drops = 1;
        }
    }
    if let Some(write) = &mut test.write {
        write.directory = evil.to_owned();
    }
}

fn steps(report: &Report) -> Vec<Step> {
    let rows = [
        ("The paths", "path"),
        ("Streams until the knee", "throughput"),
        ("At the same time", "throughput"),
        ("SYNC as LGWR sends", "sweep"),
        ("Every hour for a day", "throughput"),
        ("Encryption", "sweep"),
        ("Compression", "sweep"),
        ("Jumbo frames", "interface_mtu"),
    ];
    let like = &report.steps[1];
    (1..)
        .zip(rows)
        .map(|(number, (name, action))| Step {
            number,
            name: name.to_owned(),
            action: action.to_owned(),
            register: None,
            ..like.clone()
        })
        .collect()
}

/// One path that answers, and one that swallows large packets and loses its node's interface.
fn add_paths(report: &mut Report) {
    let good = Path {
        id: next_id(report),
        step: 1,
        direction: OUT,
        pair: "phx1-ash1".to_owned(),
        sender: "phx1".to_owned(),
        receiver: "ash1".to_owned(),
        way: Some("udp".to_owned()),
        rtt_us: PathRtt {
            idle: Some(latency(10_020.0)),
            loaded_p50: Some(31_500),
            loaded_p99: Some(40_100),
            loaded_max: Some(40_100),
            loaded_readings: Some(38),
        },
        loss_ratio: Some(0.01),
        probes: Some(100),
        answered_probes: Some(99),
        reordered_probes: Some(2),
        path_mtu_bytes: Some(1500),
        return_path_mtu_bytes: Some(1400),
        remembered_mtu_bytes: Some(1400),
        mss_bytes: Some(1348),
        sizes: vec![size(9000, "too_big_there", Some(1500)), size(1500, "passed", None)],
        interface: both("ens3", "ens3"),
        used_interface: both("ens3", "ens5"),
        interface_mtu_bytes: BothEnds { sender: Some(9000), receiver: Some(9000) },
        source_address: Some("198.51.100.11".to_owned()),
        gateway: Some("198.51.100.1".to_owned()),
        load_bytes_per_second: Some(290.0 * MBIT),
        acked_bytes: Some(72_500_000),
        received_bytes: Some(72_500_000),
        retransmitted_bytes: Some(43_440),
        segments: Segments::default(),
        remarks: vec!["the kernel remembered a path MTU of 1400 bytes".to_owned()],
        failures: vec![],
    };
    let hole = Path {
        id: "m2".to_owned(),
        pair: "phx2-ash2".to_owned(),
        sender: "phx2".to_owned(),
        receiver: "ash2".to_owned(),
        rtt_us: PathRtt { idle: Some(latency(10_400.0)), ..PathRtt::default() },
        return_path_mtu_bytes: None,
        remembered_mtu_bytes: None,
        mss_bytes: Some(1448),
        sizes: vec![size(1500, "lost", None), size(1400, "passed", None)],
        path_mtu_bytes: Some(1400),
        interface: BothEnds { sender: Some("ens3".to_owned()), receiver: None },
        used_interface: BothEnds::default(),
        interface_mtu_bytes: BothEnds { sender: Some(1500), receiver: None },
        gateway: None,
        load_bytes_per_second: None,
        acked_bytes: Some(0),
        received_bytes: Some(0),
        retransmitted_bytes: None,
        remarks: vec![],
        failures: vec!["phx2-ash2: phx2, transfer: nothing was acknowledged for 4 s".to_owned()],
        ..good.clone()
    };
    report.measurements.push(Measurement::Path(Box::new(good)));
    report.measurements.push(Measurement::Path(Box::new(hole)));
}

fn size(packet_bytes: u32, outcome: &str, told_mtu_bytes: Option<u32>) -> SizeProbe {
    SizeProbe { packet_bytes, outcome: outcome.to_owned(), told_mtu_bytes }
}

fn both(sender: &str, receiver: &str) -> BothEnds<Option<String>> {
    BothEnds { sender: Some(sender.to_owned()), receiver: Some(receiver.to_owned()) }
}

/// Around a mean; buckets double.
fn latency(mean: f64) -> Latency {
    let upper_us = mean.log2().ceil().exp2();
    let bucket = |factor: f64, count| LatencyBucket { upper_us: upper_us * factor, count };
    Latency {
        mean: Some(mean),
        p50: Some(mean * 0.98),
        p90: Some(mean * 1.05),
        p99: Some(mean * 1.4),
        p999: Some(mean * 2.6),
        max: Some(mean * 3.1),
        histogram: vec![bucket(0.5, 10), bucket(1.0, 1900), bucket(2.0, 85), bucket(4.0, 5)],
    }
}

/// 1, 2, 3, 4, 6, 8, 12, then the contenders 4 and 6 again in A B B A.
fn add_knee(report: &mut Report) {
    let runs = [
        (1, 90.0),
        (2, 171.0),
        (3, 238.0),
        (4, 281.0),
        (6, 288.0),
        (8, 289.0),
        (12, 287.0),
        (4, 284.0),
        (8, 290.5),
        (8, 289.5),
        (4, 279.0),
    ];
    let mut points = Vec::new();
    for (num_conn, mbit) in runs {
        let part = (0, mbit * MBIT, 3.0 * MBIT);
        let id = next_id(report);
        let mut run = test(&id, 2, OUT, &[part], num_conn);
        run.auto_target_share = Some(0.025);
        run.duration_ms = 60_000;
        // What does not settle takes all the time that it may.
        if let Some(steady) = run.steady.as_mut().filter(|_| num_conn == 1) {
            steady.window_ms = 58_800;
        }
        if let Some(steady) = run.steady.as_mut().filter(|_| num_conn == 12) {
            steady.converged = false;
            steady.half_width_bytes_per_second = Some(0.04 * mbit * MBIT);
            steady.window_ms = 58_800;
            steady.level_shift = Some(LevelShift {
                first_bytes_per_second: 320.0 * MBIT,
                last_bytes_per_second: 260.0 * MBIT,
            });
        }
        push(report, run);
        points.push(point(f64::from(num_conn), &num_conn.to_string(), &id, part));
    }
    let best = Point { bytes_per_second: Some(289.67 * MBIT), ..points[5].clone() };
    let recommended = Point { bytes_per_second: Some(281.33 * MBIT), ..points[3].clone() };
    report.series.push(Series {
        until: Some("knee".to_owned()),
        plateau_recommended: Some(6.0),
        tolerance: Some(0.03),
        best: Some(best),
        recommended: Some(recommended),
        ..series(report, 2, "ladder", "num_conn", points, "knee")
    });
    add_flat_knee(report);
}

/// One connection fills the path, so the climb ended before the documented procedure would have.
fn add_flat_knee(report: &mut Report) {
    let runs = [(1, 96.4), (2, 96.5), (3, 96.5), (4, 96.4), (1, 96.5), (2, 96.4)];
    let flat = runs.map(|(num_conn, mbit)| {
        let part = (0, mbit * MBIT, 0.5 * MBIT);
        Point { measurement: None, ..point(f64::from(num_conn), &num_conn.to_string(), "", part) }
    });
    report.series.push(Series {
        direction: Some(BACK),
        until: Some("knee".to_owned()),
        plateau_remark: Some("2, if nothing above 4 exceeds it".to_owned()),
        tolerance: Some(0.03),
        recommended: Some(flat[4].clone()),
        ..series(report, 2, "ladder", "num_conn", flat.to_vec(), "knee")
    });
}

fn series(
    report: &Report,
    step: u32,
    kind: &str,
    variable: &str,
    points: Vec<Point>,
    why: &str,
) -> Series {
    Series {
        id: format!("s{}", report.series.len() + 1),
        step,
        kind: kind.to_owned(),
        variable: variable.to_owned(),
        unit: match variable {
            "num_conn" => "connections",
            "time" => "seconds",
            "encryption" | "compression" => "",
            _ => "bytes",
        }
        .to_owned(),
        direction: Some(OUT),
        pairs: vec!["phx1-ash1".to_owned()],
        node: None,
        best: points
            .iter()
            .filter(|point| point.bytes_per_second.is_some())
            .max_by(|a, b| a.bytes_per_second.partial_cmp(&b.bytes_per_second).unwrap())
            .cloned(),
        points,
        recommended: None,
        tolerance: None,
        until: None,
        plateau_recommended: None,
        plateau_remark: None,
        stopped_because: why.to_owned(),
    }
}

fn add_at_the_same_time(report: &mut Report) {
    let parts = [(0, 210.0 * MBIT, 2.0 * MBIT), (1, 78.0 * MBIT, 1.0 * MBIT)];
    let mut together = test(&next_id(report), 3, OUT, &parts, 4);
    together.nodes = "together".to_owned();
    together.stream_fairness = Some(0.71);
    if let Some(interface) = together.hosts[1].interfaces.iter_mut().flatten().next() {
        interface.receive_drops = 312;
    }
    together.hosts[1].softnet_dropped = Some(41);
    push(report, together);
    let mut to_one = test(&next_id(report), 3, OUT, &parts, 1);
    to_one.nodes = "all_to_one".to_owned();
    to_one.pairs[1].pair = "phx2-ash1".to_owned();
    to_one.pairs[1].receiver = "ash1".to_owned();
    push(report, to_one);
    for direction in [OUT, BACK] {
        let part = [(0, 140.0 * MBIT, 1.0 * MBIT)];
        let mut both = test(&next_id(report), 3, direction, &part, 1);
        both.both_directions = true;
        both.requested.dscp = Some(46);
        both.requested.device = Some("ens3".to_owned());
        both.requested.source_port = Some(40_000);
        both.requested.pacing_bytes_per_second = Some(500.0 * MBIT);
        push(report, both);
    }
}

/// AFFIRM with the average redo write and twice that, and FASTSYNC.
fn add_sync(report: &mut Report) {
    let mut points = Vec::new();
    for (mode, kib, mean, write) in [
        ("sync", 20, 12_400.0, Some(2100.0)),
        ("sync", 40, 12_900.0, Some(2300.0)),
        ("fastsync", 20, 10_150.0, None),
    ] {
        let bytes = kib * KIB;
        let rate = 1e6 / mean;
        let part = (0, rate * bytes as f64, 0.01 * rate * bytes as f64);
        let id = next_id(report);
        let mut sync = test(&id, 4, OUT, &[part], 1);
        mode.clone_into(&mut sync.mode);
        sync.message_bytes = bytes;
        sync.write = write
            .map(|_| ScratchWrite { directory: "/u02/scratch".to_owned(), file_bytes: 1 << 30 });
        sync.network_timeout_ms = Some(20_000);
        sync.messages_per_second = Some(rate);
        sync.latency_us = Some(latency(mean));
        sync.write_latency_us = write.map(latency);
        sync.network_latency_mean_us = Some(mean - write.unwrap_or(0.0));
        sync.network_share = write.map(|write| 1.0 - write / mean);
        sync.disk_share = write.map(|write| write / mean);
        sync.commit_overhead_us =
            Some(CommitOverhead { low: Some(mean - 500.0), high: mean, local_write: Some(500.0) });
        sync.pairs[0].messages_per_second = Some(rate);
        sync.pairs[0].latency_us = Some(latency(mean));
        sync.pairs[0].write_latency_us = write.map(latency);
        push(report, sync);
        if mode == "sync" {
            points.push(point(bytes as f64, &format!("{kib} KiB"), &id, part));
        }
    }
    report.series.push(series(report, 4, "sweep", "message_length", points, "all_values"));
}

fn add_repeated(report: &mut Report) {
    let mut points = Vec::new();
    for hour in 0..24_u32 {
        let seconds = f64::from(hour) * 3600.0;
        let mbit = if (8..18).contains(&hour) { 61.0 } else { 88.0 + f64::from(hour % 3) };
        let part = (0, mbit * MBIT, 1.0 * MBIT);
        let id = next_id(report);
        if hour == 5 {
            points.push(Point {
                measurement: None,
                bytes_per_second: None,
                half_width_bytes_per_second: None,
                remark: Some("the data port was not reached".to_owned()),
                ..point(seconds, &format!("{seconds} s"), "", part)
            });
            continue;
        }
        push(report, test(&id, 5, OUT, &[part], 1));
        points.push(point(seconds, &format!("{seconds} s"), &id, part));
    }
    report.series.push(series(report, 5, "sweep", "time", points, "all_values"));
}

fn add_codings(report: &mut Report) {
    let sweeps: [(u32, &str, &[Coding]); 2] = [
        (
            6,
            "encryption",
            &[
                ("none", 289.0, 1.0, 0.05),
                ("aes-256-gcm", 287.0, 1.002, 0.09),
                ("chacha20-poly1305", 285.0, 1.002, 0.21),
            ],
        ),
        (
            7,
            "compression",
            &[("none", 289.0, 1.0, 0.05), ("lz4", 540.0, 0.52, 0.6), ("zlib-6", 96.0, 0.49, 1.0)],
        ),
    ];
    for (step, variable, codings) in sweeps {
        let mut points = Vec::new();
        for (label, mbit, wire, cores) in codings {
            let part = (0, mbit * MBIT, 2.0 * MBIT);
            let id = next_id(report);
            let mut coded = test(&id, step, OUT, &[part], 1);
            coded.encoding = Some((*label).to_owned()).filter(|label| label != "none");
            coded.compressible_share = (variable == "compression").then_some(0.5);
            coded.acked_bytes = coded.received_bytes.map(|bytes| (bytes as f64 * wire) as u64);
            coded.cpu_cores = BothEnds { sender: Some(*cores), receiver: Some(cores * 0.7) };
            push(report, coded);
            points.push(Point { value: None, ..point(0.0, label, &id, part) });
        }
        report.series.push(series(report, step, "sweep", variable, points, "all_values"));
    }
}

/// Label, Mbit/s, share of the bytes that crossed the network, cores of the sender.
type Coding = (&'static str, f64, f64, f64);

/// As it is, at 9000, as it is again.
fn add_interface_mtu(report: &mut Report) {
    let mut points = Vec::new();
    for (mtu, mbit) in [(1500, 280.0), (9000, 291.0), (1500, 282.0)] {
        let part = (0, mbit * MBIT, 1.0 * MBIT);
        let id = next_id(report);
        let mut held = test(&id, 8, OUT, &[part], 1);
        held.interface_mtu_bytes = Some(mtu).filter(|mtu| *mtu == 9000);
        push(report, held);
        points.push(point(f64::from(mtu), &mtu.to_string(), &id, part));
    }
    report.series.push(series(report, 8, "sweep", "interface_mtu", points, "all_values"));
}
