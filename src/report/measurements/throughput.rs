//! A throughput test with every parameter as asked for and as granted.

use std::time::Duration;

use redoline_proto::transfer::Payload;
use redoline_proto::units::Bytes;

use super::super::build::{rate, significant};
use super::super::model;
use super::hosts::hosts;
use super::{all, latency, least, micros, milliseconds, rounded, segments, sockets, sum, sync};
use crate::analysis::fairness;
use crate::analysis::steady::Steady;
use crate::analysis::throughput::{Cpu, PairSummary, StreamSummary, Summary};
use crate::plan::step::Nodes;
use crate::record::measurement::{Throughput, TransferRequest};
use crate::record::run::RunRecord;
use crate::record::setup::Setup;

pub(super) fn throughput(
    record: &RunRecord,
    raw: &Throughput,
    summary: &Summary,
    failures: Vec<String>,
) -> model::Throughput {
    let setup = &record.setup;
    let request = &summary.request;
    let pairs = &summary.pairs;
    let total = |count: fn(&PairSummary) -> Option<u64>| all(pairs, count).map(sum);
    let sync = sync::sync(pairs, setup.need.as_ref());
    let fairness = fairness::of_pairs(summary);
    model::Throughput {
        id: summary.id.to_string(),
        step: summary.step as u32 + 1,
        direction: summary.direction,
        pairs: pairs
            .iter()
            .map(|pair| pair_ends(setup, summary, pair, fairness.as_ref()))
            .collect(),
        nodes: match request.nodes {
            Nodes::Each => "each",
            Nodes::Together => "together",
            Nodes::AllToOne => "all_to_one",
        }
        .to_owned(),
        both_directions: request.both_directions,
        mode: request.mode.clone(),
        write: write(request),
        num_conn: request.num_conn,
        message_bytes: request.message_bytes,
        requested: sockets::requested(summary),
        granted: sockets::granted(record, raw, summary),
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
        segments: segments(pairs),
        rtt_us: rtt(pairs),
        limited: limited(pairs),
        offered_window_bytes: pairs.iter().filter_map(|pair| pair.receive_window).max().map(bytes),
        congestion_control: model::BothEnds {
            sender: same(pairs, |pair| pair.congestion_control.sender.clone()),
            receiver: same(pairs, |pair| pair.congestion_control.receiver.clone()),
        },
        mss_bytes: least(pairs, |pair| pair.mss),
        path_mtu_bytes: least(pairs, |pair| pair.path_mtu),
        cpu_cores: cores(pairs, |cpu| Some(cpu.threads)),
        host_cpu_cores: cores(pairs, |cpu| cpu.host),
        hosts: hosts(setup, summary),
        messages_per_second: sync.messages_per_second,
        latency_us: sync.latency,
        write_latency_us: sync.write_latency,
        network_latency_mean_us: sync.network_mean_us,
        network_share: sync.network_share.map(significant),
        disk_share: sync.network_share.map(|network| significant(1.0 - network)),
        commit_overhead_us: sync.overhead,
        stream_fairness: stream_fairness(raw, summary),
        pair_fairness: fairness.map(|fairness| significant(fairness.jain)),
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

fn write(request: &TransferRequest) -> Option<model::ScratchWrite> {
    let write = request.acknowledge.as_ref()?.write.as_ref()?;
    Some(model::ScratchWrite { directory: write.dir.clone(), file_bytes: write.file_bytes })
}

/// Of the pair whose streams share least evenly.
fn stream_fairness(raw: &Throughput, summary: &Summary) -> Option<f64> {
    let window = summary.window.filter(|_| raw.request.num_conn > 1)?;
    let alone = raw.pairs.len() == 1;
    raw.pairs
        .iter()
        .filter(|pair| pair.failure.is_none())
        .filter_map(|pair| fairness::of_streams(pair, window, alone))
        .map(|fairness| fairness.jain)
        .reduce(f64::min)
        .map(significant)
}

fn pair_ends(
    setup: &Setup,
    summary: &Summary,
    pair: &PairSummary,
    fairness: Option<&fairness::Fairness<crate::plan::node::PairId>>,
) -> model::PairEnds {
    let (sender, receiver) = setup.ends(pair.pair, summary.direction);
    let steady = pair.steady.as_ref();
    let part =
        fairness.and_then(|fairness| fairness.parts.iter().find(|part| part.name == pair.pair));
    let sync = pair.sync.as_ref().filter(|sync| sync.messages > 0);
    model::PairEnds {
        pair: setup.pair_name(pair.pair),
        sender: setup.node_name(sender).to_owned(),
        receiver: setup.node_name(receiver).to_owned(),
        bytes_per_second: steady.map(|steady| rate(steady.rate)),
        half_width_bytes_per_second: steady.and_then(|steady| steady.half_width).map(rate),
        share: part.map(|part| significant(part.share)),
        messages_per_second: sync.and_then(|sync| sync.messages_per_second),
        latency_us: sync.map(|sync| latency(&sync.total)),
        write_latency_us: sync.and_then(|sync| sync.write.as_ref()).map(latency),
    }
}

fn steady(steady: &Steady) -> model::Steady {
    model::Steady {
        bytes_per_second: rate(steady.rate),
        half_width_bytes_per_second: steady.half_width.map(rate),
        confidence: steady.confidence,
        target_share: steady.target,
        converged: steady.converged,
        truncated_ms: steady.truncated.as_millis() as u64,
        batches: steady.batches,
        window_ms: steady.window.as_millis() as u64,
        level_shift: steady.level_shift.map(|shift| model::LevelShift {
            first_bytes_per_second: rate(shift.first),
            last_bytes_per_second: rate(shift.last),
        }),
    }
}

fn same(pairs: &[PairSummary], value: impl Fn(&PairSummary) -> Option<String>) -> Option<String> {
    let values = all(pairs, value)?;
    let (first, rest) = values.split_first()?;
    rest.iter().all(|other| other == first).then(|| first.clone())
}

fn rtt(pairs: &[PairSummary]) -> model::Rtt {
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
    model::Stream {
        pair: pair.to_owned(),
        stream: stream.stream,
        local: stream.local.clone(),
        remote: stream.remote.clone(),
        received_bytes: stream.received,
        retransmitted_bytes: stream.retransmitted,
        rtt_us: stream.rtt.map(micros),
        min_rtt_us: stream.min_rtt.map(micros),
        send_buffer_bytes: stream.granted.send_buffer.map(bytes),
        receive_buffer_bytes: stream.granted.receive_buffer.map(bytes),
    }
}

fn bytes(bytes: Bytes) -> u64 {
    bytes.0
}
