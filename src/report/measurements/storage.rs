//! A read of storage, with the file or device that it was of.

use redoline_proto::storage::{StoragePattern, StorageTarget};

use super::super::build::rate;
use super::super::model;
use super::{latency, rounded};
use crate::analysis::storage::StorageSummary;
use crate::record::measurement::StorageRead;
use crate::record::setup::Setup;

pub(super) fn storage(
    setup: &Setup,
    raw: &StorageRead,
    summary: &StorageSummary,
) -> model::StorageRead {
    let (result, single) = (&raw.result, summary.pattern == StoragePattern::SingleBlock);
    let outstanding = Some(summary.outstanding);
    model::StorageRead {
        id: raw.id.to_string(),
        step: raw.step as u32 + 1,
        node: setup.node_name(raw.node).to_owned(),
        pattern: if single { "single_block" } else { "direct_path" }.to_owned(),
        target: match raw.target {
            StorageTarget::File(_) => "file",
            StorageTarget::Device(_) => "device",
            StorageTarget::Scratch { .. } => "scratch",
        }
        .to_owned(),
        path: raw.prepared.path.clone(),
        filesystem: raw.prepared.filesystem.clone(),
        device: raw.prepared.device.clone(),
        size_bytes: raw.prepared.size_bytes,
        block_bytes: single.then_some(summary.request_bytes),
        request_bytes: summary.request_bytes,
        sessions: outstanding.filter(|_| single),
        slots: outstanding.filter(|_| !single),
        engine: model::Engine { used: result.engine.clone(), why: result.engine_reason.clone() },
        reads: result.reads,
        bytes: result.bytes,
        elapsed_ms: result.elapsed_ns as f64 / 1e6,
        iops: summary.iops,
        bytes_per_second: summary.rate.map(rate),
        half_width_bytes_per_second: summary.half_width.map(rate),
        latency_us: latency(&summary.latency),
        device_read_ratio: result.device_read_ratio,
        device_requests_per_read: result.device_requests_per_read,
        zero_block_share: raw.prepared.zero_block_share,
        foreign_bytes: result.foreign_bytes,
        cpu_cores: summary.cpu_cores,
        short_reads: result.short_reads,
        buffer_pages: result.buffer_pages.clone(),
        samples: samples(raw),
    }
}

fn samples(raw: &StorageRead) -> Vec<model::Sample> {
    let samples = &raw.result.samples;
    let zero = samples.first().map_or(0, |sample| sample.from_ns);
    samples
        .iter()
        .map(|sample| model::Sample {
            at_ms: rounded((sample.from_ns - zero) as f64 / 1e6),
            interval_ms: rounded((sample.to_ns - sample.from_ns) as f64 / 1e6),
            bytes: sample.bytes,
        })
        .collect()
}
