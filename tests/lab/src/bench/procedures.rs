//! The short runbook beside the documented procedure: both as they are shipped, one after the other on
//! the same lab, and what each cost and found.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::throughput::build;
use crate::directory::LabDirectory;
use crate::inventory::Inventory;
use crate::lab::{Lab, LabSpec};
use crate::wan::WanSpec;

/// A run of one of the runbooks, as its report has it.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// The runbook's name without its ending.
    pub name: &'static str,
    /// From the start of the executable to its end.
    pub time: Duration,
    /// What senders' kernels had acknowledged.
    pub bytes: u64,
    /// The verdict's answer.
    pub answer: String,
    /// Identifiers and directions.
    pub findings: BTreeSet<String>,
    /// In bytes per second: of one stream on each pair and in each direction, and of all nodes at once.
    pub rates: BTreeMap<String, f64>,
    /// What the ladders recommend, by pair and direction.
    pub num_conn: BTreeMap<String, f64>,
}

/// Both, compared.
#[derive(Clone, Debug)]
pub struct Procedures {
    /// Oracle's documented procedure.
    pub literal: Procedure,
    /// The short one.
    pub short: Procedure,
}

/// The documented procedure takes half an hour of it.
const DEADLINE: Duration = Duration::from_secs(45 * 60);

/// These tell how well a test went, and are no conclusions.
const ABOUT_PRECISION: [&str; 1] = ["unsteady"];

/// What only the short runbook has steps for: path, sweeps of buffers and MTU, storage.
const BY_MORE_STEPS: [&str; 10] = [
    "bufferbloat",
    "reordering",
    "mtu-",
    "jumbo-",
    "fixed-buffer-gain",
    "read-latency-high",
    "io-slots-knee",
    "not-from-disk",
    "standby-slower-than-primary",
    "uneven-storage",
];

/// Of the procedure's, at most.
const BYTES_SHARE_MAX: f64 = 0.2;
const TIME_SHARE_MAX: f64 = 0.25;
/// How far apart the rates may be.
const RATE_TOLERANCE: f64 = 0.03;

/// 100 Mbit/s, of which a flow gets 25, over 10 ms.
fn wan() -> WanSpec {
    WanSpec::new(Duration::from_millis(10), 100_000_000).per_flow(25_000_000)
}

/// Runs both, the short one first; `tell` gets a line before each. Nodes use Reno, since BBR without
/// a pacing queue keeps a lab's processors busy.
pub fn procedures(redoline: Option<&Path>, tell: &mut dyn FnMut(&str)) -> Result<Procedures> {
    let redoline = redoline.map_or_else(build, |path| Ok(path.to_owned()))?;
    let folder = LabDirectory::create()?;
    let lab = Lab::up(&LabSpec::new(wan()))?;
    for node in lab.nodes() {
        node.sysctl("net.ipv4.tcp_congestion_control", "reno")?;
    }
    let inventory = folder.path().join("inventory.yaml");
    let text = Inventory { user: "root".to_owned(), ..lab.inventory() }.to_yaml();
    fs::write(&inventory, text).context("failed to write the inventory")?;
    let mut run = |name, settings: &[&str]| {
        tell(&format!("running {name}.yaml"));
        Procedure::run(name, settings, &redoline, &inventory, &folder.path().join(name))
    };
    // All nodes share this machine's processors, and its disk is of no interest here.
    let short = run(
        "pre-migration",
        &["cpu=100 %", "scratch_dir=/u02", "scratch_size=64 MiB", "read=1 s"],
    )?;
    Ok(Procedures { literal: run("literal", &[])?, short })
}

impl Procedure {
    fn run(
        name: &'static str,
        settings: &[&str],
        redoline: &Path,
        inventory: &Path,
        runs: &Path,
    ) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new("timeout");
        command.args(["-k", "2", &DEADLINE.as_secs().to_string()]).arg(redoline).arg("run");
        command.arg(root.join("runbooks").join(name).with_extension("yaml"));
        command.arg("-i").arg(inventory).arg("-o").arg(runs);
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let begin = Instant::now();
        let output = command.output().with_context(|| format!("failed to run {name}.yaml"))?;
        let time = begin.elapsed();
        let report = report_in(runs).with_context(|| {
            format!("{name}.yaml: {}", String::from_utf8_lossy(&output.stderr).trim())
        })?;
        ensure!(report["run"]["complete"] == true, "{name}.yaml: {}", report["run"]);
        Ok(Self::of(name, time, &report))
    }

    fn of(name: &'static str, time: Duration, report: &Value) -> Self {
        let tests = || items(&report["measurements"]).filter(|one| one["kind"] == "throughput");
        // Path steps load the path, too.
        let bytes = items(&report["measurements"]).filter_map(|one| one["acked_bytes"].as_u64());
        let mut rates = BTreeMap::new();
        for test in tests().filter(|test| is_plain(test)) {
            let together = test["nodes"] == "together";
            let Some(rate) = test["steady"]["bytes_per_second"].as_f64() else { continue };
            if together || test["num_conn"] == 1 {
                let pair = test["pairs"][0]["pair"].as_str().unwrap_or("-");
                let who = if together { "all nodes" } else { pair };
                // Of several the first: the others belong to a sweep.
                let key = format!("{who}, {}", text(&test["direction"]));
                rates.entry(key).or_insert(rate);
            }
        }
        let ladders = items(&report["series"]).filter(|series| series["kind"] == "ladder");
        let num_conn = ladders.filter_map(|ladder| {
            let key = format!("{}, {}", ladder["pairs"][0], text(&ladder["direction"]));
            Some((key, ladder["recommended"]["value"].as_f64()?))
        });
        Self {
            name,
            time,
            bytes: bytes.sum(),
            answer: text(&report["verdict"]["answer"]).to_owned(),
            findings: items(&report["findings"])
                .filter(|one| !ABOUT_PRECISION.contains(&text(&one["id"])))
                .map(|one| format!("{} {}", text(&one["id"]), text(&one["direction"])))
                .collect(),
            rates,
            num_conn: num_conn.collect(),
        }
    }
}

