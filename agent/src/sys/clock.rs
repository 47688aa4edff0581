//! The clocks that measurements are made with.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds: of this node, since its start.
pub fn monotonic_ns() -> i64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// The time of day in nanoseconds since 1970.
pub fn unix_ns() -> i64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID).unsigned_abs())
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("Linux has had these clocks since 2.6.12");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let before = monotonic_ns();
        assert!(monotonic_ns() >= before);
    }

    #[test]
    fn a_busy_thread_uses_processor_time() {
        let before = thread_cpu();
        while thread_cpu() - before < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
    }
}
