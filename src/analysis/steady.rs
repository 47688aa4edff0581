//! A steady-state rate and its confidence interval, from samples that depend on each other.

use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

use super::precision::{half_width, mean, seconds, welch_p};

/// The share of intervals that are to hold the true mean.
pub const CONFIDENCE: f64 = 0.95;
/// A rate has converged when its half-width is at most this share of it.
pub const TARGET: f64 = 0.025;
/// At least this much of the beginning is cut off, whatever its samples look like.
const RAMP_STEP: Duration = Duration::from_millis(500);
/// At least so many round trips are cut off: slow start doubles once per round trip.
const RAMP_ROUND_TRIPS: u32 = 10;
/// Samples per batch of the truncation rule: the 5 of MSER-5.
const MSER_BATCH: usize = 5;
/// A first or last sample shorter than this share of the usual one is partial.
const PARTIAL_BELOW: f64 = 0.9;
/// First and last third of the kept samples further apart than this are two levels.
const LEVEL_RATIO: f64 = 1.10;
const LEVEL_SIGNIFICANCE: f64 = 0.01;

/// What arrived in one interval of the receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub seconds: f64,
    pub bytes: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    pub rate: BytesPerSecond,
    /// The true mean is within this of `rate`, with `confidence`; `None` when too few samples tell.
    pub half_width: Option<BytesPerSecond>,
    pub confidence: f64,
    /// The share of the rate that the half-width was to reach.
    pub target: f64,
    /// It reached it; of a test that stops by itself: in two looks running, on one level.
    pub converged: bool,
    /// Ramp that was cut off.
    pub truncated: Duration,
    pub batches: u32,
    /// Of what was kept.
    pub window: Duration,
    /// The rate moved from one level to another within the window.
    pub level_shift: Option<LevelShift>,
}

/// Mean rates of the first and the last third of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelShift {
    pub first: BytesPerSecond,
    pub last: BytesPerSecond,
}

impl Steady {
    /// `rate` − half-width: what is surely there. `None` without an interval.
    pub fn at_least(&self) -> Option<BytesPerSecond> {
        self.half_width.map(|half| BytesPerSecond((self.rate.0 - half.0).max(0.0)))
    }

    /// `rate` + half-width: what is surely not exceeded. `None` without an interval.
    pub fn at_most(&self) -> Option<BytesPerSecond> {
        self.half_width.map(|half| BytesPerSecond(self.rate.0 + half.0))
    }

    /// From the first sample to the end of the window: with `duration: auto`, what the last look
    /// saw of the test.
    pub fn elapsed(&self) -> Duration {
        self.truncated + self.window
    }
}

/// Cuts the ramp off (MSER-5, at most half), then takes the mean and the interval of
/// [`super::precision`]; each sample weighs by its measured length.
///
/// Of a test whose length was fixed before it began; [`super::looks`] is for `duration: auto`.
/// `None` when nothing was received in any interval of time.
/// Source of the truncation: White 1997 and Hoad, Robinson and Davies 2008 (MSER-5).
///
/// Measured over 2,000 runs of 30 s of AR(1) noise in 100 ms samples: 95 % intervals hold the true
/// mean in 0.98, 0.97 and 0.96 of the runs for φ = 0, 0.5 and 0.8.
pub fn steady(intervals: &[Interval], min_rtt: Option<Duration>) -> Option<Steady> {
    steady_at(intervals, min_rtt, TARGET, CONFIDENCE)
}

/// [`steady`] with its own target, and an interval at `confidence`; the result still claims
/// [`CONFIDENCE`], since a stricter interval pays for looking more than once.
pub(super) fn steady_at(
    intervals: &[Interval],
    min_rtt: Option<Duration>,
    target: f64,
    confidence: f64,
) -> Option<Steady> {
    let whole = without_partial_edges(intervals);
    let cut = truncation(whole, ramp(min_rtt).as_secs_f64());
    let (ramp, kept) = whole.split_at(cut);
    let rate = mean(kept)?;
    let (half_width, batches) = half_width(kept, confidence);
    Some(Steady {
        rate: BytesPerSecond(rate),
        half_width: half_width.map(BytesPerSecond),
        confidence: CONFIDENCE,
        target,
        converged: half_width.is_some_and(|half| rate > 0.0 && half <= target * rate),
        truncated: Duration::from_secs_f64(seconds(ramp)),
        batches: batches as u32,
        window: Duration::from_secs_f64(seconds(kept)),
        level_shift: level_shift(kept),
    })
}

