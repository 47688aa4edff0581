//! A scratch file that is written as RFS writes a standby redo log: in order, round and round, each
//! write on the disk before it returns.
//!
//! One file for all streams of a test, and in it one region for each: streams neither share blocks
//! nor extend the file. It never takes more space than the test was given: where that is too little
//! for a message of each stream, there is no file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{Acknowledge, Guard, RedoWrite, Stopped};
use redoline_proto::units::Bytes;
use rustix::fs::{Mode, OFlags, open};

use super::error::StorageError;
use super::scratch::{CHUNK_BYTES, Scratch, create_in, fill, io_error};
use super::target::{ALIGNMENT_BYTES, LARGE_BLOCK_BYTES, told_alignment};
use super::watch::Watch;
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
    layout: Layout,
}

/// Where in the file what goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Layout {
    /// Of each stream.
    region_bytes: u64,
    /// A message in whole blocks, as it is written.
    write_bytes: u64,
}

impl RedoLog {
    /// Makes and fills the file, so that no write of the test extends it; `None` where the test
    /// writes nothing.
    ///
    /// In a thread of its own, since a dead file system holds whoever asks it; ends when cancelled,
    /// when the host is busier than the guard allows, and at the deadline that the controller knows
    /// of.
    pub fn prepare(
        acknowledge: &Acknowledge,
        streams: u32,
        guard: Guard,
        cancel: &CancelFlag,
    ) -> Result<Option<Arc<Self>>, StorageError> {
        let Some(write) = &acknowledge.write else { return Ok(None) };
        let stop = StopOnDrop(CancelFlag::new());
        let (report, reports) = mpsc::sync_channel(1);
        let (flag, asked, message_bytes) =
            (stop.0.clone(), write.clone(), acknowledge.message_bytes);
        let mut watch = Watch::new(guard, Instant::now());
        thread::Builder::new()
            .name("redo-log".to_owned())
            // Nobody listens any more when it took too long; the file goes with its descriptors.
            .spawn(move || drop(report.send(Self::make(&asked, message_bytes, streams, &flag))))
            .map_err(StorageError::Resources)?;
        let made = await_made(&reports, write.prepare_deadline(), cancel, |now| watch.check(now))?;
        Ok(Some(Arc::new(made)))
    }

    fn make(
        write: &RedoWrite,
        message_bytes: u64,
        streams: u32,
        stop: &CancelFlag,
    ) -> Result<Self, StorageError> {
        let dir = write.dir.clone();
        let size = Bytes(write.file_bytes / CHUNK_BYTES * CHUNK_BYTES);
        let mut unnamed = create_in(&dir, size)?;
        // Before the work of filling: what cannot be written so is of no use.
        let file = reopen(&unnamed.file, &dir)?;
        let alignment_bytes = alignment(&file, &dir)?;
        let layout = Layout::of(size, message_bytes, streams, alignment_bytes)?;
        let scratch = Scratch { dir: dir.clone(), size, seed: rand::random(), pace: None };
        fill(&mut unnamed, &scratch, stop, &mut |_| ())?;
        unnamed
            .file
            .sync_all()
            .map_err(|cause| io_error("write to disk the scratch file in", &dir, cause))?;
        Ok(Self { file, dir, message_bytes: message_bytes as usize, layout })
    }

