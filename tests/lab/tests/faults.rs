//! The faults that a lab can plant are what they are called, as ping and iperf3 see them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{ExitCode, Output},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use redoline_lab::{
    Icmp, Lab, LabNode, LabSpec, Reorder, Spawned, WanSpec, harness,
    node::{DETOUR_INTERFACE, REDO_INTERFACE},
};
use serde_json::Value;

const RTT: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    harness::run(vec![
        ("a_policer_gives_each_flow_its_rate_and_its_credit_first", policer_has_credit),
        ("losses_can_be_of_one_direction", losses_of_one_direction),
        ("late_packets_are_overtaken_and_none_is_lost", late_packets_are_overtaken),
        ("each_direction_can_have_its_own_mtu", mtu_per_direction),
        ("icmp_can_be_filtered_for_one_direction", icmp_per_direction),
        ("a_black_hole_stops_streams_whose_packets_are_too_big", black_hole_stops_streams),
        ("large_packets_of_the_lan_are_too_big_for_the_wan", lan_larger_than_wan),
        ("the_mss_of_connections_is_clamped_both_ways", mss_is_clamped),
        ("ipv6_takes_the_same_wan", ipv6_takes_the_same_wan),
        ("a_wrong_route_sends_through_the_other_interface", wrong_route),
        ("a_node_s_processes_get_their_share_of_a_processor", processor_share),
        ("some_of_its_processes_can_be_slow_and_others_not", share_of_some),
        ("control_groups_go_with_the_lab", control_groups_go),
        ("background_traffic_takes_its_part_of_the_link", background_takes_its_part),
    ])
}

fn policer_has_credit() -> Result<()> {
    let wan = WanSpec::new(RTT, 400_000_000).policed_per_flow(40_000_000, 10_000_000);
    let lab = one_pair(wan)?;
    lab.check()?;
    // Offered 200 Mbit/s: the credit lasts for 0.5 s, and then a fifth passes.
    let lost = udp(&lab, "phx1", "ash1", &["-b", "200M", "-l", "1400", "-t", "1"])?;
    let lost = lost["lost_percent"].as_f64().context("no losses reported")?;
    ensure!((32.0..45.0).contains(&lost), "four fifths of the second half are lost: {lost} %");
    Ok(())
}

fn losses_of_one_direction() -> Result<()> {
    let wan = WanSpec { loss: 0.05, reverse_loss: Some(0.0), ..WanSpec::unlimited(RTT) };
    let lab = one_pair(wan)?;
    let datagrams = ["-l", "200", "-b", "3.2M", "-t", "1"];
    let there = udp(&lab, "phx1", "ash1", &datagrams)?["lost_percent"].as_f64();
    let back = udp(&lab, "ash1", "phx1", &datagrams)?["lost_percent"].as_f64();
    ensure!(there.is_some_and(|share| (3.0..7.0).contains(&share)), "there {there:?} %");
    ensure!(back == Some(0.0), "back {back:?} %");
    Ok(())
}

fn late_packets_are_overtaken() -> Result<()> {
    let reorder = Some(Reorder { every: 10, late: RTT });
    let lab = one_pair(WanSpec { reorder, ..WanSpec::unlimited(RTT) })?;
    let end = udp(&lab, "phx1", "ash1", &["-l", "200", "-b", "3.2M", "-t", "1"])?;
    // The last ones may come after iperf3 has closed its books.
    ensure!(end["lost_packets"].as_i64().is_some_and(|lost| lost <= 10), "none is lost: {end}");
    let log = fs::read_to_string(lab.dir().join("iperf3.log"))?;
    let line = log.lines().find(|line| line.contains("out-of-order")).context(log.clone())?;
    let overtaken = line.split_ascii_whitespace().find_map(|word| word.parse::<u32>().ok());
    let is_tenth = overtaken.is_some_and(|count| (150..=250).contains(&count));
    ensure!(is_tenth, "a tenth of 2000: {line}");
    Ok(())
}

