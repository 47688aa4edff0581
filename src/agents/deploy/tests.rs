//! Agents put on a node with a real sshd; the agent is a shell script that sends back what it gets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use tokio::io::AsyncWriteExt as _;

use super::super::executable::{Architecture, CLibrary, Role};
use super::*;
use crate::connect::throwaway::{Options, Throwaway};
use crate::connect::{Deadlines, Kind, open};
use crate::plan::access::Access;

const LONG: Duration = Duration::from_secs(60);

/// Does what an agent does at its start, then sends back its input.
const ECHO_AGENT: &str = "#!/bin/sh\n\
    while [ $# -gt 0 ]; do case $1 in --marker) m=$2; shift;; --remove) rm -f \"$0\";; esac; shift; \
    done\necho \"$m\"; exec cat\n";

fn executables(script: &str) -> Executables {
    executables_of_size(script, 0)
}

fn executables_of_size(script: &str, padding_bytes: usize) -> Executables {
    let mut bytes = script.as_bytes().to_vec();
    bytes.resize(bytes.len() + padding_bytes, b'#');
    let machine = Architecture::from_uname(std::env::consts::ARCH).unwrap();
    let path = "echo-agent".into();
    Executables::new(vec![Executable::from_parts(path, Role::Lean, machine, CLibrary::None, bytes)])
}

async fn connection(sshd: &Throwaway) -> Connection {
    open("db1", &sshd.access(), &Deadlines::default()).await.unwrap()
}

async fn start_echo(sshd: &Throwaway, options: &AgentOptions) -> Started {
    start(connection(sshd).await, &executables(ECHO_AGENT), options).await.unwrap()
}

async fn check_echo(started: &mut Started) {
    // Bytes that a line discipline or a shell would change, were one in between.
    let sent: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let (mut reading, mut writing) = started.stream.split();
    let mut received = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(writing.write_all(&sent), reading.read_exact(&mut received));
    wrote.unwrap();
    read.unwrap();
    assert!(received == sent);
}

async fn files(sshd: &Throwaway) -> String {
    let mut connection = connection(sshd).await;
    let script = "ls -d /tmp/redoline* /var/tmp/redoline* /dev/shm/redoline* .cache/redoline* \
                  2>/dev/null; true";
    let output = connection.run(script, b"", LONG).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn keep() -> AgentOptions {
    AgentOptions { keep: true, ..AgentOptions::default() }
}

#[tokio::test]
async fn an_agent_is_copied_once_and_found_again() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut first = start_echo(&sshd, &keep()).await;
    assert!(first.uploaded);
    check_echo(&mut first).await;
    assert_eq!(first.close(LONG).await, Exit::Status(0));

    let mut second = start_echo(&sshd, &keep()).await;
    assert!(!second.uploaded);
    check_echo(&mut second).await;
    second.close(LONG).await;
    assert!(files(&sshd).await.starts_with("/var/tmp/redoline-agent-"));
}

#[tokio::test]
async fn an_agent_that_is_not_kept_leaves_nothing_even_while_it_runs() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut started = start_echo(&sshd, &AgentOptions::default()).await;
    check_echo(&mut started).await;
    assert_eq!(files(&sshd).await, "");
    started.close(LONG).await;
}

#[tokio::test]
async fn a_copy_with_other_bytes_is_replaced() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    start_echo(&sshd, &keep()).await.close(LONG).await;
    let tamper = "for f in /var/tmp/redoline-agent-*; do echo exit >\"$f\"; done";
    connection(&sshd).await.run(tamper, b"", LONG).await.unwrap();
    let mut started = start_echo(&sshd, &keep()).await;
    assert!(started.uploaded);
    check_echo(&mut started).await;
    started.close(LONG).await;
}

