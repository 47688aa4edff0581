//! Passwords from where the inventory says: never from an argument, never into a file.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Refusal;
use crate::plan::access::Secret;
use crate::runbook::{InventoryFile, PasswordSource};

/// Fetches each password once.
pub(super) fn look_up(
    inventory: &InventoryFile,
) -> anyhow::Result<BTreeMap<PasswordSource, Secret>> {
    let sources = inventory.passwords().into_iter();
    sources.map(|source| fetch(&source).map(|secret| (source, secret))).collect()
}

fn fetch(source: &PasswordSource) -> anyhow::Result<Secret> {
    let text = match source {
        PasswordSource::Environment(name) => std::env::var(name)
            .map_err(|_| Refusal(format!("the environment has no `{name}` for the password")))?,
        PasswordSource::File(path) => from_file(Path::new(path))?,
        PasswordSource::Prompt => ask()?,
    };
    Ok(Secret::new(text))
}

/// Refuses a file that others can read.
fn from_file(path: &Path) -> anyhow::Result<String> {
    let refused = |cause: std::io::Error| {
        Refusal(format!("failed to read the password file `{}`: {cause}", path.display()))
    };
    let mode = std::fs::metadata(path).map_err(refused)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Refusal(format!(
            "others can read the password file `{}`; run `chmod 600` on it",
            path.display()
        ))
        .into());
    }
    let text = std::fs::read_to_string(path).map_err(refused)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn ask() -> anyhow::Result<String> {
    if !std::io::stdin().is_terminal() {
        return Err(Refusal(
            "the inventory asks for a password, but there is no terminal to ask on; use \
             `password_from: { env: NAME }` or `{ file: PATH }`"
                .to_owned(),
        )
        .into());
    }
    Ok(rpassword::prompt_password("SSH password of the nodes: ")?)
}
