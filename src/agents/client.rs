//! The gRPC client of one agent; the only file of the controller that names generated types.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use redoline_proto::facts::{FactsRequest, HostFacts};
use redoline_proto::handshake::{ClockAnswer, ClockQuestion, Hello, HelloAnswer};
use redoline_proto::path::{
    HoldMtuEvent, HoldMtuJob, PathProbe, ProbeJob, ReflectEvent, ReflectJob,
};
use redoline_proto::storage::{StorageEvent, StorageJob};
use redoline_proto::transfer::{JobId, ReceiveJob, SendJob, TransferEvent};
use redoline_proto::{FromWire, InvalidMessage, ToWire, pb};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

/// Why an agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The channel to the agent is gone, or it stopped answering.
    #[error("lost the agent while asking it to {operation}: {reason}")]
    Lost { operation: &'static str, reason: String },
    #[error("the agent did not {operation} within {seconds} s")]
    Silent { operation: &'static str, seconds: u64 },
    /// It answered, and its answer is no.
    #[error("the agent refused to {operation}: {reason}")]
    Refused { operation: &'static str, reason: String, busy: bool },
    #[error("the agent's answer to {operation} makes no sense")]
    Nonsense {
        operation: &'static str,
        #[source]
        cause: InvalidMessage,
    },
}

/// What either end of a throughput test tells.
pub type TransferEvents = Events<TransferEvent, pb::TransferEvent>;

/// What a storage test tells.
pub type StorageEvents = Events<StorageEvent, pb::StorageEvent>;

/// What a reflector of probes tells.
pub type ReflectEvents = Events<ReflectEvent, pb::ReflectEvent>;

/// What an interface with a changed MTU tells.
pub type HoldMtuEvents = Events<HoldMtuEvent, pb::HoldMtuEvent>;

/// A handle to one agent; clones share its connection.
#[derive(Clone, Debug)]
pub struct AgentClient {
    grpc: pb::agent_client::AgentClient<Channel>,
}

/// HTTP/2 pings notice an agent that no longer answers, also while nothing is asked of it.
const PING_INTERVAL: Duration = Duration::from_secs(2);

impl AgentClient {
    /// Speaks HTTP/2 over `stream`. `silence_max`: how long an unanswered ping is waited for.
    pub async fn over(stream: UnixStream, silence_max: Duration) -> Result<Self, AgentError> {
        // The stream can be used once: a lost agent must show as an error, never as a silent
        // second connection.
        let stream = Mutex::new(Some(stream));
        let connector = tower::service_fn(move |_: tonic::transport::Uri| {
            let stream = stream.lock().ok().and_then(|mut stream| stream.take());
            async move {
                stream
                    .map(TokioIo::new)
                    .ok_or_else(|| io::Error::other("the channel to the agent was used before"))
            }
        });
        let channel = Endpoint::from_static("http://agent")
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(silence_max)
            .keep_alive_while_idle(true)
            .connect_with_connector(connector)
            .await
            .map_err(|error| AgentError::Lost {
                operation: "speak HTTP/2",
                reason: error.to_string(),
            })?;
        Ok(Self { grpc: pb::agent_client::AgentClient::new(channel) })
    }

    pub async fn hello(&self, hello: Hello, deadline: Duration) -> Result<HelloAnswer, AgentError> {
        const OPERATION: &str = "greet";
        let mut grpc = self.grpc.clone();
        let request: pb::HelloRequest = hello.to_wire();
        unary(OPERATION, deadline, grpc.hello(request)).await
    }

    pub async fn beat(
        &self,
        question: ClockQuestion,
        deadline: Duration,
    ) -> Result<ClockAnswer, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::BeatRequest = question.to_wire();
        unary("beat", deadline, grpc.beat(request)).await
    }

    /// `deadline` covers the answer; the request's own deadline covers what the agent asks of the
    /// network.
    pub async fn facts(
        &self,
        request: FactsRequest,
        deadline: Duration,
    ) -> Result<HostFacts, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::FactsRequest = request.to_wire();
        unary("tell its facts", deadline, grpc.facts(request)).await
    }

    pub async fn receive(
        &self,
        job: ReceiveJob,
        deadline: Duration,
    ) -> Result<TransferEvents, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::ReceiveRequest = job.to_wire();
        stream("receive", deadline, grpc.receive(request)).await
    }

    pub async fn send(
        &self,
        job: SendJob,
        deadline: Duration,
    ) -> Result<TransferEvents, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::SendRequest = job.to_wire();
        stream("send", deadline, grpc.send(request)).await
    }

    /// The barrier: the sender of `job` starts.
    pub async fn go(&self, job: JobId, deadline: Duration) -> Result<(), AgentError> {
        let mut grpc = self.grpc.clone();
        let answer = grpc.go(pb::JobRequest { job: job.0 });
        within("start the sender", deadline, answer).await.map(|_| ())
    }

    /// The sender of `job` ends as if its duration were over.
    pub async fn finish(&self, job: JobId, deadline: Duration) -> Result<(), AgentError> {
        let mut grpc = self.grpc.clone();
        let answer = grpc.finish(pb::JobRequest { job: job.0 });
        within("finish the test", deadline, answer).await.map(|_| ())
    }

    /// Ends a job at once; its events go on to its last one. One that has ended already is no error.
    pub async fn cancel(&self, job: JobId, deadline: Duration) -> Result<(), AgentError> {
        let mut grpc = self.grpc.clone();
        let answer = grpc.cancel(pb::JobRequest { job: job.0 });
        within("end the job", deadline, answer).await.map(|_| ())
    }

    pub async fn reflect(
        &self,
        job: ReflectJob,
        deadline: Duration,
    ) -> Result<ReflectEvents, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::ReflectRequest = job.to_wire();
        stream("answer probes", deadline, grpc.reflect(request)).await
    }

    /// `deadline` covers the answer; the job's own covers the probe.
    pub async fn probe_path(
        &self,
        job: ProbeJob,
        deadline: Duration,
    ) -> Result<PathProbe, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::ProbePathRequest = job.to_wire();
        unary("probe the path", deadline, grpc.probe_path(request)).await
    }

    /// The MTU is restored when the events are dropped.
    pub async fn hold_mtu(
        &self,
        job: HoldMtuJob,
        deadline: Duration,
    ) -> Result<HoldMtuEvents, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::HoldMtuRequest = job.to_wire();
        stream("change the MTU", deadline, grpc.hold_mtu(request)).await
    }

    pub async fn read_storage(
        &self,
        job: StorageJob,
        deadline: Duration,
    ) -> Result<StorageEvents, AgentError> {
        let mut grpc = self.grpc.clone();
        let request: pb::ReadStorageRequest = job.to_wire();
        stream("read storage", deadline, grpc.read_storage(request)).await
    }
}

