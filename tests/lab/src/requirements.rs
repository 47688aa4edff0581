//! What a machine needs for a lab.

use std::{fs, path::Path, thread};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::Uid,
};

/// The programs that a lab runs, with the package that usually has them.
const PROGRAMS: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("ping", "iputils-ping"),
    ("iperf3", "iperf3"),
    ("timeout", "coreutils"),
];

/// Why there can be no lab on this machine; `None` if there can.
pub fn why_unavailable() -> Option<String> {
    if !Uid::effective().is_root() {
        return Some("needs root".to_owned());
    }
    if let Some((program, package)) = PROGRAMS.iter().find(|(program, _)| !is_installed(program)) {
        return Some(format!("needs `{program}` (package {package})"));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("needs `/dev/net/tun`".to_owned());
    }
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !file_systems.split_ascii_whitespace().any(|name| name == "overlay") {
        return Some("needs the overlay file system (`modprobe overlay`)".to_owned());
    }
    if !may_unshare() {
        return Some("needs CAP_SYS_ADMIN, to make namespaces".to_owned());
    }
    None
}

/// Root in a container often may not. Tried on a thread, which takes the namespaces with it.
fn may_unshare() -> bool {
    let kinds = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    thread::spawn(move || unshare(kinds).is_ok()).join().unwrap_or(false)
}

fn is_installed(program: &str) -> bool {
    let directories =
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    directories.iter().any(|directory| Path::new(directory).join(program).exists())
}
