//! The receiving end of a test.

use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{
    Connected, CpuUse, ReceiveJob, StopCause, Stopped, TransferEnd, TransferEvent,
};
use redoline_proto::units::Bytes;

use super::accept::{HELLO_DEADLINE, Invitation, admit};
use super::listen::{ListenError, listen};
use super::outlet::Outlet;
use super::sampler::Sampler;
use super::socket::{LastWords, describe};
use super::stream::{Course, Finish, Stream};
use super::watch::{Outcome, Watch};
use super::{after, stopped};
use crate::chain;
use crate::jobs::JobControl;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::guard::may_start;
use crate::sys::clock::{monotonic_ns, thread_cpu};
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
    // Of the port and of the test: one end, whatever came late.
    let began = Instant::now();
    let listener = listen(job.bind_address, job.ports, job.num_conn, &job.socket)
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
    outlet.tell(TransferEvent::Connected(connected(&streams)?));
    let halt = CancelFlag::new();
    let sampler = Sampler::new(&streams);
    let finishes = start_threads(&streams, &halt)
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
        stalled: None,
    };
    Ok(watch.run())
}

fn start_threads(
    streams: &[Arc<Stream>],
    halt: &CancelFlag,
) -> Result<mpsc::Receiver<Finish>, Stopped> {
    let (finished, finishes) = mpsc::channel();
    let buffer = BUFFER.min(ALL_BUFFERS / streams.len().max(1));
    for (place, stream) in streams.iter().enumerate() {
        let (stream, halt, finished) = (Arc::clone(stream), halt.clone(), finished.clone());
        thread::Builder::new()
            .name(format!("receive-{place}"))
            // The watcher may have given up on this thread.
            .spawn(move || drop(finished.send(receive_all(place, &stream, &halt, buffer))))
            .map_err(|error| failed("start a thread", &error))?;
    }
    Ok(finishes)
}

/// Reads until the sender is through, as a process does that wants the bytes: into its memory.
fn receive_all(place: usize, stream: &Stream, halt: &CancelFlag, buffer_bytes: usize) -> Finish {
    let mut buffer = HugeBuffer::new(buffer_bytes);
    let mut socket = &stream.socket;
    let complete = loop {
        match socket.read(&mut buffer) {
            // Shutting the socket down from this side looks like the sender's end.
            Ok(0) => break !halt.is_set(),
            Ok(bytes) => stream.progress.add(bytes, monotonic_ns()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Reset: the sender threw away what did not arrive in time, and says so.
            Err(_) => break false,
        }
    };
    let last_words = LastWords::of(&stream.socket);
    // Tells the sender that everything was read.
    let _ = stream.socket.shutdown(Shutdown::Write);
    Finish { stream: place, last_words, drained: complete, cpu: thread_cpu(), course: Course::Ran }
}

/// What both ends tell once their connections stand.
pub(super) fn connected(streams: &[Arc<Stream>]) -> Result<Connected, Stopped> {
    let starts = streams.iter().map(|stream| describe(stream.index, &stream.socket));
    let streams = starts
        .collect::<io::Result<_>>()
        .map_err(|error| stopped(StopCause::Peer, format!("a connection broke again: {error}")))?;
    Ok(Connected { streams, at_ns: monotonic_ns() })
}

impl Outcome {
    /// The test ended before its first byte.
    pub(super) fn nothing(stopped: Stopped) -> Self {
        Self { streams: Vec::new(), cpu: CpuUse::default(), stopped: Some(stopped) }
    }

    pub(super) fn end(self, strangers: u32) -> TransferEnd {
        TransferEnd {
            streams: self.streams,
            cpu: self.cpu,
            stopped: self.stopped,
            strangers,
            at_ns: monotonic_ns(),
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
