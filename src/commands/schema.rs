//! `redoline schema`: the JSON Schemas for editors and for those who build on a report.

use super::say;
use crate::cli::SchemaOf;
use crate::exit::Exit;

pub(super) fn print(of: SchemaOf) -> anyhow::Result<Exit> {
    let schema = match of {
        SchemaOf::Runbook => crate::runbook::schema_runbook(),
        SchemaOf::Inventory => crate::runbook::schema_inventory(),
        SchemaOf::Report => crate::report::json::schema(),
    };
    say(serde_json::to_string_pretty(&schema)?);
    Ok(Exit::Success)
}