/// Of one size of buffer and segment only: what the system chose.
fn is_plain(test: &Value) -> bool {
    let socket = &test["requested"];
    ["socket_buffer_bytes", "send_buffer_bytes", "receive_buffer_bytes", "mss_bytes"]
        .iter()
        .all(|field| socket[field].is_null())
}

impl Procedures {
    /// Everything that is not as it has to be.
    pub fn problems(&self) -> Vec<String> {
        let Self { literal, short } = self;
        let mut problems = Vec::new();
        let mut demand = |so: bool, problem: String| {
            if !so {
                problems.push(problem);
            }
        };
        let (bytes, time) = (self.bytes_share(), self.time_share());
        demand(bytes <= BYTES_SHARE_MAX, format!("{bytes:.3} of the bytes"));
        demand(time <= TIME_SHARE_MAX, format!("{time:.3} of the time"));
        demand(
            literal.answer == short.answer,
            format!("the answers are `{}` and `{}`", literal.answer, short.answer),
        );
        for finding in literal.findings.symmetric_difference(&short.findings) {
            let known = BY_MORE_STEPS.iter().any(|id| finding.starts_with(id));
            demand(known, format!("only one of them finds {finding}"));
        }
        demand(
            literal.num_conn == short.num_conn,
            format!("num_conn: {:?} and {:?}", literal.num_conn, short.num_conn),
        );
        demand(!literal.rates.is_empty(), "literal measured no rate".to_owned());
        for (what, rate) in &literal.rates {
            let other = short.rates.get(what).copied();
            let near = other.is_some_and(|other| (other / rate - 1.0).abs() <= RATE_TOLERANCE);
            demand(near, format!("{what}: {rate:.0} and {other:.0?} B/s"));
        }
        problems
    }

    fn bytes_share(&self) -> f64 {
        self.short.bytes as f64 / self.literal.bytes as f64
    }

    fn time_share(&self) -> f64 {
        self.short.time.as_secs_f64() / self.literal.time.as_secs_f64()
    }
}

impl fmt::Display for Procedures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { literal, short } = self;
        let seconds = |procedure: &Procedure| procedure.time.as_secs();
        writeln!(f, "{:<36} {:>14} {:>14}  ratio", "", literal.name, short.name)?;
        let (long_s, short_s) = (seconds(literal), seconds(short));
        writeln!(f, "{:<36} {long_s:>14} {short_s:>14}  {:.3}", "time, s", self.time_share())?;
        let (many, few) = (literal.bytes / 1_000_000, short.bytes / 1_000_000);
        writeln!(f, "{:<36} {many:>14} {few:>14}  {:.3}", "bytes, MB", self.bytes_share())?;
        for (what, rate) in &literal.rates {
            let other = short.rates.get(what).copied().unwrap_or(f64::NAN);
            let (long, brief) = (rate * 8e-6, other * 8e-6);
            writeln!(f, "{what:<36} {long:>14.2} {brief:>14.2}  {:.4}", other / rate)?;
        }
        writeln!(f, "num_conn   {:?}\n           {:?}", literal.num_conn, short.num_conn)?;
        writeln!(f, "answer     {} / {}", literal.answer, short.answer)?;
        let both: Vec<_> = literal.findings.intersection(&short.findings).collect();
        let more: Vec<_> = short.findings.difference(&literal.findings).collect();
        writeln!(f, "found by both {both:?}\nby {} only {more:?}", short.name)?;
        match self.problems().as_slice() {
            [] => write!(f, "PASS"),
            problems => write!(f, "FAIL: {}", problems.join("; ")),
        }
    }
}

fn report_in(runs: &Path) -> Result<Value> {
    let folders = fs::read_dir(runs).with_context(|| runs.display().to_string())?;
    let mut reports: Vec<PathBuf> = folders
        .filter_map(|entry| Some(entry.ok()?.path().join("report.json")))
        .filter(|path| path.is_file())
        .collect();
    let (Some(path), None) = (reports.pop(), reports.pop()) else {
        bail!("the run left no report")
    };
    serde_json::from_str(&fs::read_to_string(path)?).context("the report is not JSON")
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procedure(seconds: u64, bytes: u64, rate: f64) -> Procedure {
        Procedure {
            name: "pre-migration",
            time: Duration::from_secs(seconds),
            bytes,
            answer: "met".to_owned(),
            findings: BTreeSet::from(["per-flow-limit primary_to_standby".to_owned()]),
            rates: BTreeMap::from([("phx1-ash1, primary_to_standby".to_owned(), rate)]),
            num_conn: BTreeMap::from([("phx1-ash1, primary_to_standby".to_owned(), 4.0)]),
        }
    }

    #[test]
    fn a_fifth_of_the_bytes_in_a_quarter_of_the_time_with_the_same_rates_passes() {
        let literal = procedure(1800, 16_000_000_000, 3_000_000.0);
        let short = procedure(450, 3_200_000_000, 3_080_000.0);
        assert_eq!(Procedures { literal, short }.problems(), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_named() {
        let literal = procedure(1800, 16_000_000_000, 3_000_000.0);
        let mut short = procedure(460, 3_300_000_000, 3_100_000.0);
        short.answer = "not_met".to_owned();
        short.findings.clear();
        short.num_conn.clear();
        assert_eq!(Procedures { literal, short }.problems().len(), 6);
    }
}
