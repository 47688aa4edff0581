//! What is about to be measured, in words for the people who wait for it.

use redoline_proto::units::milliseconds;

use super::At;
use super::measure::Parameters;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::{Mode, TestTime, ThroughputSpec};
use crate::record::event::Event;

/// A throughput test begins.
pub async fn test(
    run: &Run<'_>,
    at: At<'_>,
    spec: &ThroughputSpec,
    pairs: &[PairId],
    parameters: &Parameters,
) {
    let expected_ms = milliseconds(spec.time.longest());
    anything(run, at, text(spec, parameters), pairs, expected_ms).await;
}

pub async fn anything(run: &Run<'_>, at: At<'_>, text: String, pairs: &[PairId], expected_ms: u64) {
    let pairs = pairs.to_vec();
    let test = Event::TestStarted { step: at.index, text, pairs, node: None, expected_ms };
    run.events.send(test).await;
}

fn text(spec: &ThroughputSpec, parameters: &Parameters) -> String {
    let mut parts = vec![match parameters.num_conn {
        1 => "1 connection".to_owned(),
        many => format!("{many} connections"),
    }];
    match spec.mode {
        Mode::Async => (),
        Mode::Sync(_) => parts.push(format!("SYNC with writes of {}", spec.message)),
        Mode::Fastsync => parts.push(format!("SYNC in memory, {}", spec.message)),
    }
    if parameters.socket_buffer != "auto" {
        parts.push(format!("socket buffer {}", parameters.socket_buffer));
    }
    parts.extend(parameters.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(parameters.interface_mtu.map(|mtu| format!("interface MTU {mtu}")));
    parts.extend(spec.encoding.map(|encoding| encoding.to_string()));
    if spec.both_directions {
        parts.push("both directions".to_owned());
    }
    if let TestTime::Auto { target, max } = spec.time {
        let percent = (1000.0 * target).round() / 10.0;
        parts.push(format!("until ± {percent} %, at most {} s", max.as_secs_f64().round()));
    }
    parts.extend(parameters.note.clone());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::samples;
    use super::*;

    #[test]
    fn a_test_is_announced_with_what_sets_it_apart() {
        let plain = samples::spec();
        let parameters = samples::parameters(1);
        assert_eq!(text(&plain, &parameters), "1 connection");
        let mut spec = samples::spec();
        spec.both_directions = true;
        spec.mode = Mode::Fastsync;
        spec.message = redoline_proto::units::Bytes(8192);
        spec.time = TestTime::Auto { target: 0.025, max: Duration::from_secs(60) };
        let parameters = Parameters { note: Some("again".to_owned()), ..samples::parameters(4) };
        assert_eq!(
            text(&spec, &parameters),
            "4 connections, SYNC in memory, 8 KiB, both directions, until ± 2.5 %, at most 60 s, again"
        );
    }
}