    /// Where stream number `place` writes.
    pub fn region(self: &Arc<Self>, place: usize) -> io::Result<Region> {
        Ok(Region {
            log: Arc::clone(self),
            start: place as u64 * self.layout.region_bytes,
            next: 0,
            buffer: PageBuffer::new(self.layout.write_bytes as usize)?,
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
        if self.next + bytes > self.log.layout.region_bytes {
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

/// What the preparing thread reports, unless something ends it before; `look` says what.
fn await_made<T>(
    reports: &mpsc::Receiver<Result<T, StorageError>>,
    patience: Duration,
    cancel: &CancelFlag,
    mut look: impl FnMut(Instant) -> Option<Stopped>,
) -> Result<T, StorageError> {
    let deadline = Instant::now() + patience;
    loop {
        match reports.recv_timeout(TICK) {
            Ok(made) => return made,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let cause = io::Error::other("the preparing thread ended without a report");
                return Err(StorageError::Resources(cause));
            }
        }
        if cancel.is_set() {
            return Err(StorageError::Cancelled);
        }
        let now = Instant::now();
        if let Some(limit) = look(now) {
            return Err(StorageError::Limit(limit));
        }
        if now >= deadline {
            let seconds = patience.as_secs();
            return Err(StorageError::Deadline { what: "filling the scratch file", seconds });
        }
    }
}

impl Layout {
    /// Each stream's share of the file in whole blocks, of 4 KiB or what the file system asks for.
    fn of(
        file: Bytes,
        message_bytes: u64,
        streams: u32,
        alignment_bytes: u64,
    ) -> Result<Self, StorageError> {
        let block = alignment_bytes.max(LARGE_BLOCK_BYTES.into());
        let region_bytes = file.0 / u64::from(streams.max(1)) / block * block;
        let write_bytes = message_bytes.next_multiple_of(alignment_bytes);
        match write_bytes <= region_bytes {
            true => Ok(Self { region_bytes, write_bytes }),
            false => Err(StorageError::ScratchTooSmallForMessages {
                size: file,
                streams,
                message: Bytes(message_bytes),
                block: Bytes(block),
            }),
        }
    }
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

/// What the file system says, else the least that any device takes, if a trial in the file's first
/// blocks shows that it does.
fn alignment(file: &File, dir: &str) -> Result<u64, StorageError> {
    let told = told_alignment(file).filter(|told| told.is_power_of_two());
    let least = told.unwrap_or(ALIGNMENT_BYTES);
    for alignment in [least, LARGE_BLOCK_BYTES.max(least)] {
        let trial = PageBuffer::new(alignment as usize).map_err(StorageError::Resources)?;
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

    use redoline_proto::transfer::StopCause;

    use super::*;

    fn acknowledge(dir: &str, message_bytes: u64, file_bytes: u64) -> Acknowledge {
        let write = RedoWrite { dir: dir.to_owned(), file_bytes };
        Acknowledge { message_bytes, write: Some(write) }
    }

    fn prepared(message_bytes: u64, file_bytes: u64, streams: u32) -> Arc<RedoLog> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let asked = acknowledge(&path, message_bytes, file_bytes);
        let log = RedoLog::prepare(&asked, streams, Guard::default(), &CancelFlag::new());
        let log = log.unwrap().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the file has a name");
        log
    }

    #[test]
    fn writes_follow_each_other_within_their_region_and_never_extend_the_file() {
        let log = prepared(3000, 2 * Bytes::MIB, 2);
        let size = log.file.metadata().unwrap().len();
        assert_eq!((size, log.layout.region_bytes), (2 * Bytes::MIB, Bytes::MIB));
        let mut region = log.region(1).unwrap();
        assert_eq!(region.message().len(), 3000);
        let write_bytes = region.buffer.len() as u64;
        assert!((3000..=8192).contains(&write_bytes) && write_bytes.is_multiple_of(512));
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
    fn all_regions_together_are_never_more_than_the_file() {
        let layout = |file, message, streams, alignment| {
            Layout::of(Bytes(file), message, streams, alignment).map_err(|error| error.to_string())
        };
        let expected = |region_bytes, write_bytes| Ok(Layout { region_bytes, write_bytes });
        assert_eq!(layout(Bytes::GIB, 8192, 4, 512), expected(Bytes::GIB / 4, 8192));
        assert_eq!(layout(Bytes::GIB, 1, 3, 512), expected(Bytes::GIB / 3 / 4096 * 4096, 512));
        assert_eq!(layout(Bytes::MIB, 4096, 256, 512), expected(4096, 4096));
        assert_eq!(
            layout(Bytes::MIB, 4097, 256, 512).unwrap_err(),
            "a scratch file of 1 MiB has no place for messages of 4 KiB of 256 streams in blocks \
             of 4 KiB; give it more space, or take fewer connections or shorter messages"
        );
    }

    #[test]
    fn regions_begin_where_the_file_system_takes_writes() {
        // 64 KiB, as on a file system whose blocks are larger than pages.
        let layout = Layout::of(Bytes(Bytes::MIB), 3000, 3, 65_536).unwrap();
        assert_eq!(layout, Layout { region_bytes: 5 * 65_536, write_bytes: 65_536 });
        assert!(Layout::of(Bytes(Bytes::MIB), 3000, 17, 65_536).is_err(), "only 16 blocks");
    }

    #[test]
    fn a_test_takes_no_more_space_than_it_was_given() {
        let log = prepared(3000, 3 * Bytes::MIB / 2, 3);
        assert_eq!(log.file.metadata().unwrap().len(), Bytes::MIB);
    }

    #[test]
    fn a_busy_host_ends_the_filling() {
        let (_report, reports) = mpsc::channel::<Result<(), StorageError>>();
        let busy = || Stopped { cause: StopCause::Limit, text: "the host is busy".to_owned() };
        let limit = |_| Some(busy());
        let ended =
            await_made(&reports, Duration::from_secs(3600), &CancelFlag::new(), limit).unwrap_err();
        assert_eq!(Stopped::from(ended), busy());
    }

    #[test]
    fn a_place_in_memory_or_without_room_is_refused_with_the_way_out() {
        let refused = |dir: &str, file_bytes| {
            let asked = acknowledge(dir, 8192, file_bytes);
            RedoLog::prepare(&asked, 1, Guard::default(), &CancelFlag::new())
                .unwrap_err()
                .to_string()
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
