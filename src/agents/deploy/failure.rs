//! Why an agent could not be put on a node or started there, by cause.

use std::path::PathBuf;
use std::time::Duration;

use super::super::executable::{CLibrary, Executable, Executables, GlibcVersion};
use super::answer::{Place, list};
use crate::connect::{ConnectError, Exit, Kind};

/// An agent could not be started on a node.
#[derive(Debug)]
pub struct DeployError {
    pub node: String,
    pub reason: Box<Reason>,
}

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("no agent for its machine ({machine}); at hand: {at_hand}")]
    NoExecutable { machine: String, at_hand: String },
    #[error(
        "the agent {} needs {needs}, but the node has {}; put a static agent \
         (`cargo build-agent`) beside redoline", executable.display(),
        has.map_or_else(|| "no glibc".to_owned(), |version| version.to_string())
    )]
    CLibrary { executable: PathBuf, needs: GlibcVersion, has: Option<GlibcVersion> },
    #[error(
        "the agent {} does not start with the node's C library ({said}); put a static agent \
         (`cargo build-agent`) beside redoline", executable.display()
    )]
    Loader { executable: PathBuf, said: String },
    #[error("the agent is built for another machine than the node's ({said})")]
    WrongMachine { said: String },
    #[error("no directory on the node takes the agent: {}; name one with `agent_dir:`", list(.places))]
    NoPlace { places: Vec<Place> },
    #[error("no room for the agent ({} KiB): {}", needed_bytes / 1024, list(.places))]
    DiskFull { needed_bytes: u64, places: Vec<Place> },
    #[error("no room for the agent in {directory}: {said}")]
    DiskFullWhileCopying { directory: String, said: String },
    #[error(
        "the node does not permit running the agent ({path}{said}); where fapolicyd is active, \
         install the agent there and trust it with `fapolicyd-cli --file add FILE`"
    )]
    Denied { path: String, said: String },
    #[error(
        "running the agent was answered with \"permission denied\" ({said}): the file system is \
         mounted noexec, or SELinux forbids it; name another directory with `agent_dir:`"
    )]
    NoExec { said: String },
    #[error("the copy to {directory} failed: {said}")]
    Upload { directory: String, said: String },
    #[error("the agent was copied to {directory}, but was gone when it was to start")]
    Vanished { directory: String },
    #[error("the password has expired, and so nothing runs; change it with an interactive login")]
    PasswordExpired,
    #[error("the login shell refuses commands: {said}")]
    NoShell { said: String },
    #[error("the agent did not report within {} s{}", deadline.as_secs(), after(.said))]
    NoMarker { deadline: Duration, said: String },
    #[error("the login printed more than {limit_bytes} bytes before anything else")]
    Noise { limit_bytes: usize },
    #[error("the agent {exit}{}", after(.said))]
    Ended { exit: Exit, said: String },
    #[error("`{word}` has characters that a shell would interpret")]
    UnsafeWord { word: String },
}

impl DeployError {
    pub(super) fn new(node: String, reason: Reason) -> Self {
        Self { node, reason: Box::new(reason) }
    }

    /// What a caller does about it.
    pub fn kind(&self) -> Kind {
        match &*self.reason {
            Reason::Connect(error) => error.kind(),
            Reason::PasswordExpired | Reason::NoShell { .. } => Kind::Refused,
            _ => Kind::Failed,
        }
    }
}

impl std::fmt::Display for DeployError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.reason {
            // It names the node by itself.
            Reason::Connect(error) => write!(formatter, "{error}"),
            reason => write!(formatter, "node `{}`: {reason}", self.node),
        }
    }
}

impl std::error::Error for DeployError {
    /// The reason is part of this error's own text, so the chain goes on below it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}

impl Reason {
    pub(super) fn no_executable(machine: String, executables: &Executables) -> Self {
        let machine = if machine.is_empty() { "which it did not tell".to_owned() } else { machine };
        let at_hand: Vec<String> = executables
            .iter()
            .map(|found| format!("{} ({})", found.path.display(), found.architecture))
            .collect();
        let at_hand = if at_hand.is_empty() { "none".to_owned() } else { at_hand.join(", ") };
        Self::NoExecutable { machine, at_hand }
    }

