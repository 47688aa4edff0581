//! Findings about storage: where it saturates, whether it is slow, whether it was read at all.

use redoline_proto::storage::StoragePattern;
use redoline_proto::units::BytesPerSecond;

use super::case::Case;
use super::finding::{Confidence, Detail, Finding, FindingId, Severity, Unit};
use super::series::{KNEE_SHARE, Point, SeriesResult};
use super::storage::{FROM_DEVICE, StorageSummary};
use super::words::{bytes_rate, percent};
use crate::plan::node::{NodeId, Role};
use crate::record::measurement::{MeasurementId, StoppedBecause, Variable};

/// Single block reads: "satisfactory under 10 ms" (Oracle Database 23ai, 2 Day + Performance
/// Tuning Guide).
const SATISFACTORY_US: f64 = 10_000.0;
/// The standby's storage gives less than this share of the primary's.
const SLOWER: f64 = 0.9;
/// The standby's single block reads take this many times the primary's.
const LATER: f64 = 1.5;
/// Nodes of one cluster are further apart than this.
const UNEVEN: f64 = 0.8;

pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.series.iter().filter_map(|series| slots_knee(case, series)).collect();
    findings.extend(not_from_disk(case));
    findings.extend(latency(case));
    if !case.loopback() {
        findings.extend(standby_slower(case));
        findings.extend(uneven(case));
    }
    findings
}

/// The fewest outstanding requests that give most of the best rate, of reads from the disks.
fn slots_knee(case: &Case<'_>, series: &SeriesResult) -> Option<Finding> {
    let node = series.node.filter(|_| series.variable == Variable::Slots)?;
    let mut measured: Vec<Slots> =
        series.points.iter().filter_map(|point| slots(case, point)).collect();
    if measured.len() < 3 || series.stopped_because == StoppedBecause::Failure {
        return None;
    }
    measured.sort_by(|a, b| a.slots.total_cmp(&b.slots));
    let best = measured.iter().max_by(|a, b| a.rate.0.total_cmp(&b.rate.0))?;
    let knee = measured.iter().find(|one| one.rate.0 >= KNEE_SHARE * best.rate.0)?;
    let (fewest, most) = (measured.first()?, measured.last()?);
    // Where the fewest give as much, no knee was seen.
    if knee.slots <= fewest.slots {
        return None;
    }
    let confidence = match fewest.surely_below(knee) {
        true => Confidence::Measured,
        false => Confidence::Possible,
    };
    let rising = knee.slots >= most.slots;
    let sentence = format!(
        "Direct path reads on {} reach {} with {} outstanding requests, {} of the best ({}){}{}.",
        case.name(node),
        bytes_rate(knee.rate),
        knee.slots,
        percent(knee.rate.0 / best.rate.0),
        bytes_rate(best.rate),
        if rising { "; that is the highest number tried, so the knee may lie above" } else { "" },
        match confidence {
            Confidence::Possible => "; the intervals do not tell it from the fewest",
            _ => "",
        }
    );
    let mut finding = Finding::new(FindingId::IoSlotsKnee, Severity::Info, confidence, sentence)
        .nodes([node])
        .value(knee.slots, Unit::Requests)
        .detail(Detail::Slots { knee: knee.slots as u32, highest_tried: most.slots as u32 })
        .also(
            format!("{} {rising}", knee.slots),
            format!("{} ({} with {})", case.name(node), bytes_rate(knee.rate), knee.slots),
        );
    for one in &measured {
        finding = finding.evidence(one.id, &["slots", "bytes_per_second"]);
    }
    Some(finding)
}

/// A point of a series of direct path reads.
struct Slots {
    slots: f64,
    rate: BytesPerSecond,
    half_width: Option<BytesPerSecond>,
    id: MeasurementId,
}

impl Slots {
    /// Beyond both intervals.
    fn surely_below(&self, other: &Self) -> bool {
        self.half_width
            .zip(other.half_width)
            .is_some_and(|(own, theirs)| self.rate.0 + own.0 < other.rate.0 - theirs.0)
    }
}

