//! Axes: where they end and where their ticks are.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// How values are laid out from left to right.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum XScale {
    Linear,
    /// Every doubling is as wide as the one before; for slots and sessions.
    Log2,
}

impl XScale {
    /// The place of a value; `None` where the scale has none.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        let place = match self {
            Self::Linear => value,
            Self::Log2 => value.log2(),
        };
        place.is_finite().then_some(place)
    }

    pub(super) fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log2 => place.exp2(),
        }
    }
}

/// A linear axis with exactly the ticks that it is given.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Axis {
    pub(super) fn new(range: Range<f64>, ticks: Vec<f64>) -> Self {
        Self { range, ticks }
    }

    /// From zero up, with round numbers.
    pub(super) fn from_zero(highest: f64) -> Self {
        let ticks = ticks_from_zero(highest);
        Self { range: 0.0..ticks.last().copied().unwrap_or(1.0), ticks }
    }

    pub(super) fn ends(&self) -> [f64; 2] {
        [self.range.start, self.range.end]
    }
}

impl From<Range<f64>> for Axis {
    fn from(range: Range<f64>) -> Self {
        Self { range, ticks: Vec::new() }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        begin + (f64::from(end - begin) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light points would be lines between the ticks.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Ticks from zero to the first that is not below `highest`: at most 6 steps of 1, 2, 2.5 or 5
/// times a power of ten.
fn ticks_from_zero(highest: f64) -> Vec<f64> {
    const STEPS: u32 = 6;
    if !highest.is_finite() || highest <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = highest / f64::from(STEPS);
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= rough * 0.999_999)
        .unwrap_or(10.0 * magnitude);
    let count = (highest / step - 1e-9).ceil().max(1.0) as u32;
    (0..=count).map(|index| f64::from(index) * step).collect()
}

/// At most `most` of the values, evenly picked, in ascending order and each once.
pub(super) fn thinned(mut values: Vec<f64>, most: usize) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values.dedup();
    let every = values.len().div_ceil(most.max(1)).max(1);
    values.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_highest_value() {
        assert_eq!(ticks_from_zero(57.9), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(ticks_from_zero(190.3), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks_from_zero(0.0), [0.0, 1.0]);
        assert_eq!(ticks_from_zero(f64::NAN), [0.0, 1.0]);
    }

    #[test]
    fn too_many_ticks_are_thinned() {
        let many: Vec<f64> = (0..40).map(f64::from).collect();
        assert!(thinned(many, 12).len() <= 12);
        assert_eq!(thinned(vec![4.0, 2.0, 4.0], 12), [2.0, 4.0]);
    }
}
