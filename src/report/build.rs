//! From a record to a report: every field of `report.json`, from the record and its analysis.

use jiff::Timestamp;

use super::{measurements, model, outcome, series, topology};
use crate::advice::{self, Recommendation};
use crate::analysis::finding::{Finding, FindingId, NeedJudged, Severity};
use crate::analysis::verdict::{Answer, Verdict};
use crate::analysis::{ANALYSIS_VERSION, Analysis, analyse};
use crate::exit::Exit;
use crate::plan::need::{Limits, Need, TimeWindow};
use crate::plan::node::{NodeId, PairId};
use crate::record::event::RunOutcome;
use crate::record::run::RunRecord;
use crate::record::setup::Setup;
use redoline_proto::units::BytesPerSecond;

/// Analyses a run and fills in its report.
pub fn build(record: &RunRecord) -> model::Report {
    let analysis = analyse(record);
    let advice = advice::advise(record, &analysis);
    let setup = &record.setup;
    model::Report {
        schema_version: model::SCHEMA_VERSION.to_owned(),
        redoline: model::Product {
            version: record.version.clone(),
            commit: record.commit.clone(),
            analysis_version: ANALYSIS_VERSION,
        },
        run: run(record, &analysis),
        runbook: model::Runbook {
            name: setup.runbook.clone(),
            sha256: setup.runbook_sha256.clone(),
        },
        configuration: configuration(setup),
        need: setup.need.as_ref().map(need),
        limits: limits(&setup.limits),
        topology: topology::topology(record),
        steps: (0..setup.steps.len()).map(|number| step(record, number)).collect(),
        measurements: measurements::measurements(record, &analysis),
        series: series::series(record, &analysis),
        findings: analysis.findings.iter().map(|finding| self::finding(setup, finding)).collect(),
        recommendations: advice.iter().map(|one| recommendation(setup, one)).collect(),
        verdict: verdict(&analysis.verdict),
    }
}

fn run(record: &RunRecord, analysis: &Analysis) -> model::Run {
    let exits = outcome::exits(record, analysis);
    model::Run {
        id: record.run_id.clone(),
        started: rfc3339(record.started_unix_ms),
        ended: rfc3339(record.ended_unix_ms),
        complete: record.complete(),
        outcome: match record.outcome {
            Some(RunOutcome::Completed) => "completed",
            Some(RunOutcome::Interrupted) => "interrupted",
            Some(RunOutcome::Stopped) => "stopped",
            None => "unknown",
        }
        .to_owned(),
        exit_code: Exit::most_severe(&exits).code(),
        exit_codes: exits.iter().map(|exit| exit.code()).collect(),
        missing: outcome::missing(record, analysis),
        remarks: outcome::remarks(record),
    }
}

/// Milliseconds since 1970 as RFC 3339 in UTC; a time out of range as the number itself.
pub(super) fn rfc3339(unix_ms: i64) -> String {
    Timestamp::from_millisecond(unix_ms)
        .map_or_else(|_| unix_ms.to_string(), |time| format!("{time:.3}"))
}

/// To a byte per second: more digits of a rate say nothing.
pub(super) fn rate(rate: BytesPerSecond) -> f64 {
    rate.0.round()
}

/// Six significant digits.
pub(super) fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let factor = 10f64.powi(5 - value.abs().log10().floor() as i32);
    (value * factor).round() / factor
}

fn configuration(setup: &Setup) -> model::Configuration {
    let pairs = (0..setup.pairs.len()).map(PairId);
    model::Configuration {
        name: setup.configuration.clone(),
        primary_cluster: setup.primary_cluster.clone(),
        standby_cluster: setup.standby_cluster.clone(),
        demo: setup.demo,
        declared_bandwidth_bytes_per_second: setup.network.bandwidth.map(|rate| rate.0),
        declared_devices: setup.network.devices.clone(),
        declared_notes: setup.network.notes.clone(),
        pairs: pairs
            .map(|pair| model::Pair {
                name: setup.pair_name(pair),
                primary: setup.node_name(setup.pairs[pair.0].primary).to_owned(),
                standby: setup.node_name(setup.pairs[pair.0].standby).to_owned(),
                crossed: pair.0 >= setup.crossed_from.unwrap_or(setup.pairs.len()),
            })
            .collect(),
    }
}

