//! Which packet sizes are tried next, and what the outcomes say: the search for the largest size
//! that passes, apart from sockets and clocks.

use std::collections::BTreeMap;

use redoline_proto::path::{SizeOutcome, SizeProbe};

/// Sizes that are tried at the same time: enough to be quick on a long way, and few enough that
/// their burst overflows no queue.
pub const AT_ONCE: usize = 4;

/// What came of one size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outcome {
    pub outcome: SizeOutcome,
    pub told_mtu_bytes: Option<u32>,
}

/// One direction of a path. It ends when every size that was asked for has been tried, and the
/// largest that passes and the smallest above it that does not are neighbours.
#[derive(Clone, Debug)]
pub struct Search {
    /// A packet of this size is known to pass.
    smallest_bytes: u32,
    /// Sizes that are tried whatever happens.
    asked: Vec<u32>,
    /// Tried first of those that lie between, since most paths have one of them.
    likely: Vec<u32>,
    tried: BTreeMap<u32, Outcome>,
}

impl Search {
    /// `interface_mtu_bytes` comes first: where it passes, there is nothing to search.
    pub fn new(smallest_bytes: u32, interface_mtu_bytes: Option<u32>, asked: &[u32]) -> Self {
        let mut sizes: Vec<u32> = interface_mtu_bytes.into_iter().chain(asked.to_vec()).collect();
        sizes.retain(|size| *size > smallest_bytes);
        // Neither an interface nor a list: then the common size stands for both.
        if sizes.is_empty() {
            sizes.push(ETHERNET_BYTES.max(smallest_bytes));
        }
        let mut asked: Vec<u32> = Vec::new();
        for size in sizes {
            if !asked.contains(&size) {
                asked.push(size);
            }
        }
        Self { smallest_bytes, asked, likely: vec![ETHERNET_BYTES], tried: BTreeMap::new() }
    }

    /// To be tried now, at most [`AT_ONCE`]; empty when nothing is left to find.
    pub fn next(&self) -> Vec<u32> {
        let untried = |sizes: Vec<u32>| -> Vec<u32> {
            sizes.into_iter().filter(|size| !self.tried.contains_key(size)).take(AT_ONCE).collect()
        };
        let asked = untried(self.asked.clone());
        if !asked.is_empty() {
            return asked;
        }
        let Some((low, high)) = self.between() else { return Vec::new() };
        let inside = |size: &u32| (low + 1..high).contains(size);
        let told = self.tried.values().filter_map(|outcome| outcome.told_mtu_bytes);
        let told = told.flat_map(|mtu| [mtu, mtu.saturating_add(1)]).filter(inside);
        let told = untried(told.collect());
        if !told.is_empty() {
            return distinct(told);
        }
        let likely = self.likely.iter().flat_map(|size| [*size, size + 1]).filter(inside);
        let mut next = untried(likely.collect());
        next.extend(spread(low, high, AT_ONCE - next.len()));
        distinct(next)
    }

    /// A size that passed once passes: what was lost at another time was lost by chance.
    pub fn record(&mut self, packet_bytes: u32, outcome: Outcome) {
        let known = self.tried.entry(packet_bytes).or_insert(outcome);
        if outcome.outcome == SizeOutcome::Passed {
            *known = outcome;
        }
    }

    /// Whatever it was.
    pub fn knows(&self, packet_bytes: u32) -> bool {
        self.tried.contains_key(&packet_bytes)
    }

    pub fn passed_bytes(&self) -> Option<u32> {
        let mut passed = self.tried.iter().filter(|(_, tried)| is_passed(tried));
        passed.next_back().map(|(size, _)| *size)
    }

    /// The smallest size above those that pass which did not.
    pub fn failed(&self) -> Option<(u32, Outcome)> {
        let above = self.passed_bytes().unwrap_or(self.smallest_bytes) + 1;
        self.tried.range(above..).next().map(|(size, outcome)| (*size, *outcome))
    }

    pub fn is_finished(&self) -> bool {
        self.next().is_empty()
    }

    /// In ascending order of size.
    pub fn sizes(&self) -> Vec<SizeProbe> {
        let probe = |(size, outcome): (&u32, &Outcome)| SizeProbe {
            packet_bytes: *size,
            outcome: outcome.outcome,
            told_mtu_bytes: outcome.told_mtu_bytes,
        };
        self.tried.iter().map(probe).collect()
    }

    /// The largest size that passes and the smallest that does not; `None` when they are
    /// neighbours, or nothing failed.
    fn between(&self) -> Option<(u32, u32)> {
        let low = self.passed_bytes().unwrap_or(self.smallest_bytes);
        let (high, failed) = self.failed()?;
        // An interface knows its own MTU, as no router knows the path's.
        let is_exact =
            failed.outcome == SizeOutcome::TooBigHere && failed.told_mtu_bytes == Some(low);
        (high - low > 1 && !is_exact).then_some((low, high))
    }
}

const ETHERNET_BYTES: u32 = 1500;

fn is_passed(outcome: &Outcome) -> bool {
    outcome.outcome == SizeOutcome::Passed
}