fn mtu_per_direction() -> Result<()> {
    let wan = WanSpec { reverse_mtu: Some(1400), ..WanSpec::unlimited(RTT) };
    let lab = one_pair(wan)?;
    let told = ping_large(&lab, "ash1")?;
    ensure!(told.contains("mtu = 1400") || told.contains("mtu=1400"), "too big this way: {told}");
    let sent = ping_large(&lab, "phx1")?;
    ensure!(!sent.contains("mtu"), "not too big that way: {sent}");
    Ok(())
}

fn icmp_per_direction() -> Result<()> {
    let wan = WanSpec { mtu: 1400, reverse_icmp: Some(Icmp::Filtered), ..WanSpec::unlimited(RTT) };
    let lab = one_pair(wan)?;
    ensure!(ping_large(&lab, "phx1")?.contains("mtu"), "the primary is told");
    ensure!(!ping_large(&lab, "ash1")?.contains("mtu"), "the standby is not");
    Ok(())
}

fn black_hole_stops_streams() -> Result<()> {
    let wan = WanSpec { mtu: 1400, icmp: Icmp::Filtered, ..WanSpec::unlimited(RTT) };
    let lab = one_pair(wan.clone())?;
    let through = |lab: &Lab| tcp(lab, &["-t", "1"]).map(|end| received_bps(&end));
    let stuck = through(&lab);
    ensure!(stuck.as_ref().map_or(0.0, |bps| *bps) < 1e5, "nothing comes through: {stuck:?}");
    lab.set_wan(&WanSpec { icmp: Icmp::Allowed, ..wan })?;
    let free = through(&lab)?;
    ensure!(free > 1e7, "it does when senders are told: {free}");
    Ok(())
}

fn lan_larger_than_wan() -> Result<()> {
    let spec = LabSpec { lan_mtu: 9000, ..LabSpec::new(WanSpec::unlimited(RTT)).nodes(1) };
    let lab = Lab::up(&spec)?;
    let told = ping_large(&lab, "phx1")?;
    ensure!(!told.contains("mtu"), "1476 bytes fit: {told}");
    let told = text(&lab.node("phx1")?.exec(&[
        "ping",
        "-n",
        "-c",
        "1",
        "-W",
        "1",
        "-M",
        "do",
        "-s",
        "4000",
        "203.0.113.11",
    ])?);
    ensure!(told.contains("mtu = 1500") || told.contains("mtu=1500"), "4028 do not: {told}");
    ensure!(received_bps(&tcp(&lab, &["-t", "1"])?) > 1e7, "streams find their size");
    Ok(())
}

fn mss_is_clamped() -> Result<()> {
    let lab = one_pair(WanSpec { mss_clamp: Some(1200), ..WanSpec::unlimited(RTT) })?;
    for arguments in [&["-t", "1"][..], &["-t", "1", "-R"]] {
        let mss = tcp_mss(&lab, arguments)?;
        // Without the 12 bytes of its timestamps.
        ensure!(mss == 1188, "{arguments:?}: {mss}");
    }
    Ok(())
}

fn ipv6_takes_the_same_wan() -> Result<()> {
    let wan = WanSpec { mtu: 1400, ..WanSpec::new(RTT, 50_000_000) };
    let lab = Lab::up(&LabSpec { ipv6: true, ..LabSpec::new(wan).nodes(1) })?;
    lab.check()?;
    let node = lab.node("phx1")?;
    let target = lab.node("ash1")?.redo6().context("an IPv6 address")?.to_string();
    let ping =
        |size| node.exec(&["ping", "-n", "-c", "2", "-W", "1", "-M", "do", "-s", size, &target]);
    let small = text(&ping("56")?);
    ensure!(small.contains("ttl=62") && small.contains("time=10."), "the same way: {small}");
    let told = text(&ping("1400")?);
    ensure!(told.contains("mtu=1400") || told.contains("mtu = 1400"), "packet too big: {told}");
    let received = received_bps(&tcp_to(&lab, &target, &["-t", "3", "-O", "1"])?) / 1e6;
    let expected = 50.0 * (1400.0 - 72.0) / 1400.0;
    ensure!((received / expected - 1.0).abs() < 0.02, "{received} of {expected} Mbit/s");
    Ok(())
}

