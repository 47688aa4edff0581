//! Planted faults: each file of `tests/data/faults` is a lab with something wrong, a short runbook,
//! and what must come out of it.
//!
//! A row that awaits something of the product is shown as ignored with that reason; with
//! `REDOLINE_FAULTS=all` it runs nevertheless.

mod compare;
mod plant;
mod row;

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use redoline_lab::harness::LabCase;
use redoline_lab::{Inventory, Punctuality};

use super::scene::{Scene, data};
use row::{Row, Runbook};

/// How often a row is run on a lab that was not what it asked for.
const ATTEMPTS: usize = 3;

/// A test for each file.
pub fn cases() -> Vec<LabCase> {
    match files() {
        Ok(files) => files.into_iter().map(case).collect(),
        Err(error) => vec![LabCase::new("fault: rows are read", move || Err(error))],
    }
}

fn files() -> Result<Vec<PathBuf>> {
    let folder = data().join("faults");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    let mut files: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    ensure!(!files.is_empty(), "no rows in {}", folder.display());
    Ok(files)
}

fn case(path: PathBuf) -> LabCase {
    let row = match Row::read(&path) {
        Ok(row) => row,
        Err(error) => {
            return LabCase::new(format!("fault: {}", path.display()), move || Err(error));
        }
    };
    let name = format!("fault: {}", row.fault);
    let awaits = row.awaits.clone().filter(|_| !wants_all());
    let case = LabCase::new(name, move || run(&row, &path));
    match awaits {
        Some(what) => case.ignored(format!("awaits {what}")),
        None => case,
    }
}

/// What awaits something is to run nevertheless.
pub fn wants_all() -> bool {
    env::var_os("REDOLINE_FAULTS").is_some_and(|value| value == "all")
}

/// What a row says, on a lab that was what the row asked for: one whose packets were late, since the
/// machine had other things to do, is no witness, and the row is run again.
fn run(row: &Row, path: &Path) -> Result<()> {
    let mut failed = run_once(row)?;
    for _ in 1..ATTEMPTS {
        match &failed {
            Some(failure) if !failure.punctuality.holds() => failed = run_once(row)?,
            _ => break,
        }
    }
    let Some(Failure { table, punctuality }) = failed else { return Ok(()) };
    bail!("{} ({})\n{table}  lab\n    {punctuality}", row.fault, path.display())
}

/// What was not as expected, and how well the lab kept its times meanwhile.
struct Failure {
    table: String,
    punctuality: Punctuality,
}

fn run_once(row: &Row) -> Result<Option<Failure>> {
    let scene = Scene::new(&row.lab.spec())?;
    // Dropped before the lab.
    let planted = plant::plant(&scene.lab, row)?;
    let mut inventory = Inventory { user: "root".to_owned(), ..scene.lab.inventory() };
    if row.lab.ipv6 {
        plant::use_ipv6(&scene.lab, &mut inventory);
    }
    let runbook = match &row.runbook {
        Runbook::Named(name) => data().join("faults/runbooks").join(format!("{name}.yaml")),
        Runbook::Inline(steps) => scene.write("runbook.yaml", &serde_yaml::to_string(steps)?)?,
    };
    let set: Vec<String> = row
        .set
        .iter()
        .flat_map(|(key, value)| ["--set".into(), format!("{key}={value}")])
        .collect();
    let arguments: Vec<&str> = set.iter().map(String::as_str).collect();
    let before = scene.lab.punctuality();
    let finished = scene.run_with(&inventory, &runbook.to_string_lossy(), &arguments)?;
    let punctuality = scene.lab.punctuality() - before;
    drop(planted);
    let report = finished.report().context("the run left no report")?;
    let problems = compare::problems(&row.expect, finished.code, &report);
    let failure =
        || Failure { table: compare::table(&problems, &row.expect, &report), punctuality };
    Ok((!problems.is_empty()).then(failure))
}
