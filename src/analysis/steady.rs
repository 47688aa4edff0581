//! A steady-state rate and its confidence interval, from samples that depend on each other.

use std::time::Duration;

use redoline_proto::units::BytesPerSecond;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of intervals that are to hold the true mean.
pub const CONFIDENCE: f64 = 0.95;
/// A rate has converged when its half-width is at most this share of it.
pub const TARGET: f64 = 0.025;
/// At least this much of the beginning is cut off, whatever its samples look like.
const RAMP_MIN: Duration = Duration::from_millis(500);
/// At least so many round trips are cut off: slow start doubles once per round trip.
const RAMP_ROUND_TRIPS: u32 = 10;
/// Samples per batch of the truncation rule: the 5 of MSER-5.
const MSER_BATCH: usize = 5;
/// With fewer samples after the ramp no interval is given.
const SAMPLES_MIN: usize = 10;
const BATCHES: usize = 10;
const BATCHES_WHEN_CORRELATED: usize = 5;
/// Above this lag-1 correlation of the batch means, fewer and longer batches are taken.
const CORRELATION_MAX: f64 = 0.3;
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
    /// The half-width is within `TARGET` of the rate.
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
}

/// Cuts the ramp off (MSER-5, at most half), then takes the mean and a Student t interval over
/// batch means; each sample weighs by its measured length.
///
/// `None` when nothing was received in any interval of time.
/// Source of the rule and its figures: White 1997 and Hoad, Robinson and Davies 2008 (MSER-5), Law, *Simulation
/// Modeling and Analysis* (batch means); what it covers is in the test below.
pub fn steady(intervals: &[Interval], min_rtt: Option<Duration>) -> Option<Steady> {
    let whole = without_partial_edges(intervals);
    let ramp = min_rtt.map_or(RAMP_MIN, |rtt| RAMP_MIN.max(rtt * RAMP_ROUND_TRIPS));
    let cut = truncation(whole, ramp.as_secs_f64());
    let (ramp, kept) = whole.split_at(cut);
    let rate = mean(kept)?;
    let (half_width, batches) = half_width(kept);
    Some(Steady {
        rate: BytesPerSecond(rate),
        half_width: half_width.map(BytesPerSecond),
        confidence: CONFIDENCE,
        converged: half_width.is_some_and(|half| rate > 0.0 && half <= TARGET * rate),
        truncated: Duration::from_secs_f64(seconds(ramp)),
        batches: batches as u32,
        window: Duration::from_secs_f64(seconds(kept)),
        level_shift: level_shift(kept),
    })
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
    (least..=half)
        .step_by(MSER_BATCH)
        .filter_map(|cut| marginal_standard_error(&samples[cut..]).map(|error| (cut, error)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(least.min(half), |(cut, _)| cut)
}

fn marginal_standard_error(samples: &[Interval]) -> Option<f64> {
    let batches: Vec<f64> = samples.chunks_exact(MSER_BATCH).filter_map(mean).collect();
    let count = batches.len() as f64;
    (batches.len() > 1).then(|| variance(&batches) * (count - 1.0) / (count * count))
}

/// The half-width in bytes per second, and the number of batches that it rests on.
fn half_width(samples: &[Interval]) -> (Option<f64>, usize) {
    if samples.len() < SAMPLES_MIN {
        return (None, 0);
    }
    let few = samples.len() < 2 * BATCHES;
    let mut batches = batch_means(samples, if few { BATCHES_WHEN_CORRELATED } else { BATCHES });
    if batches.len() == BATCHES && correlation(&batches) > CORRELATION_MAX {
        batches = batch_means(samples, BATCHES_WHEN_CORRELATED);
    }
    let count = batches.len();
    let half = StudentsT::new(0.0, 1.0, count as f64 - 1.0).ok().map(|student| {
        let quantile = student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
        quantile * (variance(&batches) / count as f64).sqrt()
    });
    (half, count)
}

/// Means of `count` batches whose sample counts differ by at most one.
fn batch_means(samples: &[Interval], count: usize) -> Vec<f64> {
    (0..count)
        .filter_map(|i| mean(&samples[i * samples.len() / count..(i + 1) * samples.len() / count]))
        .collect()
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

/// Two-sided p of Welch's t test.
fn welch_p(a: &[f64], b: &[f64]) -> f64 {
    let (va, vb) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    let error = va + vb;
    let distance = (average(a) - average(b)).abs();
    if error <= 0.0 {
        return if distance > 0.0 { 0.0 } else { 1.0 };
    }
    let freedom =
        error * error / (va * va / (a.len() as f64 - 1.0) + vb * vb / (b.len() as f64 - 1.0));
    StudentsT::new(0.0, 1.0, freedom)
        .map_or(1.0, |student| 2.0 * student.cdf(-distance / error.sqrt()))
}

fn seconds(samples: &[Interval]) -> f64 {
    samples.iter().map(|sample| sample.seconds).sum()
}

/// Bytes over measured time: samples weigh by their length.
fn mean(samples: &[Interval]) -> Option<f64> {
    let seconds = seconds(samples);
    (seconds > 0.0).then(|| samples.iter().map(|sample| sample.bytes).sum::<f64>() / seconds)
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let average = average(values);
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    squares / (values.len() as f64 - 1.0)
}

/// Lag-1 autocorrelation.
fn correlation(values: &[f64]) -> f64 {
    let average = average(values);
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    let products: f64 =
        values.windows(2).map(|pair| (pair[0] - average) * (pair[1] - average)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
#[path = "steady_tests.rs"]
mod tests;
