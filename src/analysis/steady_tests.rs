use super::super::noise::{Noise, sample};
use super::*;

fn intervals(rates: impl IntoIterator<Item = f64>) -> Vec<Interval> {
    rates.into_iter().map(sample).collect()
}

/// Share of 2,000 runs of 30 s whose interval holds the true mean.
fn coverage(phi: f64) -> f64 {
    let mut noise = Noise::new(7, phi);
    let covered = (0..2000)
        .filter(|_| {
            noise.restart();
            let steady = steady(&noise.around(1000.0, 0.1, 300), None).unwrap();
            (steady.rate.0 - 1000.0).abs() <= steady.half_width.unwrap().0
        })
        .count();
    covered as f64 / 2000.0
}

#[test]
fn intervals_of_30_s_hold_the_true_mean_as_often_as_documented() {
    // Nominal 0.95; the standard error of each simulated share is 0.006, so two of them are 0.012.
    for (phi, reached) in [(0.0, 0.979), (0.5, 0.973), (0.8, 0.957)] {
        let covered = coverage(phi);
        assert!(covered >= reached - 0.012, "φ = {phi}: {covered} of the intervals hold the mean");
    }
}

#[test]
fn a_ramp_is_cut_off_and_the_mean_is_that_of_the_rest() {
    let ramp = (0..20).map(|i| f64::from(i) * 50.0);
    let level = (0..100).map(|i| if i % 2 == 0 { 990.0 } else { 1010.0 });
    let steady = steady(&intervals(ramp.chain(level)), None).unwrap();
    assert!((steady.rate.0 - 1000.0).abs() < 2.0, "{steady:?}");
    assert!(steady.converged && steady.truncated >= Duration::from_millis(1900), "{steady:?}");
}

#[test]
fn at_least_ten_round_trips_are_cut_off() {
    let steady = steady(&intervals(vec![100.0; 100]), Some(Duration::from_millis(200))).unwrap();
    assert_eq!(steady.truncated.as_millis(), 2000);
}

#[test]
fn at_most_half_is_cut_off() {
    let rising = (0..100).map(f64::from);
    let steady = steady(&intervals(rising), None).unwrap();
    assert!(steady.truncated <= Duration::from_secs(5) && !steady.converged, "{steady:?}");
}

#[test]
fn few_samples_give_a_mean_without_an_interval() {
    let steady = steady(&intervals(vec![100.0; 12]), None).unwrap();
    assert_eq!((steady.half_width, steady.converged), (None, false));
    assert_eq!(steady.at_least(), None);
}

#[test]
fn a_short_last_sample_does_not_move_the_rate() {
    let mut samples = intervals(vec![1000.0; 50]);
    samples.push(Interval { seconds: 0.001, bytes: 500.0 });
    assert!((steady(&samples, None).unwrap().rate.0 - 1000.0).abs() < 1e-6);
}

#[test]
fn samples_weigh_by_their_length() {
    let samples: Vec<Interval> = (0..40)
        .map(|i| match i % 2 {
            0 => Interval { seconds: 0.1, bytes: 100.0 },
            _ => Interval { seconds: 0.3, bytes: 600.0 },
        })
        .collect();
    assert!((steady(&samples, None).unwrap().rate.0 - 1750.0).abs() < 40.0);
}

#[test]
fn two_levels_are_noticed_and_noise_is_not_taken_for_one() {
    // A burst of less than half of the run is cut off like a ramp; this one is longer.
    let burst = vec![200.0; 90].into_iter().chain(vec![100.0; 50]);
    let shift = steady(&intervals(burst.enumerate().map(|(i, r)| r + (i % 3) as f64)), None)
        .unwrap()
        .level_shift
        .unwrap();
    assert!(shift.first.0 > shift.last.0 * 1.5);

    let noise = Noise::new(3, 0.5).around(1000.0, 0.1, 300);
    assert_eq!(steady(&noise, None).unwrap().level_shift, None);
}

#[test]
fn nothing_received_is_unknown_without_time_and_zero_with_it() {
    assert_eq!(steady(&[], None), None);
    let silent = steady(&intervals(vec![0.0; 50]), None).unwrap();
    assert_eq!((silent.rate.0, silent.converged), (0.0, false));
}
