//! The documentation says what the code says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redoline::analysis::finding::FindingId;
use redoline::runbook::docs_tables;

/// `REDOLINE_BLESS=1 cargo test` writes it anew.
#[test]
fn the_tables_of_runbook_keys_are_those_of_the_code() {
    let path = "docs/runbook.md";
    let expected = format!("{RUNBOOK_HEAD}{}", docs_tables());
    if std::env::var_os("REDOLINE_BLESS").is_some() {
        fs::write(path, &expected).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "{path} is old; run `REDOLINE_BLESS=1 cargo test --test it docs`");
}

const RUNBOOK_HEAD: &str = "# Runbook and inventory\n\n\
    Generated from the code; `redoline schema runbook` and `redoline schema inventory` print JSON \
    Schemas for editors. `redoline check` tells every mistake of a file at once.\n\n\
    Expressions stand in `{{ }}` in any value; `when` and `assert` need no braces. Rates in \
    expressions are in bytes per second, and can be written with units: `single.bytes_per_second > \
    10 * MiB`, `> 60 * Mbit`. `finally` runs whatever happened before, except after Ctrl-C.\n\n";

const FINDINGS: &str = "docs/findings";

/// Of each page, in this order.
const SECTIONS: [&str; 5] = [
    "## What it means",
    "## How it was seen",
    "## What to do",
    "## How to check that it helped",
    "## What looks similar",
];

#[test]
fn every_finding_has_its_page() {
    let index = read(format!("{FINDINGS}/README.md"));
    for id in FindingId::ALL {
        let page = read(format!("{FINDINGS}/{id}.md"));
        let headings: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
        let title = format!("# {id}");
        assert_eq!(headings, [&[title.as_str()], SECTIONS.as_slice()].concat(), "{id}.md");
        for section in SECTIONS {
            let (_, text) = page.split_once(section).unwrap();
            let text = text.split("\n#").next().unwrap_or_default();
            assert!(!text.trim().is_empty(), "{id}.md says nothing under `{section}`");
        }
        assert!(index.contains(&format!("| [{id}]({id}.md) |")), "the index lacks `{id}`");
    }
}

#[test]
fn every_page_has_its_finding() {
    let known: BTreeSet<String> = FindingId::ALL.iter().map(ToString::to_string).collect();
    for page in pages().iter().filter(|page| page.starts_with(FINDINGS)) {
        let name = page.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(name == "README" || known.contains(&name), "no finding is called `{name}`");
    }
}

#[test]
fn every_link_leads_to_a_file() {
    for page in pages() {
        let text = read(&page);
        let folder = page.parent().unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let path = target.split('#').next().unwrap_or_default();
            let there = path.is_empty() || folder.join(path).exists();
            assert!(there, "{} links to `{target}`", page.display());
        }
    }
}

/// `path` or `path::name` in backticks, of sources and of data.
#[test]
fn every_test_that_trust_rests_on_exists() {
    let text = read("docs/trust.md");
    let quoted = text.split('`').skip(1).step_by(2);
    let is_file = |path: &str| path.ends_with(".rs") || path.ends_with(".yaml");
    let mut count = 0;
    for (path, name) in quoted
        .map(|quoted| quoted.split_once("::").unwrap_or((quoted, "")))
        .filter(|(path, _)| is_file(path))
    {
        let source = read(path);
        let is_test =
            source.contains(&format!("fn {name}(")) || source.contains(&format!("\"{name}\""));
        assert!(name.is_empty() || is_test, "docs/trust.md: no test `{name}` in {path}");
        count += 1;
    }
    assert!(count > 50, "only {count} were found");
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Markdown of the documentation.
fn pages() -> Vec<PathBuf> {
    let folders = [".", "docs", FINDINGS].map(|folder| fs::read_dir(folder).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|e| e == "md")).collect();
    assert!(pages.len() > FindingId::ALL.len(), "{pages:?}");
    pages
}
