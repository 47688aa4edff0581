//! Lets the runtime wait for any descriptor that can be waited for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Needs a tokio runtime. Fails for files, which are always ready; `descriptor` must not block.
pub fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as it lives, and `AsyncFd` takes
    // it back out of the runtime before it closes.
    let registered = unsafe { AsyncFd::register(descriptor) };
    Ok(registered?)
}
