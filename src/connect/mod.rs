//! A duplex byte stream to a program started on a node.
//!
//! Two ways, one result: a child process of the controller, or an SSH session that one thread owns.

mod error;
mod process;
mod local;
mod ssh;

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::plan::access::Access;

pub use error::{Cause, ConnectError, Kind, Phase, TcpFailure};
pub use process::{End, Exit, Output, Process, StderrTail};
#[cfg(test)]
pub(crate) use ssh::throwaway;

/// How long each part of the way to a node may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deadlines {
    pub resolve: Duration,
    /// For each address of the host.
    pub tcp_connect: Duration,
    /// Banner and key exchange.
    pub key_exchange: Duration,
    pub authentication: Duration,
    /// From asking for a program until the node says that it runs.
    pub start: Duration,
    /// For a program to end after end-of-file, and again for the session's farewell.
    pub close: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            resolve: Duration::from_secs(10),
            tcp_connect: Duration::from_secs(10),
            key_exchange: Duration::from_secs(15),
            authentication: Duration::from_secs(30),
            start: Duration::from_secs(15),
            close: Duration::from_secs(3),
        }
    }
}

/// A node that was reached; starts one program at a time on it.
#[derive(Debug)]
pub struct Connection {
    node: String,
    deadlines: Deadlines,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Local,
    Ssh(ssh::SshConnection),
}

/// More than any answer to a script of ours; the rest is not read.
const STDOUT_MAX_BYTES: u64 = 256 * 1024;

/// Opens the way to `node`.
pub async fn open(
    node: &str,
    access: &Access,
    deadlines: &Deadlines,
) -> Result<Connection, ConnectError> {
    let way = match access {
        Access::Local => Way::Local,
        Access::Ssh(access) => Way::Ssh(
            ssh::SshConnection::open(access, deadlines).await.map_err(|cause| cause.on(node))?,
        ),
    };
    Ok(Connection { node: node.to_owned(), deadlines: *deadlines, way })
}

impl Connection {
    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// True when programs run on the controller's own machine, as its children.
    pub fn is_local(&self) -> bool {
        matches!(self.way, Way::Local)
    }

    /// Type and fingerprint of the host key that was unknown and has been accepted and stored.
    pub fn accepted_host_key(&self) -> Option<&str> {
        match &self.way {
            Way::Local => None,
            Way::Ssh(connection) => connection.accepted_host_key(),
        }
    }

    /// Starts a program for `/bin/sh` with its stdin and stdout on the process's stream.
    ///
    /// The script must survive any login shell between single quotes: one line, without single
    /// quotes, exclamation marks or doubled backslashes.
    pub async fn start(&mut self, script: &str) -> Result<Process, ConnectError> {
        let started = match &mut self.way {
            Way::Local => local::start(script),
            Way::Ssh(connection) => connection.start(script, &self.deadlines).await,
        };
        started.map_err(|cause| cause.on(&self.node))
    }

    /// Runs a short program with `stdin` and collects what it prints, within `deadline`.
    pub async fn run(
        &mut self,
        script: &str,
        stdin: &[u8],
        deadline: Duration,
    ) -> Result<Output, ConnectError> {
        let process = self.start(script).await?;
        let collected = tokio::time::timeout(deadline, collect(process, stdin)).await;
        let output = collected.map_err(|_| {
            Cause::TimedOut { phase: Phase::Start, what: "answer from the node", deadline }
                .on(&self.node)
        })?;
        match &output.exit {
            Exit::Lost(reason) => Err(Cause::Lost { reason: reason.clone() }.on(&self.node)),
            _ => Ok(output),
        }
    }

    /// Says goodbye; what has not ended by then is cut off.
    pub async fn close(self) {
        if let Way::Ssh(connection) = self.way {
            connection.close(self.deadlines.close).await;
        }
    }
}

/// Feeds a program and reads it at the same time, so that neither side waits for the other.
async fn collect(process: Process, stdin: &[u8]) -> Output {
    let Process { stream, stderr, mut end } = process;
    let (reading, mut writing) = stream.into_split();
    let feed = async {
        // A program may end without reading all of its input; its exit tells more than this error.
        if writing.write_all(stdin).await.is_ok() {
            writing.shutdown().await.unwrap_or_default();
        }
        writing
    };
    let mut stdout = Vec::new();
    let mut limited = reading.take(STDOUT_MAX_BYTES);
    let read = limited.read_to_end(&mut stdout);
    // What was read before an error is kept, and the exit says what broke.
    let (_writing, _read) = tokio::join!(feed, read);
    let exit = end.wait().await;
    Output { stdout, stderr: stderr.text(), exit }
}
