//! What is in the messages: bytes that no device on the way can compress or has seen before.

use rand::rngs::SmallRng;
use rand::{Rng, make_rng};
use redoline_proto::transfer::Payload;
use redoline_proto::units::Bytes;

use crate::sys::huge_buffer::HugeBuffer;

/// Longer than the dictionaries of compressing devices; a repeated block of 32 KiB compresses to
/// 1 % (esnet/iperf#1871).
const RING: usize = 4 * Bytes::MIB as usize;

/// Of all rings of a job: a production host has better uses for its memory.
const ALL_RINGS: usize = 256 * Bytes::MIB as usize;

/// A stream's source of bytes, read round and round.
pub struct Ring {
    bytes: HugeBuffer,
    at: usize,
}

impl Ring {
    /// For one of `streams` streams.
    pub fn new(payload: Payload, streams: usize) -> Self {
        let mut bytes = HugeBuffer::new(RING.min(ALL_RINGS / streams.max(1)));
        match payload {
            // Seeded by the system for each stream: no two are alike.
            Payload::Random => make_rng::<SmallRng>().fill_bytes(&mut bytes),
            // Else all pages would be the kernel's one page of zeros, which is always in the cache.
            Payload::Zeros => bytes.fill(0),
        }
        Self { bytes, at: 0 }
    }

    /// The next bytes, at most `most` and at least one.
    pub fn next(&self, most: usize) -> &[u8] {
        let rest = &self.bytes[self.at..];
        &rest[..rest.len().min(most.max(1))]
    }

    pub fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes) % self.bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_starts_again_at_its_end() {
        let mut ring = Ring::new(Payload::Random, 1);
        let start = ring.next(16).to_vec();
        ring.advance(RING - 3);
        assert_eq!(ring.next(16).len(), 3);
        ring.advance(3);
        assert_eq!(ring.next(16), start);
    }

    #[test]
    fn two_streams_do_not_send_the_same() {
        let (one, other) = (Ring::new(Payload::Random, 2), Ring::new(Payload::Random, 2));
        assert_ne!(one.next(64), other.next(64));
    }

    #[test]
    fn random_payload_uses_all_bytes_alike() {
        let ring = Ring::new(Payload::Random, 1);
        let mut counts = [0_usize; 256];
        ring.next(RING).iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        let even = RING / 256;
        assert!(counts.iter().all(|&count| count.abs_diff(even) < even / 10), "{counts:?}");
    }

    #[test]
    fn many_streams_share_the_memory() {
        let ring = Ring::new(Payload::Zeros, 256);
        assert_eq!(ring.bytes.len(), 1024 * 1024);
        assert_eq!(ring.next(1), [0]);
    }
}
