use super::super::noise::{Noise, sample};
use super::super::steady::TARGET;
use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// What became of simulated runs around 1000.
#[derive(Debug, Default)]
struct Tally {
    converged: usize,
    covered: usize,
    seconds: f64,
}

impl Tally {
    fn coverage(&self) -> f64 {
        self.covered as f64 / self.converged as f64
    }

    fn mean_seconds(&self) -> f64 {
        self.seconds / self.converged as f64
    }
}

/// Runs of AR(1) noise, each stopped by the rule.
fn simulate(phi: f64, cv: f64, limit: Duration, runs: usize) -> Tally {
    let mut noise = Noise::new(11, phi);
    let mut tally = Tally::default();
    for _ in 0..runs {
        noise.restart();
        let mut rule = StopRule::new(TARGET, limit);
        let mut samples = Vec::new();
        let last = loop {
            let wanted = (rule.next_look().as_secs_f64() * 10.0).ceil() as usize;
            samples.extend(noise.around(1000.0, cv, wanted - samples.len()));
            match rule.look(&samples, None) {
                Look::Continue => {}
                last => break last,
            }
        };
        if let Look::Converged(steady) = last {
            tally.converged += 1;
            tally.seconds += steady.elapsed().as_secs_f64();
            let half = steady.half_width.unwrap().0;
            assert!(half <= TARGET * steady.rate.0);
            tally.covered += usize::from((steady.rate.0 - 1000.0).abs() <= half);
        }
    }
    tally
}

#[test]
fn at_the_stopping_time_intervals_hold_the_true_mean_as_often_as_documented() {
    for (phi, reached) in [(0.0, 0.98), (0.5, 0.95), (0.8, 0.92)] {
        let tally = simulate(phi, 0.03, LIMIT, 2000);
        assert!(tally.coverage() >= reached, "φ = {phi}: {} {tally:?}", tally.coverage());
    }
}

/// Every 100 ms asks a rule with a limit of `limit` seconds; what it says at last, and when.
fn stop(samples: &[Interval], limit: u64, min_rtt: Option<Duration>) -> (Look, usize) {
    let mut rule = StopRule::new(TARGET, Duration::from_secs(limit));
    for count in 1..=samples.len() {
        match rule.look(&samples[..count], min_rtt) {
            Look::Continue => {}
            last => return (last, count),
        }
    }
    (Look::Continue, samples.len())
}

/// `first` for so many samples, then `last`; both with noise.
fn two_levels(noise: &mut Noise, first: f64, of_first: usize, last: f64, cv: f64) -> Vec<Interval> {
    let mut samples = noise.around(first, cv, of_first);
    samples.extend(noise.around(last, cv, 600 - of_first));
    samples
}

#[test]
fn looks_fall_further_and_further_apart_up_to_the_limit() {
    let rule = StopRule::new(TARGET, Duration::from_secs(30));
    let tenths: Vec<f64> = rule.looks.iter().map(|look| (look * 10.0).round() / 10.0).collect();
    assert_eq!(tenths, [2.0, 3.0, 4.0, 5.7, 8.0, 11.3, 16.0, 22.6, 30.0]);
    assert_eq!(StopRule::new(TARGET, Duration::from_secs(2)).looks, [2.0]);
    assert_eq!(StopRule::new(TARGET, Duration::from_secs(4)).looks, [2.0, 3.0, 4.0]);
}

#[test]
fn a_shaped_rate_stops_at_the_second_look() {
    let mut noise = Noise::new(5, 0.0);
    for cv in [0.0, 0.001, 0.005] {
        let (look, count) = stop(&noise.around(1000.0, cv, 600), 60, None);
        assert!(matches!(look, Look::Converged(_)), "{look:?}");
        assert_eq!(count as f64 / 10.0, EARLIEST.as_secs_f64());
    }
}

#[test]
fn a_rate_with_much_noise_takes_longer_or_ends_unconverged() {
    let tally = simulate(0.0, 0.10, LIMIT, 100);
    assert!(tally.mean_seconds() > 12.0, "{tally:?}");
    let correlated = simulate(0.8, 0.10, LIMIT, 100);
    assert!(correlated.converged < 5, "{correlated:?}");
    let samples = Noise::new(1, 0.8).around(1000.0, 0.10, 600);
    let (look, _) = stop(&samples, 60, None);
    let Look::Exhausted(Some(steady)) = look else { panic!("{look:?}") };
    assert!(!steady.converged && steady.half_width.unwrap().0 > TARGET * steady.rate.0);
}

