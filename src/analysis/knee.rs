//! The fast ladder: up in steps of √2 to where the rate stops rising, then the contenders again.

use std::collections::VecDeque;

use redoline_proto::units::BytesPerSecond;

use super::level::{Level, Run, best, levels, smallest_within};

/// So many consecutive levels that do not exceed the reference end the climb.
const MISSES: usize = 2;
/// Below so many levels it does not end: two flows may share a link of a bundle by chance.
const LEVELS_MIN: usize = 4;

/// What is to be measured next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// A level that is new.
    Level(u32),
    /// A contender again; `pass` counts from 1.
    Again { num_conn: u32, pass: u32 },
}

impl Next {
    pub fn num_conn(self) -> u32 {
        match self {
            Self::Level(num_conn) | Self::Again { num_conn, .. } => num_conn,
        }
    }
}

/// Why a climb ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The rate rises no more, by the rule of the climb.
    NoRise,
    /// The highest level was reached before that.
    Maximum,
}

/// `until: knee`. Climbs 1, 2, 3, 4, 6, 8, 12, 16, 24, … until two consecutive levels do not exceed the
/// reference by more than the tolerance, after at least four levels; only such a rise moves the
/// reference. Then two contenders are measured again in the order A B B A, so that a drift of the
/// path favours neither: A is the smallest level within the tolerance of the best, B the best of the
/// levels above A. Rates are means over all runs of a level; the smallest level of at least best ×
/// (1 − tolerance) is recommended.
///
/// Simulated: 4,000 runs with 1, 2, 4 and 6 % noise between runs and a tolerance of 3 %. The
/// recommended level reaches 93 % of the true maximum in at least 0.98 of the runs for a soft
/// knee 1 − e^(−n/4), with 14.4 measurements on average (0.93 and 10.4 without contenders; 0.96 with a
/// tolerance of 5 %); in at least 0.99 for a window-limited path (12), one flow that fills the link
/// (8.4), a decline after the peak (11) and a bundle of links (12.5).
/// No claim for a bundle that hashes each run's flows anew: there a level's own runs differ, which
/// its half-width shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    max: u32,
    tolerance: f64,
    runs: Vec<Run>,
    /// The next new level; `None` once the climb has ended.
    level: Option<u32>,
    again: VecDeque<Next>,
    levels: usize,
    reference: Option<BytesPerSecond>,
    misses: usize,
    ending: Option<Ending>,
}

impl Knee {
    /// `from`: the first level; `max`: the highest, which is measured if the climb gets there.
    pub fn new(from: u32, max: u32, tolerance: f64) -> Self {
        Self {
            max,
            tolerance,
            runs: Vec::new(),
            level: Some(from.max(1)).filter(|level| *level <= max),
            again: VecDeque::new(),
            levels: 0,
            reference: None,
            misses: 0,
            ending: None,
        }
    }

    /// `None` when all is measured.
    pub fn next(&self) -> Option<Next> {
        self.level.map(Next::Level).or_else(|| self.again.front().copied())
    }

    /// What the run that [`Knee::next`] asked for gave; `None` when it gave no rate.
    pub fn push(&mut self, rate: Option<BytesPerSecond>, half_width: Option<BytesPerSecond>) {
        let Some(next) = self.next() else { return };
        let num_conn = next.num_conn();
        self.runs.extend(rate.map(|rate| Run { num_conn, rate, half_width }));
        match next {
            Next::Level(_) => self.climbed(num_conn, rate),
            Next::Again { .. } => {
                self.again.pop_front();
            }
        }
    }

    fn climbed(&mut self, num_conn: u32, rate: Option<BytesPerSecond>) {
        if let Some(rate) = rate {
            self.levels += 1;
            let rises = |at: BytesPerSecond| rate.0 > at.0 * (1.0 + self.tolerance);
            match self.reference.is_none_or(rises) {
                true => (self.reference, self.misses) = (Some(rate), 0),
                false => self.misses += 1,
            }
        }
        let ended = self.misses >= MISSES && self.levels >= LEVELS_MIN;
        self.level = above(num_conn, self.max).filter(|_| !ended);
        if self.level.is_none() {
            self.ending =
                Some(if self.misses >= MISSES { Ending::NoRise } else { Ending::Maximum });
            self.again = self.contenders();
        }
    }

    fn contenders(&self) -> VecDeque<Next> {
        let levels = self.levels();
        let Some(smallest) = smallest_within(&levels, self.tolerance) else {
            return VecDeque::new();
        };
        let above: Vec<Level> =
            levels.into_iter().filter(|level| level.num_conn > smallest.num_conn).collect();
        let Some(other) = best(&above) else { return VecDeque::new() };
        let (a, b) = (smallest.num_conn, other.num_conn);
        let order = [(a, 1), (b, 1), (b, 2), (a, 2)];
        order.into_iter().map(|(num_conn, pass)| Next::Again { num_conn, pass }).collect()
    }

    /// In the order of the number of connections.
    pub fn levels(&self) -> Vec<Level> {
        levels(&self.runs)
    }

    pub fn best(&self) -> Option<Level> {
        best(&self.levels())
    }

    /// Also of a knee that was cut short: by what is known so far.
    pub fn recommended(&self) -> Option<Level> {
        smallest_within(&self.levels(), self.tolerance)
    }

    /// Of the climb; `None` while it goes on.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }
}

/// The next of 1, 2, 3, 4, 6, 8, 12, 16, …, steps of √2 in whole numbers; `max` comes last.
fn above(num_conn: u32, max: u32) -> Option<u32> {
    let steps = std::iter::successors(Some((1u32, 2u32)), |(low, high)| {
        Some((*high, if *high < 4 { high + 1 } else { low.saturating_mul(2) }))
    });
    let next = steps.map(|(step, _)| step).find(|step| *step > num_conn)?;
    (num_conn < max).then(|| next.min(max))
}

#[cfg(test)]
#[path = "knee_tests.rs"]
mod tests;
