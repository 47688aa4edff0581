//! Tells events to the controller without ever holding up the test.

use redoline_proto::transfer::{Batch, TransferEvent};
use tokio::sync::mpsc;

#[derive(Debug)]
pub struct Outlet(mpsc::Sender<TransferEvent>);

impl Outlet {
    pub fn new(events: mpsc::Sender<TransferEvent>) -> Self {
        Self(events)
    }

    /// Waits for room. It comes, or the channel closes: with the response stream, at the latest
    /// with the lease.
    pub fn tell(&self, event: TransferEvent) {
        // Nobody listens any more: then the job is cancelled, too.
        let _ = self.0.blocking_send(event);
    }

    /// Gives the batch back when there is no room now.
    pub fn offer(&self, batch: Batch) -> Result<(), Batch> {
        match self.0.try_reserve() {
            Ok(room) => {
                room.send(TransferEvent::Batch(batch));
                Ok(())
            }
            Err(_) => Err(batch),
        }
    }
}
