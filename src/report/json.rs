//! `report.json` and its published schema.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::model::Report;

/// The report as a document; ends with a line break.
///
/// # Errors
/// None of the model's types fails to serialize; the error is kept for the caller to name.
pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

/// The JSON Schema (draft-07). Every field is required: unknown is null, never absent.
pub fn schema() -> Value {
    // What is written, not what is read: serde would take an absent field for null.
    let settings = SchemaSettings::draft07().for_serialize();
    settings.into_generator().into_root_schema_for::<Report>().to_value()
}
