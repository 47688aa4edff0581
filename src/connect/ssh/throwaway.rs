//! An sshd of one test, in namespaces of its own: own users, processes, `/tmp` and the like.
//!
//! A shell is the first process of the PID namespace and reads commands from its stdin. When that
//! closes, by `Drop` or because the test was killed, the shell ends and everything goes with it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::plan::access::{Access, HostKeyPolicy, SshAccess};

pub(crate) const USER: &str = "tester";
pub(crate) const PASSWORD: &str = "pass word!";
/// `openssl passwd -6 -salt redoline 'pass word!'`
const PASSWORD_HASH: &str = "$6$redoline$geEqmMNvd4oKoPmw9P9aF.78XrEfeNyFupW.ZNpx4KBMZ.KlDZHfr72hlfOFnRa/4iKcwrlUQzRXRDh2dkEW0/";
const SSHD: &str = "/usr/sbin/sshd";

/// How a throwaway sshd differs from the plain one.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// Lines of sshd_config; of two values for one keyword, sshd takes the first, which is here.
    pub config: &'a str,
    /// Run as root in the new namespaces before sshd starts; `$DIR` is the sshd's directory.
    pub setup: &'a str,
    pub shell: &'a str,
    pub host_key_types: &'a [&'a str],
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { config: "", setup: "true", shell: "/bin/bash", host_key_types: &["ed25519"] }
    }
}

#[derive(Debug)]
pub(crate) struct Throwaway {
    directory: TempDir,
    port: u16,
    shell: Child,
}

impl Throwaway {
    /// Starts an sshd, or says why this machine cannot and gives `None`.
    pub(crate) fn start(options: &Options<'_>) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new(SSHD).exists() {
            eprintln!("skipped: needs root and {SSHD}");
            return None;
        }
        let can_unshare =
            Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).status();
        if !can_unshare.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no private namespaces here");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        prepare(root, port, options);
        let mut shell = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--mount-proc", "/bin/sh", "-c"])
            .arg(format!(
                "set -e; mount -t tmpfs none /run; mkdir /run/sshd /run/dir; \
                 mount --bind $DIR /run/dir; mount -t tmpfs none /tmp; chmod 1777 /tmp; \
                 mkdir -p $DIR; mount --bind /run/dir $DIR; \
                 mount --bind $DIR/passwd /etc/passwd; mount --bind $DIR/shadow /etc/shadow; \
                 mount -t tmpfs none /var/tmp; mount -t tmpfs none /dev/shm; \
                 chmod 1777 /var/tmp /dev/shm; {}; set +e; \
                 {SSHD} -D -e -f $DIR/sshd_config </dev/null & \
                 while read -r line; do eval \"$line\"; done; exit",
                options.setup
            ))
            .env("DIR", root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until_it_listens(&mut shell);
        Some(Self { directory, port, shell })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Runs a line of shell as root in the sshd's namespaces.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.shell.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Logs in by key to a host whose key is known.
    pub(crate) fn ssh_access(&self) -> SshAccess {
        SshAccess {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            user: USER.to_owned(),
            key: Some(self.path("id")),
            password: None,
            known_hosts: vec![self.path("known_hosts")],
            host_key_policy: HostKeyPolicy::Strict,
        }
    }

    pub(crate) fn access(&self) -> Access {
        Access::Ssh(Box::new(self.ssh_access()))
    }

    /// Type and base64 of a host key.
    pub(crate) fn host_key(&self, key_type: &str) -> String {
        public_key(&self.path(&format!("host_{key_type}.pub")))
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }
}

/// Writes keys, users and configuration.
fn prepare(root: &Path, port: u16, options: &Options<'_>) {
    let mut config = format!(
        "{}\nPort {port}\nListenAddress 127.0.0.1\nStrictModes no\nUsePAM no\n\
         PermitRootLogin yes\nPidFile none\nAuthorizedKeysFile {}\n",
        options.config,
        root.join("authorized_keys").display(),
    );
    let mut known_hosts = String::new();
    for key_type in options.host_key_types {
        let key = root.join(format!("host_{key_type}"));
        generate_key(&key, key_type, "");
        config.push_str(&format!("HostKey {}\n", key.display()));
        let public = public_key(&key.with_extension("pub"));
        known_hosts.push_str(&format!("[127.0.0.1]:{port} {public}\n"));
    }
    generate_key(&root.join("id"), "ed25519", "");
    fs::copy(root.join("id.pub"), root.join("authorized_keys")).unwrap();
    fs::write(root.join("known_hosts"), known_hosts).unwrap();
    fs::write(root.join("sshd_config"), config).unwrap();

    let home = root.join("home");
    fs::create_dir_all(home.join(".cache")).unwrap();
    let user_id = 54_321;
    for path in [&home, &home.join(".cache")] {
        std::os::unix::fs::chown(path, Some(user_id), Some(user_id)).unwrap();
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let user = format!("{USER}:x:{user_id}:{user_id}::{}:{}\n", home.display(), options.shell);
    fs::write(root.join("passwd"), passwd + &user).unwrap();
    let shadow = fs::read_to_string("/etc/shadow").unwrap();
    fs::write(root.join("shadow"), shadow + &format!("{USER}:{PASSWORD_HASH}:19000::::::\n"))
        .unwrap();
    fs::set_permissions(root.join("shadow"), fs::Permissions::from_mode(0o600)).unwrap();
}

pub(crate) fn generate_key(path: &Path, key_type: &str, passphrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", key_type, "-N", passphrase, "-C", "test", "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

fn public_key(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Waits for sshd's own word, then keeps reading what it says so that it never blocks.
fn wait_until_it_listens(shell: &mut Child) {
    let stderr = BufReader::new(shell.stderr.take().unwrap());
    let (heard, listening) = mpsc::channel();
    thread::spawn(move || {
        let mut said = String::new();
        for line in stderr.lines().map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.contains("Server listening") {
                heard.send(Ok(())).unwrap_or_default();
            }
        }
        heard.send(Err(said)).unwrap_or_default();
    });
    if let Err(said) = listening.recv_timeout(Duration::from_secs(30)).unwrap() {
        panic!("sshd did not start: {said}");
    }
}
