//! The time of a message and its acknowledgement beside sockperf and qperf: over the WAN, and on the
//! loopback, where nothing is demanded.

use std::{fmt, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::agent::run_book;
use super::place::Place;
use super::statistics::{Ratio, median};
use super::throughput::build;
use crate::directory::LabDirectory;
use crate::peers::{self, PUNCTUAL};
use crate::requirements::why_unavailable;
use crate::wan::WanSpec;

/// All runs at one place.
#[derive(Clone, Debug)]
pub struct SyncReport {
    /// Such as `loopback, messages of 4096 B`.
    pub name: String,
    /// From sending a message to having its answer: of each program, the median over its runs.
    pub round_trips: [(Program, Duration); 3],
    /// Redoline's over each of the others'.
    pub ratios: [(Program, Ratio); 2],
}

/// What runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    /// `mode: fastsync`, the median of its histogram.
    Redoline,
    /// Its median.
    Sockperf,
    /// A mean: it tells no median.
    Qperf,
}

const PROGRAMS: [Program; 3] = [Program::Redoline, Program::Sockperf, Program::Qperf];

/// As the test that has a gate (`tests/nodes/peers.rs`) has them: a small redo write, over a round
/// trip that is long beside what the processes take.
const MESSAGE_BYTES: u64 = 4096;
const RTT: Duration = Duration::from_millis(20);

const SECONDS: u64 = 3;

/// Each runs all programs forth and back.
const ROUNDS: usize = 4;

/// What neither of the others sets, and Linux has without a module.
const CONGESTION_CONTROL: &str = "reno";

/// Runs everything; `tell` gets a line for each run.
pub fn sync(redoline: Option<&Path>, tell: &mut dyn FnMut(&str)) -> Result<Vec<SyncReport>> {
    if let Some(reason) = why_unavailable().or_else(peers::why_unavailable) {
        bail!("no lab on this machine: {reason}");
    }
    let redoline = redoline.map_or_else(build, |path| Ok(path.to_owned()))?;
    let folder = LabDirectory::create()?;
    let wan = Place::wan(WanSpec::unlimited(RTT))?;
    let places = [("WAN of 20 ms", wan), ("loopback", Place::loopback()?)];
    let mut reports = Vec::new();
    for (name, place) in &places {
        place.use_congestion_control(CONGESTION_CONTROL)?;
        let name = format!("{name}, messages of {MESSAGE_BYTES} B");
        reports.push(run(&name, place, &redoline, folder.path(), tell)?);
    }
    Ok(reports)
}

fn run(
    name: &str,
    place: &Place,
    redoline: &Path,
    folder: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<SyncReport> {
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for index in (0..PROGRAMS.len()).chain((0..PROGRAMS.len()).rev()) {
            let program = PROGRAMS[index];
            let time = program
                .run(place, redoline, folder)
                .with_context(|| format!("{program}: a run failed ({name})"))?;
            tell(&format!("{name}: {program} {time:.1?}"));
            times[index].push(time.as_secs_f64());
        }
    }
    SyncReport::of(name, &times).context("nothing was run")
}

impl SyncReport {
    /// Seconds by program; `None` without a run of each.
    fn of(name: &str, times: &[Vec<f64>; 3]) -> Option<Self> {
        let middle =
            |index: usize| Some((PROGRAMS[index], Duration::from_secs_f64(median(&times[index])?)));
        let over = |index: usize| {
            let ratios: Vec<f64> = times[0].iter().zip(&times[index]).map(|(a, b)| a / b).collect();
            Some((PROGRAMS[index], Ratio::of(&ratios)?))
        };
        Some(Self {
            name: name.to_owned(),
            round_trips: [middle(0)?, middle(1)?, middle(2)?],
            ratios: [over(1)?, over(2)?],
        })
    }
}

impl Program {
    fn run(self, place: &Place, redoline: &Path, folder: &Path) -> Result<Duration> {
        match self {
            Self::Redoline => redoline_p50(place, redoline, folder),
            Self::Sockperf => {
                peers::sockperf_round_trip(place.ends(folder)?, MESSAGE_BYTES, SECONDS)
            }
            Self::Qperf => peers::qperf_round_trip(place.ends(folder)?, MESSAGE_BYTES, SECONDS),
        }
    }
}

/// On the loopback its agents have the processor before other programs, as the others have.
fn redoline_p50(place: &Place, redoline: &Path, folder: &Path) -> Result<Duration> {
    let runbook = format!(
        "name: Synchronous\nsteps:\n  - name: Messages and their acknowledgements\n    \
         throughput:\n      num_conn: 1\n      mode: fastsync\n      \
         message_length: {MESSAGE_BYTES} B\n      duration: {SECONDS} s\n      \
         congestion_control: {CONGESTION_CONTROL}\nreport: {{ formats: [json] }}\n"
    );
    let program = PUNCTUAL.iter().map(Path::new).chain([redoline]);
    let program: Vec<&Path> = program.collect();
    let told = run_book(place, &runbook, Duration::from_secs(SECONDS), &program, folder)?;
    p50(&told.report)
}

fn p50(report: &Value) -> Result<Duration> {
    let test = &report["measurements"][0];
    ensure!(test["kind"] == "throughput", "the run measured nothing: {}", report["steps"]);
    let failures = test["failures"].as_array().is_some_and(|failures| !failures.is_empty());
    ensure!(!failures, "the test failed: {}", test["failures"]);
    let microseconds = test["latency_us"]["p50"].as_f64().context("the test has no latency")?;
    Ok(Duration::from_secs_f64(microseconds / 1e6))
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Redoline => "redoline, p50",
            Self::Sockperf => "sockperf, p50",
            Self::Qperf => "qperf, mean",
        })
    }
}

impl fmt::Display for SyncReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "\n{}", self.name)?;
        for (program, time) in &self.round_trips {
            writeln!(formatter, "  {program:<24} {time:.1?}")?;
        }
        for (program, ratio) in &self.ratios {
            writeln!(formatter, "  {:<24} {ratio}", format!("redoline / {program}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratios_are_redoline_s_over_the_others() {
        let times = [vec![2.0, 4.0, 6.0], vec![1.0, 2.0, 3.0], vec![4.0, 8.0, 12.0]];
        let report = SyncReport::of("somewhere", &times).unwrap();
        assert_eq!(report.round_trips[0], (Program::Redoline, Duration::from_secs(4)));
        let ratios = report.ratios.map(|(program, ratio)| (program, ratio.middle));
        assert_eq!(ratios, [(Program::Sockperf, 2.0), (Program::Qperf, 0.5)]);
        assert!(SyncReport::of("nowhere", &Default::default()).is_none());
    }

    #[test]
    fn a_test_that_failed_has_no_latency() {
        let test = |failures: &[&str]| {
            json!({ "measurements": [{
                "kind": "throughput", "failures": failures, "latency_us": { "p50": 250.0 },
            }]})
        };
        assert_eq!(p50(&test(&[])).unwrap(), Duration::from_micros(250));
        p50(&test(&["late"])).unwrap_err();
    }
}
