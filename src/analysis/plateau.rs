//! Where a ladder of connections stops rising, and the level that it recommends.

use redoline_proto::units::BytesPerSecond;

use crate::plan::step::LEVELS_WITHOUT_RISE;

/// A number of connections and the steady aggregate rate that it gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    pub num_conn: u32,
    pub rate: BytesPerSecond,
}

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
    levels: Vec<Level>,
    /// Only a rise moves it, so that many small steps up are noticed in the end.
    reference: Option<BytesPerSecond>,
    without_rise: usize,
}

impl Ladder {
    /// `tolerance`: the share by which a level must exceed the reference to count as a rise.
    pub fn new(tolerance: f64) -> Self {
        Self { tolerance, levels: Vec::new(), reference: None, without_rise: 0 }
    }

    pub fn push(&mut self, num_conn: u32, rate: BytesPerSecond) -> Decision {
        self.levels.push(Level { num_conn, rate });
        let rises = self.reference.is_none_or(|at| rate.0 > at.0 * (1.0 + self.tolerance));
        if rises {
            self.reference = Some(rate);
            self.without_rise = 0;
        } else {
            self.without_rise += 1;
        }
        match self.without_rise >= LEVELS_WITHOUT_RISE {
            true => Decision::Plateau,
            false => Decision::Continue,
        }
    }

    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The level with the highest rate; the smallest number of connections among equals.
    pub fn best(&self) -> Option<Level> {
        self.levels
            .iter()
            .copied()
            .max_by(|a, b| a.rate.0.total_cmp(&b.rate.0).then(b.num_conn.cmp(&a.num_conn)))
    }

    /// The smallest level within the tolerance of the best.
    pub fn recommended(&self) -> Option<Level> {
        let enough = self.best()?.rate.0 * (1.0 - self.tolerance);
        self.levels
            .iter()
            .copied()
            .filter(|level| level.rate.0 >= enough)
            .min_by_key(|level| level.num_conn)
    }
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
}
