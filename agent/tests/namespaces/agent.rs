//! The agent's executable in a namespace, and the part of a controller that holds an MTU; the only
//! file here that names generated types.

use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use std::{fs, io};

use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redoline_proto::handshake::{ClockQuestion, Hello};
use redoline_proto::path::{HoldMtuEvent, HoldMtuJob};
use redoline_proto::transfer::JobId;
use redoline_proto::{FromWire, PROTOCOL, ToWire, pb};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::namespace::Namespace;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_redoline-agent");
const MARKER: &str = "0123456789abcdef";
pub const LONG: Duration = Duration::from_secs(30);

/// An agent whose executable is removed at its start, as on a node.
pub struct Agent {
    runtime: Runtime,
    child: Child,
    client: Option<pb::agent_client::AgentClient<Channel>>,
    /// Of the last hold; the next one has another, since a job outlives its last word for a moment.
    job: Cell<u64>,
    _folder: TempDir,
}

impl Agent {
    pub fn start(namespace: &Namespace) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = folder();
        let executable = folder.path().join("agent");
        let (child, channel) = namespace.run(move || spawn(&executable));
        let client = runtime.block_on(async {
            channel.set_nonblocking(true).unwrap();
            let mut channel = UnixStream::from_std(channel).unwrap();
            channel.read_exact(&mut [0; MARKER.len() + 1]).await.unwrap();
            let mut client = connect(channel).await;
            client.hello(hello()).await.unwrap();
            client
        });
        Self { runtime, child, client: Some(client), job: Cell::new(0), _folder: folder }
    }

    pub fn hold(&self, address: IpAddr, mtu_bytes: u32, deadline: Duration) -> Holding<'_> {
        self.job.set(self.job.get() + 1);
        let job = HoldMtuJob { job: JobId(self.job.get()), address, mtu_bytes, deadline };
        let request: pb::HoldMtuRequest = job.to_wire();
        let mut client = self.client.clone().unwrap();
        let events = self.runtime.block_on(client.hold_mtu(request)).unwrap().into_inner();
        Holding { agent: self, events }
    }

    pub fn finish(&self) {
        let mut client = self.client.clone().unwrap();
        let request = pb::JobRequest { job: self.job.get() };
        assert!(self.runtime.block_on(client.finish(request)).unwrap().into_inner().known);
    }

    pub fn cancel(&self) {
        let mut client = self.client.clone().unwrap();
        let request = pb::JobRequest { job: self.job.get() };
        assert!(self.runtime.block_on(client.cancel(request)).unwrap().into_inner().known);
    }

    pub fn beat(&self) {
        let mut client = self.client.clone().unwrap();
        let request: pb::BeatRequest = ClockQuestion { sent_ns: 42 }.to_wire();
        self.runtime.block_on(client.beat(request)).unwrap();
    }

    /// Its only child.
    pub fn guardian(&self) -> Pid {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        // Started by another thread than the first.
        let mut all = children.unwrap_or_default();
        for task in fs::read_dir(format!("/proc/{id}/task")).unwrap() {
            let path = task.unwrap().path().join("children");
            all.push_str(&fs::read_to_string(path).unwrap_or_default());
        }
        let id = all.split_ascii_whitespace().next().expect("a child");
        Pid::from_raw(id.parse().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub fn wait(mut self) {
        self.client = None;
        // The connection's task is what holds the channel.
        drop(self.runtime);
        self.child.wait().unwrap();
    }
}

/// What the agent tells of a held MTU.
pub struct Holding<'a> {
    agent: &'a Agent,
    events: Streaming<pb::HoldMtuEvent>,
}

impl Holding<'_> {
    pub fn next(&mut self) -> HoldMtuEvent {
        let next = async { tokio::time::timeout(LONG, self.events.message()).await };
        let event = self.agent.runtime.block_on(next).expect("an event").unwrap();
        HoldMtuEvent::from_wire(event.expect("one more")).unwrap()
    }
}

/// One without an agent, with these orders.
pub fn guardian(namespace: &Namespace, orders: &str) -> Child {
    let orders = orders.to_owned();
    namespace.run(move || {
        Command::new(EXECUTABLE)
            .args(["--marker", MARKER, "--restore-mtu", &orders])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    })
}

/// With a link to the executable, which itself stays.
fn folder() -> TempDir {
    let parent = Path::new(EXECUTABLE).parent().unwrap();
    let folder = tempfile::Builder::new().prefix("namespaces-").tempdir_in(parent).unwrap();
    fs::hard_link(EXECUTABLE, folder.path().join("agent")).unwrap();
    folder
}

fn spawn(executable: &Path) -> (Child, StdUnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    let child = Command::new(executable)
        .args(["--marker", MARKER, "--remove"])
        .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (child, ours)
}

async fn connect(channel: UnixStream) -> pb::agent_client::AgentClient<Channel> {
    let channel = Mutex::new(Some(TokioIo::new(channel)));
    let once = service_fn(move |_| {
        let channel = channel.lock().unwrap().take();
        async move { channel.ok_or_else(|| io::Error::other("the channel is used up")) }
    });
    let channel = Endpoint::from_static("http://agent").connect_with_connector(once).await;
    pb::agent_client::AgentClient::new(channel.unwrap())
}

fn hello() -> pb::HelloRequest {
    Hello {
        protocol: PROTOCOL,
        version: "0.0.0-test".to_owned(),
        commit: "none".to_owned(),
        run_id: "run-1".to_owned(),
        owner: "ann@jump".to_owned(),
        redo_address: "198.51.100.1".to_owned(),
        lease_ms: 60_000,
        clock: ClockQuestion { sent_ns: 7 },
    }
    .to_wire()
}
