//! What a run means: summaries, findings with their evidence, and the verdict. Pure.
//!
//! Measurements are kept raw, so all of this is recomputed whenever a run is shown.

pub mod precision;
pub mod steady;
pub mod looks;
#[cfg(test)]
mod noise;
pub mod window;
mod readings;
pub mod kernel;
pub mod host_use;
pub mod throughput;
pub mod sync;
pub mod path;
pub mod storage;
pub mod level;
pub mod burst;
pub mod fairness;
pub mod plateau;
pub mod knee;
pub mod climb;
pub mod bdp;
pub mod series;
pub mod finding;
pub mod case;
pub mod response;
pub mod flow;
pub mod cause;
mod processor;
mod losses;
mod link;
pub mod network;
mod jumbo;
mod silent;
pub mod ports;
mod packets;
mod traffic;
mod delay;
mod credit;
pub mod sustained;
mod hashing;
mod coding;
pub mod commit;
mod unknown;
pub mod need;
pub mod instantiation;
pub mod storage_rules;
pub mod host;
pub mod verdict;
pub mod words;
pub mod mtu;
pub mod merge;

use crate::record::run::RunRecord;
use case::{Case, DIRECTIONS};
use finding::Finding;
use path::PathSummary;
use series::SeriesResult;
use storage::StorageSummary;
use throughput::Summary;
use verdict::Verdict;

/// Grows with every change of a rule, so that a report tells by which rules it was made.
pub const ANALYSIS_VERSION: u32 = 4;

#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    pub throughputs: Vec<Summary>,
    pub paths: Vec<PathSummary>,
    pub storage: Vec<StorageSummary>,
    pub series: Vec<SeriesResult>,
    /// The most severe first; among equals in the order need, network, storage, host.
    pub findings: Vec<Finding>,
    pub verdict: Verdict,
}

pub fn analyse(record: &RunRecord) -> Analysis {
    let paths: Vec<PathSummary> = record.paths().map(throughput::summarise_path).collect();
    let throughputs: Vec<Summary> = record
        .throughputs()
        .map(|test| mtu::checked(&record.setup, throughput::summarise(test)))
        .map(|summary| throughput::with_idle(summary, &paths))
        .collect();
    let storage: Vec<StorageSummary> = record.storage_reads().map(storage::summarise).collect();
    let series = series::results(&record.series, &throughputs, &storage);
    let case = Case {
        record,
        throughputs: &throughputs,
        paths: &paths,
        storage: &storage,
        series: &series,
    };
    let mut findings = need::findings(&case);
    if !case.loopback() {
        findings
            .extend(DIRECTIONS.into_iter().flat_map(|direction| cause::findings(&case, direction)));
        findings.extend(network::findings(&case));
        findings.extend(silent::findings(&case));
        findings.extend(credit::findings(&case));
        findings.extend(hashing::findings(&case));
        findings.extend(packets::findings(&case));
        findings.extend(traffic::findings(&case));
        findings.extend(delay::findings(&case));
        findings.extend(ports::findings(&case));
        findings.extend(commit::findings(&case));
        findings.extend(coding::findings(&case));
        findings.extend(host::network_findings(&case));
        findings.extend(unknown::findings(&case, &findings));
    }
    findings.extend(storage_rules::findings(&case));
    findings.extend(host::findings(&case));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = verdict::verdict(&case, &findings);
    let findings = merge::merged(findings);
    Analysis { findings, verdict, throughputs, paths, storage, series }
}
