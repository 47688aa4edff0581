//! `duration: auto`: looks at the tests of one barrier while they run, and says when all of them
//! are known well enough.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redoline_proto::transfer::Batch;
use tokio_util::sync::CancellationToken;

use crate::analysis::looks::{Look, StopRule};
use crate::analysis::steady::steady;
use crate::analysis::throughput::min_rtt;
use crate::analysis::window::{self, Track};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::PairTransfer;

/// Which end of a pair a batch is from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Sender,
    Receiver,
}

/// A look that was made and did not end the test, for the eye.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Looked {
    /// Half-width as a share of the rate; `None` while nothing tells it.
    pub share: Option<f64>,
}

/// Fed by every pair of a barrier; each direction has a rule of its own.
#[derive(Debug)]
pub struct Looks {
    lanes: Mutex<Vec<Lane>>,
    enough: CancellationToken,
}

/// The pairs of one direction, whose sum the rule is asked about.
#[derive(Debug)]
struct Lane {
    direction: Direction,
    rule: StopRule,
    /// A live copy; a pair with a failure is left out of the sum.
    pairs: Vec<PairTransfer>,
    converged: bool,
}

impl Looks {
    /// `lanes`: the pairs of each direction before their first byte.
    pub fn new(
        target: f64,
        max: Duration,
        lanes: impl IntoIterator<Item = (Direction, Vec<PairTransfer>)>,
    ) -> Self {
        let lane = |(direction, pairs)| Lane {
            direction,
            rule: StopRule::new(target, max),
            pairs,
            converged: false,
        };
        let lanes = Mutex::new(lanes.into_iter().map(lane).collect());
        Self { lanes, enough: CancellationToken::new() }
    }

    /// Takes what an end told; a look that is due is made at once.
    pub fn hear(
        &self,
        direction: Direction,
        pair: PairId,
        end: End,
        batch: &Batch,
    ) -> Option<Looked> {
        let mut lanes = self.lanes();
        let lane = lanes.iter_mut().find(|lane| lane.direction == direction)?;
        lane.keep(pair, end, batch);
        let looked = if lane.converged || end == End::Sender { None } else { lane.look() };
        self.judge(&lanes);
        looked
    }

