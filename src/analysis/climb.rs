//! Any ladder of connections, as the executor drives it: what to measure next, and what came of it.

use redoline_proto::units::BytesPerSecond;

use super::knee::{Ending, Knee, Next};
use super::level::Level;
use super::plateau::{Decision, Ladder};

/// Ask [`Climb::next`], measure, [`Climb::push`]; until there is no next.
#[derive(Clone, Debug, PartialEq)]
pub enum Climb {
    /// `until: plateau`, the documented procedure.
    Plateau { ladder: Ladder, next: Option<u32>, step: u32, max: u32 },
    /// `until: knee`.
    Knee(Knee),
}

impl Climb {
    /// From `from` by `step`; `tolerance`: the share by which a level must exceed the reference.
    pub fn plateau(from: u32, step: u32, max: u32, tolerance: f64) -> Self {
        let next = (from <= max).then_some(from);
        Self::Plateau { ladder: Ladder::new(tolerance), next, step: step.max(1), max }
    }

    pub fn knee(from: u32, max: u32, tolerance: f64) -> Self {
        Self::Knee(Knee::new(from, max, tolerance))
    }

    /// `None` when all is measured.
    pub fn next(&self) -> Option<Next> {
        match self {
            Self::Plateau { next, .. } => next.map(Next::Level),
            Self::Knee(knee) => knee.next(),
        }
    }

    /// What the run that [`Climb::next`] asked for gave; `None` when it gave no rate.
    pub fn push(&mut self, rate: Option<BytesPerSecond>, half_width: Option<BytesPerSecond>) {
        match self {
            Self::Knee(knee) => knee.push(rate, half_width),
            Self::Plateau { ladder, next, step, max } => {
                let Some(num_conn) = *next else { return };
                let decision = match rate {
                    Some(rate) => ladder.push_run(num_conn, rate, half_width),
                    None => Decision::Continue,
                };
                let above = num_conn.checked_add(*step).filter(|above| *above <= *max);
                *next = above.filter(|_| decision == Decision::Continue);
            }
        }
    }

    /// In the order of the number of connections; of several runs of a level the mean.
    pub fn levels(&self) -> Vec<Level> {
        match self {
            Self::Plateau { ladder, .. } => ladder.levels(),
            Self::Knee(knee) => knee.levels(),
        }
    }

    pub fn best(&self) -> Option<Level> {
        match self {
            Self::Plateau { ladder, .. } => ladder.best(),
            Self::Knee(knee) => knee.best(),
        }
    }

    /// The smallest level within the tolerance of the best, by what is measured so far.
    pub fn recommended(&self) -> Option<Level> {
        match self {
            Self::Plateau { ladder, .. } => ladder.recommended(),
            Self::Knee(knee) => knee.recommended(),
        }
    }

    /// `None` while the climb goes on.
    pub fn ending(&self) -> Option<Ending> {
        match self {
            Self::Knee(knee) => knee.ending(),
            Self::Plateau { next: Some(_), .. } => None,
            Self::Plateau { ladder, .. } => match ladder.decision() {
                Decision::Plateau => Some(Ending::NoRise),
                Decision::Continue => Some(Ending::Maximum),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection carries 10, all together 60.
    fn drive(mut climb: Climb) -> (Climb, Vec<u32>) {
        let mut taken = Vec::new();
        while let Some(next) = climb.next() {
            assert_eq!(climb.ending().is_some(), matches!(next, Next::Again { .. }));
            let num_conn = next.num_conn();
            taken.push(num_conn);
            climb.push(Some(BytesPerSecond(f64::from(num_conn.min(6)) * 10.0)), None);
        }
        (climb, taken)
    }

    #[test]
    fn both_rules_are_driven_alike_and_recommend_the_same_of_a_clear_knee() {
        let (plateau, taken) = drive(Climb::plateau(2, 2, 64, 0.03));
        assert_eq!(taken, [2, 4, 6, 8, 10, 12]);
        let (knee, taken) = drive(Climb::knee(1, 64, 0.03));
        assert_eq!(taken, [1, 2, 3, 4, 6, 8, 12, 6, 8, 8, 6]);
        for climb in [plateau, knee] {
            assert_eq!(climb.ending(), Some(Ending::NoRise));
            assert_eq!(climb.recommended().map(|level| level.num_conn), Some(6));
        }
    }

    #[test]
    fn a_ladder_that_still_rises_ends_at_its_maximum() {
        let (climb, taken) = drive(Climb::plateau(1, 2, 5, 0.03));
        assert_eq!(taken, [1, 3, 5]);
        assert_eq!(climb.ending(), Some(Ending::Maximum));
        assert_eq!(Climb::plateau(5, 1, 4, 0.03).next(), None);
    }
}
