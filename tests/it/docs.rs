//! The documentation says what the code says.

use std::fs;

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

#[test]
fn every_finding_is_described() {
    let text = fs::read_to_string("docs/findings.md").unwrap();
    let headings: String =
        text.lines().filter(|line| line.starts_with("### ")).collect::<Vec<_>>().join(" ");
    for id in FindingId::ALL {
        assert!(headings.contains(id.as_str()), "docs/findings.md does not describe `{id}`");
    }
}
