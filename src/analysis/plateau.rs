//! Where a ladder of connections stops rising, and the level that it recommends.

use redoline_proto::units::BytesPerSecond;

use super::level::{Level, Run, best, levels, smallest_within};
use crate::plan::step::LEVELS_WITHOUT_RISE;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    Continue,
    /// Three consecutive levels did not rise.
    Plateau,
}

/// Takes the levels in the order in which they are measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    tolerance: f64,
    runs: Vec<Run>,
    /// Only a rise moves it, so that many small steps up are noticed in the end.
    reference: Option<BytesPerSecond>,
    without_rise: usize,
}

impl Ladder {
    /// `tolerance`: the share by which a level must exceed the reference to count as a rise.
    pub fn new(tolerance: f64) -> Self {
        Self { tolerance, runs: Vec::new(), reference: None, without_rise: 0 }
    }

    pub fn push(&mut self, num_conn: u32, rate: BytesPerSecond) -> Decision {
        self.push_run(num_conn, rate, None)
    }

    pub fn push_run(
        &mut self,
        num_conn: u32,
        rate: BytesPerSecond,
        half_width: Option<BytesPerSecond>,
    ) -> Decision {
        self.runs.push(Run { num_conn, rate, half_width });
        let rises = self.reference.is_none_or(|at| rate.0 > at.0 * (1.0 + self.tolerance));
        if rises {
            self.reference = Some(rate);
            self.without_rise = 0;
        } else {
            self.without_rise += 1;
        }
        self.decision()
    }

    /// By the levels so far.
    pub fn decision(&self) -> Decision {
        match self.without_rise >= LEVELS_WITHOUT_RISE {
            true => Decision::Plateau,
            false => Decision::Continue,
        }
    }

    /// In the order of the number of connections.
    pub fn levels(&self) -> Vec<Level> {
        levels(&self.runs)
    }

    pub fn best(&self) -> Option<Level> {
        best(&self.levels())
    }

    /// The smallest level within the tolerance of the best.
    pub fn recommended(&self) -> Option<Level> {
        smallest_within(&self.levels(), self.tolerance)
    }
}

/// What the documented procedure would have recommended where another rule chose the levels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Documented {
    Recommends(u32),
    /// This, if no level above the highest measured one, `above`, exceeds the measured ones.
    Unless {
        num_conn: u32,
        above: u32,
    },
    /// It rests on what this level gives, which is not known well enough.
    CannotTell {
        num_conn: u32,
    },
}

/// The lowest and the highest rate that a level may have.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    num_conn: u32,
    low: f64,
    high: f64,
}

/// The documented procedure (from `from` by `step` until three levels do not rise) on levels that
/// another rule measured, in the order of their number of connections.
///
/// A level between two measured ones lies between their rates, which holds for a curve without a
/// peak or a dip between them; beyond the last measured level nothing is known. Where a decision
/// could go either way within these bounds, it cannot be told; where it only goes on beyond the last
/// measured level, or the last one at `max` still rose, it is told under the condition that nothing
/// there exceeds what was measured.
pub fn documented(levels: &[Level], from: u32, step: u32, max: u32, tolerance: f64) -> Documented {
    let mut walked: Vec<Bounds> = Vec::new();
    let mut reference: Option<Bounds> = None;
    let mut without_rise = 0;
    for num_conn in (from..=max).step_by(step.max(1) as usize) {
        let Some(level) = bounds(levels, num_conn) else {
            return beyond(levels, &walked, num_conn, tolerance);
        };
        walked.push(level);
        match reference.map_or(Some(true), |at| exceeds(level, at, 1.0 + tolerance)) {
            Some(true) => (reference, without_rise) = (Some(level), 0),
            Some(false) => without_rise += 1,
            None => return Documented::CannotTell { num_conn },
        }
        if without_rise >= LEVELS_WITHOUT_RISE {
            break;
        }
    }
    // Up to the last level the rate rose: what another one would bring nobody knows.
    if without_rise == 0 && !walked.is_empty() {
        return beyond(levels, &walked, max.saturating_add(step), tolerance);
    }
    smallest_of(&walked, 1.0 - tolerance).unwrap_or(Documented::CannotTell { num_conn: from })
}

/// What the levels that were walked recommend, where `num_conn` is above the highest measured one.
fn beyond(levels: &[Level], walked: &[Bounds], num_conn: u32, tolerance: f64) -> Documented {
    let open = Documented::CannotTell { num_conn };
    let Some(highest) = levels.last().filter(|highest| highest.num_conn < num_conn) else {
        return open;
    };
    match smallest_of(walked, 1.0 - tolerance) {
        Some(Documented::Recommends(num_conn)) => {
            Documented::Unless { num_conn, above: highest.num_conn }
        }
        Some(other) => other,
        None => open,
    }
}

/// The smallest level that has `share` of every level; `None` when there is none.
fn smallest_of(walked: &[Bounds], share: f64) -> Option<Documented> {
    for level in walked {
        let less = walked.iter().map(|other| exceeds(*other, *level, 1.0 / share));
        let less: Vec<Option<bool>> = less.collect();
        if less.contains(&Some(true)) {
            continue;
        }
        let num_conn = level.num_conn;
        return Some(match less.contains(&None) {
            true => Documented::CannotTell { num_conn },
            false => Documented::Recommends(num_conn),
        });
    }
    None
}

/// Whether `a` > `b` × `factor`; `None` when the bounds leave it open.
fn exceeds(a: Bounds, b: Bounds, factor: f64) -> Option<bool> {
    match a {
        // A level is its own equal, however wide its bounds are.
        _ if a.num_conn == b.num_conn => Some(false),
        _ if a.low > b.high * factor => Some(true),
        _ if a.high <= b.low * factor => Some(false),
        _ => None,
    }
}

