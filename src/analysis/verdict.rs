//! The answer to the one question: will this network carry our redo, and if not, by how much and
//! what would change that.

use redoline_proto::units::BytesPerSecond;

use super::case::{Case, DIRECTIONS};
use super::finding::{
    Confidence, Detail, End, Finding, FindingId, NeedJudged, PerFlow, Severity, WindowBound,
};
use super::merge::merged;
use super::need::is_planned;
use super::words::{list, rate, steady};
use crate::plan::need::Transport;
use crate::plan::node::Direction;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    Met,
    /// Met under conditions that the sentence names.
    Conditional,
    NotMet,
    CannotTell,
    NotTested,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub answer: Answer,
    pub sentence: String,
    /// That it rests on.
    pub findings: Vec<FindingId>,
}

pub fn verdict(case: &Case<'_>, findings: &[Finding]) -> Verdict {
    if case.loopback() {
        return not_tested("Loopback: no statement about a network.".to_owned(), Vec::new());
    }
    if case.setup().need.is_none() {
        return not_tested(without_need(case), vec![FindingId::NeedUnknown]);
    }
    let missed = of(findings, &[FindingId::NeedNotMet]);
    let slow: Vec<&Finding> = of(findings, &[FindingId::InstantiationTooSlow]);
    let surely_slow: Vec<&Finding> =
        slow.iter().copied().filter(|finding| finding.confidence == Confidence::Likely).collect();
    let unknown = of(findings, &[FindingId::NeedCannotBeJudged]);
    let met = of(findings, &[FindingId::NeedMet, FindingId::InstantiationInTime]);
    if !missed.is_empty() || !surely_slow.is_empty() {
        let mut verdict = not_met(findings, &missed, &surely_slow);
        verdict.sentence += &commit(case).map_or(String::new(), |commit| format!(" {commit}"));
        return verdict;
    }
    if !unknown.is_empty() {
        return cannot_tell(findings, &unknown, &met);
    }
    if met.is_empty() && slow.is_empty() {
        return not_tested(
            "Nothing was measured that the need could be compared with.".to_owned(),
            Vec::new(),
        );
    }
    met_or_conditional(case, findings, &met, &slow)
}

fn not_tested(sentence: String, findings: Vec<FindingId>) -> Verdict {
    Verdict { answer: Answer::NotTested, sentence, findings }
}

fn of<'a>(findings: &'a [Finding], ids: &[FindingId]) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| ids.contains(&finding.id)).collect()
}

fn ids<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<FindingId> {
    let mut ids = Vec::new();
    for finding in findings {
        if !ids.contains(&finding.id) {
            ids.push(finding.id);
        }
    }
    ids
}

fn without_need(case: &Case<'_>) -> String {
    let carried: Vec<String> = DIRECTIONS
        .into_iter()
        .filter_map(|direction| {
            let singles = case.pairs().filter_map(|pair| case.single(pair, direction));
            let slowest = singles.min_by(|a, b| a.steady.rate.0.total_cmp(&b.steady.rate.0));
            let (_, best) = case.best(direction)?;
            Some(match slowest {
                Some(one) => format!(
                    "from {direction} one stream carries {}, the best of all tests {}",
                    steady(one.steady),
                    steady(best)
                ),
                None => format!("from {direction} {}", steady(best)),
            })
        })
        .collect();
    match carried.is_empty() {
        true => "The runbook states no need, and no throughput was measured.".to_owned(),
        false => format!("The runbook states no need, so no answer is given; {}.", list(&carried)),
    }
}

fn judged(finding: &Finding) -> Option<NeedJudged> {
    finding.needs.first().copied()
}

/// The part of the need that is there.
fn share(finding: &Finding) -> f64 {
    judged(finding)
        .and_then(|need| Some(need.measured?.0 / need.required.0))
        .unwrap_or(f64::INFINITY)
}

