//! The time that an agent lives without hearing from its controller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often the lease is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    length: Duration,
    heard: Instant,
}

impl Lease {
    pub fn new(length: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { length, heard: Instant::now() })))
    }

    /// The controller has spoken.
    pub fn renew(&self) {
        self.state().heard = Instant::now();
    }

    pub fn set_length(&self, length: Duration) {
        self.state().length = length;
    }

    /// Waits until the controller has been silent for the length of the lease.
    pub async fn expired(&self) {
        loop {
            let end = {
                let state = self.state();
                state.heard + state.length
            };
            if Instant::now() >= end {
                return;
            }
            // Not all at once: the length may be made shorter meanwhile.
            tokio::time::sleep_until(end.min(Instant::now() + LOOK)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_lease() {
        let lease = Lease::new(Duration::from_secs(3));
        let started = Instant::now();
        lease.expired().await;
        assert_eq!(started.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn every_word_renews_it() {
        let lease = Lease::new(Duration::from_secs(3));
        let speaker = lease.clone();
        let started = Instant::now();
        let speak = async move {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(2)).await;
                speaker.renew();
            }
        };
        tokio::join!(speak, lease.expired());
        assert_eq!(started.elapsed(), Duration::from_secs(23));
    }
}
