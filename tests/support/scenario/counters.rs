//! Causes of which a kernel's counters decide: scenarios with other counts than their path gives.

use redoline_proto::transfer::CpuUse;

use super::Scenario;
use crate::analysis::analyse;
use crate::analysis::finding::FindingId;
use crate::record::measurement::{Measurement, Throughput};
use crate::record::run::RunRecord;

/// Whether it is found once the tests of a full link were changed.
fn found(id: FindingId, change: impl Fn(&mut Throughput)) -> bool {
    let mut record: RunRecord = Scenario::named("link-full").record();
    for measurement in &mut record.measurements {
        if let Measurement::Throughput(test) = measurement {
            change(test);
        }
    }
    analyse(&record).findings.iter().any(|finding| finding.id == id)
}

/// The queue of the link loses so many segments, and so many come to the receiver too early.
fn reordered(lost: u64, early: u64) -> bool {
    found(FindingId::Reordering, |test| {
        for pair in &mut test.pairs {
            for end in pair.sender.end.iter_mut().flat_map(|end| &mut end.streams) {
                end.tcp.bytes_retrans = Some(16 + lost * 1448);
            }
            for end in pair.receiver.end.iter_mut().flat_map(|end| &mut end.streams) {
                end.tcp.rcv_ooopack = Some(early);
            }
        }
    })
}

#[test]
fn what_waits_behind_a_lost_segment_did_not_overtake_it() {
    // 300 Mbit/s and 35 ms under load: some 900 segments wait behind each loss.
    assert!(!reordered(5, 4000));
    assert!(reordered(0, 4000));
    assert!(reordered(1, 4000));
}

/// A processor is named once the receivers of such tests use theirs so.
fn limited(of: impl Fn(&Throughput) -> bool, change: impl Fn(&mut CpuUse)) -> bool {
    found(FindingId::CpuLimited, |test| {
        if of(test) {
            let ends = test.pairs.iter_mut().filter_map(|pair| pair.receiver.end.as_mut());
            ends.for_each(|end| change(&mut end.cpu));
        }
    })
}

/// Throttled for 56 % of the time in sum over processors; the busiest thread waited for `waited`.
fn throttled(num_conn: u32, waited: Option<f64>) -> bool {
    limited(
        |test| test.request.num_conn == num_conn,
        |cpu| {
            let part = |share: f64| (cpu.elapsed_us as f64 * share) as u64;
            (cpu.throttled_us, cpu.busiest_thread_wait_us) = (Some(part(0.56)), waited.map(part));
        },
    )
}

#[test]
fn a_quota_that_takes_a_little_on_many_processors_holds_no_thread() {
    assert!(!throttled(8, Some(0.07)));
    // Where waiting is not counted, the streams share what was taken.
    assert!(!throttled(8, None));
}

#[test]
fn a_quota_that_keeps_one_thread_from_running_holds_it() {
    assert!(throttled(1, Some(0.56)));
    assert!(throttled(1, None));
}

#[test]
fn a_thread_that_is_full_only_while_all_nodes_send_is_named() {
    let full = |cpu: &mut CpuUse| cpu.busiest_thread_us = cpu.elapsed_us * 97 / 100;
    assert!(limited(|test| test.pairs.len() > 1, full));
    assert!(!limited(|_| false, full));
}
