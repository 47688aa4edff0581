//! Keeps the arrows of ARCHITECTURE.md true: this table is the architecture.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Which modules of the controller each module may name. `commands` may name all; `version` and
/// `exit` are values that anyone may name.
const MAY_USE: &[(&str, &[&str])] = &[
    ("runbook", &[]),
    ("plan", &["runbook"]),
    ("record", &["plan"]),
    ("analysis", &["plan", "record"]),
    ("advice", &["plan", "record", "analysis"]),
    ("report", &["plan", "record", "analysis", "advice"]),
    ("history", &["plan", "record"]),
    ("progress", &["plan", "record"]),
    ("connect", &["plan"]),
    ("agents", &["plan", "connect"]),
    // It decides with the rules of the analysis when a ladder has reached its plateau.
    ("execute", &["plan", "record", "analysis", "agents"]),
];

const ANYONE: &[&str] = &["version", "exit"];

/// These compute; they never wait, read, write or look at a clock.
const PURE: &[&str] = &["runbook", "plan", "record", "analysis", "advice", "report"];
const IMPURE: &[&str] = &[
    "tokio::",
    "tonic::",
    "ssh2::",
    "std::fs",
    "std::net::Tcp",
    "std::env",
    "std::process",
    "::now()",
];

#[test]
fn modules_name_only_what_they_may_use() {
    for (module, may_use) in MAY_USE {
        for (path, source) in sources(module) {
            for used in crate_modules(&source) {
                let allowed = used == *module || may_use.contains(&used) || ANYONE.contains(&used);
                assert!(allowed, "{path} uses `crate::{used}`, which `{module}` may not");
            }
        }
    }
}

#[test]
fn every_folder_is_in_the_table() {
    for entry in fs::read_dir("src").unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let known = name == "commands" || MAY_USE.iter().any(|(module, _)| *module == name);
        assert!(known || entry.path().is_file(), "say what `src/{name}` may use");
    }
}

#[test]
fn pure_modules_do_no_io() {
    for module in PURE {
        for (path, source) in sources(module) {
            if let Some(impure) = IMPURE.iter().find(|impure| source.contains(**impure)) {
                panic!("{path} names `{impure}`, but `{module}` is pure");
            }
        }
    }
}

#[test]
fn generated_types_stay_at_the_edge() {
    for (module, _) in MAY_USE {
        for (path, source) in sources(module) {
            let at_the_edge = path == "src/agents/client.rs";
            assert!(at_the_edge || !source.contains("pb::"), "{path} names generated types");
        }
    }
    let mut agent = Vec::new();
    collect(Path::new("agent/src"), &mut agent);
    for (path, source) in agent {
        let at_the_edge = path == "agent/src/service.rs";
        assert!(at_the_edge || !source.contains("pb::"), "{path} names generated types");
    }
}

#[test]
fn unsafe_code_of_the_agent_stays_in_one_folder() {
    let mut agent = Vec::new();
    collect(Path::new("agent/src"), &mut agent);
    for (path, source) in agent {
        let allowed = path.starts_with("agent/src/sys/");
        assert!(allowed || !source.contains("unsafe {"), "{path} has unsafe code");
    }
}

#[test]
fn the_controller_names_the_agent_library_only_where_it_becomes_one() {
    for (module, _) in MAY_USE {
        for (path, source) in sources(module) {
            assert!(!source.contains("redoline_agent"), "{path} names the agent library");
        }
    }
}

#[test]
fn the_scanner_sees_both_forms_of_import() {
    let source = "use crate::plan::Plan;\nuse crate::{record::{Event, Run}, report};";
    assert_eq!(crate_modules(source), BTreeSet::from(["plan", "record", "report"]));
}

/// The modules that a source file reaches by `crate::name` or `crate::{name, other}`.
fn crate_modules(source: &str) -> BTreeSet<&str> {
    let mut modules = BTreeSet::new();
    for (start, prefix) in source.match_indices("crate::") {
        let rest = &source[start + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => modules.extend(first_level_names(group)),
            None => modules.extend(leading_name(rest)),
        }
    }
    modules
}

fn first_level_names(group: &str) -> Vec<&str> {
    let mut names: Vec<&str> = leading_name(group).into_iter().collect();
    let mut depth = 1;
    for (position, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.extend(leading_name(&group[position + 1..])),
            _ => (),
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn leading_name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (0 < end).then(|| &text[..end])
}

/// Every file of a module, as (path, text).
fn sources(module: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(&Path::new("src").join(module), &mut found);
    found
}

fn collect(path: &Path, found: &mut Vec<(String, String)>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push((path.display().to_string(), fs::read_to_string(path).unwrap()));
    }
}
