//! Puts an agent on a node and starts it: one program when it is there already, three when not.
//!
//! Nothing but a POSIX shell is needed on the node: no SFTP, no forwarding, no Python.

mod answer;
mod failure;
mod script;

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::time::timeout;

use self::answer::{Facts, FirstWord};
use self::script::{Remote, Upload};
use super::executable::{Executable, Executables};
use crate::connect::{ConnectError, Connection, End, Exit, Process, StderrTail};

pub use self::answer::{Place, PlaceState};
pub use self::failure::{DeployError, Reason};

/// How an agent is started on a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AgentOptions {
    /// Leave the executable on the node for the next run; otherwise the agent removes it as soon as
    /// it runs.
    pub keep: bool,
    /// The directory tried first for the executable.
    pub directory: Option<String>,
    /// By how much the agent lowers its own priority: 0 to 19.
    pub nice: u8,
    /// Further arguments; letters, digits and `-_./=:,` only.
    pub arguments: Vec<String>,
}

/// An agent that runs and speaks HTTP/2 from the next byte on.
#[derive(Debug)]
pub struct Started {
    /// The agent's stdin and stdout, after its start marker.
    pub stream: UnixStream,
    pub stderr: StderrTail,
    pub end: End,
    /// Whether the executable had to be copied to the node first.
    pub uploaded: bool,
    suffix: String,
    connection: Connection,
}

/// For the agent to print its marker once the node has started it, slow logins included.
const MARKER_DEADLINE: Duration = Duration::from_secs(20);
/// For an upload: a fixed part, and the time its bytes take at 2 Mbit/s.
const UPLOAD_DEADLINE_BASE: Duration = Duration::from_secs(30);
const UPLOAD_BYTES_PER_S_MIN: u64 = 250_000;
const SWEEP_DEADLINE: Duration = Duration::from_secs(20);
/// For a program that has closed its stdout to say how it ended.
const EXIT_DEADLINE: Duration = Duration::from_secs(5);
/// More noise than this before the marker is not a login's greeting.
const NOISE_MAX_BYTES: usize = 64 * 1024;

/// Starts the agent on a node, after copying it there if it is not.
pub async fn start(
    mut connection: Connection,
    executables: &Executables,
    options: &AgentOptions,
) -> Result<Started, DeployError> {
    let node = connection.node().to_owned();
    let suffix = suffix(options);
    let started = start_on(&mut connection, executables, options, &suffix).await;
    match started {
        Ok((process, uploaded)) => {
            let Process { stream, stderr, end } = process;
            Ok(Started { stream, stderr, end, uploaded, suffix, connection })
        }
        Err(reason) => {
            connection.close().await;
            Err(DeployError::new(node, reason))
        }
    }
}

async fn start_on(
    connection: &mut Connection,
    executables: &Executables,
    options: &AgentOptions,
    suffix: &str,
) -> Result<(Process, bool), Reason> {
    script::check_words(options)?;
    if connection.is_local() {
        let executable = executables
            .for_this_machine()
            .ok_or_else(|| Reason::no_executable(std::env::consts::ARCH.to_owned(), executables))?;
        return Ok((start_here(connection, executable, options).await?, false));
    }
    let facts = match try_start(connection, executables, options, suffix).await? {
        FirstWord::Started(process) => return Ok((process, false)),
        FirstWord::Absent(facts) => facts,
    };
    let executable = facts.executable(executables)?;
    let place = facts.place_for(executable)?;
    upload(connection, executable, place, suffix).await?;
    let there = AgentOptions { directory: Some(place.path.clone()), ..options.clone() };
    match try_start(connection, executables, &there, suffix).await {
        Ok(FirstWord::Started(process)) => Ok((process, true)),
        Ok(FirstWord::Absent(_)) => Err(Reason::Vanished { directory: place.path.clone() }),
        Err(reason) => {
            if !options.keep {
                let script = script::remove(&place.path, executable, suffix);
                // The failure to start is what counts; a lost node keeps the file until a sweep.
                let _removed = connection.run(&script, b"", EXIT_DEADLINE).await;
            }
            Err(reason)
        }
    }
}

/// The controller's own machine needs no copy.
async fn start_here(
    connection: &mut Connection,
    executable: &Executable,
    options: &AgentOptions,
) -> Result<Process, Reason> {
    let marker = random_marker();
    let script = script::start_here(executable, options, &marker);
    let mut process = connection.start(&script).await?;
    match read_to_marker(&mut process.stream, &marker).await {
        Ok(_) => Ok(process),
        Err(silence) => Err(explain(connection, process, silence, Some(executable)).await),
    }
}

