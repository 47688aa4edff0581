//! Asynchronous reads of one file over io_uring, with a fixed number of slots.
//!
//! The ring owns its buffers: they outlive every read, because dropping the ring waits for all of
//! them, and leaks the buffers when waiting fails.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};

use super::pages::PageBuffer;

/// Of one second each, in which nothing or at least one read ends.
const DRAIN_ROUNDS: u32 = 300;

/// For the kernel to get memory again: a second in all.
pub const AGAIN_MAX: u32 = 1000;
pub const AGAIN_PAUSE: Duration = Duration::from_millis(1);

/// A read that ended.
#[derive(Debug)]
pub struct Completion {
    pub slot: u32,
    /// Bytes read; 0 at the end of the file.
    pub outcome: io::Result<u32>,
}

pub struct ReadRing {
    ring: IoUring,
    file: Arc<File>,
    buffers: Vec<PageBuffer>,
    /// What READV reads into: one entry per slot, at a fixed address.
    vectors: Vec<libc::iovec>,
    busy: Vec<bool>,
    in_flight: u32,
    opcode: ReadOpcode,
}

// SAFETY: the pointers in `vectors` lead into `buffers`, which move with the ring.
unsafe impl Send for ReadRing {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ReadOpcode {
    /// Since Linux 5.6.
    Read,
    /// Since Linux 5.1; 5.4 (UEK R6) knows only this one.
    Readv,
}

impl std::fmt::Debug for ReadRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReadRing")
            .field("slots", &self.buffers.len())
            .field("in_flight", &self.in_flight)
            .field("opcode", &self.opcode)
            .finish_non_exhaustive()
    }
}

impl ReadRing {
    /// A ring with `slots` buffers of `request_bytes`; to be used by the calling thread.
    pub fn new(file: Arc<File>, slots: u32, request_bytes: usize) -> io::Result<Self> {
        Self::with_buffers(file, slots, slots, request_bytes)
    }

