//! `redoline init`: a starting inventory and runbook. Never overwrites.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};

use super::{Refusal, say};
use crate::cli::InitArgs;
use crate::exit::Exit;
use crate::runbook::{starting_inventory, starting_runbook};

pub(super) fn init(args: &InitArgs) -> anyhow::Result<Exit> {
    let refused =
        |what: String, cause: std::io::Error| Refusal(format!("failed to {what}: {cause}"));
    fs::create_dir_all(&args.dir)
        .map_err(|cause| refused(format!("create `{}`", args.dir.display()), cause))?;
    for (name, text) in
        [("inventory.yaml", starting_inventory()), ("runbook.yaml", starting_runbook())]
    {
        let path = args.dir.join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|cause| match cause.kind() {
                ErrorKind::AlreadyExists => Refusal(format!(
                    "`{}` exists and is never overwritten; name another folder",
                    path.display()
                )),
                _ => refused(format!("write `{}`", path.display()), cause),
            })?;
        say(format_args!("wrote {}", path.display()));
    }
    say(format_args!("next: edit both, then `redoline check runbook.yaml -i inventory.yaml`"));
    Ok(Exit::Success)
}
