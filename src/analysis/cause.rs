//! What limits the rate of a direction: one stream, and all connections together.

use redoline_proto::units::BytesPerSecond;

use super::bdp::BufferNeed;
use super::case::{Alone, Case, at_limit};
use super::finding::{
    Confidence, Detail, End, Finding, FindingId, PerFlow, Severity, Unit, WindowBound,
};
use super::flow::{Flow, Growth, Held};
use super::words::{list, milliseconds, percent, rate, steady};
use super::{link, losses, processor};
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::MeasurementId;

/// Every cause that fits, each with its evidence.
pub fn findings(case: &Case<'_>, direction: Direction) -> Vec<Finding> {
    let flows: Vec<Flow<'_>> =
        case.pairs().filter_map(|pair| Flow::of(case, pair, direction)).collect();
    let mut findings: Vec<Finding> = by_runbook(case, direction).into_iter().collect();
    findings.extend(processor::findings(case, direction, &flows));
    let windows = window(case, direction, &flows);
    // Where windows hold streams, straight growth alone is no sign of a limit in the network.
    let least = if windows.is_empty() { Confidence::Possible } else { Confidence::Likely };
    findings.extend(windows);
    findings.extend(per_flow(case, direction, &flows, least));
    findings.extend(losses::finding(case, direction, &flows));
    findings.extend(link::finding(case, direction, &flows));
    findings
}

/// Of the tests that causes are judged by; what it held in others says nothing of these.
fn by_runbook(case: &Case<'_>, direction: Direction) -> Option<Finding> {
    let held: Vec<_> = case
        .counting(direction)
        .flat_map(|summary| summary.pairs.iter().map(move |pair| (summary, pair)))
        .filter(|(summary, pair)| at_limit(summary, pair))
        .collect();
    let limit = held.first().and_then(|(summary, _)| summary.request.rate_limit)?;
    let of_node = case.setup().limits.rate.unwrap_or(limit);
    let share = match limit.0 < of_node.0 {
        true => format!(" ({} for each of its pairs)", rate(limit)),
        false => String::new(),
    };
    let sentence = format!(
        "The runbook's own limit of {} per node{share} held the rate from {direction}: the path \
         may carry more.",
        rate(of_node)
    );
    let mut finding =
        Finding::new(FindingId::LimitedByRunbook, Severity::Info, Confidence::Measured, sentence)
            .direction(direction)
            .value(limit.0, Unit::BytesPerSecond)
            .detail(Detail::Limit(limit));
    for (summary, pair) in held {
        let sender = case.setup().ends(pair.pair, direction).0;
        if !finding.pairs.contains(&pair.pair) {
            finding = finding.pairs([pair.pair]);
        }
        finding = finding
            .nodes([sender])
            .evidence(summary.id, &["steady.bytes_per_second", "rate_limit_bytes_per_second"]);
    }
    Some(finding)
}

/// Fields of the single stream's measurement.
pub const SINGLE: &[&str] = &["steady.bytes_per_second", "rtt_us.min", "rtt_us.p50"];

