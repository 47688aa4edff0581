//! Whether the machine had the processor for a lab when it needed it: a WAN that is late is not the one
//! that was asked for, and what is measured on it is no result.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How well a lab's WAN and its processes kept their times.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Punctuality {
    /// Packets that reached the far end of the WAN, both directions.
    pub packets: u64,
    /// Those that came more than 2 ms after their time.
    pub late_packets: u64,
    /// Looks of a thread without priority, as the nodes' processes are.
    pub looks: u64,
    /// Those that came more than 10 ms after their time.
    pub late_looks: u64,
}

/// Some ten times what a relay that has its processor takes (0.1 to 0.2 ms), and less than what a rule
/// about queues asks for.
const LATE_PACKET_NS: u64 = 2_000_000;

/// A packet in so many may be late. A pause of 20 ms in each second of a steady stream is one in 50.
const LATE_PACKETS: u64 = 100;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Two ticks and more that others had the processor.
const LATE_LOOK: Duration = Duration::from_millis(10);

/// A look in so many may be late.
const LATE_LOOKS: u64 = 20;

impl Punctuality {
    pub(super) fn arrived(&mut self, late_ns: u64) {
        self.packets += 1;
        self.late_packets += u64::from(late_ns > LATE_PACKET_NS);
    }

    fn looked(&mut self, late: Duration) {
        self.looks += 1;
        self.late_looks += u64::from(late > LATE_LOOK);
    }

    /// The lab was what it was asked to be.
    #[must_use]
    pub fn holds(self) -> bool {
        self.late_packets * LATE_PACKETS <= self.packets
            && self.late_looks * LATE_LOOKS <= self.looks
    }
}

impl Add for Punctuality {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            late_packets: self.late_packets + other.late_packets,
            looks: self.looks + other.looks,
            late_looks: self.late_looks + other.late_looks,
        }
    }
}

/// What came since an earlier time.
impl Sub for Punctuality {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            late_packets: self.late_packets.saturating_sub(earlier.late_packets),
            looks: self.looks.saturating_sub(earlier.looks),
            late_looks: self.late_looks.saturating_sub(earlier.late_looks),
        }
    }
}

impl fmt::Display for Punctuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, late_packets, looks, late_looks } = self;
        write!(
            f,
            "{late_packets} of {packets} packets left the WAN more than 2 ms after their time, a \
             process waited more than 10 ms for the processor at {late_looks} of {looks} looks"
        )
    }
}

/// Of all labs of this process that were taken down.
static PAST: Mutex<Punctuality> =
    Mutex::new(Punctuality { packets: 0, late_packets: 0, looks: 0, late_looks: 0 });

/// How well the labs of this process that are gone kept their times.
pub fn of_past_labs() -> Punctuality {
    *PAST.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn remember(lab: Punctuality) {
    let mut past = PAST.lock().unwrap_or_else(PoisonError::into_inner);
    *past = *past + lab;
}

/// A thread that looks how long a process waits for a processor, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lookout {
    seen: Arc<Mutex<Punctuality>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lookout {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (seen, stopped) = (Arc::<Mutex<Punctuality>>::default(), Arc::<AtomicBool>::default());
        let (to_see, to_stop) = (Arc::clone(&seen), Arc::clone(&stopped));
        let thread = thread::Builder::new().name("lookout".to_owned()).spawn(move || {
            while !to_stop.load(Ordering::Acquire) {
                let begin = Instant::now();
                thread::sleep(LOOK);
                let late = begin.elapsed().saturating_sub(LOOK);
                to_see.lock().unwrap_or_else(PoisonError::into_inner).looked(late);
            }
        })?;
        Ok(Self { seen, stopped, thread: Some(thread) })
    }

    pub(crate) fn seen(&self) -> Punctuality {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wan_whose_packets_are_late_by_more_than_one_in_a_hundred_does_not_hold() {
        let mut punctuality = Punctuality::default();
        for packet in 0..1000 {
            punctuality.arrived(if packet % 100 == 0 { 3_000_000 } else { 150_000 });
        }
        assert!(punctuality.holds(), "{punctuality}");
        punctuality.arrived(2_000_001);
        assert!(!punctuality.holds(), "{punctuality}");
    }

    #[test]
    fn processes_that_often_wait_for_a_processor_do_not_make_a_lab() {
        let ms = Duration::from_millis;
        let mut punctuality = Punctuality::default();
        for look in 0..100 {
            punctuality.looked(if look % 20 == 0 { ms(30) } else { ms(1) });
        }
        assert!(punctuality.holds(), "{punctuality}");
        punctuality.looked(ms(11));
        assert!(!punctuality.holds(), "{punctuality}");
    }

    #[test]
    fn an_idle_lab_holds() {
        assert!(Punctuality::default().holds());
    }
}
