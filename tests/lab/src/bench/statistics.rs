//! The geometric mean of ratios with its confidence interval.

use std::fmt;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of intervals that are to hold the true ratio.
const CONFIDENCE: f64 = 0.95;

/// A geometric mean of ratios, and the Student t interval on their logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean.
    pub mean: f64,
    /// The lower and upper end of the 95 % interval; `None` with fewer than two ratios.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// `None` without a ratio.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let count = ratios.len() as f64;
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / count;
        let half = StudentsT::new(0.0, 1.0, count - 1.0).ok().map(|student| {
            let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
            let standard_error = (squares / (count - 1.0) / count).sqrt();
            student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)) * standard_error
        });
        let interval = half.map(|half| ((mean - half).exp(), (mean + half).exp()));
        Some(Self { mean: mean.exp(), interval })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3}", self.mean)?;
        match self.interval {
            Some((low, high)) => write!(formatter, " [{low:.3}, {high:.3}]"),
            None => write!(formatter, " [?]"),
        }
    }
}

/// `None` of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_that_cancel_out_have_a_mean_of_one() {
        let ratio = Ratio::of(&[2.0, 0.5, 4.0, 0.25]).unwrap();
        assert!((ratio.mean - 1.0).abs() < 1e-12);
        let (low, high) = ratio.interval.unwrap();
        assert!((low * high - 1.0).abs() < 1e-12 && low < 1.0);
    }

    /// By hand: logs 0 and 0.2, mean 0.1, standard error 0.1, t(1; 0.975) = 12.706.
    #[test]
    fn the_interval_is_that_of_student_on_the_logarithms() {
        let ratio = Ratio::of(&[1.0, 0.2_f64.exp()]).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((low.ln() - (0.1 - 1.2706)).abs() < 1e-4, "{low}");
        assert!((high.ln() - (0.1 + 1.2706)).abs() < 1e-4, "{high}");
    }

    #[test]
    fn one_ratio_has_no_interval() {
        assert_eq!(Ratio::of(&[1.5]).unwrap().interval, None);
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[1.5]).unwrap().to_string(), "1.500 [?]");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }
}
