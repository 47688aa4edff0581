//! What registered steps have found so far, as the values that expressions see.

use std::collections::BTreeMap;
use std::time::Duration;

use minijinja::value::Serde;
use redoline_proto::units::BytesPerSecond;
use serde::Serialize;

use crate::analysis::case::{at_limit, is_plain};
use crate::analysis::throughput::Summary;
use crate::plan::node::{Direction, NodeId, Pair, PairId};

/// Results by register, direction and pair (or node); of several for the same key the last counts.
#[derive(Debug, Default)]
pub struct Results {
    pairs: BTreeMap<String, Vec<(Direction, PairId, PairResult)>>,
    nodes: BTreeMap<String, Vec<(NodeId, NodeResult)>>,
    paths: Vec<PathResult>,
    /// Of streams and of probes.
    rtts: Vec<(PairId, Duration)>,
}

/// What an expression sees of a step about pairs: `single.bytes_per_second`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PairResult {
    /// Steady mean of this pair; of a ladder or sweep, of its best point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width_bytes_per_second: Option<f64>,
    /// Sum over the common window of all pairs that sent together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmitted_bytes: Option<u64>,
    /// Of a ladder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_num_conn: Option<u32>,
    /// Of a ladder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_num_conn: Option<u32>,
    /// Of SYNC: from the first byte given to `send` to the acknowledgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_us: Option<f64>,
    /// Of SYNC, all connections together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<f64>,
    /// Of a path: small datagrams on the idle path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p50_us: Option<f64>,
    /// Of a path: the largest packet that came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu_bytes: Option<u32>,
    /// Of a path: the share of the small datagrams that were not answered, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Of a path: what the stream's segments carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u64>,
}

/// What an expression sees of a `storage_read` step: `reads.single_block_p99_us`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_block_p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_block_p99_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_path_bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_read_ratio: Option<f64>,
}

/// Of a pair in any plain throughput test, registered or not: what a bandwidth-delay product needs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PathResult {
    direction: Direction,
    rate: BytesPerSecond,
    /// What the path carries: of several connections, and nothing of the runbook held them.
    /// Otherwise the path carries at least this.
    is_the_path: bool,
}

/// What is known of the rate of a direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Carried {
    Rate(BytesPerSecond),
    AtLeast(BytesPerSecond),
}

impl Results {
    pub fn add_pair(
        &mut self,
        register: &str,
        direction: Direction,
        pair: PairId,
        result: PairResult,
    ) {
        let results = self.pairs.entry(register.to_owned()).or_default();
        results.retain(|(d, p, _)| (*d, *p) != (direction, pair));
        results.push((direction, pair, result));
    }

    /// Storage is read in several points; each adds what it knows.
    pub fn node_mut(&mut self, register: &str, node: NodeId) -> &mut NodeResult {
        let results = self.nodes.entry(register.to_owned()).or_default();
        let place = match results.iter().position(|(n, _)| *n == node) {
            Some(place) => place,
            None => {
                results.push((node, NodeResult::default()));
                results.len() - 1
            }
        };
        &mut results[place].1
    }

    /// Rates and round trips of its pairs are what later bandwidth-delay products rest on. What waits
    /// for answers, is slowed down or encoded tells a round trip only.
    pub fn add_test(&mut self, test: &Summary) {
        for pair in &test.pairs {
            let Some(steady) = &pair.steady else { continue };
            if let Some(rtt) = pair.rtt.min {
                self.add_rtt(pair.pair, rtt);
            }
            if is_plain(test) {
                self.paths.push(PathResult {
                    direction: test.direction,
                    rate: steady.rate,
                    is_the_path: test.request.num_conn > 1 && !at_limit(test, pair),
                });
            }
        }
    }

    /// The shortest round trip of a stream or of a path that was probed.
    pub fn add_rtt(&mut self, pair: PairId, rtt: Duration) {
        self.rtts.push((pair, rtt));
    }

    /// The best steady rate so far in a direction.
    pub fn carried(&self, direction: Direction) -> Option<Carried> {
        let paths = || self.paths.iter().filter(|path| path.direction == direction);
        let best = paths().map(|path| path.rate).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(match paths().any(|path| path.is_the_path) {
            true => Carried::Rate(best),
            false => Carried::AtLeast(best),
        })
    }

