//! Reading the user's files: a file that cannot be read is refused by name.

use std::path::Path;

use super::Refusal;

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path)
        .map_err(|cause| Refusal(format!("failed to read `{}`: {cause}", path.display())))?;
    Ok(String::from_utf8(bytes)
        .map_err(|_| Refusal(format!("`{}` is not UTF-8 text", path.display())))?)
}
