//! Opens what is to be read, read only, and finds out what it is. Nothing here can write.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags, fstat, fstatfs, major, minor, open,
    seek, statx,
};

use super::device::{Device, Mount, mount_of};
use super::error::StorageError;
use super::offsets::{Blocks, SplitMix64};
use crate::sys::pages::PageBuffer;

/// What a target must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expected {
    RegularFile,
    BlockDevice,
}

/// An open target: a descriptor that can only read, and past the page cache.
#[derive(Debug)]
pub struct Source {
    pub file: Arc<File>,
    pub path: String,
    pub size_bytes: u64,
    pub filesystem: String,
    pub device: Option<Device>,
    pub alignment_bytes: u32,
    /// Of the file's size; `None` where the file system cannot tell.
    pub hole_share: Option<f64>,
    pub scratch: bool,
}

/// TMPFS_MAGIC, RAMFS_MAGIC and HUGETLBFS_MAGIC of linux/magic.h.
const MEMORY_FILESYSTEMS: [(u64, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];
/// Where nobody says otherwise, as on NFS: the least that any device takes. A trial decides.
pub const ALIGNMENT_BYTES: u32 = 512;
/// What every device with larger blocks takes.
pub const LARGE_BLOCK_BYTES: u32 = 4096;

/// Opens an existing file or device. Its kind is checked before it is opened for reading, since
/// opening a pipe or a tape has effects.
pub fn open_existing(path: &str, expected: Expected) -> Result<Source, StorageError> {
    let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|cause| open_error(path, cause.into()))?;
    let stat = fstat(&handle).map_err(|cause| io_error("look at", path, cause.into()))?;
    check_kind(path, FileType::from_raw_mode(stat.st_mode), expected)?;
    source(handle.as_fd(), path, false)
}

/// A source that reads what `handle` names, through a descriptor of its own.
pub fn source(handle: BorrowedFd<'_>, path: &str, scratch: bool) -> Result<Source, StorageError> {
    let stat = fstat(handle).map_err(|cause| io_error("look at", path, cause.into()))?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = if is_device { stat.st_rdev } else { stat.st_dev };
    let number = (major(number), minor(number));
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mount_of(&mountinfo, number).filter(|_| !is_device);
    let filesystem = filesystem(handle, is_device, mount.as_ref());
    if !is_device {
        // Device nodes themselves lie in memory.
        refuse_memory(handle, path)?;
    }
    let file = open_direct(handle, path, &filesystem)?;
    let size_bytes = seek(&file, SeekFrom::End(0))
        .map_err(|cause| io_error("find the size of", path, cause.into()))?;
    let device = Device::below(Path::new("/sys"), number, mount.as_ref());
    let alignment_bytes = alignment(told_alignment(&file), device.as_ref()).ok_or_else(|| {
        StorageError::FileWithoutDirectIo { path: path.to_owned(), filesystem: filesystem.clone() }
    })?;
    let hole_share = (!is_device).then(|| hole_share(&file, size_bytes)).flatten();
    let file = Arc::new(File::from(file));
    let path = path.to_owned();
    Ok(Source { file, path, size_bytes, filesystem, device, alignment_bytes, hole_share, scratch })
}

impl Source {
    /// Proves that reads of this size work here at all. Waits for the disk.
    pub fn trial_read(&self, request_bytes: u64) -> Result<(), StorageError> {
        let read = |request_bytes: u64| {
            let mut buffer = PageBuffer::new(request_bytes as usize)?;
            self.file.read_at(&mut buffer, 0)
        };
        let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
        let large = u64::from(LARGE_BLOCK_BYTES);
        match read(request_bytes) {
            Ok(_) => Ok(()),
            Err(cause) if !refused(&cause) => Err(self.read_error(0, request_bytes, cause)),
            Err(_) if !request_bytes.is_multiple_of(large) && read(large).is_ok() => {
                Err(StorageError::Unaligned {
                    path: self.path.clone(),
                    request_bytes,
                    alignment_bytes: LARGE_BLOCK_BYTES,
                })
            }
            Err(_) => Err(self.no_direct_io()),
        }
    }

    /// Of 256 random blocks: the share that holds only zeros. `None` for a file without a block.
    ///
    /// `keep_on` is asked before every block.
    pub fn zero_block_share(
        &self,
        seed: u64,
        keep_on: impl Fn() -> bool,
    ) -> Result<Option<f64>, StorageError> {
        const SAMPLES: u64 = 256;
        let block_bytes = u64::from(self.alignment_bytes).max(8192);
        let Some(blocks) = Blocks::of(self.size_bytes, block_bytes) else { return Ok(None) };
        let mut buffer = PageBuffer::new(block_bytes as usize).map_err(StorageError::Resources)?;
        let mut random = SplitMix64::new(seed, u64::MAX);
        let mut zeros = 0;
        for _ in 0..SAMPLES {
            if !keep_on() {
                return Ok(None);
            }
            let offset = blocks.offset(random.below(blocks.count));
            let length = self
                .file
                .read_at(&mut buffer, offset)
                .map_err(|cause| self.read_error(offset, block_bytes, cause))?;
            zeros += u64::from(buffer[..length].iter().all(|byte| *byte == 0));
        }
        Ok(Some(zeros as f64 / SAMPLES as f64))
    }

    pub fn read_error(&self, offset: u64, request_bytes: u64, cause: io::Error) -> StorageError {
        StorageError::Read { path: self.path.clone(), offset, request_bytes, cause }
    }

    fn no_direct_io(&self) -> StorageError {
        StorageError::NoDirectIo { path: self.path.clone(), filesystem: self.filesystem.clone() }
    }
}

