//! Stamps the commit, which the agent tells in its first answer.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=REDOLINE_COMMIT");
    // In a worktree, `.git` is a file: git knows where the head is.
    for path in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = std::env::var("REDOLINE_COMMIT").ok();
    let commit = commit.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=REDOLINE_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}

/// `None` in a source archive without git.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
