//! Makes a process deaf to what ends a session.

use std::io;

/// A closed terminal, a key, a polite request to end, a reader that is gone: none of them ends this
/// process any more. Only SIGKILL does.
pub fn ignore_requests_to_end() -> io::Result<()> {
    let signals = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGPIPE];
    for signal in signals {
        // SAFETY: ignoring a signal runs no code of ours.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
