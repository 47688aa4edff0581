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

use anyhow::{Context, Result, anyhow, ensure};
use redoline_lab::Inventory;
use redoline_lab::harness::LabCase;

use super::scene::{Scene, data};
use row::{Row, Runbook};

/// A test for each file.
pub fn cases() -> Vec<LabCase> {
    match files() {
        Ok(files) => files.into_iter().map(case).collect(),
        Err(error) => vec![LabCase::new("fault: rows are read", move || Err(anyhow!("{error:#}")))],
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
            return LabCase::new(format!("fault: {}", path.display()), move || {
                Err(anyhow!("{error:#}"))
            });
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

fn run(row: &Row, path: &Path) -> Result<()> {
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
    let finished = scene.run_with(&inventory, &runbook.to_string_lossy(), &arguments)?;
    drop(planted);
    let report = finished.report().context("the run left no report")?;
    let problems = compare::problems(&row.expect, finished.code, &report);
    ensure!(
        problems.is_empty(),
        "{} ({})\n{}",
        row.fault,
        path.display(),
        compare::table(&problems, &row.expect, &report)
    );
    Ok(())
}
