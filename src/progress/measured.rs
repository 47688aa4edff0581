//! A measurement in one line, as it comes: averages for the eye; steady rates are the report's.

use redoline_proto::storage::StoragePattern;
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::narration::{node_name, pair_name};
use super::test::seconds;
use crate::record::measurement::{
    Measurement, PairTransfer, Path, StorageRead, Throughput, TransferRequest,
};
use crate::record::setup::Setup;

pub(super) fn measured(setup: &Setup, measurement: &Measurement) -> String {
    match measurement {
        Measurement::Throughput(test) => throughput(setup, test),
        Measurement::Path(path) => path_found(setup, path),
        Measurement::StorageRead(read) => storage_read(setup, read),
    }
}

fn throughput(setup: &Setup, test: &Throughput) -> String {
    let mut text = format!("{}", test.id);
    for transfer in &test.pairs {
        let (sender, receiver) = match setup.pairs.get(transfer.pair.0) {
            None => ("?".to_owned(), "?".to_owned()),
            Some(_) => {
                let (sender, receiver) = setup.ends(transfer.pair, test.direction);
                (node_name(setup, sender), node_name(setup, receiver))
            }
        };
        let result = match (&transfer.failure, mean(transfer)) {
            (Some(failure), _) => format!("failed ({})", failure.phase),
            (None, Some(rate)) => format!("{rate} on average{}", answers(transfer)),
            (None, None) => "no result".to_owned(),
        };
        text.push_str(&format!(" {sender} to {receiver}: {result};"));
    }
    text.push_str(&how(&test.request));
    if test.request.auto_target.is_some() {
        let longest = test.pairs.iter().filter_map(lasted_ms).max();
        text.push_str(&longest.map(|ms| format!(", {}", seconds(ms))).unwrap_or_default());
    }
    text
}

/// What was set apart from the plainest test.
fn how(request: &TransferRequest) -> String {
    let mut text = format!(" num_conn {}", request.num_conn);
    if request.socket_buffer != "auto" {
        text.push_str(&format!(", socket buffer {}", request.socket_buffer));
    }
    if let Some(mtu) = request.mtu_bytes {
        text.push_str(&format!(", MTU {mtu}"));
    }
    if let Some(mtu) = request.interface_mtu_bytes {
        text.push_str(&format!(", interface MTU {mtu}"));
    }
    if request.mode != "async" {
        text.push_str(&format!(", {} {}", request.mode, Bytes(request.message_bytes)));
    }
    if let Some(encoding) = request.encoding {
        text.push_str(&format!(", {encoding}"));
    }
    if request.both_directions {
        text.push_str(", both directions");
    }
    text
}

/// Of a SYNC test.
fn answers(transfer: &PairTransfer) -> String {
    let acknowledged = transfer.sender.end.as_ref().and_then(|end| end.acknowledgements.as_ref());
    acknowledged.map_or_else(String::new, |answers| {
        let ms = |us: f64| us / 1000.0;
        let total = &answers.total;
        format!(", answered in {:.2} ms (p50), {:.2} ms (p99)", ms(total.p50_us), ms(total.p99_us))
    })
}

/// What the receiver got over the whole test; the steady rate is the analysis' business.
fn mean(transfer: &PairTransfer) -> Option<BytesPerSecond> {
    let bytes: u64 = transfer.receiver.samples.iter().map(|sample| sample.bytes().0).sum();
    Bytes(bytes).over(std::time::Duration::from_nanos(u64::try_from(span_ns(transfer)?).ok()?))
}

fn lasted_ms(transfer: &PairTransfer) -> Option<i64> {
    span_ns(transfer).map(|ns| ns / 1_000_000)
}

fn span_ns(transfer: &PairTransfer) -> Option<i64> {
    let samples = &transfer.receiver.samples;
    Some(samples.last()?.to_ns - samples.first()?.from_ns)
}

fn storage_read(setup: &Setup, read: &StorageRead) -> String {
    let point = &read.result.point;
    let how = match point.pattern {
        StoragePattern::SingleBlock if point.outstanding == 1 => {
            "single blocks by 1 session".to_owned()
        }
        StoragePattern::SingleBlock => format!("single blocks by {} sessions", point.outstanding),
        StoragePattern::DirectPath => format!("direct path with {} slots", point.outstanding),
    };
    let elapsed = std::time::Duration::from_nanos(read.result.elapsed_ns);
    let rate = Bytes(read.result.bytes).over(elapsed).map_or_else(
        || "no result".to_owned(),
        |rate| format!("{}/s", Bytes(rate.0.round() as u64)),
    );
    format!("{} {}: {rate}, {how}", read.id, node_name(setup, read.node))
}

fn path_found(setup: &Setup, path: &Path) -> String {
    let pair = pair_name(setup, path.pair);
    let stream = path.stream.as_ref().map(|stream| match (&stream.failure, mean(stream)) {
        (Some(failure), _) => format!(", stream failed ({})", failure.phase),
        (None, Some(rate)) => format!(", stream {rate} on average"),
        (None, None) => ", stream without a result".to_owned(),
    });
    let stream = stream.unwrap_or_default();
    let Some(probe) = &path.probe else { return format!("{} {pair}: no probe{stream}", path.id) };
    let rtt = probe.rtt.as_ref().map_or_else(
        || "no probe came back".to_owned(),
        |rtt| format!("round trip {:.2} ms", rtt.p50_us / 1000.0),
    );
    let mtu = probe
        .path_mtu_bytes
        .map_or_else(|| "path MTU unknown".to_owned(), |mtu| format!("path MTU {mtu}"));
    format!("{} {pair}: {rtt}, {mtu}{stream}", path.id)
}
