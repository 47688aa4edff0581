//! A scratch file that is written as RFS writes a standby redo log: in order, round and round, each
//! write on the disk before it returns.
//!
//! One file for all streams of a test, and in it one region for each: streams neither share blocks
//! nor extend the file, and a test never needs more space than it was given.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{Acknowledge, RedoWrite};
use redoline_proto::units::Bytes;
use rustix::fs::{Mode, OFlags, open};

use super::error::StorageError;
use super::scratch::{CHUNK_BYTES, Scratch, create_in, fill, io_error};
use super::target::{ALIGNMENT_BYTES, LARGE_BLOCK_BYTES, told_alignment};
use crate::jobs::cancel::CancelFlag;
use crate::sys::clock::monotonic_ns;
use crate::sys::pages::PageBuffer;

/// How soon a cancelled preparation notices.
const TICK: Duration = Duration::from_millis(50);

/// The open file; every write to it goes past the page cache and waits for the disk.
#[derive(Debug)]
pub struct RedoLog {
    file: File,
    dir: String,
    message_bytes: usize,
    alignment_bytes: u64,
    region_bytes: u64,
}

impl RedoLog {
    /// Makes and fills the file, so that no write of the test extends it; `None` where the test
    /// writes nothing.
    ///
    /// In a thread of its own, since a dead file system holds whoever asks it; ends when cancelled,
    /// and at the deadline that the controller knows of.
    pub fn prepare(
        acknowledge: &Acknowledge,
        streams: u32,
        cancel: &CancelFlag,
    ) -> Result<Option<Arc<Self>>, StorageError> {
        let Some(write) = &acknowledge.write else { return Ok(None) };
        let stop = StopOnDrop(CancelFlag::new());
        let (report, reports) = mpsc::sync_channel(1);
        let (flag, asked, message_bytes) =
            (stop.0.clone(), write.clone(), acknowledge.message_bytes);
        thread::Builder::new()
            .name("redo-log".to_owned())
            // Nobody listens any more when it took too long; the file goes with its descriptors.
            .spawn(move || drop(report.send(Self::make(&asked, message_bytes, streams, &flag))))
            .map_err(StorageError::Resources)?;
        let patience = write.prepare_deadline();
        let deadline = Instant::now() + patience;
        loop {
            match reports.recv_timeout(TICK) {
                Ok(made) => return made.map(Arc::new).map(Some),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let cause = io::Error::other("the preparing thread ended without a report");
                    return Err(StorageError::Resources(cause));
                }
            }
            if cancel.is_set() {
                return Err(StorageError::Cancelled);
            }
            if Instant::now() >= deadline {
                let seconds = patience.as_secs();
                return Err(StorageError::Deadline { what: "filling the scratch file", seconds });
            }
        }
    }

    fn make(
        write: &RedoWrite,
        message_bytes: u64,
        streams: u32,
        stop: &CancelFlag,
    ) -> Result<Self, StorageError> {
        let dir = write.dir.clone();
        let region_bytes = region_bytes(write.file_bytes, message_bytes, streams);
        let all = region_bytes.saturating_mul(streams.into());
        let size = Bytes(all.checked_next_multiple_of(CHUNK_BYTES).unwrap_or(all));
        let mut unnamed = create_in(&dir, size)?;
        // Before the work of filling: what cannot be written so is of no use.
        let file = reopen(&unnamed.file, &dir)?;
        let scratch = Scratch { dir: dir.clone(), size, seed: rand::random(), pace: None };
        fill(&mut unnamed, &scratch, stop, &mut |_| ())?;
        unnamed
            .file
            .sync_all()
            .map_err(|cause| io_error("write to disk the scratch file in", &dir, cause))?;
        let message_bytes = message_bytes as usize;
        let alignment_bytes = alignment(&file, &dir, message_bytes)?;
        Ok(Self { file, dir, message_bytes, alignment_bytes, region_bytes })
    }

    /// Where stream number `place` writes.
    pub fn region(self: &Arc<Self>, place: usize) -> io::Result<Region> {
        let write_bytes = self.message_bytes.next_multiple_of(self.alignment_bytes as usize);
        Ok(Region {
            log: Arc::clone(self),
            start: place as u64 * self.region_bytes,
            next: 0,
            buffer: PageBuffer::new(write_bytes)?,
        })
    }

    /// Closing frees the file's blocks, which may hang as a write may: it is not waited for.
    pub fn close(self: Arc<Self>) {
        super::close(self);
    }
}

/// One stream's part of the file, and the message that is to go there.
#[derive(Debug)]
pub struct Region {
    log: Arc<RedoLog>,
    start: u64,
    next: u64,
    /// A message, and what fills its last block.
    buffer: PageBuffer,
}

impl Region {
    pub fn message(&mut self) -> &mut [u8] {
        let bytes = self.log.message_bytes;
        &mut self.buffer[..bytes]
    }

    /// Writes the message behind the one before; how long that took.
    pub fn write(&mut self) -> Result<Duration, StorageError> {
        let bytes = self.buffer.len() as u64;
        if self.next + bytes > self.log.region_bytes {
            self.next = 0;
        }
        let offset = self.start + self.next;
        let began_ns = monotonic_ns();
        self.log
            .file
            .write_all_at(&self.buffer, offset)
            .map_err(|cause| io_error("write to the scratch file in", &self.log.dir, cause))?;
        let took = Duration::from_nanos((monotonic_ns() - began_ns).unsigned_abs());
        self.next += bytes;
        Ok(took)
    }
}

