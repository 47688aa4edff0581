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
const MEMORY_FILESYSTEMS: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// A file system that does not say otherwise takes multiples of this.
const ALIGNMENT_BYTES: u32 = 4096;

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
    let file = open_direct(handle, path, &filesystem)?;
    let size_bytes = seek(&file, SeekFrom::End(0))
        .map_err(|cause| io_error("find the size of", path, cause.into()))?;
    let device = Device::below(Path::new("/sys"), number, mount.as_ref());
    let alignment_bytes = alignment(&file, device.as_ref());
    let hole_share = (!is_device).then(|| hole_share(&file, size_bytes)).flatten();
    let file = Arc::new(File::from(file));
    let path = path.to_owned();
    Ok(Source { file, path, size_bytes, filesystem, device, alignment_bytes, hole_share, scratch })
}

impl Source {
    /// Whether the file system keeps its files in memory: direct I/O is a copy there.
    pub fn is_memory(&self) -> bool {
        fstatfs(&*self.file)
            .is_ok_and(|stat| MEMORY_FILESYSTEMS.contains(&(stat.f_type as u64 & 0xffff_ffff)))
    }

    /// Proves that reads of this size work here at all.
    pub fn trial_read(&self, request_bytes: u64) -> Result<(), StorageError> {
        let mut buffer =
            PageBuffer::new(request_bytes as usize).map_err(StorageError::Resources)?;
        match self.file.read_at(&mut buffer, 0) {
            Ok(_) => Ok(()),
            Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => Err(self.no_direct_io()),
            Err(cause) => Err(self.read_error(0, request_bytes, cause)),
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

/// Of offset and length: what the kernel says (Linux 6.1), else the device's logical block, else
/// 4096.
fn alignment(file: &OwnedFd, device: Option<&Device>) -> u32 {
    let told = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
        .map(|told| told.stx_dio_offset_align);
    told.or(device.and_then(|device| device.logical_block_bytes))
        .filter(|alignment| alignment.is_power_of_two())
        .unwrap_or(ALIGNMENT_BYTES)
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
            "let the agent's user read it (group membership or `become`)"
        }
        Some(libc::ESTALE) => "mount its file system again",
        _ => "check that it can be read by `dd iflag=direct`",
    };
    StorageError::Open { path: path.to_owned(), way_out, cause }
}

fn io_error(operation: &'static str, path: &str, cause: io::Error) -> StorageError {
    StorageError::Io { operation, path: path.to_owned(), cause }
}