    /// A pair that failed is waited for no more.
    pub fn leave(&self, direction: Direction, pair: PairId) {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.direction == direction) {
            lane.pairs.retain(|one| one.pair != pair);
        }
        self.judge(&lanes);
    }

    /// Returns when every direction is known well enough; otherwise never.
    pub async fn enough(&self) {
        self.enough.cancelled().await;
    }

    fn judge(&self, lanes: &[Lane]) {
        if lanes.iter().all(|lane| lane.converged || lane.pairs.is_empty()) {
            self.enough.cancel();
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn keep(&mut self, pair: PairId, end: End, batch: &Batch) {
        let Some(pair) = self.pairs.iter_mut().find(|one| one.pair == pair) else { return };
        let record = match end {
            End::Sender => &mut pair.sender,
            End::Receiver => &mut pair.receiver,
        };
        record.samples.extend(batch.samples.iter().cloned());
        record.readings.extend(batch.readings.iter().cloned());
    }

    /// Of the samples that all receivers have told by now.
    fn look(&mut self) -> Option<Looked> {
        let alone = self.pairs.len() == 1;
        let tracks: Option<Vec<Track>> =
            self.pairs.iter().map(|pair| Track::of(pair, alone)).collect();
        let tracks = tracks?;
        let window = window::common(&tracks)?;
        if window.seconds() < self.rule.next_look().as_secs_f64() {
            return None;
        }
        let intervals = window::sum(&tracks, window);
        let min_rtt = self.pairs.iter().filter_map(|pair| min_rtt(&pair.sender)).min();
        let looked = |steady| Some(Looked { share: steady });
        match self.rule.look(&intervals, min_rtt) {
            Look::Converged(_) => {
                self.converged = true;
                None
            }
            Look::Continue => looked(steady(&intervals, min_rtt).and_then(|steady| {
                steady
                    .half_width
                    .map(|half| half.0 / steady.rate.0)
                    .filter(|share| share.is_finite())
            })),
            Look::Exhausted(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use redoline_proto::handshake::ClockOffset;
    use redoline_proto::transfer::Sample;

    use super::*;
    use crate::record::measurement::EndRecord;

    const OUT: Direction = Direction::PrimaryToStandby;
    const BACK: Direction = Direction::StandbyToPrimary;
    const TENTH_NS: i64 = 100_000_000;

    fn pair(pair: usize) -> PairTransfer {
        let clock = Some(ClockOffset { offset_ns: 0, error_ns: 0, unix_offset_ns: 0 });
        PairTransfer {
            pair: PairId(pair),
            sender: EndRecord::default(),
            receiver: EndRecord { clock, ..EndRecord::default() },
            failure: None,
        }
    }

    /// The second `second` of a test as its receiver tells it, ten samples of `bytes` and a ripple.
    fn batch(second: i64, bytes: u64) -> Batch {
        let samples = (0..10).map(|i| {
            let from_ns = (second * 10 + i) * TENTH_NS;
            let ripple = (i as u64 * 7 + second as u64 * 3) % 5;
            Sample { from_ns, to_ns: from_ns + TENTH_NS, stream_bytes: vec![bytes + ripple] }
        });
        Batch { samples: samples.collect(), readings: Vec::new() }
    }

    /// In which second everything is known; `None` within 20.
    fn enough(looks: &Looks, mut tell: impl FnMut(&Looks, i64)) -> Option<i64> {
        (0..20).find(|second| {
            tell(looks, *second);
            looks.enough.is_cancelled()
        })
    }

    #[test]
    fn a_steady_pair_is_known_at_the_second_look() {
        let looks = Looks::new(0.025, Duration::from_secs(60), [(OUT, vec![pair(0)])]);
        let known = enough(&looks, |looks, second| {
            looks.hear(OUT, PairId(0), End::Receiver, &batch(second, 1_000_000));
        });
        assert_eq!(known, Some(2), "after three seconds");
    }

    #[test]
    fn a_rate_that_swings_is_not_known_soon() {
        let looks = Looks::new(0.025, Duration::from_secs(60), [(OUT, vec![pair(0)])]);
        let known = enough(&looks, |looks, second| {
            let bytes = if second % 2 == 0 { 1_000_000 } else { 300_000 };
            looks.hear(OUT, PairId(0), End::Receiver, &batch(second, bytes));
        });
        assert_eq!(known, None);
    }

    #[test]
    fn both_directions_are_waited_for() {
        let lanes = [(OUT, vec![pair(0)]), (BACK, vec![pair(0)])];
        let looks = Looks::new(0.025, Duration::from_secs(60), lanes);
        let known = enough(&looks, |looks, second| {
            looks.hear(OUT, PairId(0), End::Receiver, &batch(second, 1_000_000));
        });
        assert_eq!(known, None);
        let known = enough(&looks, |looks, second| {
            looks.hear(BACK, PairId(0), End::Receiver, &batch(second, 500_000));
        });
        assert_eq!(known, Some(2));
    }

    #[test]
    fn a_pair_that_failed_holds_nobody_up() {
        let lanes = [(OUT, vec![pair(0), pair(1)])];
        let looks = Looks::new(0.025, Duration::from_secs(60), lanes);
        looks.hear(OUT, PairId(1), End::Receiver, &batch(0, 1_000_000));
        let known = enough(&looks, |looks, second| {
            if second == 5 {
                looks.leave(OUT, PairId(1));
            }
            looks.hear(OUT, PairId(0), End::Receiver, &batch(second, 1_000_000));
        });
        assert_eq!(known, Some(5));
    }

    #[test]
    fn what_a_sender_tells_makes_no_look() {
        let looks = Looks::new(0.025, Duration::from_secs(60), [(OUT, vec![pair(0)])]);
        let known = enough(&looks, |looks, second| {
            looks.hear(OUT, PairId(0), End::Sender, &batch(second, 1_000_000));
        });
        assert_eq!(known, None);
    }
}
