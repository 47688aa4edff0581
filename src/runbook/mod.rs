//! What the user wrote: runbooks and inventories, read from text with every mistake at its place.

pub mod check;
pub mod docs;
pub mod fields;
pub mod file;
pub mod inventory;
pub mod inventory_keys;
pub mod keys;
pub mod network_keys;
pub mod network_values;
pub mod problem;
pub mod schema;
pub mod source;
pub mod starting;
pub mod table;
pub mod template;
pub mod tree;
pub mod value;

pub use docs::docs_tables;
pub use file::RunbookFile;
pub use inventory::{InventoryFile, PasswordSource};
pub use problem::{Problem, render as render_problems};
pub use schema::{schema_inventory, schema_runbook};
pub use starting::{demo_inventory, demo_runbook, starting_inventory, starting_runbook};

/// An inventory, or everything that is wrong with it.
///
/// `file_name` is what messages call the file.
pub fn parse_inventory(file_name: &str, text: &str) -> Result<InventoryFile, Vec<Problem>> {
    let file = inventory::read(source::Source::new(file_name, text))?;
    let clashes = inventory::clashes(&file);
    if clashes.is_empty() { Ok(file) } else { Err(file::told(&file.source, clashes)) }
}
