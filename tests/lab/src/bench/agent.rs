//! One test by two agents, through the real executable, its runbook and its report.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::outcome::{GIB, Load, Outcome, WARM_UP_S};
use super::place::Place;

/// For everything about a run but the test itself.
const MARGIN: Duration = Duration::from_secs(60);

/// What a run left.
pub(super) struct Told {
    pub(super) report: Value,
    pub(super) events: String,
}

pub(super) fn run(place: &Place, load: Load, redoline: &Path, folder: &Path) -> Result<Outcome> {
    let time = Duration::from_secs(load.whole_seconds().into());
    let told = run_book(place, &runbook_of(load), time, &[redoline], folder)?;
    outcome(&told.report, &told.events)
}

/// Runs a runbook whose test takes this time; `program` is the controller, with what it is to be
/// started by.
pub(super) fn run_book(
    place: &Place,
    runbook: &str,
    time: Duration,
    program: &[&Path],
    folder: &Path,
) -> Result<Told> {
    let runs = folder.join("runs");
    let [book, inventory] = ["runbook.yaml", "inventory.yaml"].map(|name| folder.join(name));
    for (path, text) in [(&book, runbook.to_owned()), (&inventory, place.inventory())] {
        fs::write(path, text).with_context(|| format!("failed to write `{}`", path.display()))?;
    }
    let arguments = ["run".as_ref(), &*book, "-i".as_ref(), &inventory, "-o".as_ref(), &runs];
    let argv: Vec<_> =
        program.iter().copied().chain(arguments).map(Path::to_string_lossy).collect();
    let argv: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
    let output = place.control(&argv, time + MARGIN)?;
    let run = only_run(&runs).with_context(|| {
        format!("no report: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    let read = |name: &str| {
        let path = run.join(name);
        fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))
    };
    let report = serde_json::from_str(&read("report.json")?).context("the report is not JSON")?;
    let told = Told { report, events: read("events.jsonl")? };
    fs::remove_dir_all(&runs).context("failed to remove the run's folder")?;
    Ok(told)
}

fn runbook_of(load: Load) -> String {
    let Load { streams, message_bytes, .. } = load;
    let seconds = load.whole_seconds();
    format!(
        "name: Throughput benchmark\nsteps:\n  - name: Test\n    throughput:\n      \
         num_conn: {streams}\n      duration: {seconds} s\n      \
         message_length: {message_bytes} B\n      congestion_control: cubic\n\
         report: {{ formats: [json] }}\n"
    )
}

fn only_run(runs: &Path) -> Result<PathBuf> {
    let mut folders = fs::read_dir(runs)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("report.json").is_file());
    folders.next().context("the run wrote none")
}

/// CPU time in seconds of the threads that sent, received and watched, of both agents. The report
/// has it per second of a time that differs from the test's by some milliseconds.
fn threads_cpu_s(events: &str) -> Result<f64> {
    let events: Vec<Value> =
        events.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("events")?;
    let mut microseconds = Vec::new();
    events.iter().for_each(|event| find_all(event, "threads_us", &mut microseconds));
    ensure!(microseconds.len() == 2, "{} ends told their CPU time", microseconds.len());
    Ok(microseconds.iter().sum::<f64>() / 1e6)
}

fn find_all(value: &Value, key: &str, found: &mut Vec<f64>) {
    match value {
        Value::Object(entries) => {
            found.extend(entries.get(key).and_then(Value::as_f64));
            entries.values().for_each(|value| find_all(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| find_all(value, key, found)),
        _ => {}
    }
}

/// The rate of the samples after the warm-up, as iperf3's `-O` counts, and the cost of the whole.
fn outcome(report: &Value, events: &str) -> Result<Outcome> {
    let test = &report["measurements"][0];
    ensure!(test["kind"] == "throughput", "the run measured nothing: {}", report["steps"]);
    let failures = test["failures"].as_array().is_some_and(|failures| !failures.is_empty());
    ensure!(!failures, "the test failed: {}", test["failures"]);
    let samples = test["samples"].as_array().context("the report has no samples")?;
    let duration_ms = test["duration_ms"].as_f64().context("the report has no duration")?;
    let received = test["received_bytes"].as_f64().context("the report has no bytes")?;
    let outcome = Outcome {
        bytes_per_second: rate_between(samples, f64::from(WARM_UP_S) * 1000.0, duration_ms),
        cpu_s_per_gib: threads_cpu_s(events)? / (received / GIB),
        steady_bytes_per_second: test["steady"]["bytes_per_second"].as_f64(),
    };
    ensure!(outcome.bytes_per_second > 0.0, "nothing arrived after the warm-up");
    Ok(outcome)
}

/// Of whole samples. After the test's duration, buffers empty and the last sample waits for the end
/// of the connections.
fn rate_between(samples: &[Value], from_ms: f64, to_ms: f64) -> f64 {
    let (mut milliseconds, mut bytes) = (0.0, 0.0);
    for sample in samples {
        let number = |key: &str| sample[key].as_f64().unwrap_or(f64::NAN);
        let middle_ms = number("at_ms") + number("interval_ms") / 2.0;
        if number("at_ms") >= from_ms && middle_ms < to_ms {
            milliseconds += number("interval_ms");
            bytes += number("bytes");
        }
    }
    bytes / milliseconds * 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE_END: &str = r#"{"end":{"cpu":{"threads_us":750000}}}"#;

    #[test]
    fn warm_up_and_end_count_for_the_cost_and_not_for_the_rate() {
        let report = json!({ "measurements": [{
            "kind": "throughput",
            "samples": [
                { "at_ms": 0.0, "interval_ms": 1000.0, "bytes": 7 },
                { "at_ms": 1000.0, "interval_ms": 500.0, "bytes": 100 },
                { "at_ms": 1500.0, "interval_ms": 501.0, "bytes": 300.4 },
                { "at_ms": 2001.0, "interval_ms": 30.0, "bytes": 1 },
            ],
            "duration_ms": 2000,
            "received_bytes": 1_073_741_824_u64,
            "steady": null,
        }]});
        let outcome = outcome(&report, &format!("{ONE_END}\n{ONE_END}")).unwrap();
        assert!((outcome.bytes_per_second - 400.0).abs() < 1e-6, "{outcome:?}");
        assert_eq!(outcome.cpu_s_per_gib, 1.5);
        assert_eq!(outcome.steady_bytes_per_second, None);
    }

    #[test]
    fn the_cpu_time_is_that_of_both_ends() {
        assert_eq!(threads_cpu_s(&format!("{ONE_END}\n[{ONE_END}]\n")).unwrap(), 1.5);
        threads_cpu_s(ONE_END).unwrap_err();
    }

    #[test]
    fn a_test_that_failed_is_no_result() {
        let failed = json!({ "measurements": [{ "kind": "throughput", "failures": ["late"] }] });
        assert_eq!(outcome(&failed, "").unwrap_err().to_string(), "the test failed: [\"late\"]");
    }
}
