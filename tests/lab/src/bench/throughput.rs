//! The benchmark as a whole: which programs run where, in which order, and what is demanded.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::comparison::{Comparison, Gate};
use super::outcome::{Load, Outcome};
use super::place::Place;
use super::statistics::median;
use super::{agent, bare, iperf3};
use crate::directory::LabDirectory;
use crate::requirements::why_unavailable;
use crate::wan::WanSpec;

/// What to compare.
#[derive(Clone, Debug)]
pub struct ThroughputSpec {
    /// At least; an even number is run, since each round goes forth and back.
    pub pairs: usize,
    /// Counted of each run, after a second of warm-up.
    pub seconds: u32,
    /// Numbers of connections on the loopback; across the WAN it is one.
    pub streams: Vec<u32>,
    /// Of each `send`, in bytes.
    pub message_bytes: u64,
    /// Everywhere if not given.
    pub only: Option<Where>,
    /// The controller, with its agent beside it; built if not given.
    pub redoline: Option<PathBuf>,
    /// Another build, run in turn with the first: shows what a change brings.
    pub other: Option<PathBuf>,
}

/// A kind of path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Where {
    Loopback,
    Wan,
}

/// All runs of one case, compared.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// Such as `loopback, 4 streams, messages of 1048576 bytes`.
    pub name: String,
    /// Of each program, the median rate in Gbit/s and CPU seconds per GiB.
    pub medians: Vec<(Program, f64, f64)>,
    /// With what they must fulfil.
    pub comparisons: Vec<Comparison>,
}

/// What runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    Agent,
    Iperf3,
    /// The same again, as a measure of the noise.
    Iperf3Again,
    BareLoop,
    /// Another build of the agent.
    OtherAgent,
}

/// Of the lab's WAN.
const WAN_RATE_BPS: u64 = 300_000_000;
const WAN_RTT: Duration = Duration::from_millis(10);

/// The lower end of the interval of the ratio to iperf3's rate, where the host is the limit.
const LOOPBACK_GATE: Gate = Gate::AtLeast(0.95);
/// Where the path is the limit, both must find the same.
const WAN_GATE: Gate = Gate::Within(0.01);

/// Messages up to this cost more for their calls than for their bytes.
const SMALL_MESSAGE_BYTES: u64 = 64 << 10;
/// With them, the same of the ratio to the barest loop: what it falls short by is the agent's own
/// doing for each message.
const SMALL_MESSAGE_GATE: Gate = Gate::AtLeast(0.9);

struct Case {
    name: String,
    place: Place,
    load: Load,
    programs: Vec<Program>,
    /// Of the agent beside these.
    gates: Vec<(Program, Gate)>,
}

struct Tools {
    redoline: PathBuf,
    other: Option<PathBuf>,
    lab: PathBuf,
    folder: LabDirectory,
}

/// Runs everything; `tell` gets a line for each run and each case.
pub fn throughput(spec: &ThroughputSpec, tell: &mut dyn FnMut(&str)) -> Result<Vec<CaseReport>> {
    if let Some(reason) = why_unavailable() {
        anyhow::bail!("no lab on this machine: {reason}");
    }
    let tools = Tools {
        redoline: spec.redoline.clone().map_or_else(build, Ok)?,
        other: spec.other.clone(),
        lab: std::env::current_exe().context("failed to find this program")?,
        folder: LabDirectory::create()?,
    };
    let mut reports = Vec::new();
    if spec.only != Some(Where::Wan) {
        for &streams in &spec.streams {
            reports.push(loopback(spec, streams)?.run(spec.pairs, &tools, tell)?);
        }
    }
    if spec.only != Some(Where::Loopback) {
        reports.push(wan(spec)?.run(spec.pairs, &tools, tell)?);
    }
    Ok(reports)
}

fn loopback(spec: &ThroughputSpec, streams: u32) -> Result<Case> {
    let plural = if streams == 1 { "" } else { "s" };
    let programs = [Program::Iperf3, Program::Iperf3Again, Program::BareLoop];
    let small = spec.message_bytes <= SMALL_MESSAGE_BYTES;
    let small = small.then_some((Program::BareLoop, SMALL_MESSAGE_GATE));
    Ok(Case {
        name: format!("loopback, {streams} stream{plural}, {} B messages", spec.message_bytes),
        place: Place::loopback()?,
        load: Load { streams, message_bytes: spec.message_bytes, seconds: spec.seconds },
        programs: with_agents(spec, &programs),
        gates: [(Program::Iperf3, LOOPBACK_GATE)].into_iter().chain(small).collect(),
    })
}

fn wan(spec: &ThroughputSpec) -> Result<Case> {
    Ok(Case {
        name: format!("WAN of 300 Mbit/s and 10 ms, 1 stream, {} B messages", spec.message_bytes),
        place: Place::wan(WanSpec::new(WAN_RTT, WAN_RATE_BPS))?,
        load: Load { streams: 1, message_bytes: spec.message_bytes, seconds: spec.seconds },
        programs: with_agents(spec, &[Program::Iperf3, Program::Iperf3Again]),
        gates: vec![(Program::Iperf3, WAN_GATE)],
    })
}

fn with_agents(spec: &ThroughputSpec, others: &[Program]) -> Vec<Program> {
    let other_agent = spec.other.as_ref().map(|_| Program::OtherAgent);
    other_agent.into_iter().chain([Program::Agent]).chain(others.iter().copied()).collect()
}

