//! What the page shows beside the report itself: anchors, bars, facts as words, figures.

use serde::Serialize;

use super::super::model::{Facts, Finding, Measurement, Node, Report, Throughput};
use super::super::parameters;
use super::super::summary::{self, Judged, NeedRow};
use super::super::tables::{self, Table};
use super::super::wording::{self, Fact};
use super::figures::Figure;

#[derive(Debug, Serialize)]
pub(super) struct View<'a> {
    outcome: String,
    product: String,
    needs: Vec<NeedView>,
    need_facts: Vec<Fact>,
    limit_facts: Vec<Fact>,
    declared_facts: Vec<Fact>,
    method: &'static [&'static str],
    verdict_findings: Vec<Link>,
    findings: Vec<FindingView<'a>>,
    recommendations: Vec<Vec<Link>>,
    figures: Vec<Figure>,
    nodes: Vec<NodeView>,
    steps: Vec<StepView<'a>>,
    /// Names of the TCP settings, in the order of every node's values.
    tcp_names: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct NeedView {
    row: NeedRow,
    judged: Judged,
    label: &'static str,
    /// Shares of the bar's length in percent.
    measured_percent: Option<f64>,
    low_percent: Option<f64>,
    high_percent: Option<f64>,
    need_percent: f64,
}

/// A name, and where on the page it leads; nowhere when it is not on the page.
#[derive(Clone, Debug, Serialize)]
struct Link {
    name: String,
    anchor: Option<String>,
}

#[derive(Debug, Serialize)]
struct FindingView<'a> {
    anchor: String,
    finding: &'a Finding,
    value: Option<String>,
    evidence: Vec<(Link, String)>,
    recommendations: Vec<Link>,
}

#[derive(Debug, Serialize)]
struct NodeView {
    name: String,
    state: String,
    clock_offset: String,
    tcp: Vec<String>,
    interfaces: Vec<String>,
    hops: Vec<String>,
    devices: Vec<DeviceView>,
}

#[derive(Debug, Serialize)]
struct DeviceView {
    kind: String,
    max_sectors: String,
    max_hw_sectors: String,
}

#[derive(Debug, Serialize)]
struct StepView<'a> {
    place: String,
    throughputs: Vec<ThroughputView<'a>>,
    tables: Vec<Table>,
    storage: Vec<&'a Measurement>,
}

#[derive(Debug, Serialize)]
struct ThroughputView<'a> {
    test: &'a Throughput,
    rate: String,
    /// What sent at the same time.
    manner: Option<String>,
    steady: Option<String>,
    requested: String,
    granted: String,
    hosts: Vec<String>,
    stream_fairness: Option<String>,
}

impl<'a> View<'a> {
    pub(super) fn of(report: &'a Report, figures: Vec<Figure>) -> Self {
        let nodes: Vec<NodeView> = report.topology.nodes.iter().map(node).collect();
        let facts = report.topology.nodes.iter().find_map(|node| node.facts.as_ref());
        Self {
            outcome: wording::outcome(report),
            product: wording::product(report),
            needs: needs(report),
            need_facts: wording::need_facts(report),
            limit_facts: wording::limit_facts(report),
            declared_facts: wording::declared_facts(report),
            method: &wording::METHOD,
            verdict_findings: links_to_findings(report, &report.verdict.findings),
            findings: findings(report),
            recommendations: report
                .recommendations
                .iter()
                .map(|recommendation| links_to_findings(report, &recommendation.findings))
                .collect(),
            figures,
            tcp_names: facts
                .map(|facts| wording::tcp_facts(facts).into_iter().map(|fact| fact.0).collect())
                .unwrap_or_default(),
            nodes,
            steps: steps(report),
        }
    }
}

/// All bars have one scale, so that rows can be compared with each other.
fn needs(report: &Report) -> Vec<NeedView> {
    let rows = summary::need_rows(report);
    let high = |row: &NeedRow| {
        row.measured_bytes_per_second
            .map(|rate| rate + row.half_width_bytes_per_second.unwrap_or(0.0))
    };
    let longest = rows
        .iter()
        .flat_map(|row| [Some(row.need_bytes_per_second), high(row)])
        .flatten()
        .filter(|rate| rate.is_finite())
        .fold(0.0, f64::max);
    let percent = |rate: f64| {
        let share = rate / (longest * 1.03);
        if share.is_finite() { (share * 1000.0).round().clamp(0.0, 1000.0) / 10.0 } else { 0.0 }
    };
    rows.into_iter()
        .map(|row| NeedView {
            judged: row.judged,
            label: row.judged.label(),
            measured_percent: row.measured_bytes_per_second.map(percent),
            low_percent: row
                .measured_bytes_per_second
                .zip(row.half_width_bytes_per_second)
                .map(|(rate, half_width)| percent(rate - half_width)),
            high_percent: row.half_width_bytes_per_second.and(high(&row)).map(percent),
            need_percent: percent(row.need_bytes_per_second),
            row,
        })
        .collect()
}

