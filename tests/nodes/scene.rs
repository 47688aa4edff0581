//! A lab with a folder for one test's files, and the real executable run in it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use redoline_lab::{Inventory, Lab, LabNode, LabSpec};
use serde_json::Value;

/// For a whole run of any test here.
const RUN_DEADLINE: Duration = Duration::from_secs(420);
const EVENT_DEADLINE: Duration = Duration::from_secs(60);

pub struct Scene {
    pub lab: Lab,
    folder: tempfile::TempDir,
}

/// A run that has ended.
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub folder: Option<PathBuf>,
}

/// A run that goes on.
pub struct Running {
    child: Child,
    output: PathBuf,
}

impl Scene {
    pub fn new(spec: &LabSpec) -> Result<Self> {
        Ok(Self { lab: Lab::up(spec)?, folder: tempfile::tempdir()? })
    }

    /// Two nodes on each side of a fast and near WAN.
    pub fn near() -> Result<Self> {
        let wan = redoline_lab::WanSpec::new(Duration::from_millis(2), 200_000_000);
        Self::new(&LabSpec::new(wan))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Runs `runbook` (a file of `tests/data/runbooks` or a path) against the lab's inventory.
    pub fn run(&self, runbook: &str, arguments: &[&str]) -> Result<Finished> {
        self.run_with(&self.lab.inventory(), runbook, arguments)
    }

    pub fn run_with(
        &self,
        inventory: &Inventory,
        runbook: &str,
        arguments: &[&str],
    ) -> Result<Finished> {
        self.start_with(inventory, runbook, arguments)?.finish()
    }

    pub fn start(&self, runbook: &str, arguments: &[&str]) -> Result<Running> {
        self.start_with(&self.lab.inventory(), runbook, arguments)
    }

    pub fn start_with(
        &self,
        inventory: &Inventory,
        runbook: &str,
        arguments: &[&str],
    ) -> Result<Running> {
        let output =
            tempfile::Builder::new().prefix("runs-").tempdir_in(self.folder.path())?.keep();
        let inventory_file = output.join("inventory.yaml");
        fs::write(&inventory_file, inventory.to_yaml())?;
        let runbook = match runbook.contains('/') {
            true => PathBuf::from(runbook),
            false => data().join("runbooks").join(runbook),
        };
        let stdout = fs::File::create(output.join("stdout"))?;
        let stderr = fs::File::create(output.join("stderr"))?;
        let child = redoline()
            .arg("run")
            .arg(&runbook)
            .arg("-i")
            .arg(&inventory_file)
            .arg("-o")
            .arg(&output)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .context("failed to start redoline")?;
        Ok(Running { child, output })
    }
}

/// The executable under test, with the static agent beside it, as a release has them.
pub fn redoline() -> Command {
    static BESIDE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BESIDE.get_or_init(|| side_by_side().map_err(|error| format!("{error:#}"))) {
        Ok(path) => Command::new(path),
        Err(error) => panic!("{error}"),
    }
}

/// The static agent that stands beside the controller under test.
pub fn static_agent() -> PathBuf {
    let controller = PathBuf::from(redoline().get_program());
    controller.with_file_name(format!("redoline-agent-{}-linux", std::env::consts::ARCH))
}

fn build_static_agent() -> Result<PathBuf> {
    let built = Command::new(env!("CARGO")).args(["--quiet", "build-agent"]).status()?;
    ensure!(built.success(), "`cargo build-agent` failed");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("no target folder")?;
    Ok(target.join("release/redoline-agent"))
}

fn side_by_side() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("controller");
    fs::create_dir_all(&folder)?;
    let controller = folder.join("redoline");
    let agent = folder.join(format!("redoline-agent-{}-linux", std::env::consts::ARCH));
    for (from, to) in [
        (PathBuf::from(env!("CARGO_BIN_EXE_redoline")), &controller),
        (build_static_agent()?, &agent),
    ] {
        let part = to.with_extension("part");
        fs::copy(from, &part)?;
        fs::rename(part, to)?;
    }
    Ok(controller)
}

pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Waits until an event of this type stands in `events.jsonl`.
    pub fn wait_for(&mut self, event: &str) -> Result<()> {
        let wanted = format!(r#""type":"{event}""#);
        wait_until(&format!("the event `{event}`"), EVENT_DEADLINE, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("the run ended with {status}: {}", self.text("stderr"));
            }
            Ok(self.events().contains(&wanted))
        })
    }

    /// What stands in `events.jsonl` so far.
    pub fn events(&self) -> String {
        let folder = run_folder(&self.output);
        let events = folder.map(|folder| fs::read_to_string(folder.join("events.jsonl")));
        events.and_then(Result::ok).unwrap_or_default()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) -> Result<()> {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal)?;
        Ok(())
    }

    pub fn finish(mut self) -> Result<Finished> {
        let mut status = None;
        wait_until("the end of the run", RUN_DEADLINE, || {
            status = self.child.try_wait()?;
            Ok(status.is_some())
        })
        .inspect_err(|_| {
            let _ = self.child.kill();
            let _ = self.child.wait();
        })?;
        let code = status.and_then(|status| status.code()).unwrap_or(-1);
        Ok(Finished {
            code,
            stdout: self.text("stdout"),
            stderr: self.text("stderr"),
            folder: run_folder(&self.output),
        })
    }

    fn text(&self, name: &str) -> String {
        let mut text = String::new();
        if let Ok(mut file) = fs::File::open(self.output.join(name)) {
            let _ = file.read_to_string(&mut text);
        }
        text
    }
}

impl Finished {
    /// The report, valid by its published schema.
    pub fn report(&self) -> Result<Value> {
        let folder = self.folder.as_ref().with_context(|| self.stderr.clone())?;
        let text = fs::read_to_string(folder.join("report.json"))
            .with_context(|| format!("no report; stderr: {}", self.stderr))?;
        let report: Value = serde_json::from_str(&text)?;
        let validator = jsonschema::validator_for(&redoline::report::json::schema())?;
        let problems: Vec<String> =
            validator.iter_errors(&report).map(|error| error.to_string()).collect();
        ensure!(problems.is_empty(), "the report breaks its schema: {problems:#?}");
        for name in ["report.html", "report.md", "events.jsonl", "controller.log"] {
            ensure!(folder.join(name).is_file(), "there is no {name}");
        }
        Ok(report)
    }

    pub fn expect_code(&self, code: i32) -> Result<&Self> {
        ensure!(
            self.code == code,
            "exit code {} instead of {code}\nstdout: {}\nstderr: {}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }
}

/// Every `sentence`, `message` and text of the report, for what a reader can find in it.
pub fn texts(report: &Value) -> String {
    serde_json::to_string(report).unwrap_or_default()
}

pub fn finding_ids(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array();
    findings.into_iter().flatten().filter_map(|finding| finding["id"].as_str()).collect()
}

/// The throughput measurements with this number of connections, alone.
pub fn measurements(report: &Value, num_conn: u64, nodes: &'static str) -> Vec<Value> {
    let all = report["measurements"].as_array().into_iter().flatten();
    all.filter(|m| m["kind"] == "throughput" && m["num_conn"] == num_conn && m["nodes"] == nodes)
        .cloned()
        .collect()
}

pub fn mbit_per_s(measurement: &Value) -> Option<f64> {
    measurement["steady"]["bytes_per_second"].as_f64().map(|rate| rate * 8.0 / 1e6)
}

/// Polls until `done`; says what never came true.
pub fn wait_until(
    what: &str,
    deadline: Duration,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let until = Instant::now() + deadline;
    while !done()? {
        ensure!(Instant::now() < until, "{what} did not come within {} s", deadline.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn run_folder(output: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(output).ok()?.filter_map(Result::ok);
    entries.find_map(|entry| entry.path().is_dir().then(|| entry.path()))
}

/// Nothing of ours runs on the node, and no file of ours is there.
pub fn expect_clean(node: &LabNode) -> Result<()> {
    wait_until(
        &format!("the end of every agent on {}", node.name()),
        Duration::from_secs(25),
        || Ok(agents(node)?.is_empty()),
    )?;
    let left = leftovers(node)?;
    ensure!(left.is_empty(), "left on {}: {left:?}", node.name());
    Ok(())
}

/// The process ids of agents on a node.
pub fn agents(node: &LabNode) -> Result<Vec<i32>> {
    let processes = node.processes()?;
    let ours = processes.iter().filter(|process| process.command.contains("redoline-agent-"));
    Ok(ours.map(|process| process.pid).collect())
}

pub fn leftovers(node: &LabNode) -> Result<Vec<PathBuf>> {
    let files = node.files()?;
    Ok(files.into_iter().filter(|path| path.to_string_lossy().contains("redoline")).collect())
}
