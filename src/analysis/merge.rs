//! Findings that say the same of several pairs, nodes or directions become one.

use super::finding::{Finding, FindingId};

/// The first of its kind keeps its sentence; the others are named behind it, and all evidence is
/// kept.
pub fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<(Finding, Vec<String>)> = Vec::new();
    for finding in findings {
        match kept.iter_mut().find(|(known, _)| alike(known, &finding)) {
            Some((known, others)) => {
                others.extend(finding.also.as_ref().map(|also| also.text.clone()));
                take(known, finding);
            }
            None => kept.push((finding, Vec::new())),
        }
    }
    kept.into_iter().map(|(finding, others)| told(finding, &others)).collect()
}

fn alike(a: &Finding, b: &Finding) -> bool {
    let kind = |finding: &Finding| finding.also.as_ref().map(|also| also.kind.clone());
    // What is missing of a need is read direction by direction.
    let one_direction = a.id == FindingId::NeedNotMet;
    a.id == b.id
        && a.severity == b.severity
        && a.confidence == b.confidence
        && kind(a).is_some()
        && kind(a) == kind(b)
        && (!one_direction || a.direction == b.direction)
}

fn take(known: &mut Finding, other: Finding) {
    if known.direction != other.direction {
        known.direction = None;
    }
    let new_pairs: Vec<_> =
        other.pairs.into_iter().filter(|pair| !known.pairs.contains(pair)).collect();
    known.pairs.extend(new_pairs);
    let new_nodes: Vec<_> =
        other.nodes.into_iter().filter(|node| !known.nodes.contains(node)).collect();
    known.nodes.extend(new_nodes);
    known.needs.extend(other.needs);
    for evidence in other.evidence {
        known.add_evidence(evidence.measurement, &evidence.fields);
    }
}

fn told(mut finding: Finding, others: &[String]) -> Finding {
    if !others.is_empty() {
        finding.sentence += &format!(" Likewise: {}.", others.join("; "));
    }
    finding
}
