use super::super::noise::Noise;
use super::*;

/// What a level truly gives, the maximum being 1.
type Curve = fn(f64) -> f64;

const CURVES: [(&str, Curve); 5] = [
    ("window-limited", |n| (n / 6.0).min(1.0)),
    ("one flow fills", |_| 1.0),
    ("soft knee", |n| 1.0 - (-n / 4.0).exp()),
    ("declines after its peak", |n| {
        (n / 6.0).min(1.0) * (1.0 - 0.02 * (n - 8.0).max(0.0)).max(0.3)
    }),
    ("bundle of links", |n| match n as u32 {
        ..=2 => 0.25,
        3 | 4 => 0.5,
        5..=7 => 0.75,
        _ => 1.0,
    }),
];

/// Climbs a curve to the end; the knee and how many runs it took.
fn climb(curve: Curve, mut noise: impl FnMut() -> f64) -> (Knee, u32) {
    let mut knee = Knee::new(1, 64, 0.03);
    let mut taken = 0;
    while let Some(next) = knee.next() {
        let rate = curve(f64::from(next.num_conn())) * (1.0 + noise());
        knee.push(Some(BytesPerSecond(rate)), None);
        taken += 1;
    }
    (knee, taken)
}

fn order(knee: &mut Knee, rate: impl Fn(u32) -> f64) -> Vec<Next> {
    let mut order = Vec::new();
    while let Some(next) = knee.next() {
        order.push(next);
        knee.push(Some(BytesPerSecond(rate(next.num_conn()))), None);
    }
    order
}

#[test]
fn the_recommended_level_carries_93_percent_of_the_maximum_in_95_of_100_runs() {
    for (name, curve) in CURVES {
        for spread in [0.01, 0.02, 0.04, 0.06] {
            let mut noise = Noise::new(7, 0.0);
            let (mut good, mut runs) = (0, 0);
            for _ in 0..1000 {
                let (knee, taken) = climb(curve, || spread * noise.next());
                let recommended = f64::from(knee.recommended().unwrap().num_conn);
                good += usize::from(curve(recommended) >= 0.93);
                runs += taken;
            }
            let mean = f64::from(runs) / 1000.0;
            assert!(good >= 950, "{name}, noise {spread}: {good} of 1000");
            assert!(mean <= 16.0, "{name}, noise {spread}: {mean} measurements");
        }
    }
}

#[test]
fn steps_are_of_square_root_two_and_end_with_the_maximum() {
    let numbers = |from, max| -> Vec<u32> {
        std::iter::successors(Some(from), |level| above(*level, max)).collect()
    };
    assert_eq!(numbers(1, 64), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]);
    assert_eq!(numbers(2, 20), [2, 3, 4, 6, 8, 12, 16, 20]);
    assert_eq!(numbers(5, 5), [5]);
}

#[test]
fn contenders_are_measured_again_so_that_a_drift_favours_neither() {
    let mut knee = Knee::new(1, 64, 0.03);
    let order = order(&mut knee, |n| f64::from(n.min(6)) * 10.0 + f64::from(n) * 0.01);
    let climbed: Vec<u32> = order.iter().take(7).map(|next| next.num_conn()).collect();
    assert_eq!(climbed, [1, 2, 3, 4, 6, 8, 12]);
    assert_eq!(
        order[7..],
        [
            Next::Again { num_conn: 6, pass: 1 },
            Next::Again { num_conn: 12, pass: 1 },
            Next::Again { num_conn: 12, pass: 2 },
            Next::Again { num_conn: 6, pass: 2 },
        ]
    );
    assert_eq!(knee.ending(), Some(Ending::NoRise));
    assert_eq!(knee.recommended().map(|level| (level.num_conn, level.runs)), Some((6, 3)));
    assert_eq!(knee.best().map(|level| level.num_conn), Some(12));
}

#[test]
fn a_contender_that_does_not_hold_is_not_recommended() {
    let mut knee = Knee::new(1, 64, 0.03);
    while let Some(next) = knee.next() {
        // The first run of two connections was lucky.
        let rate = match next {
            Next::Level(2) => 100.0,
            Next::Again { num_conn: 2, .. } | Next::Level(1) => 50.0,
            _ => 100.0,
        };
        knee.push(Some(BytesPerSecond(rate)), None);
    }
    assert_eq!(knee.recommended().map(|level| level.num_conn), Some(3));
}

#[test]
fn a_rate_that_still_rises_ends_at_the_maximum_with_nothing_to_compare() {
    let mut knee = Knee::new(1, 8, 0.03);
    let order = order(&mut knee, f64::from);
    assert_eq!(order.len(), 6);
    assert_eq!(knee.ending(), Some(Ending::Maximum));
    assert_eq!(knee.recommended().map(|level| level.num_conn), Some(8));
}

#[test]
fn a_level_without_a_rate_is_passed_over() {
    let mut knee = Knee::new(1, 4, 0.03);
    knee.push(None, None);
    assert_eq!(knee.next(), Some(Next::Level(2)));
    assert_eq!((knee.best(), knee.recommended(), knee.ending()), (None, None, None));
    assert_eq!(Knee::new(8, 4, 0.03).next(), None);
}
