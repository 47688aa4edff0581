//! The measurements of a report: raw results beside what the analysis made of them.

use std::time::Duration;

use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::transfer::Payload;
use redoline_proto::units::Bytes;

use super::build::rate;
use super::{model, outcome};
use crate::analysis::Analysis;
use crate::analysis::steady::Steady;
use crate::analysis::storage::StorageSummary;
use crate::analysis::throughput::{BothEnds, Cpu, PairSummary, StreamSummary, Summary};
use crate::record::measurement::{Measurement, StorageRead};
use crate::record::run::RunRecord;
use crate::record::setup::Setup;

pub fn measurements(record: &RunRecord, analysis: &Analysis) -> Vec<model::Measurement> {
    record
        .measurements
        .iter()
        .filter_map(|measurement| match measurement {
            Measurement::Throughput(raw) => {
                let summary = analysis.throughputs.iter().find(|summary| summary.id == raw.id)?;
                let mut failures = outcome::of_measurement(record, measurement);
                failures.extend(summary.not_testable.clone());
                let shown = throughput(&record.setup, summary, failures);
                Some(model::Measurement::Throughput(Box::new(shown)))
            }
            Measurement::Path(_) => None,
            Measurement::StorageRead(raw) => {
                let summary = analysis.storage.iter().find(|summary| summary.id == raw.id)?;
                let shown = storage(&record.setup, raw, summary);
                Some(model::Measurement::StorageRead(Box::new(shown)))
            }
        })
        .collect()
}

fn throughput(setup: &Setup, summary: &Summary, failures: Vec<String>) -> model::Throughput {
    let request = &summary.request;
    let pairs = &summary.pairs;
    let total = |count: fn(&PairSummary) -> Option<u64>| all(pairs, count).map(|c| c.iter().sum());
    model::Throughput {
        id: summary.id.to_string(),
        step: summary.step as u32 + 1,
        direction: summary.direction,
        pairs: pairs.iter().map(|pair| pair_ends(setup, summary, pair)).collect(),
        nodes: if summary.together() { "together" } else { "each" }.to_owned(),
        both_directions: request.both_directions,
        mode: request.mode.clone(),
        num_conn: request.num_conn,
        message_bytes: request.message_bytes,
        requested: model::SocketParameters {
            socket_buffer: request.socket_buffer.clone(),
            socket_buffer_bytes: request.socket.socket_buffer_bytes,
            congestion_control: request.socket.congestion_control.clone(),
            mtu_bytes: request.mtu_bytes,
            mss_bytes: request.socket.mss_bytes,
        },
        granted: model::Granted {
            send_buffer_bytes: least(pairs, |pair| pair.granted.send_buffer),
            receive_buffer_bytes: least(pairs, |pair| pair.granted.receive_buffer),
        },
        duration_ms: request.duration_ms,
        auto_target_share: request.auto_target,
        compressible_share: request.compressible_share,
        delay_us: request.delay_us,
        network_timeout_ms: request.network_timeout_ms,
        encoding: request.encoding.map(|encoding| encoding.to_string()),
        interface_mtu_bytes: request.interface_mtu_bytes,
        interval_ms: request.interval_ms,
        payload: match request.payload {
            Payload::Random => "random",
            Payload::Zeros => "zeros",
        }
        .to_owned(),
        rate_limit_bytes_per_second: request.rate_limit.map(|rate| rate.0),
        steady: summary.steady.as_ref().filter(|_| summary.complete()).map(steady),
        whole_run_bytes_per_second: summary.whole_run.map(rate),
        written_bytes: total(|pair| pair.counts.written),
        acked_bytes: total(|pair| pair.counts.acked),
        received_bytes: total(|pair| pair.counts.received),
        retransmitted_bytes: total(|pair| pair.counts.retransmitted),
        rtt_us: rtt(pairs),
        limited: limited(pairs),
        congestion_control: BothEnds {
            sender: same(pairs, |pair| pair.congestion_control.sender.clone()),
            receiver: same(pairs, |pair| pair.congestion_control.receiver.clone()),
        }
        .into(),
        mss_bytes: least(pairs, |pair| pair.mss),
        path_mtu_bytes: least(pairs, |pair| pair.path_mtu),
        cpu_cores: cores(pairs, |cpu| Some(cpu.threads)),
        host_cpu_cores: cores(pairs, |cpu| cpu.host),
        messages_per_second: None,
        latency_us: None,
        write_latency_us: None,
        network_latency_mean_us: None,
        commit_overhead_us: None,
        stream_fairness: None,
        pair_fairness: None,
        streams: pairs.iter().flat_map(|pair| streams(setup, pair)).collect(),
        samples: summary
            .samples
            .iter()
            .map(|sample| model::Sample {
                at_ms: milliseconds(sample.at),
                interval_ms: rounded(sample.interval.seconds * 1e3),
                bytes: sample.interval.bytes.round() as u64,
            })
            .collect(),
        failures,
    }
}

impl From<BothEnds<Option<String>>> for model::BothEnds<Option<String>> {
    fn from(ends: BothEnds<Option<String>>) -> Self {
        Self { sender: ends.sender, receiver: ends.receiver }
    }
}

