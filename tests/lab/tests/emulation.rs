//! The lab does what it says: the WAN carries what it should, nodes take logins, and nothing stays.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use redoline_lab::{
    Burst, Carrier, Icmp, Lab, LabNode, LabSpec, Network, Side, WanSpec, harness, ssh,
};

const RTT: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    harness::run(vec![
        ("the_wan_has_the_rtt_and_rates_it_was_asked_for", wan_is_as_asked),
        ("a_lossy_policed_wan_lets_its_rate_through", lossy_policer_is_as_asked),
        ("the_wan_can_be_changed_while_the_lab_is_up", wan_can_be_changed),
        ("two_routers_are_seen_on_the_way", routers_are_seen),
        ("a_filtered_icmp_makes_large_packets_vanish", large_packets_vanish),
        ("every_user_can_log_in_by_key_on_every_node", users_can_log_in),
        ("a_wrong_key_and_a_changed_host_key_are_refused", wrong_keys_are_refused),
        ("a_node_can_be_given_trouble_with_its_shell_and_files", shells_and_files),
        ("a_port_can_be_rejected_dropped_and_opened_again", ports_can_be_filtered),
        ("a_pulled_cable_stops_packets_until_it_is_back", cables_can_be_pulled),
        ("sshd_can_be_stopped_held_and_started", sshd_can_be_controlled),
        ("a_node_sees_only_its_own_processes_and_can_signal_them", processes_are_private),
        ("settings_hold_for_one_node_only", settings_are_private),
        ("labs_can_stand_side_by_side", labs_side_by_side),
        ("nothing_is_left_when_a_lab_is_dropped", nothing_is_left_after_drop),
        ("nothing_is_left_when_the_owner_is_killed", nothing_is_left_after_kill),
    ])
}

fn wan_is_as_asked() -> Result<()> {
    let report = Lab::up(&LabSpec::default().nodes(1))?.check()?;
    ensure!(report.figures.len() == 5, "RTT, and one and eight flows each way: {report:?}");
    Ok(())
}

fn lossy_policer_is_as_asked() -> Result<()> {
    let wan = WanSpec {
        burst: Some(Burst { credit_bytes: 1_000_000, peak_bps: None }),
        queue_bytes: Some(0),
        // iperf3 hangs if one of its first packets is among the lost.
        seed: 3,
        loss: 0.01,
        ..WanSpec::new(RTT, 100_000_000)
    };
    Lab::up(&LabSpec::new(wan).nodes(1))?.check().map(drop)
}

fn wan_can_be_changed() -> Result<()> {
    let lab = Lab::up(&LabSpec::new(WanSpec::unlimited(RTT)).nodes(1))?;
    let longer = WanSpec::new(RTT * 3, 50_000_000);
    lab.set_wan(&longer)?;
    lab.check()?;
    ensure!(lab.wan() == longer, "the lab remembers what it was set to");
    Ok(())
}

fn routers_are_seen() -> Result<()> {
    let lab = small()?;
    let ping = lab.node("phx1")?.run(&["ping", "-n", "-c", "1", "203.0.113.11"])?;
    ensure!(ping.contains("ttl=62"), "two hops take two from the TTL: {ping}");
    let short = lab.node("phx1")?.exec(&["ping", "-n", "-c", "1", "-t", "2", "203.0.113.11"])?;
    let short = text(&short);
    ensure!(short.contains("From 100.64.0.2") && short.contains("Time to live"), "{short}");
    Ok(())
}

fn large_packets_vanish() -> Result<()> {
    let wan = WanSpec { mtu: 1400, ..WanSpec::unlimited(RTT) };
    let lab = Lab::up(&LabSpec::new(wan.clone()).nodes(1))?;
    let large = ["ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1400", "203.0.113.11"];
    let told = text(&lab.node("phx1")?.exec(&large)?);
    ensure!(told.contains("mtu = 1400") || told.contains("mtu=1400"), "the router tells: {told}");
    lab.set_wan(&WanSpec { icmp: Icmp::Filtered, ..wan })?;
    lab.node("phx1")?.run(&["ip", "route", "flush", "cache"])?;
    let untold = text(&lab.node("phx1")?.exec(&large)?);
    ensure!(untold.contains("100% packet loss") && !untold.contains("mtu"), "silence: {untold}");
    Ok(())
}

fn users_can_log_in() -> Result<()> {
    let lab = Lab::up(&LabSpec::default())?;
    for node in lab.nodes() {
        for user in ssh::USERS {
            let output = node.ssh(user).arg("id -un; hostname").output()?;
            let expected = format!("{user}\n{}\n", node.name());
            ensure!(text(&output) == expected, "{user} on {}: {output:?}", node.name());
        }
    }
    Ok(())
}

