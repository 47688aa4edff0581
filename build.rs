//! Stamps the version and the commit, which the handshake with an agent and every report name.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
    println!("cargo::rerun-if-env-changed=REDOLINE_COMMIT");
    let commit = std::env::var("REDOLINE_COMMIT").ok().or_else(commit_of_the_checkout);
    println!("cargo::rustc-env=REDOLINE_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}

/// The commit that is checked out; `None` in a source archive without git.
fn commit_of_the_checkout() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}