fn need(need: &Need) -> model::Need {
    model::Need {
        threads_bytes_per_second: need.threads.iter().map(|(t, rate)| (*t, rate.0)).collect(),
        total_bytes_per_second: need.total.map(|rate| rate.0),
        headroom_share: need.headroom.0,
        transport: need.transport,
        write_size_bytes: need.write_size.map(|size| size.0),
        local_write_us: need.local_write.map(|time| time.as_secs_f64() * 1e6),
        database_size_bytes: need.database_size.map(|size| size.0),
        instantiate_within_seconds: need.instantiate_within.map(|time| time.as_secs_f64()),
    }
}

fn limits(limits: &Limits) -> model::Limits {
    model::Limits {
        rate_bytes_per_second: limits.rate.map(|rate| rate.0),
        bytes: limits.bytes.map(|bytes| bytes.0),
        cpu_share: limits.cpu.map(|share| share.0),
        load_per_cpu: limits.load,
        window: limits.window.map(time_window),
    }
}

fn time_window(window: TimeWindow) -> String {
    let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
    format!("{}-{}", clock(window.from_minute), clock(window.to_minute))
}

fn step(record: &RunRecord, number: usize) -> model::Step {
    let setup = &record.setup.steps[number];
    let times = record.steps.get(number).cloned().unwrap_or_default();
    let (outcome, messages) = outcome::of_step(record, number);
    model::Step {
        number: number as u32 + 1,
        name: setup.name.clone(),
        action: setup.action.clone(),
        direction: setup.direction,
        register: setup.register.clone(),
        outcome: outcome.to_owned(),
        messages,
        started: times.started_unix_ms.map(rfc3339),
        ended: times.ended_unix_ms.map(rfc3339),
        scope: outcome::scope(record, number),
    }
}

fn names(setup: &Setup, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| setup.node_name(*node).to_owned()).collect()
}

fn finding(setup: &Setup, finding: &Finding) -> model::Finding {
    model::Finding {
        id: finding.id.to_string(),
        severity: match finding.severity {
            Severity::Ok => model::Severity::Ok,
            Severity::Info => model::Severity::Info,
            Severity::Warning => model::Severity::Warning,
            Severity::Critical => model::Severity::Critical,
        },
        direction: finding.direction,
        pairs: finding.pairs.iter().map(|pair| setup.pair_name(*pair)).collect(),
        nodes: names(setup, &finding.nodes),
        value: finding.value.map(|(value, _)| significant(value)),
        unit: finding.value.map(|(_, unit)| unit.as_str().to_owned()),
        confidence: finding.confidence.as_str().to_owned(),
        evidence: finding
            .evidence
            .iter()
            .map(|evidence| model::Evidence {
                measurement: evidence.measurement.to_string(),
                fields: evidence.fields.iter().map(|field| (*field).to_owned()).collect(),
            })
            .collect(),
        needs: finding.needs.iter().map(|need| judged_need(setup, need)).collect(),
        sentence: finding.sentence.clone(),
    }
}

fn judged_need(setup: &Setup, need: &NeedJudged) -> model::JudgedNeed {
    model::JudgedNeed {
        thread: need.thread,
        direction: need.direction,
        pair: need.pair.map(|pair| setup.pair_name(pair)),
        required_bytes_per_second: rate(need.required),
        measured_bytes_per_second: need.measured.map(rate),
        half_width_bytes_per_second: need.half_width.map(rate),
        measurement: need.measurement.map(|id| id.to_string()),
    }
}

fn id_texts(ids: &[FindingId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn recommendation(setup: &Setup, one: &Recommendation) -> model::Recommendation {
    model::Recommendation {
        id: one.id.to_owned(),
        findings: id_texts(&one.findings),
        action: one.action.clone(),
        commands: one
            .commands
            .iter()
            .map(|command| model::Command {
                nodes: names(setup, &command.nodes),
                kind: command.kind.as_str().to_owned(),
                lines: command.lines.clone(),
            })
            .collect(),
        expected_effect: one.expected_effect.clone(),
        how_to_verify: one.how_to_verify.clone(),
        how_to_undo: one.how_to_undo.clone(),
        risk: one.risk.clone(),
        needs_root: one.needs_root,
        licence: one.licence.map(str::to_owned),
    }
}

fn verdict(verdict: &Verdict) -> model::Verdict {
    model::Verdict {
        answer: match verdict.answer {
            Answer::Met => model::Answer::Met,
            Answer::Conditional => model::Answer::Conditional,
            Answer::NotMet => model::Answer::NotMet,
            Answer::CannotTell => model::Answer::CannotTell,
            Answer::NotTested => model::Answer::NotTested,
        },
        sentence: verdict.sentence.clone(),
        findings: id_texts(&verdict.findings),
    }
}
