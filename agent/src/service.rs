//! The gRPC service: the one file of the agent that names generated types.
//!
//! A request becomes a domain type in the expression that receives it, an answer a message in the
//! expression that returns it.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use redoline_proto::facts::FactsRequest;
use redoline_proto::handshake::{ClockAnswer, ClockQuestion, Hello, HelloAnswer};
use redoline_proto::path::{HoldMtuEvent, HoldMtuJob, ProbeJob, ReflectEvent, ReflectJob};
use redoline_proto::storage::{StorageEvent, StorageJob};
use redoline_proto::transfer::{JobId, ReceiveJob, SendJob, TransferEvent};
use redoline_proto::{FromWire, InvalidMessage, MESSAGE_BYTES_MAX, PROTOCOL, ToWire, pb};
use tokio::sync::{OnceCell, mpsc};
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Response, Status};

use crate::jobs::{JobControl, Jobs, StartError, interface_mtu, path, storage, transfer};
use crate::lease::Lease;
use crate::lock::{Holder, LockError, NodeLock};
use crate::sys::clock::{monotonic_ns, unix_ns};
use crate::{COMMIT, VERSION, facts};

/// Events that may wait for the controller; a transfer keeps what finds no room.
const EVENTS_MAX: usize = 16;

/// Beyond their own deadline, for facts to come together.
const FACTS_GRACE: Duration = Duration::from_secs(5);

/// An agent that is forgotten ends on its own within this, whatever it was told.
const LEASE_MAX: Duration = Duration::from_secs(600);

/// The service, with every word of the controller renewing the lease.
pub fn routes(jobs: Jobs, lease: Lease) -> Routes {
    let service = AgentService { jobs, lease: lease.clone(), lock: OnceCell::new() };
    let server =
        pb::agent_server::AgentServer::new(service).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let renewing = move |request| {
        lease.renew();
        Ok(request)
    };
    Routes::new(InterceptedService::new(server, renewing))
}

struct AgentService {
    jobs: Jobs,
    lease: Lease,
    /// Held from the first words on.
    lock: OnceCell<NodeLock>,
}

#[tonic::async_trait]
impl pb::agent_server::Agent for AgentService {
    type ReceiveStream = Events<TransferEvent, pb::TransferEvent>;
    type SendStream = Events<TransferEvent, pb::TransferEvent>;
    type ReflectStream = Events<ReflectEvent, pb::ReflectEvent>;
    type HoldMtuStream = Events<HoldMtuEvent, pb::HoldMtuEvent>;
    type ReadStorageStream = Events<StorageEvent, pb::StorageEvent>;

    async fn hello(
        &self,
        request: Request<pb::HelloRequest>,
    ) -> Result<Response<pb::HelloReply>, Status> {
        let received_ns = monotonic_ns();
        // Before anything else of the message is believed.
        check_protocol(request.get_ref().protocol, &request.get_ref().version)?;
        let hello = read(request)?;
        self.admit(&hello).await?;
        let answer = HelloAnswer {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            commit: COMMIT.to_owned(),
            process_id: std::process::id(),
            clock: answer(hello.clock, received_ns),
        };
        Ok(Response::new(answer.to_wire()))
    }

    async fn beat(
        &self,
        request: Request<pb::BeatRequest>,
    ) -> Result<Response<pb::BeatReply>, Status> {
        let received_ns = monotonic_ns();
        self.check_admitted()?;
        Ok(Response::new(answer(read(request)?, received_ns).to_wire()))
    }

    async fn facts(
        &self,
        request: Request<pb::FactsRequest>,
    ) -> Result<Response<pb::FactsReply>, Status> {
        self.check_admitted()?;
        let request: FactsRequest = read(request)?;
        let deadline = Duration::from_millis(request.deadline_ms).saturating_add(FACTS_GRACE);
        let reading = tokio::task::spawn_blocking(move || facts::read(request));
        let facts = tokio::time::timeout(deadline, reading)
            .await
            .map_err(|_| Status::deadline_exceeded("the facts did not come within their deadline"))?
            .map_err(|error| Status::internal(format!("reading the facts failed: {error}")))?;
        Ok(Response::new(facts.to_wire()))
    }

    async fn receive(
        &self,
        request: Request<pb::ReceiveRequest>,
    ) -> Result<Response<Self::ReceiveStream>, Status> {
        self.check_admitted()?;
        let job: ReceiveJob = read(request)?;
        self.start(job.job, move |control, events| transfer::receive(&job, control, events))
    }

    async fn send(
        &self,
        request: Request<pb::SendRequest>,
    ) -> Result<Response<Self::SendStream>, Status> {
        self.check_admitted()?;
        let job: SendJob = read(request)?;
        self.start(job.job, move |control, events| transfer::send(&job, control, events))
    }

    async fn go(&self, request: Request<pb::JobRequest>) -> Result<Response<pb::JobReply>, Status> {
        self.check_admitted()?;
        let known = self.jobs.go(JobId(request.into_inner().job));
        Ok(Response::new(pb::JobReply { known }))
    }

    async fn finish(
        &self,
        request: Request<pb::JobRequest>,
    ) -> Result<Response<pb::JobReply>, Status> {
        self.check_admitted()?;
        let known = self.jobs.finish(JobId(request.into_inner().job));
        Ok(Response::new(pb::JobReply { known }))
    }

    async fn reflect(
        &self,
        request: Request<pb::ReflectRequest>,
    ) -> Result<Response<Self::ReflectStream>, Status> {
        self.check_admitted()?;
        let job: ReflectJob = read(request)?;
        self.start(job.job, move |control, events| path::reflect(&job, control, events))
    }