fn bounds(levels: &[Level], num_conn: u32) -> Option<Bounds> {
    let above = levels.iter().find(|level| level.num_conn >= num_conn)?;
    let below = levels.iter().rev().find(|level| level.num_conn <= num_conn)?;
    Some(Bounds {
        num_conn,
        low: above.rate.0.min(below.rate.0),
        high: above.rate.0.max(below.rate.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes levels until the plateau; gives the ladder and how many were taken.
    fn climb(levels: &[(u32, f64)]) -> (Ladder, usize) {
        let mut ladder = Ladder::new(0.03);
        let taken = levels
            .iter()
            .position(|(n, rate)| ladder.push(*n, BytesPerSecond(*rate)) == Decision::Plateau);
        (ladder, taken.map_or(levels.len(), |last| last + 1))
    }

    #[test]
    fn a_capped_aggregate_stops_after_three_levels_that_do_not_rise() {
        let (ladder, taken) = climb(&[
            (2, 116.0),
            (4, 232.0),
            (6, 289.0),
            (8, 290.0),
            (10, 289.6),
            (12, 289.9),
            (14, 0.0),
        ]);
        assert_eq!(taken, 6);
        assert_eq!(ladder.best().map(|level| level.num_conn), Some(8));
        assert_eq!(ladder.recommended().map(|level| level.num_conn), Some(6));
    }

    #[test]
    fn only_a_rise_moves_the_reference_so_a_slow_climb_goes_on() {
        // Each level is 2 % above the one before: every second one exceeds the reference by 4 %.
        let levels: Vec<(u32, f64)> =
            (1..12).map(|n| (n, 100.0 * 1.02f64.powi(n as i32))).collect();
        assert_eq!(climb(&levels).1, levels.len());
    }

    #[test]
    fn a_single_dip_does_not_end_a_ladder() {
        let (_, taken) = climb(&[(2, 100.0), (4, 90.0), (6, 95.0), (8, 150.0), (10, 200.0)]);
        assert_eq!(taken, 5);
    }

    #[test]
    fn exactly_the_tolerance_is_no_rise() {
        let (_, taken) = climb(&[(2, 100.0), (4, 103.0), (6, 103.0), (8, 103.0), (10, 200.0)]);
        assert_eq!(taken, 4);
    }

    #[test]
    fn an_empty_ladder_recommends_nothing() {
        assert_eq!(Ladder::new(0.03).recommended(), None);
    }

    fn levels_of(rates: &[(u32, f64)]) -> Vec<Level> {
        let level = |(num_conn, rate): &(u32, f64)| Level {
            num_conn: *num_conn,
            rate: BytesPerSecond(*rate),
            half_width: None,
            runs: 1,
        };
        rates.iter().map(level).collect()
    }

    #[test]
    fn the_documented_procedure_is_read_off_the_levels_of_a_knee() {
        // 10 lies between 8 and 12, which are both flat.
        let knee = levels_of(&[
            (1, 58.0),
            (2, 116.0),
            (3, 174.0),
            (4, 232.0),
            (6, 289.0),
            (8, 290.0),
            (12, 289.9),
        ]);
        assert_eq!(documented(&knee, 2, 2, 64, 0.03), Documented::Recommends(6));
    }

    #[test]
    fn beyond_the_last_level_the_documented_procedure_is_told_under_a_condition() {
        let short = levels_of(&[(1, 100.0), (2, 100.0), (3, 100.0), (4, 100.0)]);
        let unless = Documented::Unless { num_conn: 2, above: 4 };
        assert_eq!(documented(&short, 2, 2, 64, 0.03), unless);
        let rising = levels_of(&[(1, 50.0), (2, 100.0), (3, 150.0), (4, 200.0)]);
        let unless = Documented::Unless { num_conn: 4, above: 4 };
        assert_eq!(documented(&rising, 2, 2, 64, 0.03), unless);
    }

    #[test]
    fn levels_that_rise_up_to_the_maximum_recommend_nothing_without_a_condition() {
        let rising = levels_of(&[(1, 58.0), (2, 116.0), (4, 232.0), (6, 290.0)]);
        let unless = Documented::Unless { num_conn: 6, above: 6 };
        assert_eq!(documented(&rising, 2, 2, 6, 0.03), unless);
        let flat = levels_of(&[(1, 58.0), (2, 116.0), (4, 232.0), (6, 233.0)]);
        assert_eq!(documented(&flat, 2, 2, 6, 0.03), Documented::Recommends(4));
    }

    #[test]
    fn the_documented_procedure_cannot_be_told_on_a_slope_or_without_levels() {
        let slope = levels_of(&[(8, 100.0), (12, 120.0), (16, 120.0), (24, 120.0)]);
        assert_eq!(documented(&slope, 8, 2, 64, 0.03), Documented::CannotTell { num_conn: 10 });
        assert_eq!(documented(&[], 2, 2, 64, 0.03), Documented::CannotTell { num_conn: 2 });
    }

    #[test]
    fn the_documented_procedure_of_its_own_levels_is_its_own_recommendation() {
        let rates =
            [(2, 50.0), (4, 80.0), (6, 95.0), (8, 99.0), (10, 99.5), (12, 99.0), (14, 99.0)];
        let (ladder, _) = climb(&rates);
        let own = ladder.recommended().map(|level| Documented::Recommends(level.num_conn));
        assert_eq!(Some(documented(&ladder.levels(), 2, 2, 64, 0.03)), own);
    }
}
