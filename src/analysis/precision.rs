//! How far the mean of samples that depend on each other may be from the truth.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::steady::Interval;

/// With fewer samples no interval is given.
pub const SAMPLES_MIN: usize = 10;
const BATCHES: usize = 10;
const BATCHES_WHEN_CORRELATED: usize = 5;
/// Above this lag-1 correlation of the batch means, fewer and longer batches are taken.
const CORRELATION_MAX: f64 = 0.3;
/// So many of its standard errors are added to the measured correlation: an estimate that happens
/// to be low would give an interval that is too narrow.
const CORRELATION_ERRORS: f64 = 1.0;
/// No correlation counts as higher; a series above it has hardly two independent samples anyway.
const CORRELATION_CAP: f64 = 0.98;

/// The half-width in the unit of the mean, and the number of batches behind it.
///
/// It is the wider of two intervals, since each is too narrow where the other is good:
///
/// - Student t over 10 batch means, 5 when they are correlated (Law, *Simulation Modeling and
///   Analysis*): assumes nothing of the noise, but knows its variance badly from a short series;
/// - Student t over all samples as if there were n / f of them, with f = (1 + φ) / (1 − φ) for the
///   upper estimate of the lag-1 correlation φ, corrected for the bias of short series (Kendall
///   1954: φ̂ is low by (1 + 3φ) / n), and with the sample variance corrected likewise.
///
/// What they cover together is measured in the tests of [`super::steady`] and [`super::looks`].
pub fn half_width(samples: &[Interval], confidence: f64) -> (Option<f64>, usize) {
    if samples.len() < SAMPLES_MIN {
        return (None, 0);
    }
    let (of_batches, count) = of_batches(samples, confidence);
    let of_samples = of_samples(samples, confidence);
    let wider = of_batches.zip(of_samples).map(|(a, b)| a.max(b));
    (wider, count)
}

fn of_batches(samples: &[Interval], confidence: f64) -> (Option<f64>, usize) {
    let few = samples.len() < 2 * BATCHES;
    let mut batches = batch_means(samples, if few { BATCHES_WHEN_CORRELATED } else { BATCHES });
    if batches.len() == BATCHES && correlation(&batches) > CORRELATION_MAX {
        batches = batch_means(samples, BATCHES_WHEN_CORRELATED);
    }
    let count = batches.len();
    let error = (variance(&batches) / count as f64).sqrt();
    (quantile(confidence, count as f64 - 1.0).map(|quantile| quantile * error), count)
}

/// Means of `count` batches whose sample counts differ by at most one.
fn batch_means(samples: &[Interval], count: usize) -> Vec<f64> {
    (0..count)
        .filter_map(|i| mean(&samples[i * samples.len() / count..(i + 1) * samples.len() / count]))
        .collect()
}

fn of_samples(samples: &[Interval], confidence: f64) -> Option<f64> {
    let rates: Vec<f64> =
        samples.iter().filter_map(|sample| mean(std::slice::from_ref(sample))).collect();
    let count = rates.len() as f64;
    if rates.len() < SAMPLES_MIN {
        return None;
    }
    let unbiased = ((correlation(&rates) * count + 1.0) / (count - 3.0)).clamp(0.0, 1.0);
    let error = ((1.0 - unbiased * unbiased) / count).sqrt();
    let upper = (unbiased + CORRELATION_ERRORS * error).min(CORRELATION_CAP);
    let inflation = ((1.0 + upper) / (1.0 - upper)).min(count / 2.0);
    let independent = count / inflation;
    let corrected = variance(&rates) / (1.0 - 1.0 / independent);
    let quantile = quantile(confidence, (independent - 1.0).max(1.0))?;
    Some(quantile * (corrected / independent).sqrt())
}

/// Of Student's t, two-sided.
pub fn quantile(confidence: f64, freedom: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(student.inverse_cdf(f64::midpoint(1.0, confidence)))
}

/// Two-sided p of Welch's t test.
pub fn welch_p(a: &[f64], b: &[f64]) -> f64 {
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

pub fn seconds(samples: &[Interval]) -> f64 {
    samples.iter().map(|sample| sample.seconds).sum()
}

/// Bytes over measured time: samples weigh by their length.
pub fn mean(samples: &[Interval]) -> Option<f64> {
    let seconds = seconds(samples);
    (seconds > 0.0).then(|| samples.iter().map(|sample| sample.bytes).sum::<f64>() / seconds)
}

pub fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of a sample: over n − 1.
pub fn variance(values: &[f64]) -> f64 {
    let average = average(values);
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    squares / (values.len() as f64 - 1.0)
}

/// Lag-1 autocorrelation.
pub fn correlation(values: &[f64]) -> f64 {
    let average = average(values);
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    let products: f64 =
        values.windows(2).map(|pair| (pair[0] - average) * (pair[1] - average)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}
