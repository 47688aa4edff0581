//! Network namespaces, each kept by a thread that is in it.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Uid, gettid};

/// Why there can be none; `None` if there can.
pub fn why_unavailable() -> Option<String> {
    if !Uid::effective().is_root() {
        return Some("needs root".to_owned());
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Some("needs `ip` (package iproute2)".to_owned());
    }
    let unshared = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join();
    (!unshared.unwrap()).then(|| "needs CAP_SYS_ADMIN, to make namespaces".to_owned())
}

type Work = Box<dyn FnOnce() + Send>;

/// It vanishes with the last process and thread in it.
pub struct Namespace {
    path: String,
    work: mpsc::Sender<Work>,
}

impl Namespace {
    pub fn new() -> Self {
        let (work, todo) = mpsc::channel::<Work>();
        let (made, path) = mpsc::channel();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            made.send(format!("/proc/{}/task/{}/ns/net", std::process::id(), gettid())).unwrap();
            todo.into_iter().for_each(|work| work());
        });
        let namespace = Self { path: path.recv().unwrap(), work };
        namespace.ip("link set lo up");
        // Else link-local addresses cannot be used in the first seconds, nor neighbours be found.
        namespace.set("net/ipv6/conf/default/accept_dad", "0");
        namespace
    }

    /// On the thread that is inside, whose threads and processes are, too.
    pub fn run<T: Send + 'static>(&self, inside: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, done) = mpsc::channel();
        self.work.send(Box::new(move || drop(result.send(inside())))).unwrap();
        done.recv().expect("what runs inside does not panic")
    }

    /// On a thread of its own inside.
    pub fn spawn<T: Send + 'static>(
        &self,
        inside: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        self.run(move || thread::spawn(inside))
    }

    /// Runs `ip` with these arguments; its output.
    pub fn ip(&self, arguments: &str) -> String {
        self.command("ip", arguments)
    }

    /// False where the kernel does not know what is asked.
    pub fn try_ip(&self, arguments: &str) -> bool {
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        self.run(move || Command::new("ip").args(arguments).output().unwrap().status.success())
    }

    pub fn command(&self, program: &'static str, arguments: &str) -> String {
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let shown = arguments.join(" ");
        let output = self.run(move || Command::new(program).args(arguments).output().unwrap());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {shown}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A cable from `name` here to `other_name` there.
    pub fn cable(&self, name: &str, other: &Self, other_name: &str) {
        let path = &other.path;
        self.ip(&format!("link add {name} type veth peer name {other_name} netns {path}"));
    }

    /// Gives an interface its address and MTU, and turns it on.
    pub fn set_up(&self, interface: &str, address: &str, mtu: u32) {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("address add {address} dev {interface}{nodad}"));
        self.ip(&format!("link set {interface} up mtu {mtu}"));
    }

    pub fn set(&self, sysctl: &'static str, value: &'static str) {
        self.run(move || std::fs::write(format!("/proc/sys/{sysctl}"), value).unwrap());
    }

    pub fn mtu(&self, interface: &str) -> u32 {
        let line = self.ip(&format!("-o link show {interface}"));
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let place = words.iter().position(|word| *word == "mtu").unwrap();
        words[place + 1].parse().unwrap()
    }
}
