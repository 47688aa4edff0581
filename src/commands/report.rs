//! `redoline report`: renders a kept run again, by today's rules.

use super::{Refusal, say, terminal_text};
use crate::cli::{Format, ReportArgs};
use crate::exit::Exit;
use crate::history::run_dir::RunDir;
use crate::record::run::RunRecord;
use crate::report;

pub(super) fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    let moments = RunDir::open(&args.run)
        .and_then(|run| run.moments())
        .map_err(|error| Refusal(format!("{:#}", anyhow::Error::from(error))))?;
    let record = RunRecord::fold(&moments)
        .map_err(|error| Refusal(format!("`{}`: {error}", args.run.display())))?;
    let report = report::build::build(&record);
    let text = match args.format {
        Format::Html => report::html::render(&report)?,
        Format::Markdown => report::markdown::render(&report),
        Format::Csv => report::csv::render(&report),
        Format::Json => report::json::render(&report)?,
        Format::Text => terminal_text(&report),
    };
    say(text);
    Ok(Exit::Success)
}
