//! Sessions with a real sshd on the loopback address.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::SshConnection;
use super::throwaway::{Options, PASSWORD, Throwaway, USER, generate_key};
use crate::connect::{Cause, ConnectError, Connection, Deadlines, Exit, Kind, Phase, open};
use crate::plan::access::{Access, HostKeyPolicy, Secret, SshAccess};

const LONG: Duration = Duration::from_secs(60);

async fn connect(access: SshAccess) -> Result<Connection, ConnectError> {
    open("db1", &Access::Ssh(Box::new(access)), &Deadlines::default()).await
}

async fn refusal(access: SshAccess) -> ConnectError {
    connect(access).await.expect_err("it was let in")
}

async fn says(connection: &mut Connection, script: &str) -> String {
    let output = connection.run(script, b"", LONG).await.unwrap();
    assert_eq!(output.exit, Exit::Status(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_key_lets_in_and_programs_run_one_after_another() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    assert_eq!(connection.accepted_host_key(), None);
    assert_eq!(says(&mut connection, "id -un").await, format!("{USER}\n"));

    let output = connection.run("wc -c; echo oops >&2; exit 7", &[b'x'; 300_000], LONG).await;
    let output = output.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "300000");
    assert_eq!(output.stderr, "oops");
    assert_eq!(output.exit, Exit::Status(7));

    let killed = connection.run("kill -TERM $$", b"", LONG).await.unwrap();
    assert_eq!(killed.exit, Exit::Signal("TERM".to_owned()));
    connection.close().await;
}

#[tokio::test]
async fn a_key_that_is_not_authorised_is_named_with_what_the_server_takes() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let other = sshd.path("other");
    generate_key(&other, "ed25519", "");
    let error = refusal(SshAccess { key: Some(other.clone()), ..sshd.ssh_access() }).await;
    assert_eq!((error.phase(), error.kind()), (Phase::Authentication, Kind::Refused));
    let text = error.to_string();
    assert!(text.contains(&format!("key {}: refused", other.display())), "{text}");
    assert!(text.contains("publickey"), "{text}");
}

#[tokio::test]
async fn an_encrypted_key_says_how_to_unlock_it() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let locked = sshd.path("locked");
    generate_key(&locked, "ed25519", "secret");
    let error = refusal(SshAccess { key: Some(locked), ..sshd.ssh_access() }).await;
    assert!(error.to_string().contains("ssh-add"), "{error}");
}

#[tokio::test]
async fn the_ssh_agent_lets_in_also_with_a_key_whose_file_is_encrypted() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let Some(agent) = Agent::start(&sshd) else { return };
    let locked = sshd.path("locked");
    fs::copy(sshd.path("id"), &locked).unwrap();
    let add = |path: &PathBuf| {
        let added = Command::new("ssh-add")
            .arg("-q")
            .arg(path)
            .env("SSH_AUTH_SOCK", &agent.socket)
            .status()
            .unwrap();
        assert!(added.success());
    };
    add(&locked);
    let encrypt = ["-q", "-p", "-P", "", "-N", "secret", "-f"];
    assert!(Command::new("ssh-keygen").args(encrypt).arg(&locked).status().unwrap().success());

    for key in [None, Some(locked)] {
        let access = SshAccess { key, ..sshd.ssh_access() };
        let socket = Some(agent.socket.clone());
        SshConnection::open_with_agent(&access, socket, &Deadlines::default()).await.unwrap();
    }
}

#[tokio::test]
async fn no_more_agent_keys_are_tried_than_the_server_stands() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let Some(agent) = Agent::start(&sshd) else { return };
    for number in 0..7 {
        let path = sshd.path(&format!("useless{number}"));
        generate_key(&path, "ed25519", "");
        let mut add = Command::new("ssh-add");
        add.arg("-q").arg(path).env("SSH_AUTH_SOCK", &agent.socket);
        assert!(add.status().unwrap().success());
    }
    let access = SshAccess {
        key: None,
        password: Some(Secret::new(PASSWORD.to_owned())),
        ..sshd.ssh_access()
    };
    let socket = Some(agent.socket.clone());
    SshConnection::open_with_agent(&access, socket, &Deadlines::default()).await.unwrap();
}

#[tokio::test]
async fn a_password_lets_in_and_a_wrong_one_does_not() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let with = |password: &str| SshAccess {
        key: Some(sshd.path("no such file")),
        password: Some(Secret::new(password.to_owned())),
        ..sshd.ssh_access()
    };
    connect(with(PASSWORD)).await.unwrap();
    let text = refusal(with("wr0ng")).await.to_string();
    assert!(text.contains("password: refused"), "{text}");
    assert!(!text.contains("wr0ng"), "{text}");
}

