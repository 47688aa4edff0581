//! What a test that is cut short is charged with, of the bytes that a run may send.

use std::sync::atomic::{AtomicU64, Ordering};

use redoline_proto::transfer::Batch;
use redoline_proto::units::Bytes;

use super::looks::End;

/// What a test may send, and what was heard of it so far.
#[derive(Debug, Default)]
pub struct Promise {
    most: u64,
    senders: u64,
    written: AtomicU64,
    arrived: AtomicU64,
    /// Of all batches, the one with the most bytes.
    largest: AtomicU64,
}

impl Promise {
    /// `each`: what one sender may send; `None` when nothing has to be counted.
    pub fn new(each: Option<Bytes>, senders: usize) -> Self {
        let senders = senders as u64;
        let most = each.map_or(0, |each| each.0.saturating_mul(senders));
        Self { most, senders, ..Self::default() }
    }

    pub fn hear(&self, end: End, batch: &Batch) {
        let bytes: u64 = batch.samples.iter().map(|sample| sample.bytes().0).sum();
        let count = match end {
            End::Sender => &self.written,
            End::Receiver => &self.arrived,
        };
        count.fetch_add(bytes, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }

    /// What was heard, and of each sender a batch that was not; never more than was promised.
    pub fn charge(self) -> u64 {
        let heard = self.written.into_inner().max(self.arrived.into_inner());
        let unheard = self.largest.into_inner().saturating_mul(self.senders);
        heard.saturating_add(unheard).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use redoline_proto::transfer::Sample;

    use super::*;

    fn batch(bytes: u64) -> Batch {
        let sample = Sample { from_ns: 0, to_ns: 1, stream_bytes: vec![bytes] };
        Batch { samples: vec![sample], readings: Vec::new() }
    }

    #[test]
    fn a_test_that_is_cut_short_is_charged_with_what_was_heard_and_not_with_all_that_was_left() {
        let promise = Promise::new(Some(Bytes(500 * Bytes::GIB)), 2);
        for _ in 0..3 {
            promise.hear(End::Sender, &batch(100));
            promise.hear(End::Receiver, &batch(90));
        }
        assert_eq!(promise.charge(), 300 + 2 * 100);
    }

    #[test]
    fn a_test_is_never_charged_with_more_than_it_might_send() {
        let promise = Promise::new(Some(Bytes(120)), 1);
        promise.hear(End::Receiver, &batch(100));
        assert_eq!(promise.charge(), 120);
        assert_eq!(Promise::new(Some(Bytes(120)), 1).charge(), 0, "nobody had begun");
    }
}
