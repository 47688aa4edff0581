//! Reading the user's files: a file that cannot be read is refused by name.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::Refusal;

/// Larger is no runbook; the parser has a limit of its own below this.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// As some editors begin a file.
const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let refused = |cause| Refusal(format!("failed to read `{}`: {cause}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(refused)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Refusal(format!("`{}` is larger than 4 MiB", path.display())).into());
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Refusal(format!("`{}` is not UTF-8 text; save it with that encoding", path.display()))
    })?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}name: T\n").unwrap();
        assert_eq!(read(file.path()).unwrap(), "name: T\n");
    }

    #[test]
    fn an_endless_file_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "`/dev/zero` is larger than 4 MiB");
    }
}
