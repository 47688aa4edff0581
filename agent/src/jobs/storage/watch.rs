//! Looks at the host once a second while storage is read, from loops that turn faster.

use std::time::{Duration, Instant};

use redoline_proto::transfer::{Guard, Stopped};

use crate::jobs::guard::Watchman;

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Watch {
    watchman: Watchman,
    next: Instant,
}

impl Watch {
    pub fn new(guard: Guard, now: Instant) -> Self {
        Self { watchman: Watchman::new(guard), next: now + INTERVAL }
    }

    /// Says why the job has to end, when a second has passed since the last look.
    pub fn check(&mut self, now: Instant) -> Option<Stopped> {
        if now < self.next {
            return None;
        }
        self.next = now + INTERVAL;
        self.watchman.look()
    }
}