/// `None` for reads that did not come from the disks.
fn slots(case: &Case<'_>, point: &Point) -> Option<Slots> {
    let id = point.measurement?;
    case.storage.iter().find(|read| read.id == id && !read.suspect())?;
    Some(Slots { slots: point.value?, rate: point.rate?, half_width: point.half_width, id })
}

fn nodes(case: &Case<'_>) -> impl Iterator<Item = NodeId> {
    (0..case.setup().nodes.len()).map(NodeId)
}

fn not_from_disk(case: &Case<'_>) -> Vec<Finding> {
    nodes(case)
        .filter_map(|node| {
            let reads: Vec<&StorageSummary> =
                case.storage.iter().filter(|read| read.node == node && read.suspect()).collect();
            let worst = reads.iter().min_by(|a, b| {
                let ratio = |read: &StorageSummary| read.device_read_ratio.unwrap_or(1.0);
                ratio(a).total_cmp(&ratio(b))
            })?;
            let sentence = match worst.device_read_ratio.filter(|ratio| *ratio < FROM_DEVICE) {
                Some(ratio) => format!(
                    "Of the bytes read on {} only {} came from a device: the rest came from a \
                     cache, so these numbers say nothing about the disks.",
                    case.name(node),
                    percent(ratio)
                ),
                None => format!(
                    "{} of the blocks read on {} hold only zeros, which storage answers without a \
                     disk: these numbers say nothing about the disks.",
                    percent(worst.zero_block_share.unwrap_or(1.0)),
                    case.name(node)
                ),
            };
            let mut finding = Finding::new(
                FindingId::NotFromDisk,
                Severity::Warning,
                Confidence::Measured,
                sentence,
            )
            .nodes([node])
            .also(
                format!("by ratio: {}", worst.device_read_ratio.is_some_and(|r| r < FROM_DEVICE)),
                case.name(node),
            );
            if let Some(ratio) = worst.device_read_ratio {
                finding = finding.value(ratio, Unit::Ratio);
            }
            for read in reads {
                finding = finding.evidence(read.id, &["device_read_ratio", "zero_block_share"]);
            }
            Some(finding)
        })
        .collect()
}

/// The single block test with the fewest readers: what one session waits for.
fn single_block<'a>(case: &Case<'a>, node: NodeId) -> Option<&'a StorageSummary> {
    case.storage
        .iter()
        .filter(|read| read.node == node && read.pattern == StoragePattern::SingleBlock)
        .filter(|read| !read.suspect() && read.latency.count > 0)
        .min_by_key(|read| read.outstanding)
}

/// The direct path test with the highest rate.
fn direct_path<'a>(case: &Case<'a>, node: NodeId) -> Option<(&'a StorageSummary, BytesPerSecond)> {
    case.storage
        .iter()
        .filter(|read| read.node == node && read.pattern == StoragePattern::DirectPath)
        .filter(|read| !read.suspect())
        .filter_map(|read| Some((read, read.rate?)))
        .max_by(|a, b| a.1.0.total_cmp(&b.1.0))
}

fn latency(case: &Case<'_>) -> Vec<Finding> {
    nodes(case)
        .filter_map(|node| single_block(case, node))
        .filter(|read| read.latency.p50_us > SATISFACTORY_US)
        .map(|read| {
            let sentence = format!(
                "Half of the single block reads on {} took longer than {:.1} ms with {} reader{}; \
                 Oracle calls under 10 ms satisfactory.",
                case.name(read.node),
                read.latency.p50_us / 1e3,
                read.outstanding,
                if read.outstanding == 1 { "" } else { "s" },
            );
            Finding::new(
                FindingId::ReadLatencyHigh,
                Severity::Warning,
                Confidence::Measured,
                sentence,
            )
            .nodes([read.node])
            .value(read.latency.p50_us, Unit::Microseconds)
            .also(
                read.outstanding.to_string(),
                format!("{} ({:.1} ms)", case.name(read.node), read.latency.p50_us / 1e3),
            )
            .evidence(read.id, &["latency_us.p50"])
        })
        .collect()
}

fn of_role(case: &Case<'_>, role: Role) -> Vec<NodeId> {
    nodes(case).filter(|node| case.setup().nodes[node.0].role == role).collect()
}

