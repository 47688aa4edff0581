use super::super::noise::{Noise, sample};
use super::super::steady::steady;
use super::*;

/// Mbit/s to bytes per second.
const MBIT: f64 = 1e6 / 8.0;

/// Levels in Mbit/s, each for so many samples of 100 ms, with noise.
fn path(noise: &mut Noise, cv: f64, levels: &[(f64, usize)]) -> Vec<Interval> {
    levels.iter().flat_map(|(level, count)| noise.around(level * MBIT, cv, *count)).collect()
}

fn found(samples: &[Interval]) -> Option<BurstCredit> {
    burst_credit(samples, Some(Duration::from_millis(10)))
}

fn near(value: f64, truth: f64) -> bool {
    (value / truth - 1.0).abs() < 0.1
}

#[test]
fn a_token_bucket_of_24_mb_is_found_with_its_size() {
    let mut noise = Noise::new(1, 0.3);
    for seconds in [4, 10, 30, 60] {
        // 200 Mbit/s of packets, 193 of payload; the bucket lasts 0.2 s, slow start first.
        let levels = [(30.0, 1), (400.0, 1), (1139.0, 2), (193.0, seconds * 10 - 4)];
        let samples = path(&mut noise, 0.01, &levels);
        let credit = found(&samples).unwrap();
        assert!(near(credit.early.0, 1139.0 * MBIT) && near(credit.later.0, 193.0 * MBIT));
        assert_eq!((credit.at.as_millis(), credit.ended), (400, true), "{credit:?}");
        let above = (400.0 - 193.0 + 2.0 * (1139.0 - 193.0)) * MBIT * 0.1;
        assert!(near(credit.credit.0 as f64, above), "{credit:?}");
    }
}

#[test]
fn a_burst_of_a_minute_is_found_with_its_end() {
    let mut noise = Noise::new(2, 0.5);
    for (early, later) in [(10_000.0, 5_000.0), (1_000.0, 850.0)] {
        let samples = path(&mut noise, 0.03, &[(100.0, 3), (early, 597), (later, 300)]);
        let credit = found(&samples).unwrap();
        assert!(near(credit.early.0, early * MBIT) && near(credit.later.0, later * MBIT));
        assert!((credit.at.as_secs_f64() - 60.0).abs() < 0.5, "{credit:?}");
        assert!(near(credit.credit.0 as f64, (early - later) * MBIT * 59.7), "{credit:?}");
    }
}

#[test]
fn noise_is_taken_for_a_credit_in_less_than_one_run_of_a_hundred() {
    for (phi, seconds, runs) in [(0.0, 10, 1000), (0.5, 10, 1000), (0.8, 10, 1000), (0.8, 60, 200)]
    {
        let mut noise = Noise::new(4, phi);
        let alarms = (0..runs)
            .filter(|_| {
                noise.restart();
                found(&path(&mut noise, 0.03, &[(900.0, seconds * 10)])).is_some()
            })
            .count();
        assert!(alarms * 100 < runs, "φ = {phi}, {seconds} s: {alarms} of {runs}");
    }
}

#[test]
fn neither_a_rise_nor_a_dip_nor_a_return_nor_a_slow_decline_is_a_credit() {
    let mut noise = Noise::new(5, 0.3);
    let mut none = |levels: &[(f64, usize)]| {
        let samples = path(&mut noise, 0.01, levels);
        assert_eq!(found(&samples), None, "{levels:?}");
    };
    // Slow start into a link with a queue of any size: the receiver never gets more than the link.
    none(&[(20.0, 1), (90.0, 1), (193.0, 300)]);
    none(&[(193.0, 100), (60.0, 10), (193.0, 190)]);
    none(&[(193.0, 280), (60.0, 20)]);
    none(&[(193.0, 100), (100.0, 60), (193.0, 140)]);
    // Other traffic that begins and ends again.
    none(&[(100.0, 60), (193.0, 20), (100.0, 220)]);
    let decline: Vec<(f64, usize)> = (0..300).map(|i| (200.0 - f64::from(i) / 3.0, 1)).collect();
    none(&decline);
    none(&[(193.0, 1), (193.0, 20)]);
    assert_eq!(found(&[]), None);
    assert_eq!(found(&vec![sample(0.0); 100]), None);
}

#[test]
fn levels_without_noise_are_told_apart_too() {
    let samples: Vec<Interval> =
        (0..100).map(|i| sample(if i < 30 { 300.0 } else { 200.0 } * MBIT)).collect();
    assert_eq!(found(&samples).map(|credit| credit.at.as_millis()), Some(3000));
    assert_eq!(found(&vec![sample(193.0 * MBIT); 100]), None);
}

#[test]
fn a_probe_that_gave_more_than_a_long_run_sustains_tells_of_a_credit() {
    let mut noise = Noise::new(6, 0.3);
    let probe = steady(&path(&mut noise, 0.01, &[(600.0, 40)]), None).unwrap();
    let sustained = steady(&path(&mut noise, 0.01, &[(500.0, 600)]), None).unwrap();
    let credit = between(&probe, &sustained).unwrap();
    assert!(!credit.ended && near(credit.early.0, 600.0 * MBIT), "{credit:?}");
    assert_eq!(between(&sustained, &probe), None);
    let like = steady(&path(&mut noise, 0.01, &[(530.0, 40)]), None).unwrap();
    assert_eq!(between(&like, &sustained), None);
}

#[test]
fn losses_that_grow_with_the_change_are_another_explanation() {
    assert!(explained_by_loss(0.0, 0.02));
    assert!(!explained_by_loss(0.01, 0.0) && !explained_by_loss(0.0001, 0.0002));
}