fn pair_ends(setup: &Setup, summary: &Summary, pair: &PairSummary) -> model::PairEnds {
    let (sender, receiver) = setup.ends(pair.pair, summary.direction);
    let steady = pair.steady.as_ref();
    model::PairEnds {
        pair: setup.pair_name(pair.pair),
        sender: setup.node_name(sender).to_owned(),
        receiver: setup.node_name(receiver).to_owned(),
        bytes_per_second: steady.map(|steady| rate(steady.rate)),
        half_width_bytes_per_second: steady.and_then(|steady| steady.half_width).map(rate),
    }
}

fn steady(steady: &Steady) -> model::Steady {
    model::Steady {
        bytes_per_second: rate(steady.rate),
        half_width_bytes_per_second: steady.half_width.map(rate),
        confidence: steady.confidence,
        converged: steady.converged,
        truncated_ms: steady.truncated.as_millis() as u64,
        batches: steady.batches,
        window_ms: steady.window.as_millis() as u64,
    }
}

/// `None` as soon as one pair does not know it: a sum without a part is not the sum.
fn all<T>(pairs: &[PairSummary], value: impl Fn(&PairSummary) -> Option<T>) -> Option<Vec<T>> {
    let values: Option<Vec<T>> = pairs.iter().map(value).collect();
    values.filter(|values| !values.is_empty())
}

fn least(pairs: &[PairSummary], value: fn(&PairSummary) -> Option<Bytes>) -> Option<u64> {
    pairs.iter().filter_map(value).min().map(|bytes| bytes.0)
}

fn same(pairs: &[PairSummary], value: impl Fn(&PairSummary) -> Option<String>) -> Option<String> {
    let values = all(pairs, value)?;
    let (first, rest) = values.split_first()?;
    rest.iter().all(|other| other == first).then(|| first.clone())
}

fn rtt(pairs: &[PairSummary]) -> model::Rtt {
    let micros = |time: Duration| time.as_micros() as u64;
    let mut medians: Vec<Duration> = pairs.iter().filter_map(|pair| pair.rtt.p50).collect();
    medians.sort_unstable();
    model::Rtt {
        min: pairs.iter().filter_map(|pair| pair.rtt.min).min().map(micros),
        p50: medians.get(medians.len() / 2).copied().map(micros),
        max: pairs.iter().filter_map(|pair| pair.rtt.max).max().map(micros),
    }
}

fn limited(pairs: &[PairSummary]) -> model::Limited {
    let total = |time: fn(&PairSummary) -> Option<Duration>| {
        all(pairs, time).map(|times| times.iter().sum::<Duration>().as_millis() as u64)
    };
    model::Limited {
        busy_ms: total(|pair| pair.limited.busy),
        receive_window_ms: total(|pair| pair.limited.receive_window),
        send_buffer_ms: total(|pair| pair.limited.send_buffer),
    }
}

fn cores(pairs: &[PairSummary], value: fn(&Cpu) -> Option<f64>) -> model::BothEnds<Option<f64>> {
    let total = |end: fn(&PairSummary) -> Option<Cpu>| {
        all(pairs, |pair| end(pair).as_ref().and_then(value)).map(|cores| cores.iter().sum())
    };
    model::BothEnds {
        sender: total(|pair| pair.cpu.sender),
        receiver: total(|pair| pair.cpu.receiver),
    }
}

fn streams(setup: &Setup, pair: &PairSummary) -> Vec<model::Stream> {
    let name = setup.pair_name(pair.pair);
    pair.streams.iter().map(|stream| self::stream(&name, stream)).collect()
}

fn stream(pair: &str, stream: &StreamSummary) -> model::Stream {
    let micros = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
    model::Stream {
        pair: pair.to_owned(),
        stream: stream.stream,
        local: stream.local.clone(),
        remote: stream.remote.clone(),
        received_bytes: stream.received,
        retransmitted_bytes: stream.retransmitted,
        rtt_us: micros(stream.rtt),
        min_rtt_us: micros(stream.min_rtt),
        send_buffer_bytes: stream.granted.send_buffer.map(|bytes| bytes.0),
        receive_buffer_bytes: stream.granted.receive_buffer.map(|bytes| bytes.0),
    }
}

fn storage(setup: &Setup, raw: &StorageRead, summary: &StorageSummary) -> model::StorageRead {
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
        samples: storage_samples(raw),
    }
}

fn storage_samples(raw: &StorageRead) -> Vec<model::Sample> {
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

fn latency(latency: &redoline_proto::storage::Latency) -> model::Latency {
    let known = |us: f64| (latency.count > 0).then_some(us);
    model::Latency {
        mean: known(latency.mean_us),
        p50: known(latency.p50_us),
        p90: known(latency.p90_us),
        p99: known(latency.p99_us),
        p999: known(latency.p999_us),
        max: known(latency.max_us),
        histogram: latency
            .buckets
            .iter()
            .map(|bucket| model::LatencyBucket { upper_us: bucket.upper_us, count: bucket.count })
            .collect(),
    }
}

fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

/// To a microsecond: more digits of a sample's time say nothing.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}
