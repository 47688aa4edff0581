//! From the typed arguments to a plan, or to every mistake in the files at once.

use std::path::PathBuf;

use super::{Refusal, files};
use crate::cli::PlanArgs;
use crate::exit::Exit;
use crate::plan::Plan;
use crate::plan::access::HostKeyPolicy;
use crate::plan::resolve::{self, Options};
use crate::runbook::{self, Problem};

/// A plan with the texts it was made from.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) runbook: String,
    pub(super) inventory: Option<String>,
}

/// `Err` is the exit code after the problems were printed.
pub(super) fn plan(args: &PlanArgs) -> anyhow::Result<Result<Planned, Exit>> {
    let runbook = files::read(&args.runbook)?;
    let inventory = args.inventory.as_ref().map(|path| files::read(path)).transpose()?;
    let options = options(args)?;
    match resolve_texts(args, &runbook, inventory.as_deref(), &options) {
        Ok(plan) => Ok(Ok(Planned { plan, runbook, inventory })),
        Err(problems) => Ok(Err(refuse(&problems))),
    }
}

fn resolve_texts(
    args: &PlanArgs,
    runbook: &str,
    inventory: Option<&str>,
    options: &Options,
) -> Result<Plan, Vec<Problem>> {
    let runbook = runbook::parse_runbook(&args.runbook.display().to_string(), runbook);
    let inventory = inventory.map(|text| {
        let name = args.inventory.as_ref().map_or(String::new(), |path| path.display().to_string());
        runbook::parse_inventory(&name, text)
    });
    match (runbook, inventory.transpose()) {
        (Ok(runbook), Ok(inventory)) => resolve::resolve(&runbook, inventory.as_ref(), options),
        // The mistakes of both files are shown at once.
        (runbook, inventory) => {
            Err(runbook.err().into_iter().chain(inventory.err()).flatten().collect())
        }
    }
}

/// Prints every problem; nothing was contacted.
pub(super) fn refuse(problems: &[Problem]) -> Exit {
    eprintln!("{}", runbook::render_problems(problems));
    let count = problems.len();
    let noun = if count == 1 { "mistake" } else { "mistakes" };
    eprintln!("{count} {noun}; nothing was contacted");
    Exit::InvalidInput
}

fn options(args: &PlanArgs) -> anyhow::Result<Options> {
    let set = args.set.iter().map(|pair| match pair.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Refusal(format!("`--set {pair}` is not NAME=VALUE"))),
    });
    Ok(Options {
        set: set.collect::<Result<_, _>>()?,
        only: args.only.clone(),
        from: args.from.clone(),
        limit: args.limit.clone(),
        host_key_policy: host_key_policy(args.accept_new_host_keys),
        ..surroundings()
    })
}

pub(super) fn host_key_policy(accept_new: bool) -> HostKeyPolicy {
    if accept_new { HostKeyPolicy::AcceptNew } else { HostKeyPolicy::Strict }
}

/// What the inventory may leave to the user's own account.
pub(super) fn surroundings() -> Options {
    Options {
        home: std::env::var_os("HOME").map(PathBuf::from),
        user: std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok(),
        ..Options::default()
    }
}