fn check_kind(path: &str, kind: FileType, expected: Expected) -> Result<(), StorageError> {
    let found = match (kind, expected) {
        (FileType::RegularFile, Expected::RegularFile)
        | (FileType::BlockDevice, Expected::BlockDevice) => return Ok(()),
        (FileType::RegularFile, _) => "a regular file",
        (FileType::BlockDevice, _) => "a block device",
        (FileType::Directory, _) => "a directory",
        (FileType::CharacterDevice, _) => "a character device",
        _ => "neither a file nor a block device",
    };
    Err(StorageError::WrongKind { path: path.to_owned(), found })
}

/// Reopens by the descriptor, so that the file that was checked is the file that is read.
fn open_direct(
    handle: BorrowedFd<'_>,
    path: &str,
    filesystem: &str,
) -> Result<OwnedFd, StorageError> {
    let again = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let opened = match open(&again, flags | OFlags::NOATIME, Mode::empty()) {
        // Only a file's owner may leave its access time alone.
        Err(rustix::io::Errno::PERM) => open(&again, flags, Mode::empty()),
        other => other,
    };
    opened.map_err(|cause| match cause {
        rustix::io::Errno::INVAL => {
            StorageError::NoDirectIo { path: path.to_owned(), filesystem: filesystem.to_owned() }
        }
        other => open_error(path, other.into()),
    })
}

fn filesystem(handle: BorrowedFd<'_>, is_device: bool, mount: Option<&Mount>) -> String {
    if is_device {
        return "block device".to_owned();
    }
    if let Some(mount) = mount {
        return mount.filesystem.clone();
    }
    match fstatfs(handle) {
        Ok(stat) => format!("type {:#x}", stat.f_type as u64 & 0xffff_ffff),
        Err(_) => "unknown".to_owned(),
    }
}

/// What the kernel says of offset and length (Linux 6.1, some file systems); 0 says that this file
/// has no direct I/O (statx(2)).
pub fn told_alignment(file: impl AsFd) -> Option<u32> {
    statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
        .map(|told| told.stx_dio_offset_align)
}

/// Of offset and length: what the kernel says, else the device's logical block, else 512; `None`
/// for a file without direct I/O.
fn alignment(told: Option<u32>, device: Option<&Device>) -> Option<u32> {
    if told == Some(0) {
        return None;
    }
    let alignment = told
        .or(device.and_then(|device| device.logical_block_bytes))
        .filter(|alignment| alignment.is_power_of_two());
    Some(alignment.unwrap_or(ALIGNMENT_BYTES))
}

/// Direct I/O is a copy on a file system that keeps its files in memory.
pub fn refuse_memory(handle: BorrowedFd<'_>, path: &str) -> Result<(), StorageError> {
    let Ok(stat) = fstatfs(handle) else { return Ok(()) };
    let kind = stat.f_type as u64 & 0xffff_ffff;
    match MEMORY_FILESYSTEMS.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => {
            Err(StorageError::Memory { path: path.to_owned(), filesystem: (*name).to_owned() })
        }
        None => Ok(()),
    }
}

/// Walks data and holes; blocks that were allocated but never written count as holes on ext4.
fn hole_share(file: &OwnedFd, size_bytes: u64) -> Option<f64> {
    /// A file in more pieces is not walked to its end.
    const PIECES_MAX: u32 = 100_000;
    if size_bytes == 0 {
        return None;
    }
    let (mut position, mut data_bytes) = (0, 0);
    for _ in 0..PIECES_MAX {
        let start = match seek(file, SeekFrom::Data(position)) {
            Ok(start) => start,
            // No data from here to the end.
            Err(rustix::io::Errno::NXIO) => {
                return Some(1.0 - data_bytes as f64 / size_bytes as f64);
            }
            Err(_) => return None,
        };
        position = seek(file, SeekFrom::Hole(start)).ok()?;
        data_bytes += position.checked_sub(start)?;
        if position >= size_bytes {
            return Some((1.0 - data_bytes as f64 / size_bytes as f64).max(0.0));
        }
    }
    None
}

fn open_error(path: &str, cause: io::Error) -> StorageError {
    let way_out = match cause.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => "check the path on this node",
        Some(libc::EACCES | libc::EPERM) => {
            "let the agent's user read it (group membership), or log in as one who may"
        }
        Some(libc::ESTALE) => "mount its file system again",
        _ => "check that it can be read by `dd iflag=direct`",
    };
    StorageError::Open { path: path.to_owned(), way_out, cause }
}

fn io_error(operation: &'static str, path: &str, cause: io::Error) -> StorageError {
    StorageError::Io { operation, path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(logical_block_bytes: u32) -> Device {
        Device { logical_block_bytes: Some(logical_block_bytes), ..Device::default() }
    }

    #[test]
    fn a_file_that_is_told_to_have_no_direct_io_has_no_alignment() {
        assert_eq!(alignment(Some(0), Some(&device(512))), None);
        assert_eq!(alignment(Some(4096), Some(&device(512))), Some(4096));
        assert_eq!(alignment(None, Some(&device(4096))), Some(4096));
    }

    #[test]
    fn where_nobody_tells_a_trial_of_small_blocks_decides() {
        assert_eq!(alignment(None, None), Some(512));
    }

    #[test]
    fn a_file_in_memory_is_refused_by_its_file_system() {
        let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
        let path = file.path().display().to_string();
        let error = open_existing(&path, Expected::RegularFile).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{path}` lies on tmpfs, which keeps")), "{error}");
    }
}
