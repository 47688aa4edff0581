//! What to do about what was found: exact, with its risk and the way back. Pure.

pub mod rules;
mod buffers;
mod network;
mod way;
mod oracle;
mod rman;
mod host;

use crate::analysis::Analysis;
use crate::analysis::case::Case;
use crate::analysis::finding::{Finding, FindingId};
use crate::plan::node::NodeId;
use crate::record::run::RunRecord;

#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    pub id: &'static str,
    /// That it follows from; none where it follows from how the run ended.
    pub findings: Vec<FindingId>,
    /// A sentence.
    pub action: String,
    pub commands: Vec<Command>,
    pub expected_effect: String,
    pub how_to_verify: String,
    pub how_to_undo: String,
    pub risk: String,
    pub needs_root: bool,
    /// Of Oracle, where one is needed.
    pub licence: Option<&'static str>,
}

/// Lines for a file or a prompt on some nodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Command {
    /// Empty: for the network team.
    pub nodes: Vec<NodeId>,
    pub kind: CommandKind,
    pub lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandKind {
    Sysctl,
    SqlnetOra,
    TnsnamesOra,
    Sqlplus,
    Rman,
    /// What to ask of the people who run the network.
    Network,
    Shell,
}

impl CommandKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sysctl => "sysctl",
            Self::SqlnetOra => "sqlnet.ora",
            Self::TnsnamesOra => "tnsnames.ora",
            Self::Sqlplus => "sqlplus",
            Self::Rman => "rman",
            Self::Network => "network",
            Self::Shell => "shell",
        }
    }
}

/// What rules look at: the run, its analysis, and the findings that woke the rule.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub case: Case<'a>,
    pub analysis: &'a Analysis,
    pub findings: &'a [&'a Finding],
}

/// A row of the table: which findings wake it, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub id: &'static str,
    pub on: &'static [FindingId],
    /// `None`: nothing to recommend after all.
    pub recommend: fn(&Ground<'_>) -> Option<Draft>,
}

/// A recommendation without what the table knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub action: String,
    pub commands: Vec<Command>,
    pub expected_effect: String,
    pub how_to_verify: String,
    pub how_to_undo: String,
    pub risk: String,
    pub needs_root: bool,
    pub licence: Option<&'static str>,
}

/// In the order of the table: what helps most comes first.
pub fn advise(record: &RunRecord, analysis: &Analysis) -> Vec<Recommendation> {
    let case = Case {
        record,
        throughputs: &analysis.throughputs,
        paths: &analysis.paths,
        storage: &analysis.storage,
        series: &analysis.series,
    };
    let of_rules = rules::RULES.iter().filter_map(|rule| {
        let findings: Vec<&Finding> =
            analysis.findings.iter().filter(|finding| rule.on.contains(&finding.id)).collect();
        if findings.is_empty() {
            return None;
        }
        let draft = (rule.recommend)(&Ground { case, analysis, findings: &findings })?;
        Some(recommendation(rule.id, &findings, draft))
    });
    // Not found by a rule: a limit of the runbook is no property of the network.
    let ended = host::ended_by_limit(case).map(|draft| recommendation(host::ENDED, &[], draft));
    ended.into_iter().chain(of_rules).collect()
}

fn recommendation(id: &'static str, findings: &[&Finding], draft: Draft) -> Recommendation {
    let mut ids: Vec<FindingId> = findings.iter().map(|finding| finding.id).collect();
    ids.sort_unstable();
    ids.dedup();
    Recommendation {
        id,
        findings: ids,
        action: draft.action,
        commands: draft.commands,
        expected_effect: draft.expected_effect,
        how_to_verify: draft.how_to_verify,
        how_to_undo: draft.how_to_undo,
        risk: draft.risk,
        needs_root: draft.needs_root,
        licence: draft.licence,
    }
}