#[test]
fn silence_is_never_a_steady_rate() {
    let (look, count) = stop(&vec![sample(0.0); 400], 30, None);
    let Look::Exhausted(Some(steady)) = look else { panic!("{look:?}") };
    assert_eq!((steady.rate.0, steady.converged), (0.0, false));
    assert!(count >= 294, "{count}");
    let rule = StopRule::new(TARGET, LIMIT);
    assert_eq!(rule.conclude(&[], None), None);
}

#[test]
fn a_slow_ramp_is_not_taken_for_its_end() {
    // 6 s of linear growth from 200 to 1000, as after an early end of slow start.
    let mut noise = Noise::new(9, 0.3);
    for _ in 0..50 {
        let samples: Vec<Interval> = (0..600)
            .map(|i| (200.0 + 800.0 * f64::from(i) / 60.0).min(1000.0))
            .map(|level| sample(level * (1.0 + 0.01 * noise.next())))
            .collect();
        let (look, count) = stop(&samples, 60, None);
        let Look::Converged(steady) = look else { panic!("{look:?}") };
        assert!(count >= 80, "stopped at {count} within the ramp or just after it: {steady:?}");
        assert!((steady.rate.0 - 1000.0).abs() <= 25.0, "{steady:?}");
    }
}

#[test]
fn a_rate_between_two_levels_is_never_a_result() {
    // A burst credit that ends at any moment of the first 20 s: the rate is that of one level, or
    // the run goes on.
    let mut noise = Noise::new(21, 0.0);
    for cv in [0.003, 0.03] {
        for of_first in 1..200 {
            let samples = two_levels(&mut noise, 1000.0, of_first, 700.0, cv);
            let (look, _) = stop(&samples, 60, None);
            if let Look::Converged(steady) = look {
                let near = |level: f64| (steady.rate.0 / level - 1.0).abs() <= 0.03;
                assert!(near(1000.0) || near(700.0), "{of_first} samples of burst: {steady:?}");
            }
        }
    }
}

#[test]
fn a_level_shift_in_the_last_window_is_reported_and_unconverged() {
    let mut noise = Noise::new(2, 0.0);
    // Noise too high for an early stop; the level falls after more than half of the time.
    let samples = two_levels(&mut noise, 1000.0, 180, 600.0, 0.15);
    let (look, _) = stop(&samples, 30, None);
    let Look::Exhausted(Some(steady)) = look else { panic!("{look:?}") };
    assert!(!steady.converged && steady.level_shift.is_some(), "{steady:?}");
}

#[test]
fn ten_round_trips_are_cut_off_before_a_look_can_pass() {
    let samples = vec![sample(1000.0); 600];
    let (look, count) = stop(&samples, 60, Some(Duration::from_millis(200)));
    // 2 s are to be cut, at most half: the looks at 4 s and 5.7 s are the first to pass.
    assert!(matches!(look, Look::Converged(_)));
    assert_eq!(count, 57);
}

#[test]
fn all_samples_of_a_finished_test_give_the_interval_of_its_last_look() {
    let mut noise = Noise::new(33, 0.5);
    for _ in 0..20 {
        let samples = noise.around(1000.0, 0.03, 700);
        let (look, count) = stop(&samples, 60, None);
        let later = (count + 7).min(samples.len());
        let shown = StopRule::new(TARGET, LIMIT).conclude(&samples[..later], None);
        match look {
            Look::Converged(steady) => assert_eq!(Some(steady), shown),
            Look::Exhausted(steady) => assert_eq!(steady, shown),
            Look::Continue => panic!("the limit passed without a word"),
        }
    }
}

#[test]
fn a_test_that_was_cut_short_has_not_converged() {
    let samples = vec![sample(1000.0); 25];
    let steady = StopRule::new(TARGET, LIMIT).conclude(&samples, None).unwrap();
    assert!(!steady.converged && steady.half_width.is_some());
}
