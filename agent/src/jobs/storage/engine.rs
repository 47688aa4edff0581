//! Which way reads are issued, and why.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redoline_proto::storage::{StoragePattern, StoragePoint};

use super::target::Source;
use crate::sys::read_ring::ReadRing;

/// How reads reach the kernel. Kernel AIO, which Oracle uses on udev disks, would stand here too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Engine {
    /// One `pread` at a time in each reader.
    Pread,
    /// One thread keeps all requests outstanding.
    IoUring,
    /// One thread per outstanding request.
    Threads,
}

#[derive(Clone, Debug)]
pub struct Choice {
    pub engine: Engine,
    pub reason: String,
}

/// What may be chosen; tests compare the engines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Allowed {
    All,
    #[cfg(test)]
    ThreadsOnly,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pread => "pread",
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        }
    }
}

/// Chooses for one point; io_uring is proved by a read before it is trusted.
pub fn choose(source: &Source, point: &StoragePoint, paced: bool, allowed: Allowed) -> Choice {
    if point.pattern == StoragePattern::SingleBlock {
        let reason = "one pread per block in each session, as db file sequential read".to_owned();
        return Choice { engine: Engine::Pread, reason };
    }
    if allowed != Allowed::All {
        return Choice { engine: Engine::Threads, reason: "io_uring was not asked for".to_owned() };
    }
    match try_ring(source, point) {
        Ok(true) => Choice {
            engine: Engine::IoUring,
            reason: "io_uring is available: one thread keeps all requests outstanding".to_owned(),
        },
        Ok(false) if !paced => Choice {
            engine: Engine::IoUring,
            reason: "io_uring is available (before Linux 5.11)".to_owned(),
        },
        Ok(false) => Choice {
            engine: Engine::Threads,
            reason: "before Linux 5.11, io_uring cannot keep a rate".to_owned(),
        },
        Err(error) => Choice { engine: Engine::Threads, reason: refusal(&error) },
    }
}

/// One read through a ring; true when waits on it can be bounded.
fn try_ring(source: &Source, point: &StoragePoint) -> io::Result<bool> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let request_bytes = point.request_bytes as usize;
    let mut ring = ReadRing::new(Arc::clone(&source.file), point.outstanding, request_bytes)?;
    ring.submit(0, 0)?;
    let started = Instant::now();
    loop {
        if let Some(completion) = ring.wait(Duration::from_secs(1))?.pop() {
            let length = completion.outcome?;
            return match length as usize == request_bytes {
                true => Ok(ring.has_timeout()),
                false => Err(io::Error::other(format!("a trial read gave {length} bytes"))),
            };
        }
        if started.elapsed() > PATIENCE {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
    }
}

fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            format!("the kernel ({}) has no io_uring", kernel.trim())
        }
        Some(libc::EPERM) => {
            let setting = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
            forbidden(setting.as_deref())
        }
        Some(libc::ENOMEM) => "io_uring got no memory (see ulimit -l)".to_owned(),
        _ => format!("io_uring failed: {error}"),
    }
}

/// What `kernel.io_uring_disabled` (kernel documentation, sysctl/kernel.rst) says of an EPERM.
fn forbidden(io_uring_disabled: Option<&str>) -> String {
    match io_uring_disabled.map(str::trim) {
        Some("1") => "io_uring is forbidden: kernel.io_uring_disabled = 1 and the user is not in \
                      kernel.io_uring_group"
            .to_owned(),
        Some("2") => "io_uring is forbidden: kernel.io_uring_disabled = 2".to_owned(),
        Some(other) => format!(
            "io_uring is forbidden though kernel.io_uring_disabled = {other}: by seccomp or a \
             security module"
        ),
        None => "io_uring is forbidden: by seccomp or a security module".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_setting_that_forbids() {
        assert!(forbidden(Some("2\n")).ends_with("kernel.io_uring_disabled = 2"));
        assert!(forbidden(Some("1\n")).contains("io_uring_group"));
        assert!(forbidden(Some("0\n")).contains("seccomp"));
        assert!(forbidden(None).contains("seccomp"));
        assert!(refusal(&io::Error::from_raw_os_error(libc::ENOSYS)).contains("has no io_uring"));
    }
}
