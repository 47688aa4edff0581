//! The receiving end of a test.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::encoding::Encoding;
use redoline_proto::transfer::{
    Connected, CpuUse, ReceiveJob, StopCause, Stopped, TransferEnd, TransferEvent,
};
use redoline_proto::units::Bytes;

use super::accept::{HELLO_DEADLINE, Invitation, admit};
use super::encoding::{Decoder, is_undecodable};
use super::listen::{ListenError, listen};
use super::outlet::Outlet;
use super::sampler::Sampler;
use super::socket::{LastWords, Prepared, describe};
use super::source_port::await_reset;
use super::stream::{Course, Finish, Stream};
use super::sync::Answerer;
use super::watch::{Outcome, Watch};
use super::{after, stopped};
use crate::chain;
use crate::jobs::JobControl;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::cpu::ThreadUse;
use crate::jobs::guard::may_start;
use crate::jobs::host_use::{HostCounters, HostUse};
use crate::jobs::storage::RedoLog;
use crate::sys::clock::monotonic_ns;
use crate::sys::huge_buffer::HugeBuffer;

/// Of one `recv`: more than a sender writes at a time, and a whole huge page. With 256 KiB, a fast
/// stream makes three times the calls (docs/benchmarks.md).
const BUFFER: usize = 2 * Bytes::MIB as usize;

/// Of all buffers of a job: a production host has better uses for its memory.
const ALL_BUFFERS: usize = 64 * Bytes::MIB as usize;

/// No port stays open for longer than this, however long the test is.
const ADMISSION_MAX: Duration = Duration::from_secs(60);

/// Runs to the end of the test; the last event is always its end.
pub fn receive(
    job: &ReceiveJob,
    control: &JobControl,
    events: tokio::sync::mpsc::Sender<TransferEvent>,
) {
    let outlet = Outlet::new(events);
    let mut strangers = 0;
    let outcome = run(job, control, &outlet, &mut strangers).unwrap_or_else(Outcome::nothing);
    outlet.tell(TransferEvent::End(outcome.end(strangers)));
}

fn run(
    job: &ReceiveJob,
    control: &JobControl,
    outlet: &Outlet,
    strangers: &mut u32,
) -> Result<Outcome, Stopped> {
    may_start(job.guard)?;
    refuse_encoded_sync(job.encoding, job.acknowledge.is_some())?;
    let log = redo_log(job, &control.cancel)?;
    let outcome = run_with(job, control, outlet, strangers, log.as_ref());
    if let Some(log) = log {
        log.close();
    }
    outcome
}

/// Nothing is written before it, and the port is not open yet.
fn redo_log(job: &ReceiveJob, cancel: &CancelFlag) -> Result<Option<Arc<RedoLog>>, Stopped> {
    let Some(acknowledge) = &job.acknowledge else { return Ok(None) };
    RedoLog::prepare(acknowledge, job.num_conn, job.guard, cancel).map_err(Stopped::from)
}

/// A message of SYNC that is not encoded as asked would be measured as if it were.
pub(super) fn refuse_encoded_sync(
    encoding: Option<Encoding>,
    is_sync: bool,
) -> Result<(), Stopped> {
    match encoding {
        Some(encoding) if is_sync => {
            let text =
                format!("a SYNC test does not carry {encoding}: its messages are not encoded");
            Err(stopped(StopCause::System, text))
        }
        _ => Ok(()),
    }
}

fn run_with(
    job: &ReceiveJob,
    control: &JobControl,
    outlet: &Outlet,
    strangers: &mut u32,
    log: Option<&Arc<RedoLog>>,
) -> Result<Outcome, Stopped> {
    // Of the port and of the test: one end, whatever came late.
    let began = Instant::now();
    let (listener, prepared) = listen(job.bind_address, job.ports, job.num_conn, &job.socket)
        .map_err(|error| refused(&error))?;
    let port = listener.local_addr().map_err(|error| failed("listen", &error))?.port();
    outlet.tell(TransferEvent::Ready { port });

    let invitation = Invitation {
        token: job.token,
        expected_peer: job.expected_peer,
        num_conn: job.num_conn,
        hello_deadline: HELLO_DEADLINE,
        deadline: after(began, job.deadline.min(ADMISSION_MAX)),
    };
    let admitted = admit(listener, invitation, &control.cancel);
    *strangers = admitted.as_ref().map_or_else(|none| none.strangers, |all| all.strangers);
    let admitted = admitted.map_err(|none| none.stopped)?;

    let numbered = (0..).zip(admitted.connections);
    let streams: Vec<_> =
        numbered.map(|(index, socket)| Arc::new(Stream::new(index, socket))).collect();
    outlet.tell(TransferEvent::Connected(connected(&streams, prepared)?));
    let halt = CancelFlag::new();
    let sampler = Sampler::new(&streams);
    let counters = HostCounters::new();
    let host = (counters.clone(), counters.read());
    let duty = Duty::of(job, log);
    let finishes = start_threads(&streams, &halt, &duty)
        .inspect_err(|_| streams.iter().for_each(|stream| stream.stop_receiving()))?;
    let watch = Watch {
        streams: &streams,
        finishes,
        sampler,
        control,
        halt: &halt,
        outlet,
        sample: job.sample,
        reading: job.reading,
        guard: job.guard,
        deadline: after(began, job.deadline),
        break_off: Stream::stop_receiving,
        host,
        stalled: None,
    };
    Ok(watch.run())
}