/// Starts the agent if the node has it; otherwise learns what the node is.
async fn try_start(
    connection: &mut Connection,
    executables: &Executables,
    options: &AgentOptions,
    suffix: &str,
) -> Result<FirstWord, Reason> {
    let marker = random_marker();
    let remote = Remote { marker: &marker, directory: options.directory.as_deref(), suffix };
    let mut process = connection.start(&script::start(&remote, executables, options)).await?;
    let word = match read_to_marker(&mut process.stream, &marker).await {
        Ok(word) => word,
        Err(silence) => {
            let likely = executables.for_this_machine();
            return Err(explain(connection, process, silence, likely).await);
        }
    };
    if word.is_empty() {
        return Ok(FirstWord::Started(process));
    }
    let mut text = Vec::new();
    let mut rest = process.stream.take(NOISE_MAX_BYTES as u64);
    // A text cut short is short of facts, which is told as such.
    let _cut_short = timeout(MARKER_DEADLINE, rest.read_to_end(&mut text)).await;
    let mut end = process.end;
    end.wait_or_cut(EXIT_DEADLINE).await;
    Ok(FirstWord::Absent(Facts::parse(&String::from_utf8_lossy(&text))))
}

async fn upload(
    connection: &mut Connection,
    executable: &Executable,
    place: &Place,
    suffix: &str,
) -> Result<(), Reason> {
    let marker = random_marker();
    let upload = Upload { marker: &marker, directory: &place.path, executable, suffix };
    let bytes = executable.bytes();
    let transfer = Duration::from_secs(bytes.len() as u64 / UPLOAD_BYTES_PER_S_MIN);
    let deadline = UPLOAD_DEADLINE_BASE + transfer;
    let output = connection.run(&script::upload(&upload), bytes, deadline).await?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let word =
        stdout.lines().find_map(|line| line.split_once(&marker)).map(|(_, word)| word.trim());
    match word {
        Some("stored") => Ok(()),
        Some(word) => Err(Reason::upload(place, executable, word)),
        None => {
            Err(Reason::upload(place, executable, &format!("{} {}", output.exit, output.stderr)))
        }
    }
}

/// Removes this user's agent executables and unfinished copies; returns their paths.
///
/// Only those older than `older_than_minutes`, so that another controller's fresh copy stays. An
/// agent that runs goes on without its file.
pub async fn sweep(
    connection: &mut Connection,
    directory: Option<&str>,
    older_than_minutes: u32,
) -> Result<Vec<String>, DeployError> {
    let marker = random_marker();
    directory
        .map_or(Ok(()), script::check_word)
        .map_err(|reason| DeployError::new(connection.node().to_owned(), reason))?;
    let remote = Remote { marker: &marker, directory, suffix: "" };
    let script = script::sweep(&remote, older_than_minutes);
    let output = connection
        .run(&script, b"", SWEEP_DEADLINE)
        .await
        .map_err(|error| DeployError::new(connection.node().to_owned(), error.into()))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let removed = stdout.lines().filter_map(|line| line.split_once(&marker));
    Ok(removed.map(|(_, path)| path.trim().to_owned()).collect())
}

/// After the agent has ended: what of its executable is still on the node, although it should have
/// removed it. `Err` when the node does not say.
async fn clear(
    connection: &mut Connection,
    directory: Option<&str>,
    executables: &Executables,
    suffix: &str,
) -> Result<Vec<String>, String> {
    let marker = random_marker();
    let script = script::clear(&Remote { marker: &marker, directory, suffix }, executables);
    let output = connection.run(&script, b"", SWEEP_DEADLINE).await;
    let output = output.map_err(|error| error.to_string())?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let words = stdout.lines().filter_map(|line| line.split_once(&marker));
    let mut words: Vec<String> = words.map(|(_, word)| word.trim().to_owned()).collect();
    match words.pop().as_deref() {
        Some("done") => Ok(words),
        _ => Err("its answer makes no sense".to_owned()),
    }
}

/// How an agent left its node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Departure {
    /// It has ended, and nothing that was to be removed is left.
    Clean,
    /// What is left, or why that is unknown.
    Left(String),
}

impl Started {
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Splits off the stream, for the one who speaks on it; the rest ends the agent.
    pub fn into_parts(self) -> (UnixStream, Running) {
        let Self { stream, stderr, end, uploaded: _, suffix, connection } = self;
        (stream, Running { stderr, end, suffix, connection })
    }

    /// Ends the agent by end-of-file, or by force, and takes leave of the node.
    pub async fn close(self, deadline: Duration) -> Exit {
        let (stream, running) = self.into_parts();
        drop(stream);
        running.close(deadline).await
    }
}

