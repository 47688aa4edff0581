//! The scratch file: the only place where storage is written. It has no name while it is filled.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process;

use redoline_proto::units::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, open, openat, unlinkat};

use super::error::StorageError;
use super::offsets::SplitMix64;
use super::pace::Pace;
use super::target::{Source, refuse_memory, source};
use crate::jobs::cancel::CancelFlag;
use crate::sys::pages::PageBuffer;

pub const CHUNK_BYTES: u64 = Bytes::MIB;

/// What is made, and how gently.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub dir: String,
    pub size: Bytes,
    pub seed: u64,
    /// Of the writes.
    pub pace: Option<Pace>,
}

/// Makes the file, fills it with blocks that neither compress nor repeat, and opens it for reading.
///
/// `filled` is told the share that is written. Nothing is left behind, however this ends: the file
/// has no name, and goes with its last descriptor.
pub fn make(
    scratch: &Scratch,
    stop: &CancelFlag,
    mut filled: impl FnMut(f64),
) -> Result<Source, StorageError> {
    let mut file = create_in(&scratch.dir, scratch.size)?;
    fill(&mut file, scratch, stop, &mut filled)?;
    file.file
        .sync_data()
        .map_err(|cause| io_error("write to disk the scratch file in", &scratch.dir, cause))?;
    source(file.file.as_fd(), &format!("scratch file in {}", scratch.dir), true)
}

/// An empty file without a name, where there is room for `size`.
pub fn create_in(dir: &str, size: Bytes) -> Result<Unnamed, StorageError> {
    let handle = open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|cause| io_error("open the scratch directory", dir, cause.into()))?;
    refuse_memory(handle.as_fd(), dir)?;
    let space =
        fstatvfs(&handle).map_err(|cause| io_error("find the free space of", dir, cause.into()))?;
    check_space(dir, size, Bytes(space.f_bavail.saturating_mul(space.f_frsize)))?;
    create(&handle, dir)
}

/// Refuses what would fill a file system: a tenth of what is free, and at least 1 GiB, stays free.
fn check_space(dir: &str, size: Bytes, free: Bytes) -> Result<(), StorageError> {
    let reserve = Bytes((free.0 / 10).max(Bytes::GIB));
    if size.0 < CHUNK_BYTES {
        return Err(StorageError::ScratchTooSmall { size });
    }
    if size.0 > free.0.saturating_sub(reserve.0) {
        return Err(StorageError::NoSpace { dir: dir.to_owned(), size, free, reserve });
    }
    Ok(())
}

#[derive(Debug)]
pub struct Unnamed {
    pub file: File,
    direct: bool,
}

/// Without a name from the start where the file system can (O_TMPFILE), else unlinked at once.
fn create(dir: &OwnedFd, path: &str) -> Result<Unnamed, StorageError> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let here = format!("/proc/self/fd/{}", dir.as_raw_fd());
    for (extra, direct) in [(OFlags::DIRECT, true), (OFlags::empty(), false)] {
        let unnamed = open(&here, flags | extra | OFlags::TMPFILE | OFlags::EXCL, mode);
        match unnamed.or_else(|_| create_and_unlink(dir, flags | extra, mode)) {
            Ok(file) => return Ok(Unnamed { file: file.into(), direct }),
            Err(rustix::io::Errno::INVAL) if direct => (),
            Err(cause) => return Err(io_error("make a scratch file in", path, cause.into())),
        }
    }
    Err(io_error("make a scratch file in", path, io::Error::from_raw_os_error(libc::EINVAL)))
}

fn create_and_unlink(dir: &OwnedFd, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let number = rand::random::<u64>();
    let name = format!(".redoline-scratch-{}-{number:016x}", process::id());
    let made = openat(dir, &name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode);
    if matches!(made, Err(rustix::io::Errno::EXIST)) {
        return made;
    }
    // Also after a failure: some file systems make the file before they refuse O_DIRECT.
    match unlinkat(dir, &name, AtFlags::empty()) {
        Err(error) if made.is_ok() => Err(error),
        _ => made,
    }
}

