//! The sending end of a test.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{SendJob, StopCause, Stopped, TransferEvent};
use redoline_proto::units::BytesPerSecond;

use super::budget::Budget;
use super::connect::connect;
use super::encoding::Encoder;
use super::outlet::Outlet;
use super::payload::{Content, Ring};
use super::receive::{connected, failed, refuse_encoded_sync};
use super::sampler::Sampler;
use super::stalled::{PATIENCE, Stalled};
use super::stream::{Finish, Stream};
use super::watch::{Outcome, Watch};
use super::writer::{DRAIN_MAX, Writer};
use super::{LONGEST, stopped};
use crate::jobs::JobControl;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::guard::may_start;
use crate::jobs::host_use::HostCounters;
use crate::sys::clock::monotonic_ns;

/// Beyond the duration and the drain, a test that has not ended never will.
const GRACE: Duration = Duration::from_secs(3);

/// For the threads to fill their payload.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// Runs to the end of the test; the last event is always its end.
pub fn send(job: &SendJob, control: &JobControl, events: tokio::sync::mpsc::Sender<TransferEvent>) {
    let outlet = Outlet::new(events);
    let outcome = run(job, control, &outlet).unwrap_or_else(Outcome::nothing);
    outlet.tell(TransferEvent::End(outcome.end(0)));
}

fn run(job: &SendJob, control: &JobControl, outlet: &Outlet) -> Result<Outcome, Stopped> {
    may_start(job.guard)?;
    refuse_encoded_sync(job.encoding, job.acknowledged)?;
    let connections = connect(job, &control.cancel)?;
    let numbered = (0..).zip(connections.sockets);
    let streams: Vec<_> =
        numbered.map(|(index, socket)| Arc::new(Stream::new(index, socket))).collect();
    let halt = CancelFlag::new();
    let crew = Crew::gather(job, &streams, &halt, control)
        .inspect_err(|_| streams.iter().for_each(|stream| stream.reset_at_close()))?;
    outlet.tell(TransferEvent::Connected(connected(&streams, connections.prepared)?));
    wait_for_go(job, control)
        .inspect_err(|_| streams.iter().for_each(|stream| stream.reset_at_close()))?;

    let counters = HostCounters::new();
    let host = (counters.clone(), counters.read());
    let at_ns = monotonic_ns();
    outlet.tell(TransferEvent::Started { at_ns });
    let started = Instant::now();
    let sampler = Sampler::new(&streams);
    let duration = job.duration.min(LONGEST);
    let patience = patience(job);
    // The last message of SYNC may take as long as any.
    let last = if job.acknowledged { DRAIN_MAX + patience } else { DRAIN_MAX };
    let peer = SocketAddr::new(job.address, job.port).to_string();
    let watch = Watch {
        streams: &streams,
        finishes: crew.start(duration),
        sampler,
        control,
        halt: &halt,
        outlet,
        sample: job.reading,
        reading: job.reading,
        guard: job.guard,
        deadline: started + duration + last + GRACE,
        // A `send` that waits looks at `halt` after its timeout.
        break_off: Stream::reset_at_close,
        host,
        stalled: Some(Stalled::new(peer, patience, started)),
    };
    Ok(watch.run())
}

fn patience(job: &SendJob) -> Duration {
    job.stall_deadline.unwrap_or(PATIENCE).min(LONGEST)
}

fn wait_for_go(job: &SendJob, control: &JobControl) -> Result<(), Stopped> {
    let called = control.go.wait_timeout(job.go_deadline);
    if control.cancel.is_set() {
        return Err(stopped(StopCause::Cancelled, "cancelled before the start"));
    }
    if !called {
        let seconds = job.go_deadline.as_secs_f64();
        let text = format!("the call to start did not come within {seconds} s");
        return Err(stopped(StopCause::Deadline, text));
    }
    Ok(())
}

/// The threads of all streams, each waiting with its payload to be told for how long to send.
struct Crew {
    starts: Vec<mpsc::Sender<Term>>,
    finishes: mpsc::Receiver<Finish>,
}

impl Crew {
    /// Returns when all are ready, so that no stream starts late for want of its payload.
    fn gather(
        job: &SendJob,
        streams: &[Arc<Stream>],
        halt: &CancelFlag,
        control: &JobControl,
    ) -> Result<Self, Stopped> {
        let (finished, finishes) = mpsc::channel();
        let (ready, readies) = mpsc::channel();
        let writers = writers(job, streams, halt, &control.finish);
        let mut starts = Vec::new();
        for (place, writer) in writers.enumerate() {
            let (start, started) = mpsc::channel::<Term>();
            starts.push(start);
            let (ready, finished) = (ready.clone(), finished.clone());
            let (content, count) = (Content::of(job), streams.len());
            let (encoding, cancel) = (job.encoding, control.cancel.clone());
            let share = (count, writer.rate);
            let run = move || {
                let encoder = match Encoder::open(encoding, &writer.stream, share, &cancel) {
                    Ok(encoder) => encoder,
                    Err(stopped) => return drop(ready.send(Err(stopped))),
                };
                let ring = Ring::new(content, count);
                // Nobody listens, and nobody starts it, when the test was given up.
                let _ = ready.send(Ok(()));
                if let Ok(term) = started.recv() {
                    let _ = finished.send(writer.send_all(ring, encoder, term.until_ns()));
                }
            };
            let thread = thread::Builder::new().name(format!("send-{place}"));
            thread.spawn(run).map_err(|error| failed("start a thread", &error))?;
        }
        let deadline = Instant::now() + READY_DEADLINE;
        for _ in streams {
            readies
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .map_err(|_| stopped(StopCause::System, "the payload was not ready in time"))??;
        }
        Ok(Self { starts, finishes })
    }

    /// Tells what each thread leaves behind.
    fn start(self, duration: Duration) -> mpsc::Receiver<Finish> {
        let term = Term { duration, until_ns: Arc::default() };
        for start in self.starts {
            // A thread that is gone is missed by whoever waits for its finish.
            let _ = start.send(term.clone());
        }
        self.finishes
    }
}

/// How long all streams send, from the moment on in which the first of them runs: on a busy host,
/// that is later than the call to start.
#[derive(Clone, Debug)]
struct Term {
    duration: Duration,
    until_ns: Arc<OnceLock<i64>>,
}

impl Term {
    fn until_ns(&self) -> i64 {
        *self.until_ns.get_or_init(|| monotonic_ns() + self.duration.as_nanos() as i64)
    }
}

fn writers(
    job: &SendJob,
    streams: &[Arc<Stream>],
    halt: &CancelFlag,
    finish: &CancelFlag,
) -> impl Iterator<Item = Writer> {
    let budget = job.bytes_max.map(|bytes| match job.acknowledged {
        false => Budget::new(bytes, streams.len()),
        true => Budget::of_messages(bytes, job.message),
    });
    let budget = budget.map(Arc::new);
    let rate = job.rate.map(|rate| BytesPerSecond(rate.0 / streams.len() as f64));
    streams.iter().enumerate().map(move |(place, stream)| Writer {
        place,
        stream: Arc::clone(stream),
        halt: halt.clone(),
        finish: finish.clone(),
        message: job.message,
        acknowledged: job.acknowledged,
        delay: job.delay.filter(|delay| !delay.is_zero()),
        patience: patience(job),
        frees_port: job.socket.source_port_base.is_some(),
        bytes_max: job.bytes_max,
        budget: budget.clone(),
        rate,
    })
}
