//! Burst credit: a path that starts faster than it goes on, as token buckets and cloud networks do.

use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond};

use super::precision::{average, seconds, variance};
use super::steady::{Interval, Steady, ramp};

/// The early level is at least so many times the later one.
const EXCESS: f64 = 1.1;
/// Samples of the early level: one alone may be a queue that empties.
const EARLY_MIN: usize = 2;
/// The later level lasts so long; a dip is shorter.
const LATER_MIN: Duration = Duration::from_secs(3);
/// Of the early samples, above the middle between the levels.
const EARLY_ABOVE: f64 = 0.9;
/// Of the later samples, below it.
const LATER_BELOW: f64 = 0.95;
/// An early level of fewer samples stands out from the later ones by more of their deviations.
const FEW: usize = 10;
const DEVIATIONS: f64 = 3.0;
const DEVIATIONS_OF_FEW: f64 = 5.0;
/// Of the distance of the levels: by how much the rate falls around the change, within a second
/// on each side. A slow decline does not.
const STEP_SHARE: f64 = 0.5;
const AROUND: usize = 10;
/// Losses that grow by this share of what is sent explain a fall of the rate.
const LOSS_CHANGE: f64 = 0.001;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstCredit {
    pub early: BytesPerSecond,
    pub later: BytesPerSecond,
    /// Since the first sample: when the credit was used up.
    pub at: Duration,
    /// What came beyond the later level: (early − later) × time.
    pub credit: Bytes,
    /// Its end was seen; else `at` and `credit` are what it is at least.
    pub ended: bool,
}

/// One fall from an early to a later, lasting level, in what all receivers together got.
///
/// The change point is where Student's t between the samples before and after is largest
/// (least squares with one change, Page 1955, Hinkley 1970), after a rise of at most twice the ramp. A
/// rise, a dip of up to 3 s, a slow decline and a return to the early level are none. A queue in
/// the network shows nothing here, since the receiver gets no more than the link carries.
///
/// Simulated in the tests: a bucket of 24 MB that lasts 0.2 s and a burst of 60 s are found, with the
/// credit within 10 %. AR(1) noise is taken for one in at most 0.1 % of 1,000 runs of 10 s with cv 3 % and φ up
/// to 0.95, and with cv 10 % in 0.2 % at φ = 0.8, 0.8 % at 0.9 and 4.4 % at 0.95.
/// Whether losses changed with the rate is for the caller to ask: [`explained_by_loss`].
pub fn burst_credit(intervals: &[Interval], min_rtt: Option<Duration>) -> Option<BurstCredit> {
    let samples: Vec<Interval> =
        intervals.iter().copied().filter(|interval| interval.seconds > 0.0).collect();
    let rates: Vec<f64> = samples.iter().map(|sample| sample.bytes / sample.seconds).collect();
    let change = change_point(&samples, &rates, 2.0 * ramp(min_rtt).as_secs_f64())?;
    let (early, later) = (&rates[change.from..change.at], &rates[change.at..]);
    let (early_level, later_level) = (level(early), median(later));
    if !stands_out(early, later, early_level, later_level) {
        return None;
    }
    // The sample in which the credit ends is partly of either level.
    let credited = &samples[change.from..(change.at + 1).min(samples.len())];
    let credit: f64 =
        credited.iter().map(|sample| (sample.bytes - later_level * sample.seconds).max(0.0)).sum();
    Some(BurstCredit {
        early: BytesPerSecond(early_level),
        later: BytesPerSecond(later_level),
        at: Duration::from_secs_f64(seconds(&samples[..change.at])),
        credit: Bytes(credit.round() as u64),
        ended: true,
    })
}

/// A short probe that surely gave more than a long run sustains, although the run itself shows no
/// fall, as when probes before it have used up the credit.
pub fn between(probe: &Steady, sustained: &Steady) -> Option<BurstCredit> {
    let (early, later) = (probe.rate, sustained.rate);
    let apart = probe.at_least()?.0 > sustained.at_most()?.0;
    (apart && later.0 > 0.0 && early.0 >= EXCESS * later.0).then(|| BurstCredit {
        early,
        later,
        at: probe.elapsed(),
        credit: Bytes(((early.0 - later.0) * probe.window.as_secs_f64()).round() as u64),
        ended: false,
    })
}