fn findings(report: &Report) -> Vec<FindingView<'_>> {
    summary::findings_by_severity(report)
        .into_iter()
        .enumerate()
        .map(|(index, finding)| FindingView {
            anchor: finding_anchor(index),
            value: finding
                .value
                .map(|value| super::super::format::value(Some(value), finding.unit.as_deref())),
            evidence: finding
                .evidence
                .iter()
                .map(|evidence| {
                    (measurement(report, &evidence.measurement), evidence.fields.join(", "))
                })
                .collect(),
            recommendations: recommendations_for(report, &finding.id),
            finding,
        })
        .collect()
}

fn finding_anchor(index: usize) -> String {
    format!("finding-{}", index + 1)
}

fn recommendations_for(report: &Report, finding: &str) -> Vec<Link> {
    report
        .recommendations
        .iter()
        .enumerate()
        .filter(|(_, recommendation)| recommendation.findings.iter().any(|id| id == finding))
        .map(|(index, _)| Link {
            name: format!("recommendation {}", index + 1),
            anchor: Some(format!("recommendation-{}", index + 1)),
        })
        .collect()
}

/// An id may have several findings; the link leads to the most severe.
fn links_to_findings(report: &Report, ids: &[String]) -> Vec<Link> {
    let sorted = summary::findings_by_severity(report);
    ids.iter()
        .map(|id| Link {
            name: id.clone(),
            anchor: sorted.iter().position(|finding| finding.id == *id).map(finding_anchor),
        })
        .collect()
}

fn measurement(report: &Report, id: &str) -> Link {
    let known = report.measurements.iter().any(|measurement| match measurement {
        Measurement::Throughput(test) => test.id == id,
        Measurement::Path(path) => path.id == id,
        Measurement::StorageRead(read) => read.id == id,
    });
    Link { name: id.to_owned(), anchor: known.then(|| id.to_owned()) }
}

fn node(node: &Node) -> NodeView {
    let facts = node.facts.as_ref();
    let of = |list: fn(&Facts) -> Vec<String>| facts.map(list).unwrap_or_default();
    NodeView {
        name: node.name.clone(),
        state: wording::node_state(node),
        clock_offset: wording::clock_offset(node),
        tcp: of(|facts| wording::tcp_facts(facts).into_iter().map(|fact| fact.1).collect()),
        interfaces: of(|facts| {
            facts.interfaces.iter().map(|i| wording::link_speed(i.speed_mbit_per_second)).collect()
        }),
        hops: of(|facts| facts.routes.iter().map(wording::hops).collect()),
        devices: facts
            .map(|facts| {
                facts
                    .block_devices
                    .iter()
                    .map(|device| DeviceView {
                        kind: wording::device_kind(device),
                        max_sectors: wording::kib(device.max_sectors_kib),
                        max_hw_sectors: wording::kib(device.max_hw_sectors_kib),
                    })
                    .collect()
            })
            .unwrap_or_default(),
    }
}

fn steps(report: &Report) -> Vec<StepView<'_>> {
    report
        .steps
        .iter()
        .map(|step| StepView {
            place: wording::step_place(step),
            throughputs: summary::throughputs(report)
                .filter(|test| test.step == step.number)
                .map(throughput)
                .collect(),
            tables: tables::of_step(report, step.number),
            storage: report
                .measurements
                .iter()
                .filter(|measurement| {
                    matches!(measurement, Measurement::StorageRead(read) if read.step == step.number)
                })
                .collect(),
        })
        .collect()
}

fn throughput(test: &Throughput) -> ThroughputView<'_> {
    ThroughputView {
        rate: wording::steady_rate(test),
        manner: wording::manner(test),
        steady: test.steady.as_ref().map(wording::convergence),
        requested: parameters::requested(test),
        granted: parameters::granted(test),
        hosts: test.hosts.iter().filter_map(parameters::host).collect(),
        stream_fairness: test.stream_fairness.map(|index| tables::index(Some(index))),
        test,
    }
}
