//! One flag that ends a job, for threads that work and threads that wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Set once, never taken back; clones share it.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    set: AtomicBool,
    /// Held while setting, so that no waiter misses the moment between its check and its wait.
    turn: Mutex<()>,
    changed: Condvar,
}

impl CancelFlag {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn set(&self) {
        let _turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.set.store(true, Ordering::Release);
        self.0.changed.notify_all();
    }

    /// Cheap enough for every round of a busy loop.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Waits until the flag is set, at most for `timeout`; true when it is set.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        let turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(turn, timeout, |()| !self.is_set());
        drop(waited);
        self.is_set()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_waiter_wakes_when_the_flag_is_set() {
        let flag = CancelFlag::new();
        let other = flag.clone();
        let waiter = thread::spawn(move || other.wait_timeout(Duration::from_secs(3600)));
        flag.set();
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn a_flag_that_is_not_set_lets_the_time_pass() {
        let flag = CancelFlag::new();
        assert!(!flag.wait_timeout(Duration::from_millis(1)));
        assert!(!flag.is_set());
    }
}