#[tokio::test]
async fn a_password_lets_in_where_the_server_asks_for_it_in_a_dialogue() {
    let config = "UsePAM yes\nPasswordAuthentication no\nKbdInteractiveAuthentication yes";
    let Some(sshd) = Throwaway::start(&Options { config, ..Options::default() }) else { return };
    let with = |password: &str| SshAccess {
        key: Some(sshd.path("no such file")),
        password: Some(Secret::new(password.to_owned())),
        ..sshd.ssh_access()
    };
    connect(with(PASSWORD)).await.unwrap();
    let text = refusal(with("wr0ng")).await.to_string();
    assert!(text.contains("keyboard-interactive with the password: refused"), "{text}");
}

#[tokio::test]
async fn every_usual_type_and_format_of_key_lets_in() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    for (key_type, format) in
        [("rsa", "RFC4716"), ("rsa", "PEM"), ("ecdsa", "RFC4716"), ("ecdsa", "PEM")]
    {
        let path = sshd.path(&format!("{key_type}_{format}"));
        generate_key(&path, key_type, "");
        let convert = ["-q", "-p", "-P", "", "-N", "", "-m", format, "-f"];
        let converted = Command::new("ssh-keygen").args(convert).arg(&path).output().unwrap();
        assert!(converted.status.success());
        fs::copy(path.with_extension("pub"), sshd.path("authorized_keys")).unwrap();
        let access = SshAccess { key: Some(path), ..sshd.ssh_access() };
        connect(access).await.unwrap_or_else(|error| panic!("{key_type} {format}: {error}"));
    }
}

#[tokio::test]
async fn a_host_that_hangs_up_is_tried_again_and_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hang_up = async {
        for _ in 0..3 {
            drop(listener.accept().await.unwrap());
        }
    };
    let (error, ()) = tokio::join!(refusal(nobody_at(port)), hang_up);
    assert!(matches!(*error.cause, Cause::HungUp { attempts: 3, .. }), "{error}");
    assert_eq!(error.kind(), Kind::Unreachable);
}

#[tokio::test]
async fn an_unknown_host_key_is_refused_with_the_way_out() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let empty = sshd.path("empty");
    fs::write(&empty, "").unwrap();
    let access = SshAccess { known_hosts: vec![empty.clone()], ..sshd.ssh_access() };
    let error = refusal(access).await;
    assert_eq!((error.phase(), error.kind()), (Phase::HostKey, Kind::Refused));
    let text = error.to_string();
    let advice = format!("ssh-keyscan -p {} 127.0.0.1 >> {}", sshd.port(), empty.display());
    assert!(text.contains(&advice), "{text}");
    assert!(text.contains("ssh-ed25519 SHA256:"), "{text}");
}

#[tokio::test]
async fn a_new_host_key_is_accepted_once_when_asked_and_known_from_then_on() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let fresh = sshd.path("fresh");
    let strict = SshAccess { known_hosts: vec![fresh.clone()], ..sshd.ssh_access() };
    let accepting = SshAccess { host_key_policy: HostKeyPolicy::AcceptNew, ..strict.clone() };
    let first = connect(accepting.clone()).await.unwrap();
    assert!(first.accepted_host_key().unwrap().starts_with("ssh-ed25519 SHA256:"));
    let second = connect(accepting).await.unwrap();
    assert_eq!(second.accepted_host_key(), None);
    connect(strict).await.unwrap();
    assert_eq!(fs::read_to_string(fresh).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_changed_host_key_is_refused_even_when_new_ones_are_accepted() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    generate_key(&sshd.path("host_other"), "ed25519", "");
    let line = format!("[127.0.0.1]:{} {}\n", sshd.port(), sshd.host_key("other"));
    let file = sshd.path("changed");
    fs::write(&file, format!("# comment\n{line}")).unwrap();
    let access = SshAccess {
        known_hosts: vec![file.clone()],
        host_key_policy: HostKeyPolicy::AcceptNew,
        ..sshd.ssh_access()
    };
    let text = refusal(access).await.to_string();
    assert!(text.contains(&format!("{}:2", file.display())), "{text}");
}

#[tokio::test]
async fn a_revoked_host_key_is_refused_although_another_line_vouches_for_it() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let good = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    let file = sshd.path("revoked");
    fs::write(&file, format!("{good}@revoked * {}\n", sshd.host_key("ed25519"))).unwrap();
    let error = refusal(SshAccess { known_hosts: vec![file], ..sshd.ssh_access() }).await;
    assert!(matches!(*error.cause, Cause::RevokedHostKey { line: 2, .. }), "{error}");
}