fn not_met(findings: &[Finding], missed: &[&Finding], slow: &[&Finding]) -> Verdict {
    let mut used: Vec<&Finding> = missed.iter().chain(slow).copied().collect();
    let worst = missed.iter().copied().min_by(|a, b| share(a).total_cmp(&share(b)));
    let mut sentence = "The need is not met.".to_owned();
    if let Some(worst) = worst {
        sentence += &format!(" {}", worst.sentence);
        if missed.len() > 1 {
            sentence += &format!(" It is the furthest of {} that are not met.", missed.len());
        }
        let causes = causes(findings, worst);
        if let Some(required) = judged(worst).map(|need| need.required) {
            let remedies: Vec<String> =
                causes.iter().filter_map(|cause| remedy(cause, required)).collect();
            sentence += &match remedies.is_empty() {
                true => " What holds the rate could not be told.".to_owned(),
                false => format!(" {}", remedies.join(" ")),
            };
        }
        used.extend(causes);
    }
    for one in slow {
        sentence += &format!(" {}", one.sentence);
    }
    Verdict { answer: Answer::NotMet, sentence, findings: ids(used) }
}

/// Which causes bear on a need: those of a stream on a thread's, those of the path on the total.
fn causes<'a>(findings: &'a [Finding], need: &Finding) -> Vec<&'a Finding> {
    let of_thread = judged(need).is_some_and(|need| need.thread.is_some());
    findings
        .iter()
        .filter(|finding| finding.direction == need.direction)
        .filter(|finding| {
            let touches = need.pairs.iter().any(|pair| finding.pairs.contains(pair));
            match finding.id {
                FindingId::PerFlowLimit
                | FindingId::WindowLimited
                | FindingId::LossLimited
                | FindingId::SlowReader
                | FindingId::CpuLimited => of_thread && touches,
                // Likely the limit per flow of another pair.
                FindingId::CauseUnknown => {
                    of_thread && touches && matches!(finding.detail, Detail::PerFlow(_))
                }
                // Rates that are not those of an ordinary day on the right way.
                FindingId::WrongInterface | FindingId::BackgroundTraffic => {
                    touches && finding.severity >= Severity::Warning
                }
                FindingId::LinkLimited => !of_thread || single_fills(findings, need),
                FindingId::SharedBottleneck => !of_thread,
                _ => false,
            }
        })
        .collect()
}

/// No cause of its own holds the stream, so what holds the path holds the stream.
fn single_fills(findings: &[Finding], need: &Finding) -> bool {
    !findings.iter().any(|finding| {
        finding.direction == need.direction
            && matches!(
                finding.id,
                FindingId::PerFlowLimit
                    | FindingId::WindowLimited
                    | FindingId::LossLimited
                    | FindingId::SlowReader
            )
    })
}

/// What would meet the need, where that follows from what was measured.
fn remedy(cause: &Finding, required: BytesPerSecond) -> Option<String> {
    Some(match &cause.detail {
        Detail::Limit(_) | Detail::PerFlow(_) if cause.confidence == Confidence::Possible => {
            cause.sentence.clone()
        }
        Detail::PerFlow(limit) => per_flow_remedy(*limit, required),
        Detail::Window(bound) => window_remedy(bound, required)?,
        Detail::Limit(limit) if limit.0 >= required.0 => format!(
            "One stream does not get what the path carries ({}); what holds it could not be told.",
            rate(*limit)
        ),
        Detail::Limit(limit) => format!(
            "The path itself carries {}; it takes {:.2} times that, or less redo.",
            rate(*limit),
            required.0 / limit.0
        ),
        _ => cause.sentence.clone(),
    })
}

fn per_flow_remedy(limit: PerFlow, required: BytesPerSecond) -> String {
    if limit.aggregate.0 >= required.0 {
        format!(
            "The network holds each flow to {}; the path carries {} in all, so lifting the limit \
             to {} per flow or more would meet it.",
            rate(limit.stream),
            rate(limit.aggregate),
            rate(required)
        )
    } else {
        format!(
            "The network holds each flow to {}, and the path carries no more than {} in all: \
             lifting the limit alone would not meet it.",
            rate(limit.stream),
            rate(limit.aggregate)
        )
    }
}

