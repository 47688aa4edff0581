//! `redoline check`: the plan and its cost; contacts nothing.

use super::planned;
use crate::cli::CheckArgs;
use crate::exit::Exit;
use crate::plan::{cost, show};

pub(super) fn check(args: &CheckArgs) -> anyhow::Result<Exit> {
    match planned::plan(&args.plan)? {
        Ok(planned) => {
            let cost = cost::cost(&planned.plan);
            print!("{}", show::show(&planned.plan, &cost));
            Ok(Exit::Success)
        }
        Err(exit) => Ok(exit),
    }
}