    pub(super) fn upload(place: &Place, executable: &Executable, said: &str) -> Self {
        let directory = place.path.clone();
        let said = shorten(said);
        if is_disk_full(&said) {
            return Self::DiskFullWhileCopying { directory, said };
        }
        Self::Upload { directory: format!("{directory} ({})", executable.remote_name()), said }
    }
}

fn is_disk_full(said: &str) -> bool {
    said.contains("No space left") || said.contains("quota exceeded")
}

/// The cause, from how a program ended and what it said before.
///
/// 126 and 127 are the shell's words for "found, but could not run it" and "not found" (POSIX,
/// section 2.8.2 of the shell command language); its texts are English, as the locale is set.
pub(super) fn classify(
    exit: &Exit,
    stdout: &str,
    stderr: &str,
    executable: Option<&Executable>,
) -> Reason {
    let said = shorten(&format!("{stdout} {stderr}"));
    let contains = |text: &str| said.contains(text);
    let path = || executable.map(|found| found.path.clone()).unwrap_or_default();
    let is_dynamic = executable.is_some_and(|found| found.c_library != CLibrary::None);

    if contains("assword has expired") || contains("assword change required") {
        return Reason::PasswordExpired;
    }
    if contains("account is currently not available") {
        return Reason::NoShell { said };
    }
    if contains("GLIBC_") && contains("not found") {
        return Reason::Loader { executable: path(), said };
    }
    match exit {
        Exit::Status(_) if contains("Exec format error") || contains("cannot execute binary") => {
            Reason::WrongMachine { said }
        }
        Exit::Status(126) if contains("not permitted") => {
            Reason::Denied { path: String::new(), said }
        }
        Exit::Status(126) => Reason::NoExec { said },
        // The file is there: what was not found is its loader.
        Exit::Status(127) if is_dynamic => Reason::Loader { executable: path(), said },
        exit => Reason::Ended { exit: exit.clone(), said },
    }
}

/// The last part of a long text, on one line.
fn shorten(said: &str) -> String {
    const KEPT_CHARS: usize = 600;
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let excess = line.chars().count().saturating_sub(KEPT_CHARS);
    line.chars().skip(excess).collect()
}

fn after(said: &str) -> String {
    if said.is_empty() { " and said nothing".to_owned() } else { format!("; it said: {said}") }
}

#[cfg(test)]
mod tests {
    use super::super::super::executable::{Architecture, Role};
    use super::*;

    #[test]
    fn each_cause_is_told_by_its_own_words() {
        let c_library = CLibrary::Dynamic { glibc: None };
        let agent = Executable::from_parts(
            "agent".into(),
            Role::Lean,
            Architecture::X86_64,
            c_library,
            Vec::new(),
        );
        for (status, stderr, expected) in [
            (126, "nice: /tmp/f: Permission denied", "noexec"),
            (126, "sh: 1: exec: /tmp/f: Operation not permitted", "fapolicyd"),
            (126, "sh: /tmp/f: cannot execute binary file: Exec format error", "another machine"),
            (127, "sh: 1: exec: /tmp/f: not found", "C library"),
            (1, "/tmp/f: /lib64/libc.so.6: version `GLIBC_2.34' not found", "static agent"),
            (1, "WARNING: Your password has expired.", "password has expired"),
            (1, "This account is currently not available.", "login shell refuses"),
            (101, "thread main panicked", "ended with status 101; it said: thread main panicked"),
            (0, "", "and said nothing"),
        ] {
            let reason = classify(&Exit::Status(status), "", stderr, Some(&agent)).to_string();
            assert!(reason.contains(expected), "{stderr:?}: {reason}");
        }
    }

    #[test]
    fn a_full_disk_while_copying_is_its_own_cause() {
        let agent = Executable::from_parts(
            "agent".into(),
            Role::Lean,
            Architecture::X86_64,
            CLibrary::None,
            Vec::new(),
        );
        let place = Place {
            path: "/tmp".to_owned(),
            state: super::super::answer::PlaceState::Usable,
            free_bytes: None,
        };
        let full = Reason::upload(&place, &agent, "cat: write error: No space left on device");
        assert!(matches!(full, Reason::DiskFullWhileCopying { .. }));
        let torn = Reason::upload(&place, &agent, "only 3 of 9 bytes arrived");
        assert!(matches!(torn, Reason::Upload { .. }));
    }
}