/// Writes every block of the file, up to the last whole chunk.
pub fn fill(
    unnamed: &mut Unnamed,
    scratch: &Scratch,
    stop: &CancelFlag,
    filled: &mut impl FnMut(f64),
) -> Result<(), StorageError> {
    let size = scratch.size.0 / CHUNK_BYTES * CHUNK_BYTES;
    let mut buffer = PageBuffer::new(CHUNK_BYTES as usize).map_err(StorageError::Resources)?;
    for chunk in 0..size / CHUNK_BYTES {
        if stop.is_set() || !scratch.pace.as_ref().is_none_or(|pace| pace.wait(CHUNK_BYTES, stop)) {
            return Err(StorageError::Cancelled);
        }
        scramble(&mut buffer, scratch.seed, chunk);
        write(unnamed, &buffer, chunk * CHUNK_BYTES)
            .map_err(|cause| io_error("fill the scratch file in", &scratch.dir, cause))?;
        filled((chunk + 1) as f64 * CHUNK_BYTES as f64 / size as f64);
    }
    Ok(())
}

/// Falls back to the page cache when direct writes are refused only now.
fn write(unnamed: &mut Unnamed, buffer: &[u8], offset: u64) -> io::Result<()> {
    match unnamed.file.write_all_at(buffer, offset) {
        Err(error) if unnamed.direct && error.raw_os_error() == Some(libc::EINVAL) => {
            let flags = rustix::fs::fcntl_getfl(&unnamed.file)?;
            rustix::fs::fcntl_setfl(&unnamed.file, flags - OFlags::DIRECT)?;
            unnamed.direct = false;
            unnamed.file.write_all_at(buffer, offset)
        }
        other => other,
    }
}

/// Every 8 bytes differ from all others of the file, so that no array compresses or deduplicates.
fn scramble(buffer: &mut [u8], seed: u64, chunk: u64) {
    let mut random = SplitMix64::new(seed, chunk);
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
}

pub fn io_error(operation: &'static str, path: &str, cause: io::Error) -> StorageError {
    StorageError::Io { operation, path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use super::*;

    #[test]
    fn a_tenth_of_the_free_space_stays_free() {
        let free = Bytes(100 * Bytes::GIB);
        assert!(check_space("/u02", Bytes(90 * Bytes::GIB), free).is_ok());
        let error = check_space("/u02", Bytes(91 * Bytes::GIB), free).unwrap_err().to_string();
        assert!(error.contains("/u02") && error.contains("100 GiB are free"), "{error}");
        assert!(check_space("/u02", Bytes(Bytes::GIB), Bytes(Bytes::GIB)).is_err());
        assert!(check_space("/u02", Bytes(100), free).is_err());
    }

    #[test]
    fn no_two_words_of_the_filling_are_alike() {
        let mut words = HashSet::new();
        let mut buffer = vec![0; 65_536];
        for chunk in 0..4 {
            scramble(&mut buffer, 7, chunk);
            words.extend(buffer.chunks_exact(8).map(<[u8]>::to_vec));
        }
        assert_eq!(words.len(), 4 * 65_536 / 8);
    }

    #[test]
    fn a_file_that_had_a_name_has_none_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let handle = File::open(dir.path()).unwrap().into();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file: File = create_and_unlink(&handle, flags, Mode::RUSR | Mode::WUSR).unwrap().into();
        file.write_all_at(b"still writable", 0).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_filled_in_memory() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        let dir = dir.path().display().to_string();
        let scratch = Scratch { dir: dir.clone(), size: Bytes(Bytes::MIB), seed: 1, pace: None };
        let made = make(&scratch, &CancelFlag::new(), |_| panic!("filled"));
        let error = made.unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{dir}` lies on tmpfs, which")), "{error}");
    }

    #[test]
    fn a_stopped_fill_ends_as_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch {
            dir: dir.path().display().to_string(),
            size: Bytes(64 * Bytes::MIB),
            seed: 1,
            pace: None,
        };
        let stop = CancelFlag::new();
        let mut shares = Vec::new();
        let made = make(&scratch, &stop, |share| {
            shares.push(share);
            stop.set();
        });
        assert!(matches!(made, Err(StorageError::Cancelled)), "{made:?}");
        assert_eq!(shares.len(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
