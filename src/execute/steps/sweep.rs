//! Sweeps: the same test with one key varied, pair by pair.

use redoline_proto::encoding::Encoding;
use redoline_proto::units::Bytes;

use super::At;
use super::measure::{Measured, measure};
use super::register::register;
use super::socket;
use super::throughput::parameters;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::{BufferSize, NumConn, SweepSpec, ThroughputSpec, Vary};
use crate::record::event::StepFailure;
use crate::record::measurement::{FailureCause, Series, SeriesPoint, StoppedBecause, Variable};

/// One value of the varied key.
#[derive(Clone, Copy, Debug)]
enum Value {
    SocketBuffer(BufferSize),
    Mtu(u32),
    MessageLength(Bytes),
    Encoding(Option<Encoding>),
}

pub async fn run(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &SweepSpec,
    pairs: &[PairId],
) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    for pair in pairs {
        let of_pair = sweep_pair(run, at, spec, *pair).await;
        let stop = of_pair.iter().any(|failure| failure.cause() == FailureCause::Limit);
        run.note(&of_pair).await;
        failures.extend(of_pair);
        if stop {
            break;
        }
    }
    failures
}

/// A value that cannot be measured is a point without a number; the others go on.
async fn sweep_pair(
    run: &mut Run<'_>,
    at: At<'_>,
    spec: &SweepSpec,
    pair: PairId,
) -> Vec<StepFailure> {
    let mut failures = Vec::new();
    let mut best: Option<Measured> = None;
    let mut stopped_because = StoppedBecause::AllValues;
    let series = run.begin_series(series_of(at, spec, pair));
    for value in values(&spec.vary) {
        if let Some(remark) = why_not(run, pair, value) {
            run.add_point(series, point(value, None, Some(remark)));
            continue;
        }
        let of_value = match measure_value(run, at, &spec.throughput, pair, value).await {
            Ok(measured) => {
                let why = measured.summary.not_testable.clone();
                run.add_point(series, point(value, Some(&measured), why));
                let of_value = measured.failures.clone();
                if rate(&measured) > best.as_ref().and_then(rate) {
                    best = Some(measured);
                }
                of_value
            }
            Err(of_value) => {
                let remark = of_value.first().map(|failure| failure.failure.text.clone());
                run.add_point(series, point(value, None, remark));
                of_value
            }
        };
        let end = of_value.iter().find_map(ends_the_sweep);
        failures.extend(of_value);
        if let Some(why) = end {
            stopped_because = why;
            break;
        }
    }
    if let Some(measured) = &best {
        register(run, at, &[pair], measured, |result| result);
    }
    run.finish_series(series, stopped_because).await;
    failures
}

fn series_of(at: At<'_>, spec: &SweepSpec, pair: PairId) -> Series {
    let variable = match spec.vary {
        Vary::SocketBuffer(_) => Variable::SocketBuffer,
        Vary::Mtu(_) => Variable::Mtu,
        Vary::MessageLength(_) => Variable::MessageLength,
        Vary::Encryption(_) => Variable::Encryption,
        Vary::Compression(_) => Variable::Compression,
    };
    at.series(variable, &[pair])
}

/// After these no further value can be measured either.
fn ends_the_sweep(failure: &StepFailure) -> Option<StoppedBecause> {
    match failure.cause() {
        FailureCause::Limit | FailureCause::Interrupted => Some(StoppedBecause::Interrupted),
        FailureCause::Unreachable | FailureCause::Busy => Some(StoppedBecause::Failure),
        FailureCause::CouldNotMeasure => None,
    }
}

fn rate(measured: &Measured) -> Option<f64> {
    measured.rate().map(|rate| rate.0)
}

fn values(vary: &Vary) -> Vec<Value> {
    match vary {
        Vary::SocketBuffer(sizes) => sizes.iter().copied().map(Value::SocketBuffer).collect(),
        Vary::Mtu(sizes) => sizes.iter().copied().map(Value::Mtu).collect(),
        Vary::MessageLength(sizes) => sizes.iter().copied().map(Value::MessageLength).collect(),
        Vary::Encryption(ciphers) => {
            ciphers.iter().map(|cipher| Value::Encoding(cipher.map(Encoding::Tls))).collect()
        }
        Vary::Compression(methods) => {
            let encoding = |method: &Option<_>| Value::Encoding(method.map(Encoding::Compression));
            methods.iter().map(encoding).collect()
        }
    }
}

fn why_not(run: &Run<'_>, pair: PairId, value: Value) -> Option<String> {
    match value {
        Value::Mtu(mtu) => socket::not_testable(run, pair, mtu),
        Value::SocketBuffer(_) | Value::MessageLength(_) | Value::Encoding(_) => None,
    }
}

async fn measure_value(
    run: &mut Run<'_>,
    at: At<'_>,
    throughput: &ThroughputSpec,
    pair: PairId,
    value: Value,
) -> Result<Measured, Vec<StepFailure>> {
    let mut spec = throughput.clone();
    match value {
        Value::SocketBuffer(size) => spec.socket_buffer = size,
        Value::Mtu(mtu) => spec.mtu = Some(mtu),
        Value::MessageLength(length) => spec.message = length,
        Value::Encoding(encoding) => spec.encoding = encoding,
    }
    // `check` refuses a sweep whose number of connections is not fixed.
    let num_conn = match spec.num_conn {
        NumConn::Fixed(count) => count,
        NumConn::Later(_) | NumConn::Ladder(_) => 1,
    };
    let parameters = parameters(run, at, &spec, &[pair], num_conn).map_err(|e| vec![e])?;
    measure(run, at, &spec, &[pair], &parameters).await
}

fn point(value: Value, measured: Option<&Measured>, remark: Option<String>) -> SeriesPoint {
    let (number, label) = match value {
        Value::SocketBuffer(size) => (asked_bytes(size, measured), size.to_string()),
        Value::Mtu(mtu) => (Some(f64::from(mtu)), mtu.to_string()),
        Value::MessageLength(length) => (Some(length.0 as f64), length.to_string()),
        Value::Encoding(encoding) => {
            (None, encoding.map_or_else(|| "none".to_owned(), |one| one.to_string()))
        }
    };
    SeriesPoint { value: number, label, measurement: measured.map(|m| m.id), remark }
}

/// What was asked for; of a multiple of the BDP only the measurement knows it.
fn asked_bytes(size: BufferSize, measured: Option<&Measured>) -> Option<f64> {
    match size {
        BufferSize::Auto => None,
        BufferSize::Fixed(bytes) => Some(bytes.0 as f64),
        BufferSize::TimesBdp(_) => measured.and_then(|m| m.socket_buffer_bytes).map(|b| b as f64),
    }
}
