//! A controller's side of the agent, for tests; the only file here that names generated types.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use redoline_agent::Ended;
use redoline_proto::facts::{FactsRequest, HostFacts};
use redoline_proto::handshake::{ClockAnswer, ClockQuestion, Hello, HelloAnswer};
use redoline_proto::transfer::{
    Batch, Connected, Guard, JobId, Payload, Reading, ReceiveJob, Sample, SendJob, SocketRequest,
    Token, TransferEnd, TransferEvent,
};
use redoline_proto::units::Bytes;
use redoline_proto::{FromWire, PROTOCOL, ToWire, pb};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tower::service_fn;

pub const TOKEN: Token = Token([0x5a; 16]);

/// Longer than anything a test waits for takes; a test that reaches it has failed.
pub const LONG: Duration = Duration::from_secs(30);

/// An address of this machine that no other test uses.
pub fn own_address() -> IpAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(number < 255, "more addresses than one process has");
    let process = std::process::id();
    IpAddr::from([127, (process % 250) as u8 + 1, (process / 250 % 250) as u8, number as u8])
}

/// What no other agent of any process has the lock of.
pub fn own_lock() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A client of an agent.
#[derive(Clone)]
pub struct Client(pb::agent_client::AgentClient<Channel>);

impl Client {
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let stream = Mutex::new(Some(TokioIo::new(stream)));
        let once = service_fn(move |_| {
            let stream = stream.lock().unwrap().take();
            async move { stream.ok_or_else(|| std::io::Error::other("the channel is used up")) }
        });
        let channel = Endpoint::from_static("http://agent").connect_with_connector(once).await;
        Self(pb::agent_client::AgentClient::new(channel.unwrap()))
    }

    pub async fn hello(&mut self, hello: Hello) -> Result<HelloAnswer, Status> {
        let request: pb::HelloRequest = hello.to_wire();
        self.0.hello(request).await.map(|reply| HelloAnswer::from_wire(reply.into_inner()).unwrap())
    }

    pub async fn beat(&mut self) -> Result<ClockAnswer, Status> {
        let request: pb::BeatRequest = ClockQuestion { sent_ns: 42 }.to_wire();
        self.0.beat(request).await.map(|reply| ClockAnswer::from_wire(reply.into_inner()).unwrap())
    }

    pub async fn facts(&mut self) -> Result<HostFacts, Status> {
        let request =
            FactsRequest { peers: vec![], redo_address: String::new(), deadline_ms: 5000 };
        let request: pb::FactsRequest = request.to_wire();
        self.0.facts(request).await.map(|reply| HostFacts::from_wire(reply.into_inner()).unwrap())
    }

    pub async fn receive(&mut self, job: ReceiveJob) -> Result<Events, Status> {
        let request: pb::ReceiveRequest = job.to_wire();
        self.0.receive(request).await.map(|reply| Events(reply.into_inner()))
    }

    pub async fn send(&mut self, job: SendJob) -> Result<Events, Status> {
        let request: pb::SendRequest = job.to_wire();
        self.0.send(request).await.map(|reply| Events(reply.into_inner()))
    }

    pub async fn go(&mut self, job: JobId) -> bool {
        self.0.go(pb::JobRequest { job: job.0 }).await.unwrap().into_inner().known
    }

    pub async fn finish(&mut self, job: JobId) -> bool {
        self.0.finish(pb::JobRequest { job: job.0 }).await.unwrap().into_inner().known
    }

    pub async fn cancel(&mut self, job: JobId) -> bool {
        self.0.cancel(pb::JobRequest { job: job.0 }).await.unwrap().into_inner().known
    }
}

/// What a job tells.
pub struct Events(Streaming<pb::TransferEvent>);

/// Everything that one end told of a test.
#[derive(Debug)]
pub struct Told {
    pub connected: Option<Connected>,
    pub started_ns: Option<i64>,
    pub samples: Vec<Sample>,
    pub readings: Vec<Reading>,
    pub end: TransferEnd,
}

impl Events {
    pub async fn next(&mut self) -> Result<Option<TransferEvent>, Status> {
        let event = tokio::time::timeout(LONG, self.0.message()).await.expect("an event");
        Ok(event?.map(|event| TransferEvent::from_wire(event).unwrap()))
    }

    pub async fn port(&mut self) -> u16 {
        match self.next().await.unwrap() {
            Some(TransferEvent::Ready { port }) => port,
            other => panic!("{other:?} instead of the port"),
        }
    }

    pub async fn connected(&mut self) -> Connected {
        match self.next().await.unwrap() {
            Some(TransferEvent::Connected(connected)) => connected,
            other => panic!("{other:?} instead of the connections"),
        }
    }