#[tokio::test]
async fn the_stored_key_type_is_asked_for_also_when_names_are_hashed() {
    let types = ["ed25519", "ecdsa", "rsa"];
    let options = Options { host_key_types: &types, ..Options::default() };
    let Some(sshd) = Throwaway::start(&options) else { return };
    for key_type in types {
        let file = sshd.path(&format!("only_{key_type}"));
        let line = format!("[127.0.0.1]:{} {}\n", sshd.port(), sshd.host_key(key_type));
        fs::write(&file, line).unwrap();
        let hashed = Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(&file).status();
        assert!(hashed.unwrap().success());
        let access = SshAccess { known_hosts: vec![file], ..sshd.ssh_access() };
        connect(access).await.unwrap_or_else(|error| panic!("{key_type}: {error}"));
    }
}

#[tokio::test]
async fn a_server_with_a_host_certificate_still_shows_its_plain_key() {
    let options = Options {
        config: "HostCertificate /run/host-cert.pub",
        setup: "ssh-keygen -q -t ed25519 -N '' -f $DIR/ca; \
                ssh-keygen -q -s $DIR/ca -I host -h -n 127.0.0.1 $DIR/host_ed25519.pub; \
                cp $DIR/host_ed25519-cert.pub /run/host-cert.pub",
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    connect(sshd.ssh_access()).await.unwrap();
}

#[tokio::test]
async fn a_server_of_the_time_of_sha1_is_named_as_such() {
    let options = Options {
        config: "HostKeyAlgorithms ssh-rsa",
        host_key_types: &["rsa"],
        ..Options::default()
    };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let error = refusal(sshd.ssh_access()).await;
    assert!(matches!(*error.cause, Cause::Sha1Only { .. }), "{error}");
    assert_eq!(error.kind(), Kind::Refused);
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_unreachable_and_said_to_refuse() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refusal(nobody_at(port)).await;
    assert_eq!((error.phase(), error.kind()), (Phase::TcpConnect, Kind::Unreachable));
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_server_that_never_says_a_word_is_given_up_at_the_deadline() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let access = Access::Ssh(Box::new(nobody_at(silent.local_addr().unwrap().port())));
    let deadlines = Deadlines { key_exchange: Duration::from_millis(200), ..Deadlines::default() };
    let error = open("db1", &access, &deadlines).await.unwrap_err();
    assert_eq!((error.phase(), error.kind()), (Phase::KeyExchange, Kind::Unreachable));
}

fn nobody_at(port: u16) -> SshAccess {
    SshAccess {
        host: "127.0.0.1".to_owned(),
        port,
        user: USER.to_owned(),
        key: None,
        password: None,
        known_hosts: Vec::new(),
        host_key_policy: HostKeyPolicy::Strict,
    }
}

#[tokio::test]
async fn eight_mebibytes_come_back_whole_while_keys_are_exchanged_anew() {
    let options =
        Options { config: "RekeyLimit 256K\nDisableForwarding yes", ..Options::default() };
    let Some(sshd) = Throwaway::start(&options) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    let process = connection.start("exec cat").await.unwrap();
    let sent: Vec<u8> = (0..8 * 1024 * 1024_u32).map(|n| ((n * 31) >> 8) as u8).collect();
    let (mut reading, mut writing) = process.stream.into_split();
    let expected = sent.clone();
    let feed = tokio::spawn(async move {
        writing.write_all(&sent).await.unwrap();
        writing.shutdown().await.unwrap();
        writing
    });
    let mut received = Vec::new();
    tokio::time::timeout(5 * LONG, reading.read_to_end(&mut received)).await.unwrap().unwrap();
    assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
    drop(feed.await.unwrap());
    let mut end = process.end;
    assert_eq!(end.wait().await, Exit::Status(0));
}

/// A call for one kind of packet takes all kinds off the socket; nothing else comes that would wake
/// a thread that overlooks them. Many threads on few processors make such moments long.
#[tokio::test]
async fn an_answer_is_not_overlooked_while_many_sessions_compete() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut sessions = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let access = sshd.ssh_access();
        sessions.spawn(async move {
            let mut connection = connect(access).await.unwrap();
            let mut process = connection.start("exec cat").await.unwrap();
            for round in 0..600 {
                process.stream.write_all(b"ping\n").await.unwrap();
                let mut answer = [0; 5];
                let echo = process.stream.read_exact(&mut answer);
                let echo = tokio::time::timeout(Duration::from_secs(20), echo).await;
                echo.unwrap_or_else(|_| panic!("overlooked in round {round}")).unwrap();
            }
            assert_eq!(process.close(LONG).await, Exit::Status(0));
        });
    }
    sessions.join_all().await;
}