/// Each stream's share of the file in whole blocks, but a message at least.
fn region_bytes(file_bytes: u64, message_bytes: u64, streams: u32) -> u64 {
    let block = u64::from(LARGE_BLOCK_BYTES);
    let share = file_bytes / u64::from(streams.max(1)) / block * block;
    share.max(message_bytes.next_multiple_of(block))
}

/// The same file through a descriptor that waits for the disk, as a redo log is opened.
fn reopen(file: &File, dir: &str) -> Result<File, StorageError> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
    match open(&again, flags, Mode::empty()) {
        Ok(file) if told_alignment(&file) == Some(0) => Err(no_direct_io(dir)),
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::INVAL) => Err(no_direct_io(dir)),
        Err(cause) => {
            Err(io_error("open for direct writes the scratch file in", dir, cause.into()))
        }
    }
}

/// What the file system says, else the least that any device takes, if a trial shows that it does.
fn alignment(file: &File, dir: &str, message_bytes: usize) -> Result<u64, StorageError> {
    let told = told_alignment(file).filter(|told| told.is_power_of_two());
    let least = told.unwrap_or(ALIGNMENT_BYTES);
    for alignment in [least, LARGE_BLOCK_BYTES.max(least)] {
        let trial = PageBuffer::new(message_bytes.next_multiple_of(alignment as usize))
            .map_err(StorageError::Resources)?;
        match file.write_all_at(&trial, 0) {
            Ok(()) => return Ok(alignment.into()),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(cause) => return Err(io_error("write to the scratch file in", dir, cause)),
        }
    }
    Err(no_direct_io(dir))
}

fn no_direct_io(dir: &str) -> StorageError {
    StorageError::NoDirectWrites { dir: dir.to_owned() }
}

struct StopOnDrop(CancelFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn acknowledge(dir: &str, message_bytes: u64, file_bytes: u64) -> Acknowledge {
        let write = RedoWrite { dir: dir.to_owned(), file_bytes };
        Acknowledge { message_bytes, write: Some(write) }
    }

    fn prepared(message_bytes: u64, file_bytes: u64, streams: u32) -> Arc<RedoLog> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let asked = acknowledge(&path, message_bytes, file_bytes);
        let log = RedoLog::prepare(&asked, streams, &CancelFlag::new()).unwrap().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the file has a name");
        log
    }

    #[test]
    fn writes_follow_each_other_within_their_region_and_never_extend_the_file() {
        let log = prepared(3000, 2 * Bytes::MIB, 2);
        let size = log.file.metadata().unwrap().len();
        assert_eq!((size, log.region_bytes), (2 * Bytes::MIB, Bytes::MIB));
        let mut region = log.region(1).unwrap();
        assert_eq!(region.message().len(), 3000);
        let write_bytes = region.buffer.len() as u64;
        assert!(write_bytes.is_multiple_of(log.alignment_bytes) && write_bytes >= 3000);
        let mut offsets = Vec::new();
        for _ in 0..=(Bytes::MIB / write_bytes) {
            region.write().unwrap();
            offsets.push(region.start + region.next - write_bytes);
        }
        assert_eq!(offsets[..2], [Bytes::MIB, Bytes::MIB + write_bytes]);
        assert_eq!(offsets.last(), Some(&Bytes::MIB), "round again");
        assert!(offsets.iter().all(|offset| offset + write_bytes <= 2 * Bytes::MIB));
        assert_eq!(log.file.metadata().unwrap().len(), size);
    }

    #[test]
    fn what_was_received_is_what_is_written() {
        let log = prepared(700, Bytes::MIB, 1);
        let mut region = log.region(0).unwrap();
        region.message().fill(0x5a);
        region.write().unwrap();
        let path = format!("/proc/self/fd/{}", log.file.as_raw_fd());
        assert_eq!(fs::read(path).unwrap()[..700], [0x5a; 700]);
    }

    #[test]
    fn a_file_too_small_for_all_streams_gets_a_message_for_each() {
        assert_eq!(region_bytes(Bytes::GIB, 8192, 4), Bytes::GIB / 4);
        assert_eq!(region_bytes(10_000, 8192, 4), 8192);
        assert_eq!(region_bytes(Bytes::GIB, 1, 3), Bytes::GIB / 3 / 4096 * 4096);
    }

    #[test]
    fn a_place_in_memory_or_without_room_is_refused_with_the_way_out() {
        let refused = |dir: &str, file_bytes| {
            let asked = acknowledge(dir, 8192, file_bytes);
            RedoLog::prepare(&asked, 1, &CancelFlag::new()).unwrap_err().to_string()
        };
        let dir = tempfile::tempdir().unwrap();
        let text = refused(&dir.path().display().to_string(), 1 << 50);
        assert!(text.starts_with("a scratch file of 1 PiB does not fit in `"), "{text}");
        assert!(text.ends_with("ask for a smaller one, or name another directory"), "{text}");
        assert_eq!(
            refused("/nowhere/at/all", Bytes::MIB),
            "failed to open the scratch directory `/nowhere/at/all`"
        );
        if std::path::Path::new("/dev/shm").exists() {
            let text = refused("/dev/shm", Bytes::MIB);
            assert!(text.starts_with("`/dev/shm` lies on tmpfs, which keeps"), "{text}");
        }
    }
}