fn wrong_route() -> Result<()> {
    let lab = one_pair(WanSpec::new(RTT, 100_000_000))?;
    let node = lab.node("phx1")?;
    lab.misroute(node)?;
    let redo = node.redo().to_string();
    let before = (sent_bytes(node, REDO_INTERFACE)?, sent_bytes(node, DETOUR_INTERFACE)?);
    let received = received_bps(&tcp(&lab, &["-t", "1", "-B", &redo])?);
    let after = (sent_bytes(node, REDO_INTERFACE)?, sent_bytes(node, DETOUR_INTERFACE)?);
    ensure!(received > 5e7, "streams from the redo address pass: {received}");
    let (by_redo, by_other) = (after.0 - before.0, after.1 - before.1);
    ensure!(by_redo < 100_000 && by_other > 5_000_000, "redo0 {by_redo}, other0 {by_other}");
    Ok(())
}

fn processor_share() -> Result<()> {
    let lab = one_pair(WanSpec::unlimited(RTT))?;
    let node = lab.node("ash1")?;
    lab.limit_cpu(node, 0.2)?;
    let script = "timeout 2 sh -c 'while :; do :; done'; times";
    let output = text(&node.ssh("root").arg(script).output()?);
    // The last line has user and system time of the children: 0m0.400s 0m0.000s.
    let used: f64 = output
        .split_ascii_whitespace()
        .rev()
        .take(2)
        .filter_map(|time| time.split_once('m')?.1.strip_suffix('s')?.parse::<f64>().ok())
        .sum();
    ensure!((0.3..0.6).contains(&used), "a fifth of 2 s: {used} s in {output}");
    Ok(())
}

fn share_of_some() -> Result<()> {
    let lab = one_pair(WanSpec::unlimited(RTT))?;
    let node = lab.node("ash1")?;
    let limited = lab.limit_cpu_of(node, "busy-one", 0.2)?;
    let spin = "while :; do :; done";
    let log = lab.dir().join("spin.log");
    let slow = node.spawn(&["sh", "-c", spin, "busy-one"], &log)?;
    let free = node.spawn(&["sh", "-c", spin, "other"], &log)?;
    let used = |one: &Spawned| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", one.pid()))?;
        let ticks = stat.split_ascii_whitespace().nth(13).context("user time")?;
        Ok::<f64, anyhow::Error>(ticks.parse()?)
    };
    wait_until("both are busy", || Ok(used(&free)? > 20.0 && used(&slow)? > 20.0))?;
    let (before, start) = ((used(&slow)?, used(&free)?), Instant::now());
    wait_until("the free one has used 1 s", || Ok(used(&free)? > before.1 + 100.0))?;
    // However busy the machine is, a fifth of the time is the most that it can have had.
    let most_ticks = start.elapsed().as_secs_f64() * 100.0 * 0.25 + 5.0;
    let slow_ticks = used(&slow)? - before.0;
    drop(limited);
    ensure!((3.0..most_ticks).contains(&slow_ticks), "{slow_ticks} of {most_ticks} at most");
    Ok(())
}

