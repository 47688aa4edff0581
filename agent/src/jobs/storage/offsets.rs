//! Where to read next: pure sequences of block numbers.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): small,
/// repeatable from its seed, and good enough to spread offsets and to fill blocks.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A sequence of its own for every `stream` of the same seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Self(mixed.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// A file as whole blocks of one request each; what is left at its end is not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Blocks {
    pub request_bytes: u64,
    pub count: u64,
}

impl Blocks {
    /// `None` when not one whole request fits.
    pub fn of(size_bytes: u64, request_bytes: u64) -> Option<Self> {
        let count = size_bytes.checked_div(request_bytes)?;
        (count > 0).then_some(Self { request_bytes, count })
    }

    /// Byte offset of the block with this running number, wrapping at the end of the file.
    pub fn offset(&self, number: u64) -> u64 {
        number % self.count * self.request_bytes
    }

    /// The first block at or after `position` bytes, wrapping at the end of the file.
    pub fn at(&self, position: u64) -> u64 {
        position.div_ceil(self.request_bytes) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_offsets_and_threads_differ() {
        let draw = |stream| {
            let mut random = SplitMix64::new(42, stream);
            (0..100).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(0), draw(0));
        assert_ne!(draw(0), draw(1));
    }

    #[test]
    fn random_blocks_cover_the_whole_file() {
        let mut random = SplitMix64::new(1, 0);
        let mut seen = [false; 64];
        for _ in 0..2000 {
            seen[random.below(64) as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn offsets_are_whole_requests_and_wrap() {
        let blocks = Blocks::of(10 * 8192 + 100, 8192).unwrap();
        assert_eq!(blocks.count, 10);
        assert_eq!(blocks.offset(9), 9 * 8192);
        assert_eq!(blocks.offset(10), 0);
        assert_eq!(blocks.at(8193), 2);
        assert_eq!(blocks.at(10 * 8192), 0);
    }

    #[test]
    fn a_file_smaller_than_a_request_has_no_blocks() {
        assert_eq!(Blocks::of(8191, 8192), None);
        assert_eq!(Blocks::of(8192, 0), None);
    }
}
