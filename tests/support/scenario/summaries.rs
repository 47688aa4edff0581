//! Summaries of throughput tests whose path is known.

use std::time::Duration;

use super::Scenario;
use crate::analysis::throughput::{Limited, Summary, summarise};
use crate::plan::node::PairId;

fn summaries(scenario: &str) -> Vec<Summary> {
    Scenario::named(scenario).record().throughputs().map(summarise).collect()
}

#[test]
fn what_was_acknowledged_is_counted_from_after_the_connect() {
    let first = &summaries("per-flow-limit")[0];
    let counts = first.pairs[0].counts;
    assert!(counts.received.is_some() && counts.acked == counts.written, "{counts:?}");
    assert_eq!(counts.written, counts.received);
    let retransmitted = counts.written.map(|bytes| bytes / 10_000);
    assert_eq!(counts.retransmitted, retransmitted);
    assert_eq!(counts.sent, counts.written.zip(retransmitted).map(|(a, b)| a + b));
}

#[test]
fn what_an_old_kernel_does_not_tell_stays_unknown() {
    let first = &summaries("old-kernel")[0];
    let pair = &first.pairs[0];
    assert_eq!((pair.counts.acked, pair.counts.retransmitted), (None, None));
    assert_eq!(pair.limited, Limited::default());
    assert_eq!(pair.counts.retransmitted_share(), None);
    // The smallest round trip that was read stands in for the kernel's own minimum.
    assert_eq!(pair.rtt.min, Some(Duration::from_micros(10_100)));
}

#[test]
fn a_failed_pair_gives_no_rate_and_the_sum_is_marked_incomplete() {
    let together = summaries("lost-node").pop().unwrap();
    assert!(together.together() && !together.complete());
    assert_eq!(together.pair(PairId(1)).map(|pair| pair.failed), Some(true));
    assert_eq!(together.pair(PairId(1)).and_then(|pair| pair.steady.clone()), None);
    let (sum, alone) = (together.rate().unwrap(), &together.pairs[0]);
    assert_eq!(alone.steady.as_ref().map(|steady| steady.rate), Some(sum));
}

#[test]
fn pairs_add_up_in_their_common_window_although_their_clocks_differ() {
    let record = Scenario::named("need-met").record();
    let together = record.throughputs().find(|one| one.pairs.len() == 2).map(summarise).unwrap();
    let parts: f64 =
        together.pairs.iter().filter_map(|pair| Some(pair.steady.as_ref()?.rate.0)).sum();
    let sum = together.rate().unwrap().0;
    assert!((parts / sum - 1.0).abs() < 0.01, "{parts} {sum}");
    // The second pair starts 7 ms later, and both last 20 s.
    assert_eq!(together.window.map(|window| window.to_ns - window.from_ns), Some(19_993_000_000));
}

#[test]
fn processor_time_is_taken_over_the_whole_test_although_the_agent_began_to_count_late() {
    let record = Scenario::named("busy-processor").record();
    let mut throughput = record.throughputs().next().unwrap().clone();
    let before = summarise(&throughput).pairs[0].cpu.sender.unwrap().busiest_thread;
    throughput.pairs[0].sender.end.as_mut().unwrap().cpu.elapsed_us = 5000;
    let after = summarise(&throughput).pairs[0].cpu.sender.unwrap().busiest_thread;
    assert!((before - after).abs() < 0.01 && after <= 1.0, "{before} {after}");
}

#[test]
fn a_thread_with_more_than_one_core_was_not_measured() {
    let record = Scenario::named("busy-processor").record();
    let mut throughput = record.throughputs().next().unwrap().clone();
    throughput.pairs[0].sender.end.as_mut().unwrap().cpu.busiest_thread_us *= 100;
    assert_eq!(summarise(&throughput).pairs[0].cpu.sender, None);
}
