//! Moves packets between the two ends of the WAN: one thread per direction.

use std::{
    os::fd::AsFd,
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

use super::{
    Punctuality, WanSpec,
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
    /// What the thread tells its owner.
    punctuality: Mutex<Punctuality>,
}

/// Packets read or written before the other side has its turn.
const BATCH: usize = 64;

/// In a stream of packets, some are moved together, as network cards do: to set a timer for each
/// would cost more than to move it.
const COALESCE: Duration = Duration::from_micros(100);

/// Packets closer together than this are a stream.
const BUSY_NS: u64 = 300_000;

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

    /// How well both directions kept their times so far.
    pub(crate) fn punctuality(&self) -> Punctuality {
        self.forward.control.punctuality() + self.reverse.control.punctuality()
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
            punctuality: Mutex::default(),
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

    fn punctuality(&self) -> Punctuality {
        *self.punctuality.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, punctuality: Punctuality) {
        *self.punctuality.lock().unwrap_or_else(PoisonError::into_inner) = punctuality;
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
    let mut path = Path::new(control.spec());
    let mut generation = control.generation.load(Ordering::Acquire);
    let mut wake_up = WakeUp::default();
    let mut moved_ns = 0;
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    while !control.stopped.load(Ordering::Acquire) {
        let latest = control.generation.load(Ordering::Acquire);
        if latest != generation {
            generation = latest;
            path.set_spec(control.spec());
        }
        let read = read_batch(from, &mut path, &mut buffer, &now_ns);
        path.advance(now_ns());
        let written = write_batch(to, &mut path, &|| now_ns() + wake_up.lead_ns());
        if written > 0 {
            control.tell(path.punctuality());
        }
        if read == BATCH || written == BATCH {
            continue;
        }
        let is_busy = now_ns() < moved_ns + BUSY_NS;
        if read + written > 0 {
            moved_ns = now_ns();
        }
        if read + written > 0 && is_busy {
            thread::sleep(COALESCE);
        } else {
            let target_ns = path.next_ns().map(|at_ns| at_ns.saturating_sub(wake_up.lead_ns()));
            let timeout_ns = target_ns.map(|at_ns| at_ns.saturating_sub(now_ns()));
            let woken = wait(from, control, timeout_ns);
            if let (Woken::ByTime, Some(target_ns), Some(1..)) = (woken, target_ns, timeout_ns) {
                wake_up.observe(now_ns().saturating_sub(target_ns));
            }
        }
    }
}

/// How late this thread wakes up: 50 to 150 µs on a virtual machine, at the packet's coming and at
/// its time to go. Timers are set earlier by as much, or every RTT would be too long.
#[derive(Debug, Default)]
struct WakeUp {
    late_ns: u64,
}

impl WakeUp {
    /// A thread that had to wait for the processor says nothing about the next time.
    const LATE_NS_MAX: u64 = 200_000;

    fn observe(&mut self, late_ns: u64) {
        self.late_ns = (self.late_ns * 15 + late_ns.min(Self::LATE_NS_MAX)) / 16;
    }

    /// How much earlier than asked a packet may go.
    fn lead_ns(&self) -> u64 {
        self.late_ns * 2
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
    for count in 0..BATCH {
        let Some(packet) = path.arrived(now_ns()) else { return count };
        // As above: a link that is down loses packets.
        let _ = to.send(&packet);
    }
    BATCH
}

/// Why the relay goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Woken {
    /// A packet is due.
    ByTime,
    /// A packet came, or the owner wants something.
    ByEvent,
}

fn wait(from: &Tun, control: &Control, due_in_ns: Option<u64>) -> Woken {
    let mut fds = [
        PollFd::new(from.as_fd(), PollFlags::POLLIN),
        PollFd::new(control.wake.as_fd(), PollFlags::POLLIN),
    ];
    let timeout = due_in_ns.map(|ns| TimeSpec::from_duration(Duration::from_nanos(ns)));
    if ppoll(&mut fds, timeout, None) == Ok(0) {
        return Woken::ByTime;
    }
    if fds[1].any() == Some(true) {
        // Only empties the counter.
        let _ = control.wake.read();
    }
    // A TUN device that is down reports an error at once: do not spin on it.
    let failed = PollFlags::POLLERR | PollFlags::POLLHUP;
    if fds[0].revents().is_some_and(|events| events.intersects(failed)) {
        thread::sleep(Duration::from_millis(1));
    }
    Woken::ByEvent
}

/// Precise timers, and the processor before the programs whose packets are waiting. Failing to get
/// them makes the emulator less exact, which `Lab::check` notices.
fn become_punctual() {
    let _ = prctl::set_timerslack(1);
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter lives for the call; process 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
}