    async fn probe_path(
        &self,
        request: Request<pb::ProbePathRequest>,
    ) -> Result<Response<pb::ProbePathReply>, Status> {
        self.check_admitted()?;
        let job: ProbeJob = read(request)?;
        let running = self.jobs.start(job.job).map_err(|error| refused(&error))?;
        // Dropped with the call, so that nobody probes for a controller that is gone.
        let _cancel = CancelOnDrop(running.control().clone());
        let probing = tokio::task::spawn_blocking(move || path::probe(&job, running.control()));
        let probe = probing
            .await
            .map_err(|error| Status::internal(format!("probing the path failed: {error}")))?;
        Ok(Response::new(probe.to_wire()))
    }

    async fn hold_mtu(
        &self,
        request: Request<pb::HoldMtuRequest>,
    ) -> Result<Response<Self::HoldMtuStream>, Status> {
        self.check_admitted()?;
        let job: HoldMtuJob = read(request)?;
        self.start(job.job, move |control, events| interface_mtu::hold(&job, control, events))
    }

    async fn cancel(
        &self,
        request: Request<pb::JobRequest>,
    ) -> Result<Response<pb::JobReply>, Status> {
        self.check_admitted()?;
        let known = self.jobs.cancel(JobId(request.into_inner().job));
        Ok(Response::new(pb::JobReply { known }))
    }

    async fn read_storage(
        &self,
        request: Request<pb::ReadStorageRequest>,
    ) -> Result<Response<Self::ReadStorageStream>, Status> {
        self.check_admitted()?;
        let job: StorageJob = read(request)?;
        self.start(job.job, move |control, events| {
            storage::run(job, &control.cancel, |event| match event {
                // The next one says more, and no measurement waits for a listener.
                StorageEvent::Progress(_) => drop(events.try_send(event)),
                // Nobody listens any more: then the job is cancelled, too.
                _ => drop(events.blocking_send(event)),
            });
        })
    }
}

impl AgentService {
    /// Takes the node's lock for the controller that says hello first.
    async fn admit(&self, hello: &Hello) -> Result<(), Status> {
        if hello.lease_ms == 0 {
            return Err(Status::invalid_argument("`lease_ms` is invalid: must be above 0"));
        }
        if self.lock.initialized() {
            return Err(Status::failed_precondition("hello was said already"));
        }
        let holder = Holder {
            run_id: hello.run_id.clone(),
            owner: hello.owner.clone(),
            process_id: std::process::id(),
        };
        let lock = || NodeLock::take(&hello.redo_address, holder);
        self.lock.get_or_try_init(lock).await.map_err(|error| match error {
            LockError::Busy { .. } => Status::already_exists(error.to_string()),
            LockError::System { ref cause, .. } => Status::internal(format!("{error}: {cause}")),
        })?;
        self.lease.set_length(Duration::from_millis(hello.lease_ms).min(LEASE_MAX));
        tracing::info!(run_id = hello.run_id, owner = hello.owner, "serving");
        Ok(())
    }

    fn check_admitted(&self) -> Result<(), Status> {
        match self.lock.initialized() {
            true => Ok(()),
            false => Err(Status::failed_precondition("hello has to be said first")),
        }
    }

    /// Runs `body` on a thread of its own; its events are the answer, and without a listener it is
    /// cancelled.
    fn start<E, W>(
        &self,
        job: JobId,
        body: impl FnOnce(&JobControl, mpsc::Sender<E>) + Send + 'static,
    ) -> Result<Response<Events<E, W>>, Status>
    where
        E: Send + 'static,
    {
        let running = self.jobs.start(job).map_err(|error| refused(&error))?;
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let control = running.control().clone();
        thread::Builder::new()
            .name(format!("job-{}", job.0))
            .spawn(move || body(running.control(), sender))
            .map_err(|error| Status::internal(format!("failed to start a thread: {error}")))?;
        Ok(Response::new(Events { events, control, wire: PhantomData }))
    }
}

fn refused(error: &StartError) -> Status {
    match error {
        StartError::RunsAlready(_) => Status::already_exists(error.to_string()),
        StartError::TooMany => Status::resource_exhausted(error.to_string()),
        StartError::Ending => Status::unavailable(error.to_string()),
    }
}

/// Ends a job whose caller has gone.
struct CancelOnDrop(JobControl);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Another protocol is another service: nothing of it is understood.
fn check_protocol(theirs: u32, their_version: &str) -> Result<(), Status> {
    if theirs == PROTOCOL {
        return Ok(());
    }
    Err(Status::unimplemented(format!(
        "agent {VERSION} speaks protocol {PROTOCOL}, controller {their_version} protocol {theirs}; \
         use an agent of the controller's version"
    )))
}

fn read<W, T: FromWire<W>>(request: Request<W>) -> Result<T, Status> {
    let invalid = |error: InvalidMessage| Status::invalid_argument(error.to_string());
    T::from_wire(request.into_inner()).map_err(invalid)
}

fn answer(question: ClockQuestion, received_ns: i64) -> ClockAnswer {
    let unix_answered_ns = unix_ns();
    ClockAnswer {
        sent_ns: question.sent_ns,
        received_ns,
        answered_ns: monotonic_ns(),
        unix_answered_ns,
    }
}

/// A job's events as messages. Dropping it, as the end of the call does, cancels the job.
struct Events<E, W> {
    events: mpsc::Receiver<E>,
    control: JobControl,
    wire: PhantomData<fn() -> W>,
}

impl<E: ToWire<W>, W> Stream for Events<E, W> {
    type Item = Result<W, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context).map(|event| event.map(|event| Ok(event.to_wire())))
    }
}

impl<E, W> Drop for Events<E, W> {
    fn drop(&mut self) {
        self.control.cancel();
    }
}