/// One finding per end: all nodes whose buffers hold their streams.
fn window(case: &Case<'_>, direction: Direction, flows: &[Flow<'_>]) -> Vec<Finding> {
    let held: Vec<(&Flow<'_>, Held)> =
        flows.iter().filter_map(|flow| Some((flow, flow.held()?))).collect();
    [End::Sender, End::Receiver]
        .into_iter()
        .filter_map(|end| {
            let held: Vec<_> = held.iter().filter(|(_, held)| held.end == end).collect();
            let slowest = held.iter().min_by(|a, b| a.0.rate().0.total_cmp(&b.0.rate().0))?;
            let need = held
                .iter()
                .filter_map(|(flow, _)| case.buffer_need(flow.pair, direction))
                .max_by_key(|need| need.buffer());
            let sentence = window_sentence(case, (slowest.0, slowest.1), direction, need);
            let sure = slowest.1.share == 0.0 || slowest.0.fills_buffer(&slowest.1);
            let confidence = if sure { Confidence::Likely } else { Confidence::Possible };
            let field = match end {
                End::Sender => ["limited.send_buffer_ms", "granted.send_buffer_bytes"],
                End::Receiver => ["limited.receive_window_ms", "granted.receive_buffer_bytes"],
            };
            let mut finding =
                Finding::new(FindingId::WindowLimited, Severity::Warning, confidence, sentence)
                    .direction(direction)
                    .detail(Detail::Window(WindowBound {
                        end,
                        setting: slowest.1.setting,
                        bound: slowest.1.bound,
                        stream: slowest.0.rate(),
                        need,
                    }));
            if let Some(need) = need {
                finding = finding.value(need.buffer().0 as f64, Unit::Bytes);
            }
            for (flow, _) in held {
                finding = finding
                    .pairs([flow.pair])
                    .nodes([flow.node(end)])
                    .evidence(flow.single.id, SINGLE)
                    .evidence(flow.single.id, &["limited.busy_ms"])
                    .evidence(flow.single.id, &field);
            }
            // Last, since the first one is the test to repeat.
            if let Some(id) = need.and_then(|need| need.measurement) {
                finding = finding.evidence(id, &["steady.bytes_per_second"]);
            }
            Some(finding)
        })
        .collect()
}

fn window_sentence(
    case: &Case<'_>,
    (flow, held): (&Flow<'_>, Held),
    direction: Direction,
    need: Option<BufferNeed>,
) -> String {
    let name = case.name(flow.node(held.end));
    let what = match held.end {
        End::Sender => "the send buffer",
        End::Receiver => "the receive window",
    };
    let bound = held.bound.map_or(String::new(), |bound| format!(" ({}: {bound})", held.setting));
    let by_counters = held.share > 0.0;
    let share = match by_counters {
        true => format!(" in {} of the time", percent(held.share)),
        false => " by its size".to_owned(),
    };
    let loaded = flow.single.pair.rtt.p50.or(flow.single.pair.rtt.min);
    let loaded = loaded.map_or_else(|| "an unknown time".to_owned(), milliseconds);
    let trip = match flow.queue() {
        false => format!("the round trip stayed at {loaded}, so no queue stood on the way"),
        true => format!(
            "the round trip rose to {loaded} by no more than the bursts of such a buffer explain"
        ),
    };
    let under_way = flow.under_way().zip(held.granted).map_or(String::new(), |(bytes, granted)| {
        format!(" Rate × round trip: {bytes} were under way, of {granted} that were granted.")
    });
    let need = need.map_or(String::new(), |need| {
        format!(
            " A buffer of 3 × BDP would be {} (BDP {} = {} × {}; the rate is {}).",
            need.buffer(),
            need.bdp(),
            rate(need.rate),
            milliseconds(need.min_rtt),
            need.source
        )
    });
    format!(
        "One stream from {} carries {}: {what} on {name}{bound} held it{share}, while {trip}.\
         {under_way}{need}",
        case.way(flow.pair, direction),
        steady(flow.single.steady),
    )
}

/// How sure a limit per flow is for a pair; `None` where it does not fit.
pub fn per_flow_fits(flow: &Flow<'_>) -> Option<Confidence> {
    let growth = flow.growth()?;
    let otherwise = flow.at_limit() || flow.cpu_full().is_some() || flow.reads_slowly();
    if otherwise || flow.held().is_some() {
        return None;
    }
    let (queue, policed) = (flow.queue(), flow.policed());
    match growth {
        // A queue that one stream stands in while as many more carry as much more is its own.
        Growth::Straight if (queue || policed) && !flow.cpu_perhaps_full() => {
            Some(Confidence::Likely)
        }
        Growth::Straight | Growth::Short | Growth::Bent => Some(Confidence::Possible),
        Growth::Unseen => (queue || policed).then_some(Confidence::Possible),
    }
}

/// The fewest connections that give about the best rate of a pair, and what they give.
#[derive(Clone, Copy, Debug)]
pub struct Enough {
    pub num_conn: u32,
    pub rate: BytesPerSecond,
    pub measurement: MeasurementId,
}

/// What the pair's ladder recommends, with that level's own rate; `best` where there is none.
pub fn enough(case: &Case<'_>, pair: PairId, direction: Direction, best: &Alone<'_>) -> Enough {
    let recommended = || {
        let point = case.ladder(pair, direction)?.recommended.as_ref()?;
        let (num_conn, measurement) = (point.value? as u32, point.measurement?);
        let counts = case.alone(pair, direction).iter().any(|one| one.id == measurement);
        counts.then_some(Enough { num_conn, rate: point.rate?, measurement })
    };
    let of_best = Enough { num_conn: best.num_conn, rate: best.steady.rate, measurement: best.id };
    recommended().unwrap_or(of_best)
}

fn per_flow(
    case: &Case<'_>,
    direction: Direction,
    flows: &[Flow<'_>],
    least: Confidence,
) -> Option<Finding> {
    let fitting: Vec<(&Flow<'_>, Confidence)> = flows
        .iter()
        .filter_map(|flow| Some((flow, per_flow_fits(flow)?)))
        .filter(|(_, confidence)| *confidence >= least)
        .collect();
    let (slowest, confidence) =
        fitting.iter().min_by(|a, b| a.0.rate().0.total_cmp(&b.0.rate().0)).copied()?;
    let (low, best) = (slowest.low?, slowest.best?);
    let enough = enough(case, slowest.pair, direction, &best);
    let what = match slowest.growth() {
        Some(Growth::Straight) => {
            "the network gives each flow a share of its own, however much is free"
        }
        _ => "the network gives each flow a share of its own, or others' flows take theirs",
    };
    let sentence = format!(
        "One stream from {} carries {}, {} carry {} and {} carry {}: {what}.{}{}",
        case.way(slowest.pair, direction),
        steady(slowest.single.steady),
        low.num_conn,
        rate(low.steady.rate),
        enough.num_conn,
        rate(enough.rate),
        per_flow_signs(slowest),
        others(case, &fitting, slowest, direction),
    );
    let mut finding =
        Finding::new(FindingId::PerFlowLimit, Severity::Warning, confidence, sentence)
            .direction(direction)
            .value(slowest.rate().0, Unit::BytesPerSecond)
            .detail(Detail::PerFlow(PerFlow {
                stream: slowest.rate(),
                aggregate: enough.rate,
                num_conn: enough.num_conn,
            }));
    finding.add_evidence(slowest.single.id, SINGLE);
    finding.add_evidence(enough.measurement, &["steady.bytes_per_second"]);
    for (flow, _) in &fitting {
        finding = finding
            .pairs([flow.pair])
            .nodes([flow.sender, flow.receiver])
            .evidence(flow.single.id, SINGLE)
            .evidence(flow.single.id, &["retransmitted_bytes", "limited.send_buffer_ms"]);
        for level in flow.low.iter().chain(&flow.best) {
            finding = finding
                .evidence(level.id, &["steady.bytes_per_second", "streams[].received_bytes"]);
        }
        if let Some(idle) = flow.single.pair.rtt.idle {
            finding = finding.evidence(idle.probe, &["rtt_us.idle"]);
        }
    }
    Some(finding)
}

/// What shows that the flow is held on the way and not at its ends, and what fits as well.
fn per_flow_signs(flow: &Flow<'_>) -> String {
    let pair = flow.single.pair;
    let lost = flow.lost_share();
    let straight = flow.growth() == Some(Growth::Straight);
    let seen = match (flow.queue(), pair.rtt.without_load().zip(pair.rtt.p50)) {
        (true, Some((idle, loaded))) => format!(
            " Its round trip rose from {} to {}: a queue {}stands on the way.",
            milliseconds(idle),
            milliseconds(loaded),
            if straight { "of its own " } else { "" },
        ),
        _ if flow.policed() => format!(
            " {} of its bytes were sent again, which random loss does not explain at this rate: \
             that is how a policer works.",
            percent(lost.unwrap_or_default())
        ),
        _ if flow.fits_random_loss() == Some(true) => {
            " Random loss fits as well. What tells them apart: `congestion_control: \
                             bbr` gets past random loss, but not past a limit."
                .to_owned()
        }
        _ if !straight => String::new(),
        _ => {
            " Neither a queue nor losses were seen. What tells a limit in the network from one at \
              the ends apart: a sweep of `socket_buffer`."
                .to_owned()
        }
    };
    let competing = match flow.growth() {
        Some(Growth::Bent) => {
            " Each connection more brought less than the one before, long before the best rate: \
             streams that compete with others' flows on a full path do so too. What tells them \
             apart: the same tests at a quiet time."
        }
        Some(Growth::Short) => {
            " No level shows whether more connections go on to bring as much each: streams that \
             compete with others' flows on a full path fit as well. What tells them apart: a ladder \
             of connections, or the same tests at a quiet time."
        }
        Some(Growth::Unseen) => {
            " The lowest level is already near the best rate, so streams that compete with others' \
             flows on a full path fit as well. What tells them apart: levels in between, or the same \
             tests at a quiet time."
        }
        _ => "",
    };
    seen + competing
}

fn others(
    case: &Case<'_>,
    fitting: &[(&Flow<'_>, Confidence)],
    slowest: &Flow<'_>,
    direction: Direction,
) -> String {
    let others: Vec<String> = fitting
        .iter()
        .filter(|(flow, _)| flow.pair != slowest.pair)
        .map(|(flow, _)| {
            format!("{} ({} per stream)", case.way(flow.pair, direction), rate(flow.rate()))
        })
        .collect();
    if others.is_empty() { String::new() } else { format!(" The same on {}.", list(&others)) }
}
