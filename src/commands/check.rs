//! `redoline check`: the plan and its cost; contacts nothing.

use super::planned::{self, Passwords};
use super::say;
use crate::cli::CheckArgs;
use crate::exit::Exit;
use crate::plan::{cost, show};
use crate::report::text::clean_lines as printable;

pub(super) fn check(args: &CheckArgs) -> anyhow::Result<Exit> {
    match planned::plan(&args.plan, Passwords::Leave)? {
        Ok(planned) => {
            say(printable(&show(&planned.plan, &cost(&planned.plan))));
            Ok(Exit::Success)
        }
        Err(exit) => Ok(exit),
    }
}