/// Redo apply and a standby that takes over both meet the standby's storage.
fn standby_slower(case: &Case<'_>) -> Vec<Finding> {
    let (primary, standby) = (of_role(case, Role::Primary), of_role(case, Role::Standby));
    [scans_slower(case, &primary, &standby), blocks_later(case, &primary, &standby)]
        .into_iter()
        .flatten()
        .collect()
}

fn scans_slower(case: &Case<'_>, primary: &[NodeId], standby: &[NodeId]) -> Option<Finding> {
    let slowest = |nodes: &[NodeId]| {
        let reads = nodes.iter().filter_map(|node| direct_path(case, *node));
        reads.min_by(|a, b| a.1.0.total_cmp(&b.1.0))
    };
    let ((there, there_rate), (here, here_rate)) = (slowest(standby)?, slowest(primary)?);
    if there.request_bytes != here.request_bytes || there_rate.0 >= SLOWER * here_rate.0 {
        return None;
    }
    let sentence = format!(
        "Direct path reads give {} on {} (standby) and {} on {} (primary): {} of it.",
        bytes_rate(there_rate),
        case.name(there.node),
        bytes_rate(here_rate),
        case.name(here.node),
        percent(there_rate.0 / here_rate.0)
    );
    Some(slower(sentence, there_rate.0 / here_rate.0, there, here, "bytes_per_second"))
}

fn blocks_later(case: &Case<'_>, primary: &[NodeId], standby: &[NodeId]) -> Option<Finding> {
    let slowest = |nodes: &[NodeId]| {
        let reads = nodes.iter().filter_map(|node| single_block(case, *node));
        reads.max_by(|a, b| a.latency.p50_us.total_cmp(&b.latency.p50_us))
    };
    let (there, here) = (slowest(standby)?, slowest(primary)?);
    let alike = there.request_bytes == here.request_bytes && there.outstanding == here.outstanding;
    if !alike || there.latency.p50_us < LATER * here.latency.p50_us {
        return None;
    }
    let sentence = format!(
        "Half of the single block reads take up to {:.2} ms on {} (standby) and {:.2} ms on {} \
         (primary).",
        there.latency.p50_us / 1e3,
        case.name(there.node),
        here.latency.p50_us / 1e3,
        case.name(here.node),
    );
    let ratio = here.latency.p50_us / there.latency.p50_us;
    Some(slower(sentence, ratio, there, here, "latency_us.p50"))
}

fn slower(
    sentence: String,
    ratio: f64,
    standby: &StorageSummary,
    primary: &StorageSummary,
    field: &'static str,
) -> Finding {
    Finding::new(
        FindingId::StandbySlowerThanPrimary,
        Severity::Warning,
        Confidence::Measured,
        sentence,
    )
    .nodes([standby.node])
    .value(ratio, Unit::Share)
    .evidence(standby.id, &[field])
    .evidence(primary.id, &[field])
}

fn uneven(case: &Case<'_>) -> Vec<Finding> {
    [Role::Primary, Role::Standby]
        .into_iter()
        .filter_map(|role| {
            let reads: Vec<_> = of_role(case, role)
                .into_iter()
                .filter_map(|node| direct_path(case, node))
                .collect();
            let slow = reads.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
            let fast = reads.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
            (slow.1.0 < UNEVEN * fast.1.0).then(|| {
                let sentence = format!(
                    "Direct path reads give {} on {} and {} on {}: the {role}'s nodes are not \
                     alike.",
                    bytes_rate(slow.1),
                    case.name(slow.0.node),
                    bytes_rate(fast.1),
                    case.name(fast.0.node)
                );
                Finding::new(
                    FindingId::UnevenStorage,
                    Severity::Warning,
                    Confidence::Measured,
                    sentence,
                )
                .nodes([slow.0.node])
                .value(slow.1.0 / fast.1.0, Unit::Share)
                .evidence(slow.0.id, &["bytes_per_second"])
                .evidence(fast.0.id, &["bytes_per_second"])
            })
        })
        .collect()
}
