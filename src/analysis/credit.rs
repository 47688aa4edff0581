//! Paths that start with more than they sustain.

use std::time::Duration;

use redoline_proto::units::BytesPerSecond;

use super::burst::{self, BurstCredit};
use super::case::{Alone, Case, DIRECTIONS, at_limit};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::flow::queue_stands;
use super::readings::ends;
use super::response;
use super::steady::Interval;
use super::throughput::Summary;
use super::words::{long_time, rate};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::{EndRecord, MeasurementId, PairTransfer};

/// A test sustains what it carries when it lasts so long, and so many times a probe.
const LONG: Duration = Duration::from_secs(20);
const LONGER: f64 = 2.0;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    DIRECTIONS.into_iter().filter_map(|direction| strongest(case, direction)).collect()
}

/// A credit, and where it was seen.
struct Seen {
    pairs: Vec<PairId>,
    ids: Vec<MeasurementId>,
    credit: BurstCredit,
    confidence: Confidence,
    losses: bool,
}

/// The one that is seen best: within a test rather than between tests, then the largest.
fn strongest(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let within = case.counting(direction).filter_map(|test| within(case, test));
    let between = case.pairs().filter_map(|pair| between(case, pair, direction));
    let seen = within.chain(between).max_by(|a, b| {
        let order = a.credit.ended.cmp(&b.credit.ended).then(a.confidence.cmp(&b.confidence));
        order.then(a.credit.credit.cmp(&b.credit.credit))
    })?;
    let BurstCredit { early, later, at, credit, ended } = seen.credit;
    let how = match ended {
        true => format!("for the first {} of a test, then {}", long_time_or_ms(at), rate(later)),
        false => format!("in a short test, and {} in a long one", rate(later)),
    };
    let sentence = format!(
        "The path from {direction} carries {} {how}: it lends a credit of {}{credit} and sustains \
         {}. Short tests measure the credit; redo at peak time lasts longer.{}",
        rate(early),
        if ended { "about " } else { "at least " },
        rate(later),
        match seen.losses {
            true =>
                " Packets are lost once it is used up, as behind a policer; losses that began by \
                 chance look the same. What tells them apart: the same test again after a rest.",
            false => "",
        }
    );
    let id = FindingId::BurstCredit;
    let mut finding = Finding::new(id, Severity::Warning, seen.confidence, sentence)
        .direction(direction)
        .pairs(seen.pairs)
        .value(later.0, Unit::BytesPerSecond)
        .detail(Detail::Credit { sustained: later, credit });
    for id in seen.ids {
        finding.add_evidence(id, &["samples[]", "steady.bytes_per_second"]);
    }
    Some(finding)
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
        confidence: if losses { Confidence::Possible } else { Confidence::Likely },
        losses,
    })
}

/// A fall within one test, of what all its receivers got; unless random losses explain it: a stream
/// rises to the path's rate until its first loss, and falls to what its losses leave it.
pub fn credit_of(case: &Case<'_>, test: &Summary) -> Option<BurstCredit> {
    if test.pairs.iter().any(|pair| at_limit(test, pair)) {
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
        let long_enough = long.steady.elapsed() >= LONG && !at_limit(long.summary, long.pair);
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
    let confidence = Confidence::Possible;
    Some(Seen { pairs: vec![pair], ids: vec![long, probe], credit, confidence, losses: false })
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
