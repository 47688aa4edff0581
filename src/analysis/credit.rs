//! Paths that start with more than they sustain.

use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

use super::burst::{self, BurstCredit};
use super::case::{Alone, Case, DIRECTIONS, at_limit};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::flow::{self, QUOTA, STEAL_MUCH, full_thread, queue_stands};
use super::readings::ends;
use super::response;
use super::steady::Interval;
use super::throughput::{PairSummary, Summary};
use super::words::{long_time, rate};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::{EndRecord, MeasurementId, PairTransfer};

/// A test sustains what it carries when it lasts so long, and so many times a probe.
const LONG: Duration = Duration::from_secs(20);
const LONGER: f64 = 2.0;
/// Levels of two tests are the same when they differ by no more than this ratio.
const REPEATED: f64 = 1.2;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    DIRECTIONS.into_iter().filter_map(|direction| strongest(case, direction)).collect()
}

/// A credit, and where it was seen.
struct Seen {
    pairs: Vec<PairId>,
    ids: Vec<MeasurementId>,
    credit: BurstCredit,
    /// Packets were lost once the rate had fallen.
    losses: bool,
    /// That fell so.
    tests: usize,
}

/// The one that is seen best: within a test rather than between tests, then the largest.
fn strongest(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let within = repeated(case.counting(direction).filter_map(|test| within(case, test)).collect());
    let between = case.pairs().filter_map(|pair| between(case, pair, direction));
    let seen = within.into_iter().chain(between).max_by(|a, b| {
        let order = a.credit.ended.cmp(&b.credit.ended).then(a.tests.cmp(&b.tests));
        order.then(a.credit.credit.cmp(&b.credit.credit))
    })?;
    let confidence = if seen.tests > 1 { Confidence::Likely } else { Confidence::Possible };
    let id = FindingId::BurstCredit;
    let mut finding = Finding::new(id, Severity::Warning, confidence, sentence(&seen, direction))
        .direction(direction)
        .pairs(seen.pairs)
        .value(seen.credit.later.0, Unit::BytesPerSecond)
        .detail(Detail::Credit { sustained: seen.credit.later, credit: seen.credit.credit });
    for id in seen.ids {
        finding.add_evidence(id, &["samples[]", "steady.bytes_per_second"]);
    }
    Some(finding)
}

fn sentence(seen: &Seen, direction: Direction) -> String {
    let BurstCredit { early, later, at, credit, ended } = seen.credit;
    let early_and_later = match ended {
        true => format!(
            "{} for the first {} of a test, then {}",
            rate(early),
            long_time_or_ms(at),
            rate(later)
        ),
        false => format!("{} in a short test, and {} in a long one", rate(early), rate(later)),
    };
    let size = format!("{} {credit}", if ended { "about" } else { "at least" });
    if seen.tests > 1 {
        return format!(
            "The path from {direction} carries {early_and_later}, and it does so in {} tests: it \
             lends a credit of {size} and sustains {}. Short tests measure the credit; redo at peak \
             time lasts longer.",
            seen.tests,
            rate(later)
        );
    }
    let alike = match seen.losses {
        true => {
            "Other traffic that began meanwhile looks the same, and so do losses that began by chance"
        }
        false => "Other traffic that began meanwhile looks the same",
    };
    format!(
        "The path from {direction} carries {early_and_later}: it may lend a credit of {size} and \
         sustain {}. {alike}. What tells them apart: the same test again after a rest, which a \
         credit lets begin as fast and fall to the same rate.",
        rate(later)
    )
}

/// Falls that other tests repeat: twice from one level to another no chance does.
fn repeated(mut seen: Vec<Seen>) -> Vec<Seen> {
    let alike = |a: BytesPerSecond, b: BytesPerSecond| a.0.max(b.0) <= REPEATED * a.0.min(b.0);
    let credits: Vec<(BurstCredit, Vec<MeasurementId>)> =
        seen.iter().map(|one| (one.credit, one.ids.clone())).collect();
    for one in &mut seen {
        let same = |credit: &BurstCredit| {
            alike(credit.early, one.credit.early) && alike(credit.later, one.credit.later)
        };
        let others: Vec<_> = credits.iter().filter(|(credit, _)| same(credit)).collect();
        one.tests = others.len();
        let ids = others.into_iter().flat_map(|(_, ids)| ids.clone());
        let others: Vec<MeasurementId> = ids.filter(|id| !one.ids.contains(id)).collect();
        one.ids.extend(others);
    }
    seen
}

fn long_time_or_ms(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds => long_time(seconds),
    }
}

fn within(case: &Case<'_>, test: &Summary) -> Option<Seen> {
    let credit = credit_of(case, test)?;
    let (before, after) = losses_around(case, test, credit.at);
    let losses = before.zip(after).is_some_and(|(a, b)| burst::explained_by_loss(a, b));
    Some(Seen {
        pairs: test.pairs.iter().map(|pair| pair.pair).collect(),
        ids: vec![test.id],
        credit,
        losses,
        tests: 1,
    })
}

