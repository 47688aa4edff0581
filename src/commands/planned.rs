//! From the typed arguments to a plan, or to every mistake in the files at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Refusal, complain, files, passwords};
use crate::cli::PlanArgs;
use crate::exit::Exit;
use crate::plan::access::HostKeyPolicy;
use crate::plan::{Options, Plan, from_texts};
use crate::report::text::clean_lines as printable;
use crate::runbook::problem::render;
use crate::runbook::source::Source;
use crate::runbook::{self, Problem};

/// A plan with the texts it was made from.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) runbook: String,
    pub(super) inventory: Option<String>,
}

/// Whether passwords are needed: to show a plan they are not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Passwords {
    LookUp,
    Leave,
}

/// `Err` is the exit code after the problems were printed.
pub(super) fn plan(args: &PlanArgs, passwords: Passwords) -> anyhow::Result<Result<Planned, Exit>> {
    let runbook = files::read(&args.runbook)?;
    let inventory = args.inventory.as_ref().map(|path| files::read(path)).transpose()?;
    let inventory_name =
        args.inventory.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let passwords = match (&inventory, passwords) {
        (Some(text), Passwords::LookUp) => look_up(&inventory_name, text)?,
        _ => BTreeMap::new(),
    };
    let options = Options { passwords, ..options(args)? };
    let plan = from_texts(
        Source::new(&args.runbook.display().to_string(), &runbook),
        inventory.as_ref().map(|text| Source::new(&inventory_name, text)),
        &options,
    );
    Ok(match plan {
        Ok(plan) => Ok(Planned { plan, runbook, inventory }),
        Err(problems) => Err(refuse(&problems)),
    })
}

/// None of an inventory with mistakes: those are told with the runbook's.
fn look_up(
    name: &str,
    text: &str,
) -> anyhow::Result<BTreeMap<runbook::PasswordSource, crate::plan::access::Secret>> {
    match runbook::parse_inventory(name, text) {
        Ok(inventory) => passwords::look_up(&inventory),
        Err(_) => Ok(BTreeMap::new()),
    }
}

/// Prints every problem; nothing was contacted.
pub(super) fn refuse(problems: &[Problem]) -> Exit {
    complain(printable(&render(problems)));
    let count = problems.len();
    let noun = if count == 1 { "mistake" } else { "mistakes" };
    complain(format_args!("{count} {noun}; nothing was contacted"));
    Exit::Usage
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
        user: std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok().or_else(login_name),
        ..Options::default()
    }
}

/// Of the account that runs this, where the environment does not say.
fn login_name() -> Option<String> {
    let account = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok()??;
    Some(account.name)
}