    /// The shortest round trip seen on a pair, in either direction.
    pub fn min_rtt(&self, pair: PairId) -> Option<Duration> {
        self.rtts.iter().filter(|(of, _)| *of == pair).map(|(_, rtt)| *rtt).min()
    }

    /// What the expressions of a step see for a pair: each register's result of that pair in that
    /// direction, else of `instead`, and of its sending node.
    pub fn context(
        &self,
        id: PairId,
        instead: Option<PairId>,
        pair: Pair,
        direction: Direction,
    ) -> minijinja::Value {
        let mut context: BTreeMap<&str, minijinja::Value> = BTreeMap::new();
        for (register, results) in &self.pairs {
            let of = |id| results.iter().find(|(d, p, _)| (*d, *p) == (direction, id));
            if let Some((_, _, result)) = of(id).or_else(|| instead.and_then(of)) {
                context.insert(register, minijinja::Value::from(Serde(result)));
            }
        }
        for (register, results) in &self.nodes {
            let sender = pair.sender(direction);
            if let Some((_, result)) = results.iter().find(|(node, _)| *node == sender) {
                context.insert(register, minijinja::Value::from(Serde(result)));
            }
        }
        minijinja::Value::from(Serde(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::expression::Expression;

    fn pair() -> Pair {
        Pair { primary: NodeId(0), standby: NodeId(1) }
    }

    #[test]
    fn a_reference_is_resolved_for_the_pair_and_direction_that_use_it() {
        let mut results = Results::default();
        for (direction, best) in
            [(Direction::PrimaryToStandby, 6), (Direction::StandbyToPrimary, 8)]
        {
            let result = PairResult { recommended_num_conn: Some(best), ..PairResult::default() };
            results.add_pair("ladder", direction, PairId(0), result);
        }
        let expression = Expression::parse("ladder.recommended_num_conn").unwrap();
        let of = |direction| {
            let context = results.context(PairId(0), None, pair(), direction);
            expression.evaluate(&context).unwrap().as_usize()
        };
        assert_eq!(of(Direction::PrimaryToStandby), Some(6));
        assert_eq!(of(Direction::StandbyToPrimary), Some(8));
    }

    #[test]
    fn a_pair_without_a_result_sees_the_one_that_stands_in_for_it() {
        let mut results = Results::default();
        let direction = Direction::PrimaryToStandby;
        let expression = Expression::parse("single.bytes_per_second").unwrap();
        for (pair, rate) in [(0, 1.0), (1, 2.0)] {
            let result = PairResult { bytes_per_second: Some(rate), ..PairResult::default() };
            results.add_pair("single", direction, PairId(pair), result);
            let context = results.context(PairId(1), Some(PairId(0)), self::pair(), direction);
            let seen = expression.evaluate(&context).unwrap();
            assert_eq!(seen, minijinja::Value::from(rate), "its own, once there is one");
        }
    }

    #[test]
    fn what_was_not_measured_is_an_error_and_not_zero() {
        let mut results = Results::default();
        let direction = Direction::PrimaryToStandby;
        results.add_pair("single", direction, PairId(0), PairResult::default());
        let expression = Expression::parse("single.bytes_per_second > 1").unwrap();
        let value = expression.evaluate(&results.context(PairId(0), None, pair(), direction));
        assert!(value.is_err(), "{value:?}");
    }

    #[test]
    fn a_repeated_measurement_takes_the_place_of_the_earlier_one() {
        let mut results = Results::default();
        let direction = Direction::PrimaryToStandby;
        for rate in [1.0, 2.0] {
            let result = PairResult { bytes_per_second: Some(rate), ..PairResult::default() };
            results.add_pair("single", direction, PairId(0), result);
        }
        let value = Expression::parse("single.bytes_per_second").unwrap();
        let value = value.evaluate(&results.context(PairId(0), None, pair(), direction)).unwrap();
        assert_eq!(value, minijinja::Value::from(2.0));
    }
}