fn wrong_keys_are_refused() -> Result<()> {
    let lab = small()?;
    let node = lab.node("ash1")?;
    let mut client = lab.client().clone();
    client.key.clone_from(&client.other_key);
    let output = client.command("oracle", &node.management().to_string()).arg("true").output()?;
    ensure!(text(&output).contains("Permission denied"), "a wrong key: {output:?}");
    node.change_host_keys()?;
    let output = node.ssh("oracle").arg("true").output()?;
    ensure!(text(&output).contains("HOST IDENTIFICATION HAS CHANGED"), "a new key: {output:?}");
    Ok(())
}

fn shells_and_files() -> Result<()> {
    let lab = small()?;
    let node = lab.node("phx1")?;
    let before = node.files()?;
    node.write_file("/home/oracle/.cshrc", "echo noise\n", "oracle", 0o644)?;
    node.set_login_shell("oracle", "/bin/csh")?;
    // Asks the password database, since `$SHELL` is a claim of sshd's.
    let output = node.ssh("oracle").arg("getent passwd oracle; echo $version:q").output()?;
    ensure!(text(&output).contains("/bin/csh"), "the shell: {output:?}");
    node.write_file("/tmp/hello", "#!/bin/sh\necho hello\n", "oracle", 0o755)?;
    ensure!(node.run(&["/tmp/hello"])? == "hello\n", "/tmp can be executed from at first");
    node.mount_noexec("/tmp")?;
    node.mount_noexec("/u02")?;
    let refused = node.exec(&["/tmp/hello"]);
    ensure!(format!("{refused:?}").contains("Permission denied"), "noexec: {refused:?}");
    node.write_file("/usr/local/leftover", "", "root", 0o644)?;
    let left: BTreeSet<_> = node.files()?.difference(&before).cloned().collect();
    let expected = ["/home/oracle/.cshrc", "/tmp/hello", "/usr/local/leftover"].map(PathBuf::from);
    ensure!(left == BTreeSet::from(expected), "what was written, and nothing else: {left:?}");
    ensure!(!Path::new("/usr/local/leftover").exists(), "the machine's own files are untouched");
    Ok(())
}

fn ports_can_be_filtered() -> Result<()> {
    let lab = small()?;
    let node = lab.node("ash1")?;
    node.reject_port(ssh::PORT)?;
    ensure!(
        connect(node).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    );
    node.clear_firewall()?;
    connect(node).context("the port is open again")?;
    node.drop_port(ssh::PORT)?;
    ensure!(connect(node).is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut));
    node.clear_firewall()?;
    connect(node).map(drop).context("the port is open again")
}

fn cables_can_be_pulled() -> Result<()> {
    let lab = small()?;
    let node = lab.node("ash1")?;
    let ping = ["ping", "-n", "-c", "1", "-W", "1", "203.0.113.11"];
    let arrives = || Ok::<_, anyhow::Error>(lab.node("phx1")?.exec(&ping)?.status.success());
    lab.set_carrier(node, Network::Redo, Carrier::Down)?;
    ensure!(!arrives()?, "nothing passes");
    ensure!(node.ssh("oracle").arg("true").status()?.success(), "the management network does");
    lab.set_carrier(node, Network::Redo, Carrier::Up)?;
    wait_until("the redo network is back", arrives)?;
    lab.set_carrier(node, Network::Management, Carrier::Down)?;
    ensure!(connect(node).is_err() && arrives()?, "the other way round");
    lab.set_carrier(node, Network::Management, Carrier::Up)?;
    wait_until("the management network is back", || Ok(connect(node).is_ok()))
}

fn sshd_can_be_controlled() -> Result<()> {
    let lab = small()?;
    let node = lab.node("ash1")?;
    node.signal_sshd(Signal::SIGSTOP)?;
    let mut banner = String::new();
    let silent = connect(node)?;
    silent.set_read_timeout(Some(Duration::from_millis(300)))?;
    ensure!(BufReader::new(&silent).read_line(&mut banner).is_err(), "a held sshd says nothing");
    node.signal_sshd(Signal::SIGCONT)?;
    silent.set_read_timeout(Some(Duration::from_secs(5)))?;
    BufReader::new(&silent).read_line(&mut banner)?;
    ensure!(banner.starts_with("SSH-2.0"), "it goes on: {banner}");
    node.configure_sshd("PasswordAuthentication no\nMaxSessions 1")?;
    ensure!(node.ssh("oracle").arg("true").status()?.success(), "with another configuration");
    node.stop_sshd()?;
    ensure!(connect(node).is_err(), "a stopped sshd refuses");
    node.start_sshd()
}

fn processes_are_private() -> Result<()> {
    let lab = small()?;
    let node = lab.node("ash1")?;
    let mut sleeper = node.spawn(&["sleep", "1234"], &lab.dir().join("sleeper.log"))?;
    let find = |node: &LabNode| {
        let processes = node.processes()?;
        Ok::<_, anyhow::Error>(processes.into_iter().find(|p| p.command == "sleep 1234"))
    };
    wait_until("the sleeper is there", || Ok(find(node)?.is_some()))?;
    ensure!(find(lab.node("phx1")?)?.is_none(), "another node does not see it");
    let process = find(node)?.context("the sleeper is there")?;
    node.signal(process.pid, Signal::SIGSTOP)?;
    wait_until("it is stopped", || Ok(find(node)?.is_some_and(|p| p.state == 'T')))?;
    node.signal(process.pid, Signal::SIGKILL)?;
    sleeper.wait(Duration::from_secs(5))?;
    ensure!(find(node)?.is_none(), "it is gone");
    Ok(())
}

