//! Which way reads are issued, and why.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

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

/// For one read through a ring, where one without has just ended.
const TRIAL_PATIENCE: Duration = Duration::from_secs(10);

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

/// Chooses for one point; io_uring is proved by a read before it is trusted. Waits for the disk.
pub fn choose(source: &Arc<Source>, point: &StoragePoint, paced: bool, allowed: Allowed) -> Choice {
    if point.pattern == StoragePattern::SingleBlock {
        let reason = "one pread per block in each session, as db file sequential read".to_owned();
        return Choice { engine: Engine::Pread, reason };
    }
    if allowed != Allowed::All {
        return Choice { engine: Engine::Threads, reason: "io_uring was not asked for".to_owned() };
    }
    let (source, point) = (Arc::clone(source), *point);
    // A ring waits for its reads before it goes: the thread that owns it may stay behind.
    let tried = within(TRIAL_PATIENCE, "storage-trial", move || try_ring(&source, &point));
    match tried.and_then(|tried| tried) {
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

/// One read through a ring; true when waits on it can be bounded. The ring has as many slots as the
/// point will need, but memory for one read only.
fn try_ring(source: &Source, point: &StoragePoint) -> io::Result<bool> {
    let request_bytes = point.request_bytes as usize;
    let file = Arc::clone(&source.file);
    let mut ring = ReadRing::with_buffers(file, point.outstanding, 1, request_bytes)?;
    ring.submit(0, 0)?;
    loop {
        if let Some(completion) = ring.wait(Duration::from_secs(1))?.pop() {
            let length = completion.outcome?;
            return match length as usize == request_bytes {
                true => Ok(ring.has_timeout()),
                false => Err(io::Error::other(format!("a trial read gave {length} bytes"))),
            };
        }
    }
}

/// What `work` gives if it ends in time; its thread goes on without us if it does not.
pub fn within<T: Send + 'static>(
    patience: Duration,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (report, reports) = mpsc::sync_channel(1);
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nobody listens any more when it took too long.
        let _ = report.send(work());
    })?;
    reports.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Timeout => io::ErrorKind::TimedOut.into(),
        RecvTimeoutError::Disconnected => io::Error::other("its thread ended without a report"),
    })
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
    fn work_that_hangs_is_left_behind() {
        let (_never, hung) = mpsc::channel::<()>();
        let error = within(Duration::from_millis(1), "hangs", move || hung.recv()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(within(Duration::from_secs(60), "ends", || 7).unwrap(), 7);
    }

    #[test]
    fn the_reason_names_the_setting_that_forbids() {
        assert!(forbidden(Some("2\n")).ends_with("kernel.io_uring_disabled = 2"));
        assert!(forbidden(Some("1\n")).contains("io_uring_group"));
        assert!(forbidden(Some("0\n")).contains("seccomp"));
        assert!(forbidden(None).contains("seccomp"));
        assert!(refusal(&io::Error::from_raw_os_error(libc::ENOSYS)).contains("has no io_uring"));
    }
}