/// So many sizes that cut the space between into equal parts.
fn spread(low: u32, high: u32, count: usize) -> Vec<u32> {
    let (gap, parts) = (u64::from(high - low), count as u64 + 1);
    let cut = |part: u64| low + (gap * part / parts) as u32;
    (1..parts).map(cut).filter(|size| *size > low && *size < high).collect()
}

fn distinct(mut sizes: Vec<u32>) -> Vec<u32> {
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: u32 = 68;

    fn outcome(outcome: SizeOutcome, told: Option<u32>) -> Outcome {
        Outcome { outcome, told_mtu_bytes: told }
    }

    /// A path that loses, or tells of, what is larger than `mtu`.
    fn path(mtu: u32, told: Option<u32>) -> impl Fn(u32) -> Outcome {
        move |size| match (size <= mtu, told) {
            (true, _) => outcome(SizeOutcome::Passed, None),
            (false, None) => outcome(SizeOutcome::Lost, None),
            (false, Some(told)) => outcome(SizeOutcome::TooBigThere, Some(told)),
        }
    }

    /// The search when it is over, and its rounds.
    fn walk(mut search: Search, path: impl Fn(u32) -> Outcome) -> (Search, Vec<Vec<u32>>) {
        let mut rounds = Vec::new();
        loop {
            let sizes = search.next();
            if sizes.is_empty() {
                return (search, rounds);
            }
            assert!(sizes.len() <= AT_ONCE && rounds.len() < 40, "{rounds:?}");
            for size in &sizes {
                search.record(*size, path(*size));
            }
            rounds.push(sizes);
        }
    }

    #[test]
    fn the_sizes_follow_from_the_outcomes() {
        for (interface, asked, mtu, told, rounds) in [
            // All passes: one packet tells.
            (9000, vec![], 9000, None, vec![vec![9000]]),
            (1500, vec![1500, 9000], 1500, None, vec![vec![1500, 9000]]),
            // The router's word is tried, and the byte above it.
            (9000, vec![], 1400, Some(1400), vec![vec![9000], vec![1400, 1401]]),
            // A black hole behind ordinary Ethernet: the common size and the byte above it.
            (9000, vec![], 1500, None, vec![vec![9000], vec![1500, 1501, 3045, 6022]]),
            // Neighbours already.
            (1501, vec![1500], 1500, None, vec![vec![1501, 1500]]),
        ] {
            let mut tried =
                walk(Search::new(SMALL, Some(interface), &asked), |size| match size > interface {
                    true => outcome(SizeOutcome::TooBigHere, Some(interface)),
                    false => path(mtu, told)(size),
                });
            assert_eq!(tried.1, rounds);
            assert_eq!(tried.0.passed_bytes(), Some(mtu));
            // Said once, a loss does not undo what passed.
            tried.0.record(mtu, outcome(SizeOutcome::Lost, None));
            assert_eq!(tried.0.passed_bytes(), Some(mtu));
        }
    }

    #[test]
    fn a_black_hole_is_found_to_the_byte_in_few_rounds() {
        for mtu in [576, 1280, 1380, 1400, 1460, 1499, 8500, 8999] {
            let (search, rounds) = walk(Search::new(SMALL, Some(9000), &[]), path(mtu, None));
            assert_eq!(search.passed_bytes(), Some(mtu));
            assert_eq!(search.failed(), Some((mtu + 1, outcome(SizeOutcome::Lost, None))));
            assert!(rounds.len() <= 8, "{mtu}: {rounds:?}");
        }
    }

    #[test]
    fn a_router_that_lies_is_believed_only_as_far_as_packets_agree() {
        let (search, _) = walk(Search::new(SMALL, Some(9000), &[]), path(1400, Some(1480)));
        assert_eq!(search.passed_bytes(), Some(1400));
        // Old routers name no MTU, which arrives as 0.
        let (search, _) = walk(Search::new(SMALL, Some(9000), &[]), path(1400, Some(0)));
        assert_eq!(search.passed_bytes(), Some(1400));
    }

    #[test]
    fn nothing_but_the_smallest_passes_and_that_is_no_result() {
        let (search, _) = walk(Search::new(SMALL, Some(1500), &[]), path(SMALL, None));
        assert_eq!(search.passed_bytes(), None);
        assert_eq!(search.failed().map(|(size, _)| size), Some(SMALL + 1));
    }

    #[test]
    fn an_unknown_interface_is_taken_for_ethernet() {
        assert_eq!(Search::new(SMALL, None, &[]).next(), [1500]);
        assert_eq!(Search::new(SMALL, None, &[9000, 9000, 0, 40]).next(), [9000]);
    }

    proptest! {
        #[test]
        fn every_path_mtu_is_found(
            mtu in 69_u32..70_000,
            interface in 69_u32..70_000,
            asked in proptest::collection::vec(any::<u32>(), 0..6),
            told in proptest::option::of(any::<u32>()),
        ) {
            let found = interface.min(mtu);
            let (search, _) = walk(Search::new(SMALL, Some(interface), &asked), path(found, told));
            prop_assert_eq!(search.passed_bytes(), Some(found));
            prop_assert!(search.is_finished());
        }
    }
}