/// What the threads of all streams do.
#[derive(Clone, Debug)]
struct Duty {
    /// The length of a message of SYNC.
    answered: Option<Bytes>,
    log: Option<Arc<RedoLog>>,
    encoding: Option<Encoding>,
    /// The sender resets, to have its ports again.
    awaits_reset: bool,
    /// What one `recv` may bring.
    buffer_bytes: usize,
}

impl Duty {
    fn of(job: &ReceiveJob, log: Option<&Arc<RedoLog>>) -> Self {
        let acknowledge = job.acknowledge.as_ref();
        Self {
            answered: acknowledge.map(|acknowledge| Bytes(acknowledge.message_bytes)),
            log: log.cloned(),
            encoding: job.encoding,
            awaits_reset: job.socket.source_port_base.is_some(),
            buffer_bytes: BUFFER.min(ALL_BUFFERS / job.num_conn.max(1) as usize),
        }
    }

    fn run(self, place: usize, stream: &Stream, halt: &CancelFlag) -> Finish {
        let opened = Decoder::open(self.encoding, stream, halt);
        let before = ThreadUse::now();
        let (complete, course) = match (opened, self.answered) {
            (Err(stopped), _) => (false, Course::Trouble(stopped)),
            (Ok(decoder), None) => read_all(stream, decoder, halt, self.buffer_bytes),
            (Ok(_), Some(message)) => {
                match Answerer::new(place, stream, halt, message, self.log.as_ref()) {
                    Ok(answerer) => answerer.answer_all(),
                    Err(error) => {
                        (false, Course::Trouble(failed("get memory for a message", &error)))
                    }
                }
            }
        };
        let last_words = LastWords::of(&stream.socket);
        if complete && self.awaits_reset {
            await_reset(&stream.socket, halt);
        } else {
            // Tells the sender that everything was read.
            let _ = stream.socket.shutdown(Shutdown::Write);
        }
        let processor = ThreadUse::now().since(before);
        Finish { stream: place, last_words, drained: complete, processor, course, tally: None }
    }
}

fn start_threads(
    streams: &[Arc<Stream>],
    halt: &CancelFlag,
    duty: &Duty,
) -> Result<mpsc::Receiver<Finish>, Stopped> {
    let (finished, finishes) = mpsc::channel();
    for (place, stream) in streams.iter().enumerate() {
        let (stream, halt, finished) = (Arc::clone(stream), halt.clone(), finished.clone());
        let duty = duty.clone();
        thread::Builder::new()
            .name(format!("receive-{place}"))
            // The watcher may have given up on this thread.
            .spawn(move || drop(finished.send(duty.run(place, &stream, &halt))))
            .map_err(|error| failed("start a thread", &error))?;
    }
    Ok(finishes)
}

/// Reads until the sender is through, as a process does that wants the bytes: into its memory. True
/// when everything came.
fn read_all(
    stream: &Stream,
    mut decoder: Decoder,
    halt: &CancelFlag,
    buffer_bytes: usize,
) -> (bool, Course) {
    let mut buffer = HugeBuffer::new(buffer_bytes);
    let mut socket = &stream.socket;
    loop {
        match decoder.read(&mut socket, &mut buffer) {
            // Shutting the socket down from this side looks like the sender's end.
            Ok(0) => return (!halt.is_set(), Course::Ran),
            Ok(bytes) => stream.progress.add(bytes, monotonic_ns()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_undecodable(&error) && !halt.is_set() => {
                return (false, Course::Trouble(undecodable(stream, &error)));
            }
            // Reset: the sender threw away what did not arrive in time, and says so.
            Err(_) => return (false, Course::Ran),
        }
    }
}

fn undecodable(stream: &Stream, error: &io::Error) -> Stopped {
    let (index, bytes) = (stream.index, stream.progress.bytes());
    let why = chain(error);
    let text = format!("stream {index} cannot be decoded after {bytes} bytes: {why}");
    stopped(StopCause::Peer, text)
}

/// What both ends tell once their connections stand.
pub(super) fn connected(streams: &[Arc<Stream>], prepared: Prepared) -> Result<Connected, Stopped> {
    let starts = streams.iter().map(|stream| describe(stream.index, &stream.socket, prepared));
    let streams = starts
        .collect::<io::Result<_>>()
        .map_err(|error| stopped(StopCause::Peer, format!("a connection broke again: {error}")))?;
    Ok(Connected { streams, at_ns: monotonic_ns() })
}

impl Outcome {
    /// The test ended before its first byte.
    pub(super) fn nothing(stopped: Stopped) -> Self {
        Self {
            streams: Vec::new(),
            cpu: CpuUse::default(),
            stopped: Some(stopped),
            host: HostUse::default(),
            acknowledgements: None,
        }
    }

    pub(super) fn end(self, strangers: u32) -> TransferEnd {
        TransferEnd {
            streams: self.streams,
            cpu: self.cpu,
            stopped: self.stopped,
            strangers,
            at_ns: monotonic_ns(),
            acknowledgements: self.acknowledgements,
            interfaces: self.host.interfaces,
            softnet: self.host.softnet,
        }
    }
}

fn refused(error: &ListenError) -> Stopped {
    let cause = match error {
        ListenError::Socket(_) => StopCause::System,
        _ => StopCause::Connect,
    };
    stopped(cause, chain(error))
}

pub(super) fn failed(operation: &str, error: &io::Error) -> Stopped {
    stopped(StopCause::System, format!("failed to {operation}: {error}"))
}
