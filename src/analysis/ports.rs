//! Data ports that a connection does not reach.

use super::case::{Case, DIRECTIONS};
use super::finding::{Confidence, Detail, Finding, FindingId, Severity};
use crate::plan::node::{Direction, PairId};
use crate::record::event::StepOutcome;
use crate::record::measurement::{Failure, MeasurementId};

/// How the network answers a connection that it does not let through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// By a reset or an ICMP message: a firewall rejects it, or nothing listens.
    Rejected,
    /// By nothing.
    Dropped,
}

/// One that did not get through.
struct Blocked<'a> {
    pair: PairId,
    direction: Direction,
    id: Option<MeasurementId>,
    failure: &'a Failure,
    refusal: Refusal,
    sure: bool,
}

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let blocked = blocked(case);
    let mut findings = Vec::new();
    for direction in DIRECTIONS {
        for pair in case.pairs() {
            let of = |one: &&Blocked<'_>| one.pair == pair && one.direction == direction;
            findings.extend(finding(case, &blocked.iter().filter(of).collect::<Vec<_>>()));
        }
    }
    findings
}

fn finding(case: &Case<'_>, blocked: &[&Blocked<'_>]) -> Option<Finding> {
    let first = blocked.iter().max_by_key(|one| one.sure)?;
    let (sender, receiver) = case.setup().ends(first.pair, first.direction);
    let what = match first.refusal {
        Refusal::Rejected => "is refused: a firewall rejects it, or nothing listens there",
        Refusal::Dropped => {
            "is not answered: a firewall drops it, or no route leads there and back"
        }
    };
    let sentence = format!(
        "A data connection from {} {what}. The agents can be reached, so the nodes are up. {}.",
        case.way(first.pair, first.direction),
        first.failure.text.trim_end_matches('.'),
    );
    let confidence = if first.sure { Confidence::Measured } else { Confidence::Likely };
    let kind = format!("{:?} {}", first.refusal, first.direction);
    let mut finding =
        Finding::new(FindingId::UnreachablePort, Severity::Warning, confidence, sentence)
            .direction(first.direction)
            .pairs([first.pair])
            .nodes([sender, receiver])
            .detail(Detail::Port { refusal: first.refusal, port: port(&first.failure.text) })
            .also(kind, case.way(first.pair, first.direction));
    for id in blocked.iter().filter_map(|one| one.id) {
        finding.add_evidence(id, &["failures[]"]);
    }
    Some(finding)
}

fn blocked<'a>(case: &Case<'a>) -> Vec<Blocked<'a>> {
    let mut blocked = Vec::new();
    let mut add = |pair, direction, id, failure: &'a Failure| {
        if let Some((refusal, sure)) = refusal(failure) {
            blocked.push(Blocked { pair, direction, id, failure, refusal, sure });
        }
    };
    for test in case.record.throughputs() {
        for pair in &test.pairs {
            pair.failure.iter().for_each(|one| add(pair.pair, test.direction, Some(test.id), one));
        }
    }
    for path in case.record.paths() {
        let of_stream = path.stream.as_ref().and_then(|stream| stream.failure.as_ref());
        let failures = path.failure.iter().chain(of_stream);
        failures.for_each(|one| add(path.pair, path.direction, Some(path.id), one));
    }
    for (step, setup) in case.record.steps.iter().zip(&case.setup().steps) {
        if let Some(StepOutcome::Failed { failures }) = &step.outcome {
            for one in failures {
                one.pair.iter().for_each(|pair| add(*pair, setup.direction, None, &one.failure));
            }
        }
    }
    blocked
}

/// By the phase where the executor tried it out, else by what the sender's system said.
fn refusal(failure: &Failure) -> Option<(Refusal, bool)> {
    let says = |words: &[&str]| words.iter().any(|word| failure.text.contains(word));
    match failure.phase.as_str() {
        "data port refused" => Some((Refusal::Rejected, true)),
        "data port filtered" => Some((Refusal::Dropped, true)),
        "data connection" if says(&["could not connect"]) => match () {
            () if says(&["no answer within"]) && !says(&["token"]) => {
                Some((Refusal::Dropped, false))
            }
            () if says(&["connection refused", "not permitted", "No route", "unreachable"]) => {
                Some((Refusal::Rejected, false))
            }
            () => None,
        },
        _ => None,
    }
}

/// The port of the first `address:port` in a text.
fn port(text: &str) -> Option<u16> {
    text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')'))
        .filter_map(|word| word.trim_end_matches([':', '.']).rsplit_once(':'))
        .filter(|(host, _)| host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok())
        .find_map(|(_, port)| port.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_behind_an_address() {
        let text = "198.51.100.11 could not connect to 203.0.113.11:5555: connection refused";
        assert_eq!(port(text), Some(5555));
        assert_eq!(port("could not connect to [2001:db8::1]:1500: no answer"), Some(1500));
        assert_eq!(port("at 10:30 nothing happened on 2001:db8::1"), None);
    }
}
