//! Which tests of a run say what a path carries, for later bandwidth-delay products.

use super::Scenario;
use crate::analysis::throughput::summarise;
use crate::execute::results::{Carried, Results};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::Throughput;

const FORTH: Direction = Direction::PrimaryToStandby;

fn results(name: &str, which: fn(&Throughput) -> bool) -> Results {
    let mut results = Results::default();
    for test in Scenario::named(name).record().throughputs().filter(|test| which(test)) {
        results.add_test(&summarise(test));
    }
    results
}

#[test]
fn what_waits_for_answers_tells_a_round_trip_and_no_rate() {
    let results = results("sync-near", |test| test.request.mode == "sync");
    assert_eq!(results.carried(FORTH), None);
    assert!(results.min_rtt(PairId(0)).is_some());
}

#[test]
fn what_is_encoded_or_sent_both_ways_at_once_tells_no_rate() {
    for name in ["compression", "encryption"] {
        let results = results(name, |test| test.request.encoding.is_some());
        assert_eq!(results.carried(FORTH), None, "{name}");
    }
    let results = results("both-at-once", |test| test.request.both_directions);
    assert_eq!(results.carried(FORTH), None);
}

#[test]
fn neither_one_stream_nor_what_the_runbook_holds_tells_more_than_that_a_path_carries_it() {
    let all = results("per-flow-limit", |_| true);
    assert!(matches!(all.carried(FORTH), Some(Carried::Rate(_))), "{:?}", all.carried(FORTH));
    let single = results("per-flow-limit", |test| test.request.num_conn == 1);
    assert!(matches!(single.carried(FORTH), Some(Carried::AtLeast(_))));
    let held = results("runbook-limit", |_| true);
    assert!(matches!(held.carried(FORTH), Some(Carried::AtLeast(_))), "{:?}", held.carried(FORTH));
}