/// A fall within one test, of what all its receivers got; unless random losses explain it: a stream
/// rises to the path's rate until its first loss, and falls to what its losses leave it. Nor of a
/// test whose processors were taken away: what fell may have been theirs.
pub fn credit_of(case: &Case<'_>, test: &Summary) -> Option<BurstCredit> {
    if test.pairs.iter().any(|pair| at_limit(test, pair) || processor_taken(pair)) {
        return None;
    }
    let intervals: Vec<Interval> = test.samples.iter().map(|sample| sample.interval).collect();
    let credit = burst::burst_credit(&intervals, test.min_rtt())?;
    let (_, lost) = losses_around(case, test, credit.at);
    let by_loss = lost.and_then(|lost| rate_by_losses(test, lost));
    // Where a queue stands, the path is full at the later level, whatever its overflow loses.
    let queue = test.pairs.iter().any(queue_stands);
    let by_chance = !queue && by_loss.is_some_and(|by_loss| response::fits(credit.later, by_loss));
    (!by_chance).then_some(credit)
}

/// A thread had no processor time left, or a quota or the hypervisor took some.
fn processor_taken(pair: &PairSummary) -> bool {
    full_thread(pair).is_some()
        || flow::ends(pair).any(|(_, cpu)| {
            cpu.throttled.is_some_and(|sum| sum >= QUOTA)
                || cpu.steal.is_some_and(|cores| cores >= STEAL_MUCH)
        })
}

/// What all streams of a test together get at this loss (share of packets).
fn rate_by_losses(test: &Summary, lost: f64) -> Option<BytesPerSecond> {
    let pair = test.pairs.first()?;
    let control = pair.congestion_control.sender.as_deref();
    let rtt = pair.rtt.p50.or(pair.rtt.min)?;
    let one = response::rate(control, pair.mss?, rtt, lost)?;
    let streams = f64::from(test.request.num_conn) * test.pairs.len() as f64;
    Some(BytesPerSecond(one.0 * streams))
}

/// A probe and a long confirmation of the same number of connections, both plain.
fn between(case: &Case<'_>, pair: PairId, direction: Direction) -> Option<Seen> {
    let tests = case.alone(pair, direction);
    let alike = |a: &Alone<'_>, b: &Alone<'_>| {
        let (one, other) = (&a.summary.request, &b.summary.request);
        a.num_conn == b.num_conn && one.socket == other.socket && one.rate_limit == other.rate_limit
    };
    let pairs = tests.iter().flat_map(|long| {
        let held = at_limit(long.summary, long.pair) || processor_taken(long.pair);
        let long_enough = long.steady.elapsed() >= LONG && !held;
        tests.iter().filter(move |probe| long_enough && alike(probe, long)).filter_map(
            move |probe| {
                let longer = long.steady.elapsed() >= probe.steady.elapsed().mul_f64(LONGER);
                // What comes after the long test has the credit of a rest, or none.
                let before = probe.id < long.id;
                let credit =
                    burst::between(probe.steady, long.steady).filter(|_| longer && before)?;
                Some((probe.id, long.id, credit))
            },
        )
    });
    let (probe, long, credit) = pairs.max_by_key(|(.., credit)| credit.credit)?;
    Some(Seen { pairs: vec![pair], ids: vec![long, probe], credit, losses: false, tests: 1 })
}

/// Bytes sent again of all sent, before and after a moment since the first sample.
fn losses_around(case: &Case<'_>, test: &Summary, at: Duration) -> (Option<f64>, Option<f64>) {
    let Some(raw) = case.record.throughputs().find(|one| one.id == test.id) else {
        return (None, None);
    };
    let (mut before, mut after) = (Counted::default(), Counted::default());
    for pair in &raw.pairs {
        let Some((first, last)) = around(pair, at) else { return (None, None) };
        before.add(first);
        after.add(last);
    }
    (before.share(), after.share())
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sent: u64,
    again: u64,
}

impl Counted {
    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.again += other.again;
    }

    fn share(self) -> Option<f64> {
        (self.sent > 0).then(|| self.again as f64 / self.sent as f64)
    }
}

fn around(pair: &PairTransfer, at: Duration) -> Option<(Counted, Counted)> {
    let EndRecord { started_ns, readings, .. } = &pair.sender;
    let moment = (*started_ns)?.saturating_add(at.as_nanos() as i64);
    let (mut before, mut after) = (Counted::default(), Counted::default());
    for end in ends(&pair.sender) {
        let start = super::readings::start_of(&pair.sender, end.stream)?;
        let of_stream = readings.iter().filter(|one| one.stream == end.stream);
        let middle = &of_stream.into_iter().find(|one| one.at_ns >= moment)?.tcp;
        let (sent, again) = (middle.bytes_sent?, middle.bytes_retrans?);
        before.add(Counted {
            sent: sent.saturating_sub(start.tcp.bytes_sent?),
            again: again.saturating_sub(start.tcp.bytes_retrans?),
        });
        after.add(Counted {
            sent: end.tcp.bytes_sent?.saturating_sub(sent),
            again: end.tcp.bytes_retrans?.saturating_sub(again),
        });
    }
    Some((before, after))
}