fn control_groups_go() -> Result<()> {
    let lab = one_pair(WanSpec::unlimited(RTT))?;
    let name = lab.dir().file_name().context("a name")?.to_string_lossy().into_owned();
    let group = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(Path::new);
    let groups = || {
        let made = group.iter().flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
        let ours = made.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
        ours.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    ensure!(groups().is_empty(), "none unless asked for");
    lab.limit_cpu(lab.node("ash1")?, 0.5)?;
    ensure!(groups().len() == 1, "one for the node: {:?}", groups());
    drop(lab);
    ensure!(groups().is_empty(), "still there: {:?}", groups());
    Ok(())
}

fn background_takes_its_part() -> Result<()> {
    let lab = Lab::up(&LabSpec::new(WanSpec::new(RTT, 100_000_000)))?;
    let alone = received_bps(&tcp(&lab, &["-t", "3", "-O", "1"])?) / 1e6;
    let background = lab.background(lab.node("phx2")?, lab.node("ash2")?, 40_000_000)?;
    let beside = received_bps(&tcp(&lab, &["-t", "3", "-O", "1"])?) / 1e6;
    drop(background);
    // What the datagrams leave: a few of them are lost where both queue.
    ensure!((90.0..98.0).contains(&alone) && (55.0..64.0).contains(&beside), "{alone}, {beside}");
    let freed = || Ok(received_bps(&tcp(&lab, &["-t", "2", "-O", "1"])?) > 9e7);
    wait_until("the link is free again", freed)
}

fn one_pair(wan: WanSpec) -> Result<Lab> {
    Lab::up(&LabSpec::new(wan).nodes(1))
}

/// What ping from a node to its peer says of a packet of 1476 bytes that must not be fragmented.
fn ping_large(lab: &Lab, from: &str) -> Result<String> {
    let to = if from == "phx1" { "ash1" } else { "phx1" };
    let target = lab.node(to)?.redo().to_string();
    let argv = ["ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1448", &target];
    Ok(text(&lab.node(from)?.exec(&argv)?))
}

/// The sum at the end of an iperf3 test by UDP.
fn udp(lab: &Lab, from: &str, to: &str, arguments: &[&str]) -> Result<Value> {
    let target = lab.node(to)?.redo().to_string();
    let result = iperf(lab, from, to, &[&["-u", "-c", &target], arguments].concat())?;
    Ok(result["end"]["sum"].clone())
}

/// What iperf3 gives for CUBIC from the primary to the standby.
fn tcp(lab: &Lab, arguments: &[&str]) -> Result<Value> {
    tcp_to(lab, &lab.node("ash1")?.redo().to_string(), arguments)
}

fn tcp_to(lab: &Lab, target: &str, arguments: &[&str]) -> Result<Value> {
    iperf(lab, "phx1", "ash1", &[&["-C", "cubic", "-c", target], arguments].concat())
}

fn tcp_mss(lab: &Lab, arguments: &[&str]) -> Result<u64> {
    let result = tcp(lab, arguments)?;
    result["start"]["tcp_mss_default"]
        .as_u64()
        .with_context(|| format!("no MSS in {}", result["start"]))
}

fn iperf(lab: &Lab, from: &str, to: &str, arguments: &[&str]) -> Result<Value> {
    let (from, to) = (lab.node(from)?, lab.node(to)?);
    let mut server = to.spawn(&["iperf3", "-s", "-1"], &lab.dir().join("iperf3.log"))?;
    to.wait_for_listener(5201, Duration::from_secs(10))?;
    let argv = [&["iperf3", "-J", "--connect-timeout", "3000"], arguments].concat();
    let output = from.exec_with(&argv, "", Duration::from_secs(12))?;
    let result: Value = serde_json::from_slice(&output.stdout).context("iperf3's result")?;
    let error = result["error"].as_str();
    ensure!(error.is_none(), "iperf3 {arguments:?}: {error:?}");
    server.wait(Duration::from_secs(10))?;
    Ok(result)
}

fn received_bps(result: &Value) -> f64 {
    result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0)
}

fn sent_bytes(node: &LabNode, interface: &str) -> Result<u64> {
    let path = format!("/sys/class/net/{interface}/statistics/tx_bytes");
    Ok(node.read_file(&path)?.trim().parse()?)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn wait_until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(15);
    while !is_so()? {
        ensure!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
