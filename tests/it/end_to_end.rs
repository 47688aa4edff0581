//! The real executable against four agents on this machine: needs no server and no privilege.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

struct Ended {
    output: Output,
    report: Value,
    folder: PathBuf,
}

fn run(runbook: &str, arguments: &[&str]) -> Ended {
    let runs = tempfile::tempdir().unwrap().keep();
    let output = Command::new(env!("CARGO_BIN_EXE_redoline"))
        .args(["run", runbook, "-o"])
        .arg(&runs)
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let folder = fs::read_dir(&runs).unwrap().next().expect(&stderr).unwrap().path();
    let report = fs::read_to_string(folder.join("report.json")).expect(&stderr);
    let report: Value = serde_json::from_str(&report).unwrap();
    let schema = jsonschema::validator_for(&redoline::report::json::schema()).unwrap();
    let problems: Vec<String> = schema.iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    Ended { output, report, folder }
}

fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps.map(|s| (s["name"].as_str().unwrap(), s["outcome"].as_str().unwrap())).collect()
}

/// One test, since the built-in nodes can be held by one run at a time.
#[test]
fn the_language_runs_as_it_reads_and_a_kept_run_is_shown_again() {
    let ended = run("tests/data/runbooks/language.yaml", &[]);
    assert_eq!(
        outcomes(&ended.report),
        [
            ("One stream", "passed"),
            ("Level 2", "passed"),
            ("Level 3", "passed"),
            ("Never", "skipped"),
            ("Roles swapped for the tests", "passed"),
            ("One stream, repeated (standby to primary)", "passed"),
            ("Slow enough", "passed"),
            ("Fast enough", "assertion_failed"),
            ("Not reached", "skipped"),
            ("Facts at the end", "passed"),
        ],
        "{}",
        String::from_utf8_lossy(&ended.output.stderr)
    );
    assert_eq!(ended.output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.output.stdout);
    assert!(text.contains("oopback: no statement about a network"), "{text}");
    let findings = ended.report["findings"].as_array().unwrap();
    let network = ["per-flow-limit", "window-limited", "link-limited", "bbr-without-fq"];
    for id in network {
        assert!(findings.iter().all(|finding| finding["id"] != id), "{id}: {findings:#?}");
    }
    shown_again(&ended.folder, &ended.report);

    let only = run("tests/data/runbooks/language.yaml", &["--only", "levels"]);
    let passed = outcomes(&only.report).into_iter().filter(|(_, outcome)| *outcome == "passed");
    let passed: Vec<&str> = passed.map(|(name, _)| name).collect();
    assert_eq!(passed, ["Level 2", "Level 3", "Facts at the end"], "`finally` is always run");
    assert_eq!(only.output.status.code(), Some(0));
    for folder in [ended.folder, only.folder] {
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }
}

fn shown_again(folder: &Path, report: &Value) {
    let shown = Command::new(env!("CARGO_BIN_EXE_redoline"))
        .args(["report", "--format", "json"])
        .arg(folder)
        .output()
        .unwrap();
    let again: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(&again, report, "a kept run gives another report than the run itself");
}

#[test]
fn a_broken_runbook_contacts_nothing_and_exits_with_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_redoline"))
        .args(["run", "tests/data/bad-runbooks/many.yaml", "-o", "/nowhere"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("nothing was contacted"), "{text}");
    assert!(!Path::new("/nowhere").exists());
}
