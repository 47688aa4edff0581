//! The executable as sshd starts it.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{fs, io};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::support::{Client, hello, own_lock};

pub const EXECUTABLE: &str = env!("CARGO_BIN_EXE_redoline-agent");
const MARKER: &str = "0123456789abcdef";

pub struct Process {
    child: Child,
    channel: UnixStream,
}

impl Process {
    /// Standard input and output are one socket pair, as with sshd.
    pub fn start(executable: &Path, args: &[&str]) -> Self {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let child = Command::new(executable)
            .args(["--marker", MARKER])
            .args(args)
            .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, channel: UnixStream::from_std(ours).unwrap() }
    }

    async fn marker(&mut self) -> String {
        let mut line = vec![0; MARKER.len() + 1];
        self.channel.read_exact(&mut line).await.unwrap();
        String::from_utf8(line).unwrap()
    }

    pub async fn into_client(mut self) -> (Child, Client) {
        assert_eq!(self.marker().await, format!("{MARKER}\n"));
        (self.child, Client::over(self.channel).await)
    }
}

pub async fn exit(mut child: Child) -> ExitStatus {
    tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_marker_comes_first_and_then_grpc() {
    let process = Process::start(Path::new(EXECUTABLE), &[]);
    let (child, mut client) = process.into_client().await;
    let answer = client.hello(hello(&own_lock())).await.unwrap();
    assert_eq!(answer.process_id, child.id());
    client.beat().await.unwrap();
    drop(client);
    assert!(exit(child).await.success());
}

#[tokio::test]
async fn the_channel_is_nobody_elses_standard_output() {
    let process = Process::start(Path::new(EXECUTABLE), &[]);
    let (child, mut client) = process.into_client().await;
    client.hello(hello(&own_lock())).await.unwrap();
    // Whatever this process, a library or a child of it prints goes where its descriptor 1 leads.
    let stdout = fs::read_link(format!("/proc/{}/fd/1", child.id())).unwrap();
    let stderr = fs::read_link(format!("/proc/{}/fd/2", child.id())).unwrap();
    assert_eq!(stdout, stderr);
    let mut stray =
        fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", child.id())).unwrap();
    stray.write_all(b"a stray line\n").unwrap();
    client.beat().await.unwrap();
    let stdin = fs::read_link(format!("/proc/{}/fd/0", child.id())).unwrap();
    assert_eq!(stdin, Path::new("/dev/null"));
    drop(client);
    assert!(exit(child).await.success());
}

#[tokio::test]
async fn pipes_will_do_as_well() {
    let mut child = tokio::process::Command::new(EXECUTABLE)
        .args(["--marker", MARKER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut line = vec![0; MARKER.len() + 1];
    output.read_exact(&mut line).await.unwrap();
    assert_eq!(line, format!("{MARKER}\n").as_bytes());
    let channel = tokio::io::join(output, child.stdin.take().unwrap());
    let mut client = Client::over(channel).await;
    client.hello(hello(&own_lock())).await.unwrap();
    drop(client);
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn a_terminated_agent_ends_in_good_order() {
    let process = Process::start(Path::new(EXECUTABLE), &[]);
    let (child, mut client) = process.into_client().await;
    client.hello(hello(&own_lock())).await.unwrap();
    let id = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(exit(child).await.success());
}

#[tokio::test]
async fn an_agent_that_is_not_to_stay_removes_itself_and_no_directory() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("redoline-test");
    fs::create_dir(&dir).unwrap();
    let executable = dir.join("agent");
    fs::copy(EXECUTABLE, &executable).unwrap();
    let process = start_copy(&executable);
    let (child, mut client) = process.into_client().await;
    assert!(!executable.exists());
    client.hello(hello(&own_lock())).await.unwrap();
    drop(client);
    assert!(exit(child).await.success());
    assert!(dir.exists());
}

/// Another test's fork may hold the copy open for writing for a moment: ETXTBSY.
fn start_copy(executable: &Path) -> Process {
    while let Err(error) = Command::new(executable).arg("--version").stdout(Stdio::null()).status()
    {
        assert_eq!(error.kind(), io::ErrorKind::ExecutableFileBusy);
    }
    Process::start(executable, &["--remove"])
}
