//! What is left of a rate once a credit that the path lends is used up, as far as any test tells.

use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

use super::burst;
use super::case::{Case, held_by_runbook};
use super::credit::credit_of;
use super::throughput::Summary;
use crate::plan::node::Direction;

/// A test sustains what it carries when it lasts so long, and so many times another.
pub const LONG: Duration = Duration::from_secs(20);
const LONGER: f64 = 2.0;

/// The tests of a direction, each with the level that it fell to when a credit was used up.
#[derive(Debug)]
pub struct Sustained<'a> {
    tests: Vec<(&'a Summary, Option<BytesPerSecond>)>,
}

impl<'a> Sustained<'a> {
    pub fn of(case: &Case<'a>, direction: Direction) -> Self {
        let later = |test| credit_of(case, test).map(|credit| credit.later);
        Self { tests: case.counting(direction).map(|test| (test, later(test))).collect() }
    }

    /// The lowest level that a credit left, in `test` or in one of at least its pairs and connections,
    /// which cannot have carried less; `None` where no credit was seen.
    ///
    /// A short test lies within a credit, so only others can tell of it.
    pub fn after(&self, test: &Summary) -> Option<BytesPerSecond> {
        let others = self.tests.iter().filter(|(other, _)| covers(other, test));
        others
            .flat_map(|(other, later)| [*later, between(test, other)])
            .flatten()
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The lowest level that a credit left in any test of the direction, however few its streams.
    pub fn lowest(&self) -> Option<BytesPerSecond> {
        let later = self.tests.iter().filter_map(|(test, _)| self.after(test));
        later.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The rate of a test, or what is left of it.
    pub fn rate(&self, test: &Summary) -> Option<BytesPerSecond> {
        let (rate, later) = (test.rate()?, self.after(test));
        Some(later.filter(|later| later.0 < rate.0).unwrap_or(rate))
    }
}

fn covers(other: &Summary, test: &Summary) -> bool {
    other.request.num_conn >= test.request.num_conn
        && test.pairs.iter().all(|pair| other.pair(pair.pair).is_some())
}

/// What a long test of the same kind, taken later, carried less than a short one.
fn between(short: &Summary, long: &Summary) -> Option<BytesPerSecond> {
    let (a, b) = (&short.request, &long.request);
    let alike = a.num_conn == b.num_conn
        && a.socket == b.socket
        && a.rate_limit == b.rate_limit
        && short.pairs.len() == long.pairs.len();
    let (before, after) = (short.steady.as_ref()?, long.steady.as_ref()?);
    let longer = after.elapsed() >= LONG.max(before.elapsed().mul_f64(LONGER));
    let so = alike && longer && short.id < long.id && !held_by_runbook(long);
    let credit = burst::between(before, after).filter(|_| so)?;
    Some(credit.later)
}