/// What is left of `Started` once its stream has been given away.
#[derive(Debug)]
pub struct Running {
    pub stderr: StderrTail,
    pub end: End,
    suffix: String,
    connection: Connection,
}

impl Running {
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Waits for the agent to end, sees that its executable is gone where it was to be removed, and
    /// takes leave of the node.
    ///
    /// The stream must have been dropped: it is end-of-file that ends an agent.
    pub async fn depart(
        mut self,
        executables: &Executables,
        options: &AgentOptions,
        deadline: Duration,
    ) -> Departure {
        let exit = self.end.wait_or_cut(deadline).await;
        let departure = match exit {
            Exit::Lost(reason) => Departure::Left(format!(
                "unknown: the way to the node was lost ({reason}); an agent that hears nothing ends \
                 by itself"
            )),
            Exit::CutOff => Departure::Left("the agent did not end and may still run".to_owned()),
            Exit::Status(_) | Exit::Signal(_) if options.keep || self.connection.is_local() => {
                Departure::Clean
            }
            Exit::Status(_) | Exit::Signal(_) => {
                let directory = options.directory.as_deref();
                match clear(&mut self.connection, directory, executables, &self.suffix).await {
                    Ok(left) if left.is_empty() => Departure::Clean,
                    Ok(left) => Departure::Left(left.join(", ")),
                    Err(why) => Departure::Left(format!("unknown: {why}")),
                }
            }
        };
        self.connection.close().await;
        departure
    }

    /// Waits for the agent to end, ends it by force if it does not, and takes leave of the node.
    ///
    /// The stream must have been dropped: it is end-of-file that ends an agent.
    pub async fn close(mut self, deadline: Duration) -> Exit {
        let exit = self.end.wait_or_cut(deadline).await;
        self.connection.close().await;
        exit
    }
}

/// Why a program did not say its marker.
#[derive(Debug)]
enum Silence {
    Ended { said: String },
    Deadline { said: String },
    Noise,
}

/// Reads past whatever a login prints to the marker; returns the rest of the marker's line.
///
/// Byte by byte, because what follows the line belongs to someone else.
async fn read_to_marker(stream: &mut UnixStream, marker: &str) -> Result<String, Silence> {
    let mut said = Vec::new();
    let result = timeout(MARKER_DEADLINE, find_marker(stream, marker, &mut said)).await;
    let text = || String::from_utf8_lossy(&said).trim().to_owned();
    match result {
        Ok(Found::Marker(word)) => Ok(word),
        Ok(Found::End) => Err(Silence::Ended { said: text() }),
        Ok(Found::Nothing) => Err(Silence::Noise),
        Err(_) => Err(Silence::Deadline { said: text() }),
    }
}

enum Found {
    Marker(String),
    End,
    Nothing,
}

async fn find_marker(stream: &mut UnixStream, marker: &str, said: &mut Vec<u8>) -> Found {
    while said.len() < NOISE_MAX_BYTES {
        let Ok(byte) = stream.read_u8().await else { return Found::End };
        if byte != b'\n' {
            said.push(byte);
            continue;
        }
        let line = said.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Some((_, word)) = String::from_utf8_lossy(line).split_once(marker) {
            return Found::Marker(word.trim().to_owned());
        }
        said.push(byte);
    }
    Found::Nothing
}

/// Turns silence into its cause, from how the program ended and what it said.
async fn explain(
    connection: &Connection,
    process: Process,
    silence: Silence,
    executable: Option<&Executable>,
) -> Reason {
    let Process { stream, stderr, mut end } = process;
    match silence {
        Silence::Ended { said } => match end.wait_or_cut(EXIT_DEADLINE).await {
            Exit::Lost(reason) => Reason::Connect(ConnectError::lost(connection.node(), reason)),
            exit => failure::classify(&exit, &said, &stderr.text(), executable),
        },
        Silence::Deadline { said } => {
            drop(stream);
            end.wait_or_cut(EXIT_DEADLINE).await;
            let said = format!("{said} {}", stderr.text()).trim().to_owned();
            Reason::NoMarker { deadline: MARKER_DEADLINE, said }
        }
        Silence::Noise => Reason::Noise { limit_bytes: NOISE_MAX_BYTES },
    }
}

/// An executable that stays is named by its hash alone. One that goes gets a name of its own, so that
/// it is not removed under another run that starts it on the same host.
fn suffix(options: &AgentOptions) -> String {
    match options.keep {
        true => String::new(),
        false => format!(".{:012x}", rand::random::<u64>() >> 16),
    }
}

/// A marker that no greeting contains.
fn random_marker() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests;
