//! What is in the messages: bytes that no device on the way can compress or has seen before.

use rand::rngs::SmallRng;
use rand::{Rng, make_rng};
use redoline_proto::transfer::{Payload, SendJob};
use redoline_proto::units::{Bytes, Share};

use crate::sys::huge_buffer::HugeBuffer;

/// Longer than the dictionaries of compressing devices; a repeated block of 32 KiB compresses to
/// 1 % (esnet/iperf#1871).
const RING: usize = 4 * Bytes::MIB as usize;

/// Of all rings of a job: a production host has better uses for its memory.
const ALL_RINGS: usize = 256 * Bytes::MIB as usize;

/// Of this many bytes, a part is random and the rest repeats: short enough that each redo write and
/// each packet train holds both, long enough that what a compressor spends on a repetition (some 10
/// bytes) does not count.
const BLOCK: usize = 4096;

/// What a test asks of its messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    Zeros,
    /// `compressible`: the share that a good compressor takes out.
    Random {
        compressible: Share,
    },
}

impl Content {
    pub fn of(job: &SendJob) -> Self {
        match job.payload {
            Payload::Zeros => Self::Zeros,
            Payload::Random => Self::Random { compressible: job.compressible.unwrap_or_default() },
        }
    }
}

/// A stream's source of bytes, read round and round.
pub struct Ring {
    bytes: HugeBuffer,
    at: usize,
}

impl Ring {
    /// For one of `streams` streams.
    pub fn new(content: Content, streams: usize) -> Self {
        let mut bytes = HugeBuffer::new(RING.min(ALL_RINGS / streams.max(1)));
        // Written to, even by zeros: else all pages would be the kernel's one page of zeros, which
        // is always in the cache.
        bytes.fill(0);
        if let Content::Random { compressible } = content {
            let random = BLOCK - (BLOCK as f64 * compressible.0.clamp(0.0, 1.0)).round() as usize;
            // Seeded by the system for each stream: no two are alike.
            let mut source = make_rng::<SmallRng>();
            for block in bytes.chunks_mut(BLOCK) {
                let random = random.min(block.len());
                // The rest stays one repeated byte.
                source.fill_bytes(&mut block[..random]);
            }
        }
        Self { bytes, at: 0 }
    }

    /// Goes back to the start if the next `bytes` would not come in one piece, but could.
    pub fn make_room_for(&mut self, bytes: usize) {
        if bytes <= self.bytes.len() && self.at + bytes > self.bytes.len() {
            self.at = 0;
        }
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

    const RANDOM: Content = Content::Random { compressible: Share(0.0) };

    #[test]
    fn a_ring_starts_again_at_its_end() {
        let mut ring = Ring::new(RANDOM, 1);
        let start = ring.next(16).to_vec();
        ring.advance(RING - 3);
        assert_eq!(ring.next(16).len(), 3);
        ring.advance(3);
        assert_eq!(ring.next(16), start);
    }

    #[test]
    fn two_streams_do_not_send_the_same() {
        let (one, other) = (Ring::new(RANDOM, 2), Ring::new(RANDOM, 2));
        assert_ne!(one.next(64), other.next(64));
    }

    #[test]
    fn random_payload_uses_all_bytes_alike() {
        let ring = Ring::new(RANDOM, 1);
        let mut counts = [0_usize; 256];
        ring.next(RING).iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        let even = RING / 256;
        assert!(counts.iter().all(|&count| count.abs_diff(even) < even / 10), "{counts:?}");
    }

    #[test]
    fn many_streams_share_the_memory() {
        let ring = Ring::new(Content::Zeros, 256);
        assert_eq!(ring.bytes.len(), 1024 * 1024);
        assert_eq!(ring.next(1), [0]);
    }

    #[test]
    fn each_block_of_a_compressible_payload_repeats_its_share() {
        let ring = Ring::new(Content::Random { compressible: Share(0.75) }, 1);
        for block in ring.next(RING).chunks(4096) {
            let (random, rest) = block.split_at(1024);
            assert!(rest.iter().all(|&byte| byte == 0));
            let zeros = random.iter().filter(|&&byte| byte == 0).count();
            assert!(zeros < 40, "{zeros} of 1024 random bytes are 0");
        }
        let all = Ring::new(Content::Random { compressible: Share(1.0) }, 1);
        assert!(all.next(RING).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_message_comes_in_one_piece_where_it_can() {
        let mut ring = Ring::new(RANDOM, 1);
        ring.advance(RING - 3);
        ring.make_room_for(3);
        assert_eq!(ring.next(3).len(), 3);
        ring.make_room_for(4);
        assert_eq!(ring.next(4).len(), 4);
        ring.make_room_for(RING + 1);
        assert_eq!(ring.next(RING + 1).len(), RING);
    }
}
