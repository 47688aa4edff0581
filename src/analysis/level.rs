//! Levels of a ladder: what each number of connections gave, over all runs of it.

use redoline_proto::units::BytesPerSecond;

use super::precision::{average, quantile, variance};
use super::steady::CONFIDENCE;

/// One measurement of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub num_conn: u32,
    /// The steady aggregate rate.
    pub rate: BytesPerSecond,
    pub half_width: Option<BytesPerSecond>,
}

/// A number of connections and the mean of its runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    pub num_conn: u32,
    pub rate: BytesPerSecond,
    pub half_width: Option<BytesPerSecond>,
    pub runs: u32,
}

/// The levels of `runs` in the order of their number of connections.
pub fn levels(runs: &[Run]) -> Vec<Level> {
    let mut numbers: Vec<u32> = runs.iter().map(|run| run.num_conn).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
        .into_iter()
        .map(|num_conn| {
            let of_level: Vec<_> = runs
                .iter()
                .filter(|run| run.num_conn == num_conn)
                .map(|run| (run.rate, run.half_width))
                .collect();
            let (rate, half_width) = mean_of_runs(&of_level);
            Level { num_conn, rate, half_width, runs: of_level.len() as u32 }
        })
        .collect()
}

/// The mean of runs of the same thing, and its half-width.
///
/// Of several runs it is the wider of what the runs know of themselves, √Σh² / k, and of what sets
/// them apart, Student t over their means: a path may change from run to run more than within one.
pub fn mean_of_runs(
    runs: &[(BytesPerSecond, Option<BytesPerSecond>)],
) -> (BytesPerSecond, Option<BytesPerSecond>) {
    if let [alone] = runs {
        return *alone;
    }
    let rates: Vec<f64> = runs.iter().map(|(rate, _)| rate.0).collect();
    let count = rates.len() as f64;
    let squares: Option<f64> = runs.iter().map(|(_, half)| half.map(|half| half.0.powi(2))).sum();
    let within = squares.map(|squares| squares.sqrt() / count);
    let between = quantile(CONFIDENCE, count - 1.0)
        .map(|quantile| quantile * (variance(&rates) / count).sqrt());
    let half = match (within, between) {
        (Some(within), Some(between)) => Some(within.max(between)),
        (within, between) => between.or(within),
    };
    (BytesPerSecond(average(&rates)), half.map(BytesPerSecond))
}

/// The level with the highest rate; the smallest number of connections among equals.
pub fn best(levels: &[Level]) -> Option<Level> {
    levels
        .iter()
        .copied()
        .max_by(|a, b| a.rate.0.total_cmp(&b.rate.0).then(b.num_conn.cmp(&a.num_conn)))
}

/// The smallest level of at least best × (1 − `tolerance`).
pub fn smallest_within(levels: &[Level], tolerance: f64) -> Option<Level> {
    let enough = best(levels)?.rate.0 * (1.0 - tolerance);
    levels.iter().copied().filter(|level| level.rate.0 >= enough).min_by_key(|level| level.num_conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(num_conn: u32, rate: f64, half: f64) -> Run {
        Run { num_conn, rate: BytesPerSecond(rate), half_width: Some(BytesPerSecond(half)) }
    }

    #[test]
    fn runs_of_a_level_are_one_level_with_their_mean() {
        let levels = levels(&[run(4, 100.0, 6.0), run(8, 90.0, 1.0), run(4, 100.0, 8.0)]);
        assert_eq!(levels.len(), 2);
        assert_eq!((levels[0].num_conn, levels[0].rate.0, levels[0].runs), (4, 100.0, 2));
        // √(6² + 8²) / 2, since the runs themselves agree.
        assert_eq!(levels[0].half_width, Some(BytesPerSecond(5.0)));
        assert_eq!(levels[1].half_width, Some(BytesPerSecond(1.0)));
    }

    #[test]
    fn runs_that_differ_by_more_than_they_say_have_a_wide_mean() {
        let levels = levels(&[run(4, 100.0, 0.1), run(4, 50.0, 0.1), run(4, 100.0, 0.1)]);
        assert!(levels[0].half_width.unwrap().0 > 50.0, "{levels:?}");
    }

    #[test]
    fn a_single_run_without_an_interval_has_none_and_two_have_that_between_them() {
        let alone = (BytesPerSecond(10.0), None);
        assert_eq!(mean_of_runs(&[alone]), alone);
        assert!(mean_of_runs(&[alone, (BytesPerSecond(11.0), None)]).1.is_some());
    }
}
