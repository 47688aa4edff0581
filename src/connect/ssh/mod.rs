//! A program over SSH: one session, owned by one thread, with one exec channel at a time.
//!
//! libssh2 has one lock for a whole session and frees channels without it, so nothing but that
//! thread touches the session; the rest of the controller sends requests and holds one end of a
//! socket pair.

mod authenticate;
mod host_key;
mod key_file;
pub mod known_hosts;
mod link;
mod offer;
mod pump;
mod session;
mod small_file;
mod tcp;

use std::fmt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::link::Bell;
use self::session::{Request, Setup};
use super::process::{End, Process, StderrTail};
use super::{Cause, Deadlines, Phase};
use crate::plan::access::SshAccess;

/// sshd drops connections at random while many logins are under way (`MaxStartups`).
const ATTEMPTS_MAX: u32 = 3;
/// On top of a thread's own deadlines, for what it does between them.
const SLACK: Duration = Duration::from_secs(10);

/// The session's thread, seen from the rest of the controller; dropping it ends the session.
pub(super) struct SshConnection {
    requests: mpsc::Sender<Request>,
    bell: Arc<Bell>,
    finished: oneshot::Receiver<()>,
    accepted_host_key: Option<String>,
}

impl SshConnection {
    /// Connects, checks the host key and logs in.
    pub(super) async fn open(access: &SshAccess, deadlines: &Deadlines) -> Result<Self, Cause> {
        let agent_socket = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
        let mut attempt = 1;
        loop {
            match Self::open_with_agent(access, agent_socket.clone(), deadlines).await {
                Err(Cause::HungUp { .. }) if attempt < ATTEMPTS_MAX => {
                    // Others were throttled at the same moment and must not come back at the same.
                    let pause_ms = rand::random_range(100..500) * u64::from(attempt);
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                    attempt += 1;
                }
                Err(Cause::HungUp { peer, reason, .. }) => {
                    return Err(Cause::HungUp { peer, reason, attempts: attempt });
                }
                outcome => return outcome,
            }
        }
    }

    async fn open_with_agent(
        access: &SshAccess,
        agent_socket: Option<PathBuf>,
        deadlines: &Deadlines,
    ) -> Result<Self, Cause> {
        let (tcp, peer) = tcp::connect(&access.host, access.port, deadlines).await?;
        let bell = Arc::new(Bell::new().map_err(|errno| Cause::Here(errno.into()))?);
        let (requests, inbox) = mpsc::channel();
        let (finish, finished) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let setup = Setup {
            access: access.clone(),
            agent_socket,
            deadlines: *deadlines,
            tcp,
            peer,
            bell: Arc::clone(&bell),
        };
        let mut connection = Self { requests, bell, finished, accepted_host_key: None };
        thread::Builder::new()
            .name(format!("ssh {}", access.host))
            .spawn(move || {
                session::own(setup, &inbox, ready);
                finish.send(()).unwrap_or_default();
            })
            .map_err(Cause::Here)?;
        // Dropping `connection`, here or when this future is dropped, stops the thread.
        let deadline = deadlines.key_exchange * 2 + deadlines.authentication + SLACK;
        let ready = timeout(deadline, is_ready).await.map_err(|_| Cause::TimedOut {
            phase: Phase::Authentication,
            what: "answer to the login",
            deadline,
        })?;
        connection.accepted_host_key = ready.unwrap_or_else(|_| Err(stopped()))?;
        Ok(connection)
    }

    pub(super) fn accepted_host_key(&self) -> Option<&str> {
        self.accepted_host_key.as_deref()
    }

    pub(super) async fn start(
        &mut self,
        script: &str,
        deadlines: &Deadlines,
    ) -> Result<Process, Cause> {
        let command = command_line(script)?;
        let (ours, theirs) = StdUnixStream::pair().map_err(Cause::Here)?;
        ours.set_nonblocking(true).map_err(Cause::Here)?;
        theirs.set_nonblocking(true).map_err(Cause::Here)?;
        let stream = UnixStream::from_std(ours).map_err(Cause::Here)?;
        let stderr = StderrTail::default();
        let (end, reporter) = End::new(self.bell.clone());
        let (started, is_started) = oneshot::channel();
        let request = Request {
            command,
            local: theirs,
            stderr: stderr.clone(),
            reporter,
            started,
            start_deadline: deadlines.start,
            close_deadline: deadlines.close,
        };
        self.requests.send(request).map_err(|_| stopped())?;
        // A program before this one, given up by its owner, is still being ended.
        let deadline = deadlines.start + deadlines.close * 2 + SLACK;
        let started = timeout(deadline, is_started).await.map_err(|_| Cause::TimedOut {
            phase: Phase::Start,
            what: "start of a program",
            deadline,
        })?;
        started.unwrap_or_else(|_| Err(stopped()))?;
        Ok(Process { stream, stderr, end })
    }

    /// Ends the session and waits for its thread, but no longer than `deadline`.
    pub(super) async fn close(mut self, deadline: Duration) {
        let (nobody, _) = mpsc::channel();
        self.requests = nobody;
        // The thread says goodbye by itself; if it is late, dropping `self` stops it.
        let _late = timeout(deadline, &mut self.finished).await;
    }
}

impl Drop for SshConnection {
    fn drop(&mut self) {
        self.bell.stop();
    }
}

impl fmt::Debug for SshConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SshConnection").finish_non_exhaustive()
    }
}

fn stopped() -> Cause {
    Cause::Lost { reason: "the SSH session has ended".to_owned() }
}

/// The command line for whatever login shell the user has: csh, tcsh and fish among them.
fn command_line(script: &str) -> Result<String, Cause> {
    // A newline or `!` upsets csh even between single quotes, and fish unescapes `\\` there.
    let breaks_quotes = script.contains(['\'', '!', '\n', '\0']) || script.contains(r"\\");
    if breaks_quotes {
        let reason = "it would not survive every login shell's quotes".to_owned();
        return Err(Cause::Start { what: script.to_owned(), reason });
    }
    Ok(format!("/bin/sh -c '{script}'"))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod throwaway;
