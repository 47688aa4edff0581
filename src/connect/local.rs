//! A program as a child process of the controller.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};

use super::error::Cause;
use super::process::{End, EndReporter, Exit, Farewell, Process, StderrTail, WakeUp};

/// For a child to end by itself after its stream was dropped.
const GRACE: Duration = Duration::from_secs(5);

/// The child's task waits on a channel that wakes it by itself.
#[derive(Debug)]
struct WokenByChannel;

impl WakeUp for WokenByChannel {
    fn wake_up(&self) {}
}

/// Starts `/bin/sh -c script` in its own process group, so that a Ctrl-C meant for the controller
/// does not end it.
pub(super) fn start(script: &str) -> Result<Process, Cause> {
    let (ours, theirs) = StdUnixStream::pair().map_err(Cause::Here)?;
    ours.set_nonblocking(true).map_err(Cause::Here)?;
    let stdout = theirs.try_clone().map_err(Cause::Here)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(stdout)))
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Cause::Start { what: "/bin/sh".to_owned(), reason: error.to_string() })?;
    let stream = UnixStream::from_std(ours).map_err(Cause::Here)?;
    let stderr = StderrTail::default();
    let pipe = child.stderr.take();
    let (end, reporter) = End::new(Arc::new(WokenByChannel));
    tokio::spawn(serve(child, pipe, stderr.clone(), reporter));
    Ok(Process { stream, stderr, end })
}

/// Reads stderr until the child has ended, reaps it and reports how it ended.
async fn serve(
    mut child: Child,
    pipe: Option<ChildStderr>,
    stderr: StderrTail,
    mut reporter: EndReporter,
) {
    let drained = tokio::spawn(drain(pipe, stderr));
    let by_itself = tokio::select! {
        ended = child.wait() => Some(ended),
        farewell = reporter.wait_for_farewell() => match farewell {
            Farewell::CutOff => None,
            Farewell::Abandoned => tokio::time::timeout(GRACE, child.wait()).await.ok(),
        }
    };
    let exit = match by_itself {
        Some(Ok(status)) => exit_of(status),
        Some(Err(error)) => Exit::Lost(error.to_string()),
        None => kill(&mut child).await,
    };
    // A grandchild may hold the pipe open; the child's own words are there by now.
    let _late = tokio::time::timeout(Duration::from_millis(200), drained).await;
    reporter.report(exit);
}

/// Kills the child with everything it started in its group, and reaps it.
async fn kill(child: &mut Child) -> Exit {
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // It may have ended in between; then there is nothing to kill.
        killpg(Pid::from_raw(group), Signal::SIGKILL).unwrap_or_default();
    }
    match child.wait().await {
        Ok(_) => Exit::CutOff,
        Err(error) => Exit::Lost(error.to_string()),
    }
}

async fn drain(pipe: Option<ChildStderr>, stderr: StderrTail) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        stderr.append(&buffer[..length]);
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, Some(number)) => Exit::Signal(signal_name(number)),
        (None, None) => Exit::Lost(status.to_string()),
    }
}

fn signal_name(number: i32) -> String {
    let signal = Signal::try_from(number).map(|signal| signal.as_str().trim_start_matches("SIG"));
    signal.map_or_else(|_| number.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::connect::{Connection, Deadlines, open};
    use crate::plan::access::Access;

    const LONG: Duration = Duration::from_secs(60);

    async fn here() -> Connection {
        open("here", &Access::Local, &Deadlines::default()).await.unwrap()
    }

    #[tokio::test]
    async fn a_child_is_fed_read_and_reaped() {
        let script = "wc -c; echo oops >&2; exit 7";
        let output = here().await.run(script, &[b'x'; 1_000_000], LONG).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1000000");
        assert_eq!((output.stderr.as_str(), output.exit), ("oops", Exit::Status(7)));
        let killed = here().await.run("kill -TERM $$", b"", LONG).await.unwrap();
        assert_eq!(killed.exit, Exit::Signal("TERM".to_owned()));
    }

    #[tokio::test]
    async fn a_child_that_does_not_read_its_input_is_no_error() {
        let output = here().await.run("exit 0", &[b'x'; 1_000_000], LONG).await.unwrap();
        assert_eq!(output.exit, Exit::Status(0));
    }

    #[tokio::test]
    async fn a_child_that_ignores_end_of_file_is_killed_with_its_own_children() {
        let mut process = here().await.start("sleep 600 & echo $!; wait").await.unwrap();
        let mut grandchild = String::new();
        while !grandchild.ends_with('\n') {
            grandchild.push(char::from(process.stream.read_u8().await.unwrap()));
        }
        assert_eq!(process.close(Duration::from_millis(50)).await, Exit::CutOff);
        let pid = Pid::from_raw(grandchild.trim().parse().unwrap());
        assert!(ends(pid).await, "{pid} goes on");
    }

    /// True once a process is gone, or is only waiting for its new parent to take note.
    async fn ends(pid: Pid) -> bool {
        let until = std::time::Instant::now() + LONG;
        while std::time::Instant::now() < until {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            if stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z")) {
                return true;
            }
            tokio::task::yield_now().await;
        }
        false
    }

    #[tokio::test]
    async fn end_of_file_ends_a_child_and_its_last_words_arrive() {
        let mut process = here().await.start("exec cat").await.unwrap();
        process.stream.write_all(b"last words").await.unwrap();
        process.stream.shutdown().await.unwrap();
        let mut words = String::new();
        process.stream.read_to_string(&mut words).await.unwrap();
        assert_eq!(words, "last words");
        assert_eq!(process.end.wait().await, Exit::Status(0));
    }
}
