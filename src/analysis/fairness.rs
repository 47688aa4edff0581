//! How evenly streams or pairs share what they get together.

use redoline_proto::units::BytesPerSecond;

use super::throughput::Summary;
use super::window::{Track, Window};
use crate::plan::node::PairId;
use crate::record::measurement::PairTransfer;

/// Of at least two parts that carried something.
#[derive(Clone, Debug, PartialEq)]
pub struct Fairness<Name> {
    /// Jain, Chiu and Hawe 1984: (Σx)² / (n Σx²). 1 when all get the same, 1 / n when one gets all.
    pub jain: f64,
    pub parts: Vec<Part<Name>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part<Name> {
    pub name: Name,
    pub rate: BytesPerSecond,
    /// Of the sum, 0 to 1.
    pub share: f64,
}

impl<Name> Fairness<Name> {
    /// `None` of fewer than two parts, or when none carried anything.
    pub fn of(rates: impl IntoIterator<Item = (Name, BytesPerSecond)>) -> Option<Self> {
        let rates: Vec<(Name, BytesPerSecond)> = rates.into_iter().collect();
        let jain = jain(&rates.iter().map(|(_, rate)| rate.0).collect::<Vec<f64>>())?;
        let sum: f64 = rates.iter().map(|(_, rate)| rate.0).sum();
        let parts = rates.into_iter().map(|(name, rate)| Part { name, rate, share: rate.0 / sum });
        Some(Self { jain, parts: parts.collect() }).filter(|fairness| fairness.parts.len() > 1)
    }

    /// So many parts with equal rates would have this index: of 8 streams with an index of 0.5, 4.
    pub fn equal_parts(&self) -> f64 {
        self.jain * self.parts.len() as f64
    }

    pub fn least(&self) -> Option<&Part<Name>> {
        self.parts.iter().min_by(|a, b| a.share.total_cmp(&b.share))
    }

    pub fn most(&self) -> Option<&Part<Name>> {
        self.parts.iter().max_by(|a, b| a.share.total_cmp(&b.share))
    }
}

/// (Σx)² / (n Σx²); `None` of nothing.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Of one pair's streams, by their number, in a window common to all of them.
///
/// `alone`: as of [`Track::of`].
pub fn of_streams(pair: &PairTransfer, window: Window, alone: bool) -> Option<Fairness<u32>> {
    let rates: Option<Vec<(u32, BytesPerSecond)>> = Track::of_streams(pair, alone)?
        .iter()
        .zip(0..)
        .map(|(track, stream)| Some((stream, track.rate(window)?)))
        .collect();
    Fairness::of(rates?)
}

/// Of the pairs of one test, in their common window; `None` unless each of them has a rate.
pub fn of_pairs(summary: &Summary) -> Option<Fairness<PairId>> {
    let rates: Option<Vec<(PairId, BytesPerSecond)>> =
        summary.pairs.iter().map(|pair| Some((pair.pair, pair.steady.as_ref()?.rate))).collect();
    Fairness::of(rates?)
}

#[cfg(test)]
mod tests {
    use redoline_proto::handshake::ClockOffset;
    use redoline_proto::transfer::Sample;

    use super::*;
    use crate::record::measurement::EndRecord;

    fn of(rates: &[f64]) -> Option<Fairness<usize>> {
        Fairness::of(rates.iter().map(|rate| BytesPerSecond(*rate)).enumerate())
    }

    #[test]
    fn equal_rates_have_an_index_of_one_and_a_single_carrier_one_of_n() {
        assert_eq!(jain(&[5.0; 7]), Some(1.0));
        assert_eq!(jain(&[3.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (None, None));
    }

    #[test]
    fn shares_are_of_the_sum_and_name_the_least_and_the_most() {
        let fairness = of(&[100.0, 300.0, 100.0]).unwrap();
        let shares: Vec<f64> = fairness.parts.iter().map(|part| part.share).collect();
        assert_eq!(shares, [0.2, 0.6, 0.2]);
        assert_eq!(fairness.most().map(|part| part.name), Some(1));
        assert_eq!(fairness.least().map(|part| part.name), Some(0));
        // 500² / (3 × 110,000) of 3: 2.27 equal streams.
        assert!((fairness.equal_parts() - 250_000.0 / 110_000.0).abs() < 1e-9);
    }

    #[test]
    fn one_alone_shares_with_nobody() {
        assert_eq!(of(&[100.0]), None);
    }

    #[test]
    fn streams_are_compared_in_the_window_only() {
        const SECOND: i64 = 1_000_000_000;
        // The second stream starts late and stops early, but is as fast as the first one meanwhile.
        let bytes = [[100, 0], [100, 100], [100, 100], [100, 100], [300, 0]];
        let samples = (0i64..)
            .zip(bytes)
            .map(|(s, bytes)| Sample {
                from_ns: s * SECOND,
                to_ns: (s + 1) * SECOND,
                stream_bytes: bytes.to_vec(),
            })
            .collect();
        let clock = Some(ClockOffset { offset_ns: 0, error_ns: 0, unix_offset_ns: 0 });
        let pair = PairTransfer {
            pair: PairId(0),
            sender: EndRecord::default(),
            receiver: EndRecord { clock, samples, ..EndRecord::default() },
            failure: None,
        };
        let tracks = Track::of_streams(&pair, true).unwrap();
        let window = super::super::window::common(&tracks).unwrap();
        assert_eq!((window.from_ns, window.to_ns), (SECOND, 4 * SECOND));
        let fairness = of_streams(&pair, window, true).unwrap();
        assert_eq!(fairness.jain, 1.0);
        assert_eq!(fairness.parts[1].rate, BytesPerSecond(100.0));
    }
}
