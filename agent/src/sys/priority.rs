//! The priority of this process.

use std::io;

/// Lowers the priority of this process and of the threads that it makes; 19 is the lowest.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes three integers and touches no memory of ours.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
