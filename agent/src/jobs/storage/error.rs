//! Why storage could not be read, with the way out.

use std::io;

use redoline_proto::storage::InvalidPoint;
use redoline_proto::transfer::{StopCause, Stopped};
use redoline_proto::units::Bytes;

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("failed to open `{path}` for reading; {way_out}")]
    Open {
        path: String,
        way_out: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error(
        "`{path}` is {found}; give a regular file under `file:` or a block device under `device:`"
    )]
    WrongKind { path: String, found: &'static str },
    #[error(
        "the file system of `{path}` ({filesystem}) refuses direct I/O, which Oracle Database uses \
         and which alone reaches the disk; choose a file on ext4, XFS, NFS or a block device"
    )]
    NoDirectIo { path: String, filesystem: String },
    #[error("failed to {operation} `{path}`")]
    Io {
        operation: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("failed to read {} at byte {offset} of `{path}`", Bytes(*.request_bytes))]
    Read {
        path: String,
        offset: u64,
        request_bytes: u64,
        #[source]
        cause: io::Error,
    },
    #[error("`{path}` became shorter while it was read: nothing at byte {offset}")]
    Shrunk { path: String, offset: u64 },
    #[error(
        "`{path}` holds {size_bytes} bytes, less than one read of {request_bytes}; choose a larger \
         file or smaller reads"
    )]
    TooSmall { path: String, size_bytes: u64, request_bytes: u64 },
    #[error(
        "reads of {request_bytes} bytes are not possible on `{path}`: direct I/O needs a multiple \
         of {alignment_bytes} bytes"
    )]
    Unaligned { path: String, request_bytes: u64, alignment_bytes: u32 },
    #[error(
        "`{path}` has no direct I/O, which Oracle Database uses and which alone reaches the disk, \
         though its file system ({filesystem}) may have; choose a file that is not encrypted, not \
         compressed and not journalled with its data"
    )]
    FileWithoutDirectIo { path: String, filesystem: String },
    #[error(
        "`{path}` lies on {filesystem}, which keeps its files in memory: I/O there would \
         measure memory, not a disk; choose a place on ext4, XFS, NFS or a block device"
    )]
    Memory { path: String, filesystem: String },
    #[error(transparent)]
    InvalidPoint(#[from] InvalidPoint),
    #[error("a scratch file of {size} is too small; ask for at least 1 MiB")]
    ScratchTooSmall { size: Bytes },
    #[error(
        "a scratch file of {size} has no place for messages of {message} of {streams} streams in \
         blocks of {block}; give it more space, or take fewer connections or shorter messages"
    )]
    ScratchTooSmallForMessages { size: Bytes, streams: u32, message: Bytes, block: Bytes },
    #[error(
        "a scratch file of {size} does not fit in `{dir}`: {free} are free, and {reserve} of them \
         must stay free; ask for a smaller one, or name another directory"
    )]
    NoSpace { dir: String, size: Bytes, free: Bytes, reserve: Bytes },
    #[error(
        "the file system of `{dir}` takes no direct writes, by which Oracle Database writes redo; \
         name a directory on ext4, XFS or NFS"
    )]
    NoDirectWrites { dir: String },
    #[error("failed to start a reading thread or to get memory for it")]
    Resources(#[source] io::Error),
    #[error("{what} did not end within {seconds} s")]
    Deadline { what: &'static str, seconds: u64 },
    #[error("cancelled")]
    Cancelled,
    #[error("{}", .0.text)]
    Limit(Stopped),
}

impl From<StorageError> for Stopped {
    fn from(error: StorageError) -> Self {
        let cause = match &error {
            StorageError::Deadline { .. } => StopCause::Deadline,
            StorageError::Cancelled => StopCause::Cancelled,
            StorageError::Limit(stopped) => stopped.cause,
            _ => StopCause::System,
        };
        // The chain ends here: what goes over the wire is one text.
        Self { cause, text: crate::chain(&error) }
    }
}