#[tokio::test]
async fn greetings_of_the_login_are_passed_over() {
    let options = Options {
        setup: "echo \"echo Welcome; umask 077; stty erase x; printf Authorised-use-only\" \
                > $DIR/home/.bashrc",
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    for _ in 0..2 {
        let mut started = start_echo(&sshd, &keep()).await;
        check_echo(&mut started).await;
        started.close(LONG).await;
    }
}

#[tokio::test]
async fn a_login_that_never_stops_talking_is_given_up() {
    let options = Options { setup: "echo yes > $DIR/home/.bashrc", ..Options::default() };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let started =
        start(connection(&sshd).await, &executables(ECHO_AGENT), &AgentOptions::default()).await;
    let error = started.unwrap_err();
    assert!(matches!(*error.reason, Reason::Noise { .. }), "{error}");
}

#[tokio::test]
async fn an_agent_starts_from_any_login_shell() {
    for shell in ["/bin/sh", "/usr/bin/tcsh", "/usr/bin/fish", "/bin/ksh", "/bin/zsh"] {
        if !Path::new(shell).exists() {
            eprintln!("skipped: no {shell}");
            continue;
        }
        let Some(sshd) = Throwaway::start(&Options { shell, ..Options::default() }) else { return };
        let mut started = start_echo(&sshd, &AgentOptions { nice: 10, ..keep() }).await;
        check_echo(&mut started).await;
        started.close(LONG).await;
        let again = start_echo(&sshd, &keep()).await;
        assert!(!again.uploaded, "{shell}");
        again.close(LONG).await;
    }
}

#[tokio::test]
async fn directories_that_run_nothing_are_passed_over() {
    let options = Options {
        setup: "mount -o remount,noexec /var/tmp; rmdir $DIR/home/.cache; chmod 555 $DIR/home",
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let mut started = start_echo(&sshd, &keep()).await;
    check_echo(&mut started).await;
    started.close(LONG).await;
    assert!(files(&sshd).await.starts_with("/dev/shm/redoline-agent-"));
}

async fn reason(sshd: &Throwaway, executables: &Executables, options: &AgentOptions) -> Reason {
    let error = start(connection(sshd).await, executables, options).await.unwrap_err();
    assert!(error.to_string().starts_with("node `db1`: "), "{error}");
    *error.reason
}

#[tokio::test]
async fn a_node_that_runs_nothing_anywhere_is_told_to_be_noexec() {
    let options = Options {
        setup: "for d in /var/tmp /dev/shm /tmp; do mount -o remount,noexec $d; done; \
                rmdir $DIR/home/.cache; chmod 555 $DIR/home",
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let reason = reason(&sshd, &executables(ECHO_AGENT), &AgentOptions::default()).await;
    let text = reason.to_string();
    assert!(matches!(reason, Reason::NoPlace { .. }), "{text}");
    assert!(text.contains("/var/tmp does not run programs"), "{text}");
    assert_eq!(files(&sshd).await, "");
}

#[tokio::test]
async fn a_full_disk_is_told_before_and_while_copying() {
    let options = Options {
        setup: "for d in /var/tmp /dev/shm /tmp; do mount -o remount,size=1M $d; done; \
                rmdir $DIR/home/.cache; chmod 555 $DIR/home",
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let large = executables_of_size(ECHO_AGENT, 2 * 1024 * 1024);
    let reason = reason(&sshd, &large, &AgentOptions::default()).await;
    assert!(matches!(reason, Reason::DiskFull { .. }), "{reason}");

    let place = Place { path: "/var/tmp".to_owned(), state: PlaceState::Usable, free_bytes: None };
    let executable = large.for_this_machine().unwrap();
    let copied = upload(&mut connection(&sshd).await, executable, &place, "").await;
    let reason = copied.unwrap_err();
    assert!(matches!(reason, Reason::DiskFullWhileCopying { .. }), "{reason}");
    assert_eq!(files(&sshd).await, "");
}

#[tokio::test]
async fn an_agent_that_fails_says_why_and_leaves_nothing() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let failing = executables("#!/bin/sh\necho cannot open the tracing file >&2; exit 3\n");
    let text = reason(&sshd, &failing, &AgentOptions::default()).await.to_string();
    assert_eq!(text, "the agent ended with status 3; it said: cannot open the tracing file");
    assert_eq!(files(&sshd).await, "");
}

#[tokio::test]
async fn a_machine_without_an_agent_for_it_is_named() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let text = reason(&sshd, &Executables::default(), &keep()).await.to_string();
    assert!(text.contains(&format!("Linux {}", std::env::consts::ARCH)), "{text}");
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let directory = sshd.path("agents");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let path = directory.to_str().unwrap().to_owned();
    let options = AgentOptions { directory: Some(path), ..keep() };

    let large = executables_of_size(ECHO_AGENT, 64 * 1024 * 1024);
    let connection = connection(&sshd).await;
    let task = {
        let options = options.clone();
        tokio::spawn(async move { start(connection, &large, &options).await })
    };
    await_file(&directory, |name| name.ends_with(".part")).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    await_files(&directory, <[String]>::is_empty).await;

    let mut started = start_echo(&sshd, &options).await;
    assert!(started.uploaded);
    check_echo(&mut started).await;
    started.close(LONG).await;
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

async fn await_file(directory: &Path, is_it: impl Fn(&str) -> bool) {
    await_files(directory, |names| names.iter().any(|name| is_it(name))).await;
}

/// Looks at a directory until its names are as wanted; another user's process writes it.
async fn await_files(directory: &Path, are_as_wanted: impl Fn(&[String]) -> bool) {
    let until = Instant::now() + LONG;
    loop {
        let names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        if are_as_wanted(&names) {
            return;
        }
        assert!(Instant::now() < until, "{names:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_sweep_removes_own_stale_files_and_no_others() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connection(&sshd).await;
    let litter = "cd /var/tmp; touch redoline-agent-0123.ab.part redoline-agent-fresh other; \
                  touch -d \"2 hours ago\" redoline-agent-0123.ab.part; \
                  ln -s other redoline-agent-link";
    connection.run(litter, b"", LONG).await.unwrap();
    let stale = sweep(&mut connection, None, 60).await.unwrap();
    assert_eq!(stale, ["/var/tmp/redoline-agent-0123.ab.part"]);
    let all = sweep(&mut connection, None, 0).await.unwrap();
    assert_eq!(all, ["/var/tmp/redoline-agent-fresh"]);
    let left = connection.run("ls /var/tmp", b"", LONG).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "other\nredoline-agent-link\n");
}

#[tokio::test]
async fn an_expired_password_is_told_although_the_login_succeeds() {
    let options = Options {
        config: "UsePAM yes",
        // In place, as the file is mounted over the real one.
        setup: "sed s/:19000:/:0:/ /etc/shadow > /run/shadow; cat /run/shadow > /etc/shadow",
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let reason = reason(&sshd, &executables(ECHO_AGENT), &keep()).await;
    assert!(matches!(reason, Reason::PasswordExpired), "{reason}");
}

#[tokio::test]
async fn a_login_shell_that_refuses_is_quoted() {
    let options = Options { shell: "/usr/sbin/nologin", ..Options::default() };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let reason = reason(&sshd, &executables(ECHO_AGENT), &keep()).await;
    assert!(matches!(reason, Reason::NoShell { .. }), "{reason}");
}

#[tokio::test]
async fn words_for_a_shell_are_refused() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    for directory in ["/tmp/$(id)", "/tmp/a b", "/tmp/'", ""] {
        let options = AgentOptions { directory: Some(directory.to_owned()), ..keep() };
        let reason = reason(&sshd, &executables(ECHO_AGENT), &options).await;
        assert!(matches!(reason, Reason::UnsafeWord { .. }), "{directory}: {reason}");
    }
}

#[tokio::test]
async fn a_node_lost_in_between_is_unreachable() {
    let Some(mut sshd) = Throwaway::start(&Options::default()) else { return };
    let connection = connection(&sshd).await;
    sshd.tell("kill -9 -1");
    let error = start(connection, &executables(ECHO_AGENT), &keep()).await.unwrap_err();
    let Reason::Connect(lost) = *error.reason else { panic!("{error}") };
    assert_eq!(lost.kind(), Kind::Unreachable);
}

#[tokio::test]
async fn on_this_machine_the_agent_starts_where_it_lies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it's an agent");
    fs::write(&path, ECHO_AGENT).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = Architecture::from_uname(std::env::consts::ARCH).unwrap();
    let bytes = ECHO_AGENT.as_bytes().to_vec();
    let here = Executable::from_parts(path.clone(), Role::Lean, machine, CLibrary::None, bytes);
    let connection = open("here", &Access::Local, &Deadlines::default()).await.unwrap();
    let here = Executables::new(vec![here]);
    let mut started = start(connection, &here, &AgentOptions::default()).await.unwrap();
    check_echo(&mut started).await;
    assert_eq!(started.close(LONG).await, Exit::Status(0));
    assert!(path.exists());
}

/// Not a check of speed, but of what it costs: told for the eye.
#[tokio::test]
async fn a_warm_start_is_quick() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let agent = executables_of_size(ECHO_AGENT, 8 * 1024 * 1024);
    for temperature in ["cold", "warm"] {
        let begun = Instant::now();
        let started = start(connection(&sshd).await, &agent, &keep()).await.unwrap();
        eprintln!("{temperature} start of 8 MiB: {:?}", begun.elapsed());
        started.close(LONG).await;
    }
}