fn settings_are_private() -> Result<()> {
    let lab = small()?;
    let (changed, other) = (lab.node("phx1")?, lab.node("ash1")?);
    let key = "net.ipv4.tcp_wmem";
    let machine = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem")?;
    changed.sysctl(key, "4096 16384 65536")?;
    ensure!(changed.read_sysctl(key)? == "4096\t16384\t65536");
    ensure!(other.read_sysctl(key)? != changed.read_sysctl(key)?);
    ensure!(fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem")? == machine);
    ensure!(changed.sysctl("vm.swappiness", "1").is_err(), "others are refused");
    Ok(())
}

fn labs_side_by_side() -> Result<()> {
    let labs = [small()?, small()?];
    ensure!(labs[0].node("phx1")?.management() != labs[1].node("phx1")?.management());
    for lab in &labs {
        ensure!(lab.node("phx1")?.ssh("oracle").arg("true").status()?.success());
    }
    Ok(())
}

fn nothing_is_left_after_drop() -> Result<()> {
    let lab = small()?;
    let mut traces = Traces { directory: lab.dir().to_owned(), ..Traces::default() };
    for node in lab.nodes() {
        traces.add_init(node.init().as_raw())?;
        traces.addresses.push(node.management());
    }
    for side in [Side::Primary, Side::Standby] {
        traces.add_init(lab.router(side).init().as_raw())?;
    }
    ensure!(traces.left()?.len() == 7, "it looks in the right places: {:?}", traces.left()?);
    drop(lab);
    ensure!(traces.left()?.is_empty(), "still there: {:?}", traces.left()?);
    Ok(())
}

fn nothing_is_left_after_kill() -> Result<()> {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_redoline-lab"))
        .args(["up", "--nodes", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let traces = introduction(&mut owner).and_then(|traces| {
        ensure!(traces.left()?.len() == 7, "it looks in the right places: {:?}", traces.left()?);
        Ok(traces)
    });
    owner.kill()?;
    owner.wait()?;
    let traces = traces?;
    wait_until("all is gone", || Ok(traces.left()?.is_empty()))
        .with_context(|| format!("still there: {:?}", traces.left()))
}

/// Where a lab could leave something.
#[derive(Debug, Default)]
struct Traces {
    directory: PathBuf,
    pid_namespaces: BTreeSet<PathBuf>,
    addresses: Vec<Ipv4Addr>,
}

impl Traces {
    fn add_init(&mut self, pid: i32) -> Result<()> {
        self.pid_namespaces.insert(fs::read_link(format!("/proc/{pid}/ns/pid"))?);
        Ok(())
    }

    fn left(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        if self.directory.exists() {
            left.push(self.directory.display().to_string());
        }
        let mut alive = BTreeSet::new();
        for entry in fs::read_dir("/proc")? {
            alive.extend(fs::read_link(entry?.path().join("ns/pid")));
        }
        let alive = self.pid_namespaces.intersection(&alive);
        left.extend(alive.map(|namespace| namespace.display().to_string()));
        let interfaces = Command::new("ip").args(["-o", "-4", "addr"]).output()?;
        for line in text(&interfaces).lines() {
            let network = |node: &Ipv4Addr| Ipv4Addr::from_bits(node.to_bits() - 1);
            let ours = |node| line.contains(&format!(" {}/", network(node)));
            left.extend(self.addresses.iter().any(ours).then(|| line.to_owned()));
        }
        Ok(left)
    }
}

/// What `redoline-lab up` says, once it is up.
fn introduction(owner: &mut Child) -> Result<Traces> {
    let mut traces = Traces::default();
    let output = BufReader::new(owner.stdout.take().context("the output is piped")?);
    for line in output.lines() {
        let line = line?;
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["inventory", path] => {
                traces.directory = Path::new(path).parent().context("a directory")?.to_owned();
            }
            [.., "--target", pid, "--all"] => traces.add_init(pid.parse()?)?,
            ["Ctrl-C", ..] => return Ok(traces),
            _ => {}
        }
        if let [_, management, _, "nsenter", ..] = words[..] {
            traces.addresses.push(management.parse()?);
        }
    }
    bail!("it ended before it was up")
}

fn small() -> Result<Lab> {
    Lab::up(&LabSpec::new(WanSpec::unlimited(RTT)).nodes(1))
}

fn connect(node: &LabNode) -> std::io::Result<TcpStream> {
    let address = SocketAddr::from((node.management(), ssh::PORT));
    TcpStream::connect_timeout(&address, Duration::from_secs(2))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn wait_until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so()? {
        ensure!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