    /// Up to the end.
    pub async fn rest(mut self) -> Told {
        let (mut connected, mut started_ns, mut all) = (None, None, Batch::default());
        loop {
            match self.next().await.unwrap().expect("an end") {
                TransferEvent::Ready { .. } => {}
                TransferEvent::Connected(told) => connected = Some(told),
                TransferEvent::Started { at_ns } => started_ns = Some(at_ns),
                TransferEvent::Batch(batch) => {
                    all.samples.extend(batch.samples);
                    all.readings.extend(batch.readings);
                }
                TransferEvent::End(end) => {
                    assert!(self.next().await.unwrap().is_none(), "something after the end");
                    let Batch { samples, readings } = all;
                    return Told { connected, started_ns, samples, readings, end };
                }
            }
        }
    }
}

impl Told {
    pub fn bytes(&self) -> u64 {
        self.end.streams.iter().map(|stream| stream.bytes).sum()
    }

    pub fn sampled_bytes(&self) -> Vec<u64> {
        (0..self.end.streams.len())
            .map(|stream| self.samples.iter().map(|sample| sample.stream_bytes[stream]).sum())
            .collect()
    }

    pub fn stop_text(&self) -> &str {
        self.end.stopped.as_ref().map_or("", |stopped| &stopped.text)
    }
}

/// An agent inside this process, with its lock taken.
pub struct Agent {
    pub client: Client,
    /// What it is to take the lock of.
    pub lock: String,
    pub shutdown: CancellationToken,
    pub served: JoinHandle<Ended>,
}

impl Agent {
    /// Nothing has been said to it yet.
    pub async fn silent() -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        Self::between(ours, theirs).await
    }

    /// With the two ends of its channel.
    pub async fn between<S>(ours: S, theirs: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone().cancelled_owned();
        let served =
            tokio::spawn(async { redoline_agent::serve(theirs, stop).await.expect("served") });
        Self { client: Client::over(ours).await, lock: own_lock(), shutdown, served }
    }

    pub async fn new() -> Self {
        let mut agent = Self::silent().await;
        agent.client.hello(hello(&agent.lock)).await.unwrap();
        agent
    }

    /// Closes the channel as a controller that dies does.
    pub async fn abandon(self) -> Ended {
        drop(self.client);
        self.served.await.unwrap()
    }
}

pub fn hello(lock: &str) -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: "0.0.0-test".to_owned(),
        commit: "none".to_owned(),
        run_id: "run-1".to_owned(),
        owner: "ann@jump".to_owned(),
        redo_address: lock.to_owned(),
        lease_ms: 60_000,
        clock: ClockQuestion { sent_ns: 7 },
    }
}

pub fn receive_job(address: IpAddr) -> ReceiveJob {
    ReceiveJob {
        job: JobId(1),
        token: TOKEN,
        bind_address: address,
        ports: (0, 0),
        expected_peer: None,
        num_conn: 1,
        socket: SocketRequest::default(),
        deadline: LONG,
        sample: Duration::from_millis(50),
        reading: Duration::from_millis(100),
        guard: Guard::default(),
        acknowledge: None,
        encoding: None,
    }
}

pub fn send_job(address: IpAddr, port: u16) -> SendJob {
    SendJob {
        job: JobId(2),
        token: TOKEN,
        address,
        port,
        bind_address: None,
        num_conn: 1,
        socket: SocketRequest::default(),
        message: Bytes(1_000_000),
        payload: Payload::Random,
        duration: Duration::from_secs(1),
        reading: Duration::from_millis(100),
        connect_deadline: Duration::from_secs(10),
        go_deadline: LONG,
        rate: None,
        bytes_max: None,
        guard: Guard::default(),
        acknowledged: false,
        delay: None,
        stall_deadline: None,
        encoding: None,
        compressible: None,
    }
}

/// A whole test from one agent to another; the port of `send` is filled in.
pub async fn run_test(receive: ReceiveJob, send: SendJob) -> (Told, Told) {
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let mut received = receiver.client.receive(receive).await.unwrap();
    let port = received.port().await;
    let job = send.job;
    let sent = sender.client.send(SendJob { port, ..send }).await.unwrap();
    let (sent, received) = start_and_finish(&mut sender.client, job, sent, received).await;
    assert_eq!(sender.abandon().await, Ended::ChannelClosed);
    assert_eq!(receiver.abandon().await, Ended::ChannelClosed);
    (sent, received)
}

/// From the connections to both ends.
pub async fn start_and_finish(
    sender: &mut Client,
    job: JobId,
    mut sent: Events,
    received: Events,
) -> (Told, Told) {
    let connected = sent.connected().await;
    assert!(sender.go(job).await);
    let (mut sent, received) = tokio::join!(sent.rest(), received.rest());
    sent.connected = Some(connected);
    (sent, received)
}
