//! Reads files of keys and known hosts: regular ones of a size that such files have. Others may never
//! end, or keep whoever reads them waiting.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// More than any key, and 100,000 known hosts.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Not blocking: a pipe without a writer would not even open.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let text = format!("larger than {} MiB", BYTES_MAX / 1024 / 1024);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(bytes)
}

pub(super) fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a text"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn devices_and_pipes_are_refused_at_once() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "not a regular file");
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(read(&pipe).unwrap_err().to_string(), "not a regular file");
    }

    #[test]
    fn a_key_is_read_whole_and_a_file_without_end_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "a key").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "a key");
        fs::File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "larger than 16 MiB");
    }
}