    /// A ring with room for `slots` reads, of which only the first `buffers` have memory.
    pub fn with_buffers(
        file: Arc<File>,
        slots: u32,
        buffers: u32,
        request_bytes: usize,
    ) -> io::Result<Self> {
        let count = buffers;
        let mut ring = build(slots)?;
        let mut buffers = Vec::new();
        for _ in 0..count {
            buffers.push(PageBuffer::new(request_bytes)?);
        }
        let vectors = buffers
            .iter_mut()
            .map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            })
            .collect();
        let opcode = read_opcode(&mut ring);
        let busy = vec![false; buffers.len()];
        Ok(Self { ring, file, buffers, vectors, busy, in_flight: 0, opcode })
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether `wait` can end before a read does (Linux 5.11).
    pub fn has_timeout(&self) -> bool {
        self.ring.params().is_feature_ext_arg()
    }

    /// Submits a read into an idle slot at once, as `io_submit` of one request does.
    pub fn submit(&mut self, slot: u32, offset: u64) -> io::Result<()> {
        let index = slot as usize;
        if self.busy.get(index) != Some(&false) {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        let vector = &self.vectors[index];
        let fd = Fd(self.file.as_raw_fd());
        let entry = match self.opcode {
            ReadOpcode::Read => {
                opcode::Read::new(fd, vector.iov_base.cast(), vector.iov_len as u32)
                    .offset(offset)
                    .build()
            }
            ReadOpcode::Readv => opcode::Readv::new(fd, vector, 1).offset(offset).build(),
        };
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: buffer, vector and file are owned by self and outlive the read (see `drop`); the
        // slot is idle, so nobody else uses its buffer.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        self.busy[index] = true;
        self.in_flight += 1;
        self.enter(IoUring::submit)
    }

    /// Waits for at least one read, or for `timeout` where the kernel can, and takes all that ended.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Vec<Completion>> {
        if self.in_flight > 0 {
            self.wait_for_one(timeout)?;
        }
        let mut ended = Vec::new();
        for entry in self.ring.completion() {
            ended.push(Completion {
                slot: entry.user_data() as u32,
                outcome: outcome(entry.result()),
            });
        }
        for completion in &ended {
            if let Some(busy) = self.busy.get_mut(completion.slot as usize) {
                *busy = false;
            }
        }
        self.in_flight = self.in_flight.saturating_sub(ended.len() as u32);
        Ok(ended)
    }

    fn wait_for_one(&mut self, timeout: Duration) -> io::Result<()> {
        if !self.has_timeout() {
            return self.enter(|ring| ring.submit_and_wait(1));
        }
        let timeout = Timespec::from(timeout);
        self.enter(|ring| {
            let arguments = SubmitArgs::new().timespec(&timeout);
            ring.submitter().submit_with_args(1, &arguments)
        })
    }

    fn enter(&mut self, call: impl Fn(&IoUring) -> io::Result<usize>) -> io::Result<()> {
        let mut attempts = AGAIN_MAX;
        loop {
            match call(&self.ring) {
                Ok(_) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => (),
                    // The kernel is short of memory for requests (io_uring_enter(2)).
                    Some(libc::EAGAIN) if attempts > 0 => {
                        attempts -= 1;
                        thread::sleep(AGAIN_PAUSE);
                    }
                    // The time is over, or completions must be taken first.
                    Some(libc::ETIME | libc::EBUSY) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }
}

impl Drop for ReadRing {
    fn drop(&mut self) {
        let mut patience = DRAIN_ROUNDS;
        while self.in_flight > 0 {
            patience -= 1;
            if patience == 0 || self.wait(Duration::from_secs(1)).is_err() {
                // The kernel may still write into them.
                mem::forget(mem::take(&mut self.buffers));
                mem::forget(mem::take(&mut self.vectors));
                return;
            }
        }
    }
}

fn outcome(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// From the newest flags to none: a kernel that does not know a flag answers EINVAL.
fn build(slots: u32) -> io::Result<IoUring> {
    let mut last = io::Error::from_raw_os_error(libc::EINVAL);
    for step in 0..4 {
        let mut builder = IoUring::builder();
        builder.setup_clamp();
        match step {
            0 => _ = builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun(),
            1 => _ = builder.setup_coop_taskrun(),
            2 => (),
            _ => builder = IoUring::builder(),
        }
        match builder.build(slots) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn read_opcode(ring: &mut IoUring) -> ReadOpcode {
    let mut probe = Probe::new();
    match ring.submitter().register_probe(&mut probe) {
        Ok(()) if probe.is_supported(opcode::Read::CODE) => ReadOpcode::Read,
        _ => ReadOpcode::Readv,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn dropping_a_ring_waits_for_its_reads() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 65_536]).unwrap();
        let Ok(mut ring) = ReadRing::new(Arc::new(file), 4, 8192) else {
            return;
        };
        for slot in 0..4 {
            ring.submit(slot, u64::from(slot) * 8192).unwrap();
        }
        assert_eq!(ring.in_flight(), 4);
        assert!(ring.submit(0, 0).is_err());
        drop(ring);
    }

    #[test]
    fn both_opcodes_read_the_same() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[9; 12_288]).unwrap();
        let file = Arc::new(file);
        for opcode in [ReadOpcode::Read, ReadOpcode::Readv] {
            let Ok(mut ring) = ReadRing::new(file.clone(), 1, 8192) else {
                return;
            };
            ring.opcode = opcode;
            ring.submit(0, 8192).unwrap();
            let mut ended = Vec::new();
            while ended.is_empty() {
                ended = ring.wait(Duration::from_secs(1)).unwrap();
            }
            // Only 4096 bytes are left there: a short read.
            assert_eq!(ended[0].outcome.as_ref().unwrap(), &4096);
            assert_eq!(ring.buffers[0][0], 9);
        }
    }
}