/// Whether losses grew with the change: then they, not a credit, may have made the rate fall.
///
/// Shares of retransmitted bytes, 0 to 1. A policer drops once its credit is used up, so with
/// losses both causes are possible.
pub fn explained_by_loss(before: f64, after: f64) -> bool {
    after - before > LOSS_CHANGE
}

/// Indices of the early level's first sample and of the later level's first.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: usize,
    at: usize,
}

fn change_point(samples: &[Interval], rates: &[f64], rise_seconds: f64) -> Option<Change> {
    let sums = Sums::of(rates);
    let mut elapsed = 0.0;
    let rise = samples.iter().take_while(|sample| {
        elapsed += sample.seconds;
        elapsed <= rise_seconds
    });
    let latest_from = rise.count();
    let mut left = 0.0;
    let later = samples.iter().rev().take_while(|sample| {
        left += sample.seconds;
        left < LATER_MIN.as_secs_f64() * (1.0 - 1e-9)
    });
    let latest_at = samples.len().checked_sub(later.count() + 1)?;
    let mut best: Option<(f64, Change)> = None;
    for from in 0..=latest_from {
        for at in from + EARLY_MIN..=latest_at {
            let distance = sums.t(from, at);
            if distance > 0.0 && best.is_none_or(|(most, _)| distance > most) {
                best = Some((distance, Change { from, at }));
            }
        }
    }
    best.map(|(_, change)| change)
}

/// Running sums of rates and of their squares.
#[derive(Debug)]
struct Sums {
    rates: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn of(rates: &[f64]) -> Self {
        let running = |value: fn(f64) -> f64| -> Vec<f64> {
            let sums = rates.iter().scan(0.0, |sum, rate| {
                *sum += value(*rate);
                Some(*sum)
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        Self { rates: running(|rate| rate), squares: running(|rate| rate * rate) }
    }

    /// Student's t of the samples `from`..`at` against all after them; positive when they are higher.
    fn t(&self, from: usize, at: usize) -> f64 {
        let end = self.rates.len() - 1;
        let mean = |a: usize, b: usize| (self.rates[b] - self.rates[a]) / (b - a) as f64;
        let within = |a: usize, b: usize| {
            let squares = self.squares[b] - self.squares[a];
            (squares - mean(a, b).powi(2) * (b - a) as f64).max(0.0)
        };
        let (early, later) = ((at - from) as f64, (end - at) as f64);
        let pooled = (within(from, at) + within(at, end)) / (early + later - 2.0);
        // Of rates without any noise the squares leave nothing but rounding.
        let least = 1e-9 * mean(from, end).powi(2);
        (mean(from, at) - mean(at, end)) / (pooled.max(least) * (1.0 / early + 1.0 / later)).sqrt()
    }
}

/// One step down, from a level to a level.
fn stands_out(early: &[f64], later: &[f64], early_level: f64, later_level: f64) -> bool {
    let distance = early_level - later_level;
    let middle = f64::midpoint(early_level, later_level);
    let above = |rates: &[f64]| {
        rates.iter().filter(|rate| **rate > middle).count() as f64 / rates.len() as f64
    };
    let deviations = if early.len() < FEW { DEVIATIONS_OF_FEW } else { DEVIATIONS };
    let before = average(&early[early.len().saturating_sub(AROUND)..]);
    // The first of the later samples may be partly early.
    let after = average(&later[1..later.len().min(1 + AROUND)]);
    later_level > 0.0
        && early_level >= EXCESS * later_level
        && distance >= deviations * variance(later).sqrt()
        && above(early) >= EARLY_ABOVE
        && above(later) <= 1.0 - LATER_BELOW
        && before - after >= STEP_SHARE * distance
}

/// Of a level of few samples the highest: the others are partly rise or fall.
fn level(early: &[f64]) -> f64 {
    match early.len() < FEW / 2 {
        true => early.iter().copied().fold(0.0, f64::max),
        false => median(early),
    }
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
#[path = "burst_tests.rs"]
mod tests;