fn window_remedy(bound: &WindowBound, required: BytesPerSecond) -> Option<String> {
    let need = bound.need?;
    let end = match bound.end {
        End::Sender => "sender",
        End::Receiver => "receiver",
    };
    let enough = match need.rate.0 >= required.0 {
        true => "which would meet it",
        false => "which is still not enough",
    };
    let reach = format!("{}, {enough}", need.reach());
    Some(format!(
        "Raising {} on the {end} to {} frees the stream; {reach}.",
        bound.setting,
        need.setting()
    ))
}

/// Why nothing could be measured stands behind what could not be judged, and so does a round trip that
/// is too long for the transport.
fn cannot_tell(findings: &[Finding], unknown: &[&Finding], met: &[&Finding]) -> Verdict {
    let mut blocked = of(findings, &[FindingId::MtuBlackHole, FindingId::UnreachablePort]);
    // What Oracle advises against holds whatever the rates are.
    let far = of(findings, &[FindingId::LatencyTooHighForSync]);
    blocked.extend(far.into_iter().filter(|finding| finding.severity == Severity::Critical));
    let reasons = merged(blocked.iter().copied().cloned().collect());
    let told = merged(unknown.iter().copied().cloned().collect());
    let sentences: Vec<&str> =
        told.iter().chain(&reasons).map(|finding| &*finding.sentence).collect();
    let rest = if met.is_empty() { "" } else { " What could be judged is met." };
    Verdict {
        answer: Answer::CannotTell,
        sentence: format!(
            "Whether the need is met cannot be told.{} {}",
            rest,
            sentences.join(" ")
        ),
        findings: ids(unknown.iter().chain(&blocked).copied()),
    }
}

fn is_sync(case: &Case<'_>) -> bool {
    case.setup().need.as_ref().is_some_and(|need| need.transport != Transport::Async)
}

/// What SYNC was measured to cost, where it is what the databases will use: the longest of all pairs
/// from primary to standby.
fn commit(case: &Case<'_>) -> Option<String> {
    let measured = case
        .pairs()
        .filter_map(|pair| super::commit::plainest(case, pair, Direction::PrimaryToStandby));
    let (_, slowest) = measured
        .filter(|_| is_sync(case))
        .max_by(|a, b| a.1.total.mean_us.total_cmp(&b.1.total.mean_us))?;
    Some(format!("{}.", super::commit::cost(case, slowest)))
}

fn met_or_conditional(
    case: &Case<'_>,
    findings: &[Finding],
    met: &[&Finding],
    slow: &[&Finding],
) -> Verdict {
    let mut conditions: Vec<String> = slow.iter().map(|finding| finding.sentence.clone()).collect();
    if !is_planned(case, Direction::StandbyToPrimary) {
        conditions.push(
            "Only the direction from primary to standby was tested; after a role change the other \
             one counts."
                .to_owned(),
        );
    }
    let commit = commit(case);
    if commit.is_none() && is_sync(case) {
        conditions.push(
            "The transport is synchronous, so the latency of each write counts as well; it was not \
             measured."
                .to_owned(),
        );
    }
    let far = of(findings, &[FindingId::LatencyTooHighForSync]);
    if is_sync(case) {
        conditions.extend(far.iter().map(|finding| finding.sentence.clone()));
    }
    let commit = commit.map_or(String::new(), |commit| format!(" {commit}"));
    let closest = met
        .iter()
        .filter(|finding| judged(finding).is_some())
        .min_by(|a, b| share(a).total_cmp(&share(b)))
        .map_or(String::new(), |finding| format!(" The closest: {}", finding.sentence));
    let sync = of(findings, &[FindingId::SyncOverhead]);
    let sync = far.iter().chain(&sync).filter(|_| is_sync(case));
    let used = ids(met.iter().chain(slow).chain(sync).copied());
    match conditions.is_empty() {
        true => Verdict {
            answer: Answer::Met,
            sentence: format!("The need is met.{closest}{commit}"),
            findings: used,
        },
        false => Verdict {
            answer: Answer::Conditional,
            sentence: format!(
                "The need is met under conditions. {}{closest}{commit}",
                conditions.join(" ")
            ),
            findings: used,
        },
    }
}
