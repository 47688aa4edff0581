//! The lab for people: brings it up until Ctrl-C, or checks the emulator.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talks to the person who started it"
)]

use std::{
    io::{self, Read},
    os::fd::AsFd,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use redoline_lab::{Burst, Icmp, Lab, LabSpec, Reorder, WanSpec, bench, ssh, units};

/// Two clusters of nodes in network namespaces, and an emulated WAN between them
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the lab up, and keep it until Ctrl-C or the end of standard input
    Up(LabArgs),
    /// Bring the lab up, measure the WAN with ping and iperf3, and take it down
    Check(LabArgs),
    /// Measure the agent beside others, in turn; fails when it is not as good as it has to be
    #[command(subcommand)]
    Bench(Bench),
    /// One end of the bare loop of `bench throughput`
    #[command(hide = true)]
    BareEnd(bench::BareEnd),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Beside iperf3 and the barest loop of send and recv: loopback, and the WAN of the lab
    Throughput(ThroughputArgs),
    /// pre-migration.yaml beside literal.yaml, the documented procedure, in the lab (40 minutes)
    Procedures {
        /// The controller, with the agent beside it; built if not given
        #[arg(long)]
        redoline: Option<PathBuf>,
    },
    /// A message and its acknowledgement beside sockperf and qperf: the WAN of the lab, and loopback
    Sync {
        /// The controller, with the agent beside it; built if not given
        #[arg(long)]
        redoline: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
struct ThroughputArgs {
    /// Pairs of runs of each case, at least
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Seconds that count of each run, after one of warm-up
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Numbers of connections on the loopback
    #[arg(long, default_values_t = [1, 4], value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=128))]
    streams: Vec<u32>,
    /// Of each send
    #[arg(long, default_value = "1MiB", value_parser = units::parse_bytes)]
    message_length: u64,
    /// Only there
    #[arg(long)]
    only: Option<bench::Where>,
    /// The controller, with the agent beside it; built if not given
    #[arg(long)]
    redoline: Option<PathBuf>,
    /// Another build of the controller, run in turn: shows what a change of the agent brings
    #[arg(long)]
    other: Option<PathBuf>,
}

impl ThroughputArgs {
    fn spec(&self) -> bench::ThroughputSpec {
        bench::ThroughputSpec {
            pairs: self.pairs.into(),
            seconds: self.seconds,
            streams: self.streams.clone(),
            message_bytes: self.message_length,
            only: self.only,
            redoline: self.redoline.clone(),
            other: self.other.clone(),
        }
    }
}

#[derive(Args, Debug)]
struct LabArgs {
    /// Nodes on each side
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// Round-trip time of the WAN
    #[arg(long, default_value = "10ms", value_parser = units::parse_duration)]
    rtt: Duration,
    /// Rate of the WAN's link in each direction, in IP packets; unlimited if not given
    #[arg(long, value_parser = units::parse_rate_bps)]
    rate: Option<u64>,
    /// Rate from standby to primary, where it differs
    #[arg(long, value_parser = units::parse_rate_bps)]
    reverse_rate: Option<u64>,
    /// What one flow gets at most
    #[arg(long, value_parser = units::parse_rate_bps)]
    per_flow: Option<u64>,
    /// Bytes that may pass above the rate until the credit is used up
    #[arg(long, value_parser = units::parse_bytes)]
    burst: Option<u64>,
    /// Rate while there is credit; unlimited if not given
    #[arg(long, requires = "burst", value_parser = units::parse_rate_bps)]
    burst_rate: Option<u64>,
    /// Bytes that each flow may send above its rate, at first and after a rest
    #[arg(long, requires = "per_flow", value_parser = units::parse_bytes)]
    per_flow_burst: Option<u64>,
    /// Share of packets lost in each direction
    #[arg(long, default_value = "0%", value_parser = units::parse_share)]
    loss: f64,
    /// Share of packets lost from standby to primary, where it differs
    #[arg(long, value_parser = units::parse_share)]
    reverse_loss: Option<f64>,
    /// What losses are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Delay one packet in so many by a fifth of the RTT, so that others overtake it
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
    reorder: Option<u64>,
    /// The link's queue; the larger of one BDP and 256KiB if not given
    #[arg(long, value_parser = units::parse_bytes)]
    queue: Option<u64>,
    /// A flow's own queue
    #[arg(long, requires = "per_flow", value_parser = units::parse_bytes)]
    per_flow_queue: Option<u64>,
    /// MTU of the WAN in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=9216))]
    mtu: u32,
    /// MTU of the WAN from standby to primary, where it differs
    #[arg(long, value_parser = clap::value_parser!(u32).range(576..=9216))]
    reverse_mtu: Option<u32>,
    /// MTU of the networks on both sides; the larger of the WAN's and 1500 if not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(576..=9216))]
    lan_mtu: Option<u32>,
    /// Drop "fragmentation needed"
    #[arg(long)]
    filter_icmp: bool,
    /// Drop "fragmentation needed" of packets from standby to primary only
    #[arg(long, conflicts_with = "filter_icmp")]
    filter_reverse_icmp: bool,
    /// Lower the MSS of every connection to this
    #[arg(long, value_parser = clap::value_parser!(u32).range(216..=9176))]
    mss_clamp: Option<u32>,
    /// IPv6 beside IPv4
    #[arg(long)]
    ipv6: bool,
}

impl LabArgs {
    fn spec(&self) -> LabSpec {
        let wan = WanSpec {
            rtt: self.rtt,
            rate_bps: self.rate,
            reverse_rate_bps: self.reverse_rate,
            per_flow_bps: self.per_flow,
            per_flow_credit_bytes: self.per_flow_burst.unwrap_or(0),
            burst: self.burst.map(|credit_bytes| Burst { credit_bytes, peak_bps: self.burst_rate }),
            loss: self.loss,
            reverse_loss: self.reverse_loss,
            seed: self.seed,
            reorder: self.reorder.map(|every| Reorder { every, late: self.rtt / 5 }),
            queue_bytes: self.queue,
            per_flow_queue_bytes: self.per_flow_queue,
            mtu: self.mtu,
            reverse_mtu: self.reverse_mtu,
            icmp: if self.filter_icmp { Icmp::Filtered } else { Icmp::Allowed },
            reverse_icmp: self.filter_reverse_icmp.then_some(Icmp::Filtered),
            mss_clamp: self.mss_clamp,
        };
        let spec = LabSpec::new(wan).nodes(self.nodes);
        LabSpec { lan_mtu: self.lan_mtu.unwrap_or(spec.lan_mtu), ipv6: self.ipv6, ..spec }
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Up(args) => {
            // Before there are threads, so that none of them is interrupted.
            let signals = block_signals()?;
            let lab = Lab::up(&args.spec())?;
            introduce(&lab);
            wait_for_end(&signals)?;
            println!("taking the lab down");
        }
        Command::Check(args) => {
            let _signals = block_signals()?;
            let report = Lab::up(&args.spec())?.check()?;
            for figure in report.figures {
                println!("{figure}");
            }
        }
        Command::Bench(Bench::Throughput(args)) => {
            let cases = bench::throughput(&args.spec(), &mut |line| println!("{line}"))?;
            if !cases.iter().all(bench::CaseReport::passes) {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Bench(Bench::Procedures { redoline }) => {
            let procedures =
                bench::procedures(redoline.as_deref(), &mut |line| println!("{line}"))?;
            println!("{procedures}");
            if !procedures.problems().is_empty() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Bench(Bench::Sync { redoline }) => {
            let reports = bench::sync(redoline.as_deref(), &mut |line| println!("{line}"))?;
            reports.iter().for_each(|report| print!("{report}"));
        }
        Command::BareEnd(end) => println!("{}", bench::bare(end)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn introduce(lab: &Lab) {
    let inventory = lab.dir().join("inventory.yaml");
    println!("inventory   {}", inventory.display());
    println!("run         redoline run RUNBOOK -i {}", inventory.display());
    println!("user        oracle, by key or with the password `{}`", ssh::PASSWORD);
    println!("node        sshd at        redo address    a root shell on it");
    for node in lab.nodes() {
        println!(
            "{:<11} {:<14} {:<15} nsenter --target {} --all",
            node.name(),
            node.management().to_string(),
            node.redo().to_string(),
            node.init()
        );
    }
    for side in [redoline_lab::Side::Primary, redoline_lab::Side::Standby] {
        let router = lab.router(side);
        println!("{:<41} nsenter --target {} --all", router.name(), router.init());
    }
    if let Some(node) = lab.nodes().first() {
        let (key, hosts) = (&lab.client().key, &lab.client().known_hosts);
        println!(
            "log in      ssh -i {} -o UserKnownHostsFile={} oracle@{}",
            key.display(),
            hosts.display(),
            node.management()
        );
    }
    println!("Ctrl-C takes it down");
}

fn block_signals() -> Result<SignalFd> {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().context("failed to block signals")?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("failed to make a signalfd")
}

/// Returns at a signal, or when standard input ends.
fn wait_for_end(signals: &SignalFd) -> Result<()> {
    let stdin = io::stdin();
    loop {
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut fds, PollTimeout::NONE).context("failed to wait for Ctrl-C")?;
        let (signalled, readable) = (fds[0].any(), fds[1].any());
        let has_ended = readable == Some(true) && stdin.lock().read(&mut [0; 256])? == 0;
        if signalled == Some(true) || has_ended {
            return Ok(());
        }
    }
}