#[tokio::test]
async fn a_program_that_floods_stderr_does_not_block_itself() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    let script = "head -c 4000000 /dev/zero | tr \"\\000\" e >&2; echo last words >&2; echo done";
    let output = connection.run(script, b"", LONG).await.unwrap();
    assert_eq!(output.stdout, b"done\n");
    assert!(output.stderr.ends_with("last words"), "{}", output.stderr.len());
}

#[tokio::test]
async fn the_end_of_sshd_ends_the_stream_and_is_told() {
    let Some(mut sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    let mut process = connection.start("echo up; exec cat").await.unwrap();
    let mut up = [0; 3];
    process.stream.read_exact(&mut up).await.unwrap();
    sshd.tell("kill -9 -1");
    let mut rest = Vec::new();
    tokio::time::timeout(LONG, process.stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    let exit = process.end.wait().await;
    assert!(matches!(exit, Exit::Lost(_)), "{exit:?}");
    let error = connection.run("true", b"", LONG).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
}

#[tokio::test]
async fn closing_a_program_sends_end_of_file_and_the_session_goes_on() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    let process = connection.start("cat >/dev/null; exit 5").await.unwrap();
    assert_eq!(process.close(LONG).await, Exit::Status(5));
    assert_eq!(says(&mut connection, "echo again").await, "again\n");
}

#[tokio::test]
async fn a_program_that_ignores_end_of_file_is_cut_off() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    let process = connection.start("sleep 600").await.unwrap();
    assert_eq!(process.close(Duration::from_millis(100)).await, Exit::CutOff);
}

#[tokio::test]
async fn a_frozen_node_does_not_hold_up_the_farewell() {
    let Some(mut sshd) = Throwaway::start(&Options::default()) else { return };
    let short = Duration::from_millis(100);
    let deadlines = Deadlines { close: short, ..Deadlines::default() };
    let mut connection = open("db1", &sshd.access(), &deadlines).await.unwrap();
    let mut process = connection.start("echo up; exec cat").await.unwrap();
    process.stream.read_exact(&mut [0; 3]).await.unwrap();
    sshd.tell("kill -STOP -1");
    let farewell = async {
        let exit = process.close(short).await;
        connection.close().await;
        exit
    };
    assert_eq!(tokio::time::timeout(LONG, farewell).await.unwrap(), Exit::CutOff);
}

#[tokio::test]
async fn scripts_run_under_any_login_shell() {
    for shell in ["/bin/sh", "/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish", "/bin/ksh"] {
        if !PathBuf::from(shell).exists() {
            eprintln!("skipped: no {shell}");
            continue;
        }
        let Some(sshd) = Throwaway::start(&Options { shell, ..Options::default() }) else { return };
        let mut connection = connect(sshd.ssh_access()).await.unwrap();
        let said = says(&mut connection, "x=$(echo \"a  b\"); printf \"%s\\n\" \"$x\" 2>&1").await;
        assert_eq!(said, "a  b\n", "{shell}");
    }
}

#[tokio::test]
async fn a_script_that_some_shell_would_change_is_refused() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    for script in ["echo 'x'", "[ ! -e x ]", "true\ntrue", "echo \\\\"] {
        let error = connection.start(script).await.unwrap_err();
        assert_eq!(error.phase(), Phase::Start, "{script}");
    }
}

/// Not a check of speed, but of what it costs: told for the eye, in release builds too.
#[tokio::test]
async fn a_login_and_one_program_are_quick() {
    let Some(sshd) = Throwaway::start(&Options::default()) else { return };
    let start = Instant::now();
    let mut connection = connect(sshd.ssh_access()).await.unwrap();
    let open = start.elapsed();
    says(&mut connection, "true").await;
    eprintln!("open {open:?}, with one program {:?}", start.elapsed());
}

/// An ssh-agent of one test.
struct Agent {
    socket: PathBuf,
    process: std::process::Child,
}

impl Agent {
    fn start(sshd: &Throwaway) -> Option<Self> {
        let socket = sshd.path("agent.sock");
        // `-D` keeps it in the foreground, where `Drop` can end it.
        let process = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).spawn();
        let Ok(process) = process else {
            eprintln!("skipped: no ssh-agent");
            return None;
        };
        let until = Instant::now() + LONG;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until, "ssh-agent does not listen");
            std::thread::yield_now();
        }
        Some(Self { socket, process })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