/// What an agent tells while a job runs. Dropping it cancels the job.
#[derive(Debug)]
pub struct Events<T, W> {
    operation: &'static str,
    wire: Streaming<W>,
    domain: std::marker::PhantomData<fn() -> T>,
}

impl<T: FromWire<W>, W> Events<T, W> {
    /// The next event within `deadline`; `None` at the end of the stream.
    pub async fn next(&mut self, deadline: Duration) -> Result<Option<T>, AgentError> {
        let operation = self.operation;
        let message = within(operation, deadline, self.wire.message()).await?;
        message
            .map(T::from_wire)
            .transpose()
            .map_err(|cause| AgentError::Nonsense { operation, cause })
    }
}

async fn unary<T: FromWire<W>, W>(
    operation: &'static str,
    deadline: Duration,
    call: impl Future<Output = Result<tonic::Response<W>, Status>>,
) -> Result<T, AgentError> {
    let answer = within(operation, deadline, call).await?.into_inner();
    T::from_wire(answer).map_err(|cause| AgentError::Nonsense { operation, cause })
}

async fn stream<T: FromWire<W>, W>(
    operation: &'static str,
    deadline: Duration,
    call: impl Future<Output = Result<tonic::Response<Streaming<W>>, Status>>,
) -> Result<Events<T, W>, AgentError> {
    let wire = within(operation, deadline, call).await?.into_inner();
    Ok(Events { operation, wire, domain: std::marker::PhantomData })
}

async fn within<T>(
    operation: &'static str,
    deadline: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, AgentError> {
    match timeout(deadline, call).await {
        Err(_) => Err(AgentError::Silent { operation, seconds: deadline.as_secs() }),
        Ok(answer) => answer.map_err(|status| classify(operation, status)),
    }
}

/// A lost connection arrives as `Unknown` or `Unavailable`; everything else is the agent's word.
fn classify(operation: &'static str, status: Status) -> AgentError {
    match status.code() {
        Code::Unknown | Code::Unavailable | Code::Internal | Code::Cancelled => {
            AgentError::Lost { operation, reason: status.message().to_owned() }
        }
        code => AgentError::Refused {
            operation,
            reason: status.message().to_owned(),
            busy: code == Code::AlreadyExists,
        },
    }
}
