//! Moves packets between the two ends of the WAN: one thread per direction.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        prctl,
        time::TimeSpec,
    },
};
use std::os::fd::AsFd;

use super::{
    WanSpec,
    path::{Path, PathSpec},
    tun::Tun,
};

/// The running relay. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    forward: Direction,
    reverse: Direction,
}

#[derive(Debug)]
struct Direction {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// What the relay's owner tells a thread.
#[derive(Debug)]
struct Control {
    spec: Mutex<PathSpec>,
    generation: AtomicU64,
    stopped: AtomicBool,
    wake: EventFd,
}

/// Packets read or written before the other side has its turn.
const BATCH: usize = 64;

/// The largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;

impl Relay {
    pub(crate) fn start(primary: &Arc<Tun>, standby: &Arc<Tun>, wan: &WanSpec) -> Result<Self> {
        Ok(Self {
            forward: Direction::start("relay-forward", primary, standby, wan.forward())?,
            reverse: Direction::start("relay-reverse", standby, primary, wan.reverse())?,
        })
    }

    /// Changes the WAN for the packets that come from now on.
    pub(crate) fn set_wan(&self, wan: &WanSpec) {
        self.forward.control.set_spec(wan.forward());
        self.reverse.control.set_spec(wan.reverse());
    }
}

impl Direction {
    fn start(name: &str, from: &Arc<Tun>, to: &Arc<Tun>, spec: PathSpec) -> Result<Self> {
        let control = Arc::new(Control {
            spec: Mutex::new(spec),
            generation: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
                .context("failed to make an eventfd for the relay")?,
        });
        let (from, to) = (Arc::clone(from), Arc::clone(to));
        let controlled = Arc::clone(&control);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || relay(&from, &to, &controlled))
            .context("failed to start a relay thread")?;
        Ok(Self { control, thread: Some(thread) })
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.control.stopped.store(true, Ordering::Release);
        self.control.wake();
        if let Some(thread) = self.thread.take() {
            // A relay that panicked has said so on stderr; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl Control {
    fn set_spec(&self, spec: PathSpec) {
        *self.spec.lock().unwrap_or_else(PoisonError::into_inner) = spec;
        self.generation.fetch_add(1, Ordering::Release);
        self.wake();
    }

    fn spec(&self) -> PathSpec {
        self.spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wake(&self) {
        // Full means that a wake-up is already pending.
        let _ = self.wake.write(1);
    }
}

fn relay(from: &Tun, to: &Tun, control: &Control) {
    become_punctual();
    let clock = Instant::now();
    let now_ns = || clock.elapsed().as_nanos() as u64;
    let mut path = Path::new(control.spec(), 0x9e37_79b9_7f4a_7c15);
    let mut generation = control.generation.load(Ordering::Acquire);
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    while !control.stopped.load(Ordering::Acquire) {
        let latest = control.generation.load(Ordering::Acquire);
        if latest != generation {
            generation = latest;
            path.set_spec(control.spec());
        }
        let read = read_batch(from, &mut path, &mut buffer, &now_ns);
        let written = write_batch(to, &mut path, &now_ns);
        if read < BATCH && written < BATCH {
            wait(from, control, path.next_ns().map(|at_ns| at_ns.saturating_sub(now_ns())));
        }
    }
}

fn read_batch(from: &Tun, path: &mut Path, buffer: &mut [u8], now_ns: &dyn Fn() -> u64) -> usize {
    for count in 0..BATCH {
        // A device that is down gives an error; its packets are lost, as on a real link.
        match from.receive(buffer) {
            Ok(Some(bytes)) => path.accept(now_ns(), &buffer[..bytes]),
            Ok(None) | Err(_) => return count,
        }
    }
    BATCH
}

fn write_batch(to: &Tun, path: &mut Path, now_ns: &dyn Fn() -> u64) -> usize {
    path.advance(now_ns());
    for count in 0..BATCH {
        let Some(packet) = path.arrived(now_ns()) else { return count };
        // As above: a link that is down loses packets.
        let _ = to.send(&packet);
    }
    BATCH
}

/// Waits until a packet comes, one is due, or the owner wants something.
fn wait(from: &Tun, control: &Control, due_in_ns: Option<u64>) {
    let mut fds = [
        PollFd::new(from.as_fd(), PollFlags::POLLIN),
        PollFd::new(control.wake.as_fd(), PollFlags::POLLIN),
    ];
    let timeout = due_in_ns.map(|ns| TimeSpec::from_duration(Duration::from_nanos(ns)));
    if ppoll(&mut fds, timeout, None).is_ok() && fds[1].any() == Some(true) {
        // Only empties the counter.
        let _ = control.wake.read();
    }
    // A TUN device that is down reports an error at once: do not spin on it.
    let failed = PollFlags::POLLERR | PollFlags::POLLHUP;
    if fds[0].revents().is_some_and(|events| events.intersects(failed)) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Precise timers, and the processor before the programs whose packets are waiting. Failing to get
/// them makes the emulator less exact, which `Lab::check` notices.
fn become_punctual() {
    let _ = prctl::set_timerslack(1);
    // SAFETY: takes and returns plain numbers; who 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
}
