//! The sending end of a run's one event stream.

use tokio::sync::mpsc;

use crate::record::event::Event;

/// Held back by the slowest reader beyond this many events.
pub const QUEUE: usize = 1024;

/// Given to everything that has news.
#[derive(Clone, Debug)]
pub struct EventSender(mpsc::Sender<Event>);

impl EventSender {
    pub fn new(queue: mpsc::Sender<Event>) -> Self {
        Self(queue)
    }

    /// Waits while the queue is full. A run whose readers are gone goes on: measuring for nobody
    /// ends with the run.
    pub async fn send(&self, event: Event) {
        if self.0.send(event).await.is_err() {
            tracing::debug!("no reader of events is left");
        }
    }

    /// For news that only the eye needs: dropped while the queue is full.
    pub fn show(&self, event: Event) {
        if self.0.try_send(event).is_err() {
            tracing::trace!("a live event was dropped");
        }
    }
}
