//! The middle of ratios with its confidence interval, by ranks.

use std::fmt;

/// The share of intervals that are to hold the true ratio.
const CONFIDENCE: f64 = 0.95;

/// A typical ratio, and an interval for it that supposes no distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The pseudo-median of Hodges and Lehmann (1963), on logarithms: the median of all means of two.
    pub middle: f64,
    /// The lower and upper end of the 95 % interval; `None` with fewer than six ratios.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// `None` without a ratio.
    ///
    /// The interval is the one that Wilcoxon's signed-rank test does not reject (Tukey 1949). A mean
    /// would be that of the worst runs: on a machine with few processors the scheduler sometimes puts
    /// both ends of a connection on one of them, which takes half of a rate or more, of any program.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let mut means: Vec<f64> = logs
            .iter()
            .enumerate()
            .flat_map(|(index, a)| logs[index..].iter().map(move |b| f64::midpoint(*a, *b)))
            .collect();
        means.sort_by(f64::total_cmp);
        let interval = outside(logs.len())
            .map(|outside| (means[outside].exp(), means[means.len() - 1 - outside].exp()));
        Some(Self { middle: median(&means)?.exp(), interval })
    }
}

/// How many of the sorted means lie below the interval, and as many above it; `None` where even all
/// of them are no interval of that confidence.
fn outside(count: usize) -> Option<usize> {
    let sums = count * (count + 1) / 2;
    // How many of the 2^count ways to give signs have this sum of positive ranks, as a share.
    let mut ways = vec![0.0; sums + 1];
    ways[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..=sums).rev() {
            let with = if sum >= rank { ways[sum - rank] } else { 0.0 };
            ways[sum] = f64::midpoint(ways[sum], with);
        }
    }
    let mut tail = 0.0;
    let rejected = ways.iter().take_while(|share| {
        tail += **share;
        tail <= (1.0 - CONFIDENCE) / 2.0
    });
    rejected.count().checked_sub(1)
}

impl fmt::Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3}", self.middle)?;
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
    fn ratios_that_cancel_out_have_a_middle_of_one() {
        let ratio = Ratio::of(&[2.0, 0.5, 4.0, 0.25, 3.0, 1.0 / 3.0]).unwrap();
        assert!((ratio.middle - 1.0).abs() < 1e-12);
        let (low, high) = ratio.interval.unwrap();
        assert!((low * high - 1.0).abs() < 1e-12 && low < 1.0);
    }

    /// Tables of the signed-rank test, two-sided 5 %: the critical values are 0, 8, 29 and 137.
    #[test]
    fn the_interval_is_that_of_the_signed_rank_test() {
        assert_eq!([6, 10, 16, 30].map(outside), [Some(0), Some(8), Some(29), Some(137)]);
    }

    #[test]
    fn one_bad_run_does_not_move_the_middle_by_much() {
        let mut ratios = vec![1.0; 15];
        ratios.push(0.2);
        let ratio = Ratio::of(&ratios).unwrap();
        assert!((ratio.middle - 1.0).abs() < 1e-12);
        assert!((ratio.interval.unwrap().0 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn five_ratios_have_no_interval() {
        assert_eq!(Ratio::of(&[1.5; 5]).unwrap().interval, None);
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