impl Case {
    /// Each round runs all programs forth and back, so that a drift of the machine hits both of a
    /// pair alike.
    fn run(&self, pairs: usize, tools: &Tools, tell: &mut dyn FnMut(&str)) -> Result<CaseReport> {
        let mut outcomes = vec![Vec::new(); self.programs.len()];
        let there = 0..self.programs.len();
        for _ in 0..pairs.div_ceil(2) {
            for index in there.clone().chain(there.clone().rev()) {
                let program = self.programs[index];
                let outcome = self
                    .run_one(program, tools)
                    .with_context(|| format!("{program}: a run failed ({})", self.name))?;
                tell(&format!("{}: {program:<13} {outcome}", self.name));
                outcomes[index].push(outcome);
            }
        }
        let report = self.report(&outcomes)?;
        tell(&report.to_string());
        Ok(report)
    }

    fn run_one(&self, program: Program, tools: &Tools) -> Result<Outcome> {
        let (place, load, folder) = (&self.place, self.load, tools.folder.path());
        match program {
            Program::Agent => agent::run(place, load, &tools.redoline, folder),
            Program::OtherAgent => {
                let other = tools.other.as_ref().context("there is no other agent")?;
                agent::run(place, load, other, folder)
            }
            Program::Iperf3 | Program::Iperf3Again => iperf3::run(place, load, folder),
            Program::BareLoop => bare::run(place, load, &tools.lab, folder),
        }
    }

    fn report(&self, outcomes: &[Vec<Outcome>]) -> Result<CaseReport> {
        let of = |program| {
            let index = self.programs.iter().position(|each| *each == program);
            index.map(|index| outcomes[index].as_slice())
        };
        let compared = [
            (Program::Agent, Program::Iperf3),
            (Program::Iperf3Again, Program::Iperf3),
            (Program::Agent, Program::BareLoop),
            (Program::Agent, Program::OtherAgent),
            (Program::Iperf3, Program::BareLoop),
        ];
        let comparisons = compared.into_iter().filter_map(|(first, second)| {
            let gate = self.gate_of(first, second);
            Comparison::of(&format!("{first} / {second}"), of(first)?, of(second)?, gate)
        });
        let medians = self.programs.iter().zip(outcomes).filter_map(|(program, runs)| {
            let rates: Vec<_> = runs.iter().map(|run| run.bytes_per_second * 8e-9).collect();
            let cpu: Vec<_> = runs.iter().map(|run| run.cpu_s_per_gib).collect();
            Some((*program, median(&rates)?, median(&cpu)?))
        });
        Ok(CaseReport {
            name: self.name.clone(),
            medians: medians.collect(),
            comparisons: comparisons.collect(),
        })
    }

    fn gate_of(&self, first: Program, second: Program) -> Option<Gate> {
        let gate = self.gates.iter().find(|(beside, _)| *beside == second);
        gate.filter(|_| first == Program::Agent).map(|(_, gate)| *gate)
    }
}

impl CaseReport {
    /// Whether the agent does what is demanded of it.
    pub fn passes(&self) -> bool {
        let mut demanded = self.comparisons.iter().filter_map(Comparison::passes).peekable();
        demanded.peek().is_some() && demanded.all(|passes| passes)
    }
}

/// Everything that a release has, from the sources of this program.
pub(super) fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for arguments in [&["build-agent"][..], &["build", "--release", "--bin", "redoline"]] {
        let status =
            Command::new(&cargo).arg("--quiet").args(arguments).current_dir(&root).status();
        let status = status.context("failed to start cargo")?;
        ensure!(status.success(), "`cargo {}` failed", arguments.join(" "));
    }
    let program = std::env::current_exe().context("failed to find this program")?;
    let target =
        program.parent().and_then(Path::parent).context("this program is not in `target`")?;
    Ok(target.join("release/redoline"))
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Agent => "agent",
            Self::Iperf3 => "iperf3",
            Self::Iperf3Again => "iperf3 again",
            Self::BareLoop => "bare loop",
            Self::OtherAgent => "other agent",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gbit_per_s = self.bytes_per_second * 8e-9;
        write!(formatter, "{gbit_per_s:8.4} Gbit/s {:.4} CPU s/GiB", self.cpu_s_per_gib)
    }
}

impl fmt::Display for CaseReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "\n{}", self.name)?;
        for (program, gbit_per_s, cpu_s_per_gib) in &self.medians {
            writeln!(
                formatter,
                "  {program:<22} median {gbit_per_s:.3} Gbit/s, {cpu_s_per_gib:.3} CPU s per GiB"
            )?;
        }
        for comparison in &self.comparisons {
            writeln!(formatter, "  {comparison}")?;
        }
        writeln!(formatter, "  {}", if self.passes() { "PASS" } else { "FAIL" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demand_must_be_met_and_there_must_be_one() {
        let of = |rates: [f64; 6], gate| {
            let runs = rates.map(|bytes_per_second| Outcome {
                bytes_per_second,
                cpu_s_per_gib: 1.0,
                steady_bytes_per_second: None,
            });
            let others = [1.0; 6].map(|bytes_per_second| Outcome { bytes_per_second, ..runs[0] });
            Comparison::of("agent / other", &runs, &others, gate).unwrap()
        };
        let report = |comparisons| CaseReport { name: String::new(), medians: vec![], comparisons };
        let good = || of([1.0; 6], Some(LOOPBACK_GATE));
        let slow = of([0.8; 6], Some(SMALL_MESSAGE_GATE));
        assert!(report(vec![good(), of([0.5; 6], None)]).passes());
        assert!(!report(vec![good(), slow]).passes());
        assert!(!report(vec![of([1.0; 6], None)]).passes());
    }
}