/// What is cut off in any case: ten round trips in whole half seconds, so that a minimum that is
/// found to be a little smaller at the end of a test moves no sample.
pub(super) fn ramp(min_rtt: Option<Duration>) -> Duration {
    let round_trips = min_rtt.unwrap_or_default().as_secs_f64() * f64::from(RAMP_ROUND_TRIPS);
    RAMP_STEP.mul_f64((round_trips / RAMP_STEP.as_secs_f64() - 1e-9).ceil().max(1.0))
}

fn without_partial_edges(intervals: &[Interval]) -> &[Interval] {
    let mut lengths: Vec<f64> = intervals.iter().map(|interval| interval.seconds).collect();
    lengths.sort_by(f64::total_cmp);
    let Some(usual) = lengths.get(lengths.len() / 2).copied() else {
        return intervals;
    };
    let partial = |interval: &Interval| interval.seconds < PARTIAL_BELOW * usual;
    let mut rest = intervals;
    while let [first, tail @ ..] = rest
        && partial(first)
    {
        rest = tail;
    }
    while let [head @ .., last] = rest
        && partial(last)
    {
        rest = head;
    }
    rest
}

/// How many samples of the beginning to drop: the cut that gives the smallest standard error of
/// what is left, from `least_seconds` to half of the samples.
fn truncation(samples: &[Interval], least_seconds: f64) -> usize {
    let half = samples.len() / 2;
    let mut elapsed = 0.0;
    let least = samples
        .iter()
        .position(|sample| {
            let before = elapsed;
            elapsed += sample.seconds;
            before >= least_seconds * (1.0 - 1e-9)
        })
        .unwrap_or(samples.len());
    let least = least.min(half);
    let batches = smallest_standard_error(&samples[least..], (half - least) / MSER_BATCH);
    least + batches.unwrap_or(0) * MSER_BATCH
}

/// How many batches of the beginning to drop, at most `most`, so that the standard error of the
/// batches that are left is smallest: Σ(x − x̄)² / n².
fn smallest_standard_error(samples: &[Interval], most: usize) -> Option<usize> {
    let batches: Vec<f64> = samples.chunks_exact(MSER_BATCH).filter_map(mean).collect();
    let (mut count, mut average, mut squares) = (0.0, 0.0, 0.0);
    let mut best: Option<(usize, f64)> = None;
    // From the end: each earlier batch is added to the sums (Welford).
    for (cut, batch) in batches.iter().enumerate().rev() {
        count += 1.0;
        let distance = batch - average;
        average += distance / count;
        squares += distance * (batch - average);
        let error = squares / (count * count);
        if cut <= most && count > 1.0 && best.is_none_or(|(_, least)| error <= least) {
            best = Some((cut, error));
        }
    }
    best.map(|(cut, _)| cut)
}

/// Welch's test between the first and the last third, on means of five samples, and a distance that
/// matters in practice.
fn level_shift(samples: &[Interval]) -> Option<LevelShift> {
    let third = samples.len() / 3;
    let (first, last) = (&samples[..third], &samples[samples.len() - third..]);
    let (first_mean, last_mean) = (mean(first)?, mean(last)?);
    let a: Vec<f64> = first.chunks_exact(MSER_BATCH).filter_map(mean).collect();
    let b: Vec<f64> = last.chunks_exact(MSER_BATCH).filter_map(mean).collect();
    if a.len() < 3 || b.len() < 3 || first_mean.min(last_mean) <= 0.0 {
        return None;
    }
    let far = first_mean.max(last_mean) / first_mean.min(last_mean) > LEVEL_RATIO;
    (far && welch_p(&a, &b) < LEVEL_SIGNIFICANCE).then_some(LevelShift {
        first: BytesPerSecond(first_mean),
        last: BytesPerSecond(last_mean),
    })
}

#[cfg(test)]
#[path = "steady_tests.rs"]
mod tests;
