//! A run with its summaries, and the questions that every rule asks of them.

use std::time::Duration;

use redoline_proto::facts::{HostFacts, Interface, Route};
use redoline_proto::units::BytesPerSecond;

use super::bdp::{BufferNeed, RateSource};
use super::credit::credit_of;
use super::path::PathSummary;
use super::series::SeriesResult;
use super::steady::Steady;
use super::storage::StorageSummary;
use super::throughput::{PairSummary, Summary};
use crate::plan::node::{Direction, NodeId, PairId};
use crate::plan::step::Nodes;
use crate::record::measurement::{MeasurementId, StoppedBecause, Variable};
use crate::record::run::RunRecord;
use crate::record::setup::Setup;

pub const DIRECTIONS: [Direction; 2] = [Direction::PrimaryToStandby, Direction::StandbyToPrimary];

#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub record: &'a RunRecord,
    pub throughputs: &'a [Summary],
    pub paths: &'a [PathSummary],
    pub storage: &'a [StorageSummary],
    pub series: &'a [SeriesResult],
}

/// A pair measured alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone<'a> {
    pub id: MeasurementId,
    pub num_conn: u32,
    pub summary: &'a Summary,
    pub pair: &'a PairSummary,
    pub steady: &'a Steady,
}

impl<'a> Case<'a> {
    pub fn setup(&self) -> &'a Setup {
        &self.record.setup
    }

    /// The configuration's own pairs: redo goes to no crossed one, so nothing is judged of them.
    pub fn pairs(&self) -> impl Iterator<Item = PairId> + use<> {
        (0..self.own_pairs()).map(PairId)
    }

    fn own_pairs(&self) -> usize {
        let setup = self.setup();
        setup.crossed_from.unwrap_or(setup.pairs.len())
    }

    /// Pairs of the configuration, those that `--limit` left out too.
    pub fn pair_count(&self) -> usize {
        self.own_pairs() + self.record.setup.left_out.pair_count
    }

    /// Why not every pair could be measured: `limited to phx1 and ash1`.
    pub fn limited_to(&self) -> Option<String> {
        let left_out = &self.setup().left_out;
        (left_out.pair_count > 0)
            .then(|| format!("limited to {}", super::words::list(&left_out.limited_to)))
    }

    pub fn name(&self, node: NodeId) -> &'a str {
        self.record.setup.node_name(node)
    }

    pub fn names(&self, nodes: &[NodeId]) -> String {
        let names: Vec<&str> = nodes.iter().map(|node| self.name(*node)).collect();
        super::words::list(&names)
    }

    /// `phx1 to ash1`.
    pub fn way(&self, pair: PairId, direction: Direction) -> String {
        let (sender, receiver) = self.setup().ends(pair, direction);
        format!("{} to {}", self.name(sender), self.name(receiver))
    }

    pub fn facts(&self, node: NodeId) -> Option<&'a HostFacts> {
        self.record.nodes.get(&node)?.facts.as_ref()
    }

    /// Results that say what the path carries, as redo transport would use it: plain streams, and no
    /// points of sweeps that ask something of the sockets or the messages.
    pub fn counting(&self, direction: Direction) -> impl Iterator<Item = &'a Summary> {
        self.throughputs.iter().filter(move |summary| {
            summary.direction == direction
                && is_plain(summary)
                && (asks_nothing(summary) || !self.of_sweep(summary))
                && !self.varies_messages(summary.id)
        })
    }

    fn varies_messages(&self, id: MeasurementId) -> bool {
        self.series.iter().any(|series| {
            series.variable == Variable::MessageLength
                && series.points.iter().any(|point| point.measurement == Some(id))
        })
    }

    fn of_sweep(&self, summary: &Summary) -> bool {
        self.setup().steps.get(summary.step).is_some_and(|step| step.action == "sweep")
    }

    /// Such results of a pair alone, in the order taken.
    pub fn alone(&self, pair: PairId, direction: Direction) -> Vec<Alone<'a>> {
        self.counting(direction)
            .filter(|summary| summary.pairs.len() == 1)
            .filter_map(|summary| {
                let measured = summary.pair(pair)?;
                Some(Alone {
                    id: summary.id,
                    num_conn: summary.request.num_conn,
                    summary,
                    pair: measured,
                    steady: measured.steady.as_ref()?,
                })
            })
            .collect()
    }

    /// What one redo transport process would get: the longest test with one connection, the last
    /// of equal ones. One with settings of its own counts only when there is no other, and a
    /// sweep's point only when there is not even that. Of a test that was repeated over time it is the
    /// slowest run.
    pub fn single(&self, pair: PairId, direction: Direction) -> Option<Alone<'a>> {
        let mut ones = self.alone(pair, direction);
        ones.retain(|one| one.num_conn == 1);
        let longest = ones.iter().max_by_key(|one| {
            let sweep = self.of_sweep(one.summary);
            (!sweep && is_default(one.summary), !sweep, lasted(one.summary, one.steady))
        })?;
        let runs = self.runs_of(longest.id);
        let runs = ones.iter().filter(|one| one.id == longest.id || runs.contains(&one.id));
        runs.copied().min_by(|a, b| {
            let unsettled = |one: &Alone<'_>| !is_settled(one.steady);
            let rate = a.steady.rate.0.total_cmp(&b.steady.rate.0);
            unsettled(a).cmp(&unsettled(b)).then(rate)
        })
    }

    /// Every run of a single stream that was repeated over time, and `single` in any case: a need has
    /// to be met each time.
    pub fn singles(&self, pair: PairId, direction: Direction) -> Vec<Alone<'a>> {
        let Some(single) = self.single(pair, direction) else { return Vec::new() };
        let mut runs = self.alone(pair, direction);
        runs.retain(|one| {
            let asks_more = is_default(single.summary) && !is_default(one.summary);
            let again = one.num_conn == 1 && !asks_more && !self.runs_of(one.id).is_empty();
            one.id == single.id || again
        });
        runs
    }

    /// The measurements of the series over time that a test is one of; none of other tests.
    fn runs_of(&self, id: MeasurementId) -> Vec<MeasurementId> {
        let over_time = self.series.iter().filter(|series| series.variable == Variable::Time);
        over_time
            .map(|series| series.points.iter().filter_map(|point| point.measurement).collect())
            .find(|ids: &Vec<MeasurementId>| ids.contains(&id))
            .unwrap_or_default()
    }

    /// Results with more than one connection, by their number.
    pub fn levels(&self, pair: PairId, direction: Direction) -> Vec<Alone<'a>> {
        let mut levels = self.alone(pair, direction);
        levels.retain(|one| one.num_conn > 1);
        levels.sort_by_key(|one| one.num_conn);
        levels
    }

    /// The highest rate of a pair alone.
    pub fn best_alone(&self, pair: PairId, direction: Direction) -> Option<Alone<'a>> {
        self.alone(pair, direction)
            .into_iter()
            .max_by(|a, b| a.steady.rate.0.total_cmp(&b.steady.rate.0))
    }

    /// What all pairs of the configuration carry at a time: of the longest tests the one with the
    /// highest sum, and of one that was repeated the slowest run. Incomplete tests and those whose mean
    /// stands for nothing count only when no other is there.
    ///
    /// Of a single pair it is what its connections carry together.
    pub fn together(&self, direction: Direction) -> Option<&'a Summary> {
        let mut tests = self.of_all_pairs(direction);
        if self.pair_count() == 1 && tests.iter().any(|test| test.request.num_conn > 1) {
            tests.retain(|test| test.request.num_conn > 1);
        }
        let sound = |test: &Summary| test.complete() && self.stands_for_something(test);
        if tests.iter().any(|test| sound(test)) {
            tests.retain(|test| sound(test));
        } else if tests.iter().any(|test| test.complete()) {
            tests.retain(|test| test.complete());
        }
        let rate = |test: &Summary| test.rate().map_or(0.0, |rate| rate.0);
        let by_rate = |a: &&Summary, b: &&Summary| rate(a).total_cmp(&rate(b));
        let highest = as_long_as_others(&tests).max_by(by_rate)?;
        let again = |test: &&Summary| {
            let runs = self.runs_of(test.id);
            test.request == highest.request
                && (runs.contains(&highest.id) || time(test) == time(highest))
        };
        tests.iter().copied().filter(|test| again(test)).min_by(by_rate)
    }

    /// Every run of all pairs at once that was repeated over time, and `together` in any case.
    pub fn togethers(&self, direction: Direction) -> Vec<&'a Summary> {
        let Some(together) = self.together(direction) else { return Vec::new() };
        let mut runs = self.of_all_pairs(direction);
        runs.retain(|test| {
            let again = test.complete() && !self.runs_of(test.id).is_empty();
            test.id == together.id || again
        });
        runs
    }

    fn of_all_pairs(&self, direction: Direction) -> Vec<&'a Summary> {
        let all = self.pair_count();
        self.counting(direction)
            .filter(|summary| summary.pairs.len() == all && (all == 1 || summary.together()))
            .filter(|summary| summary.steady.is_some())
            .collect()
    }

    /// Its mean is known, or wide because the path lent something first.
    fn stands_for_something(&self, test: &Summary) -> bool {
        test.steady.as_ref().is_some_and(|steady| !is_wide(steady))
            || credit_of(self, test).is_some()
    }

    /// The highest settled rate of a direction, with the measurement that gave it; of tests in which every
    /// pair gave its part.
    pub fn best(&self, direction: Direction) -> Option<(MeasurementId, &'a Steady)> {
        self.counting(direction)
            .filter(|summary| summary.complete())
            .filter_map(|summary| Some((summary.id, summary.steady.as_ref()?)))
            .max_by(|a, b| {
                let settled = is_settled(a.1).cmp(&is_settled(b.1));
                settled.then(a.1.rate.0.total_cmp(&b.1.rate.0))
            })
    }

    fn min_rtt(&self, pair: PairId, direction: Direction) -> Option<Duration> {
        let there = self.throughputs.iter().filter(|summary| summary.direction == direction);
        there.filter_map(|summary| summary.pair(pair)?.rtt.min).min()
    }

    /// The highest rate of a pair in any plain test that `fits`, alone or as its part of several.
    fn best_part(
        &self,
        pair: PairId,
        direction: Direction,
        fits: impl Fn(&Summary, &PairSummary) -> bool,
    ) -> Option<(MeasurementId, BytesPerSecond)> {
        let plain = |test: &&Summary| test.direction == direction && is_plain(test);
        let parts = self.throughputs.iter().filter(plain).filter_map(|test| {
            let part = test.pair(pair).filter(|part| fits(test, part))?;
            Some((test.id, part.steady.as_ref()?.rate))
        });
        parts.max_by(|a, b| a.1.0.total_cmp(&b.1.0))
    }

    /// The largest of `buffer_need` over pairs.
    pub fn largest_buffer_need(&self, direction: Direction) -> Option<BufferNeed> {
        let needs = self.pairs().filter_map(|pair| self.buffer_need(pair, direction));
        needs.max_by_key(|need| need.buffer())
    }

    /// Three times the bandwidth-delay product of a pair, by the best rate that is known of it.
    ///
    /// A single stream that something holds does not tell what the path carries: where nothing
    /// else was measured, the highest of measured rate, need and declared bandwidth counts. A test that
    /// the runbook's own limit held tells nothing more than the limit, which counts for want of others.
    pub fn buffer_need(&self, pair: PairId, direction: Direction) -> Option<BufferNeed> {
        let min_rtt = self.min_rtt(pair, direction)?;
        let of = |source, (id, rate)| BufferNeed { rate, source, measurement: Some(id), min_rtt };
        let free = |test: &Summary, part: &PairSummary| !at_limit(test, part);
        let measured = self.best_part(pair, direction, free);
        let measured = measured.map(|part| of(RateSource::Measured, part));
        let several = self.counting(direction).any(|test| {
            test.request.num_conn > 1
                && test.pair(pair).is_some_and(|part| part.steady.is_some() && free(test, part))
        });
        if several && measured.is_some() {
            return measured;
        }
        let held = self.best_part(pair, direction, at_limit);
        let held = held.map(|part| of(RateSource::Limit, part));
        let unmeasured = |rate, source| BufferNeed { rate, source, measurement: None, min_rtt };
        let needed = self.required(pair).map(|rate| unmeasured(rate, RateSource::Need));
        let declared = self.setup().declared_bandwidth();
        let declared = declared.map(|rate| unmeasured(rate, RateSource::Declared));
        let known = [held, declared, needed, measured].into_iter().flatten();
        known.max_by(|a, b| a.rate.0.total_cmp(&b.rate.0))
    }

    /// What a stream of a pair needs, with headroom: its thread's rate, else what all need.
    pub fn required(&self, pair: PairId) -> Option<BytesPerSecond> {
        let need = self.setup().need.as_ref()?;
        let thread = self.setup().nodes[self.setup().pairs[pair.0].primary.0].thread;
        let of_thread = thread.and_then(|thread| need.threads.get(&thread).copied());
        Some(need.with_headroom(of_thread.or(need.total)?))
    }

    /// A pair's ladder of connections in a direction.
    pub fn ladder(&self, pair: PairId, direction: Direction) -> Option<&'a SeriesResult> {
        self.series.iter().rev().find(|series| {
            series.variable == Variable::NumConn
                && series.pair == Some(pair)
                && series.direction == Some(direction)
        })
    }

    /// More connections no longer raise the aggregate of a pair.
    pub fn plateaued(&self, pair: PairId, direction: Direction) -> bool {
        self.ladder(pair, direction).is_some_and(|ladder| {
            matches!(ladder.stopped_because, StoppedBecause::Plateau | StoppedBecause::Knee)
        })
    }

    /// The smallest number of connections that gives a pair's best rate.
    pub fn recommended(&self, pair: PairId, direction: Direction) -> Option<u32> {
        let point = self.ladder(pair, direction)?.recommended.as_ref()?;
        point.value.map(|value| value as u32)
    }

    /// All nodes are one machine: nothing about a network follows.
    pub fn loopback(&self) -> bool {
        self.setup().demo
    }

    /// The interface that a node's traffic to a peer takes: by its route where that was told, else by
    /// the node's redo address.
    pub fn interface(&self, node: NodeId, peer: NodeId) -> Option<&'a Interface> {
        let facts = self.facts(node)?;
        let route = self.route(node, peer).and_then(|route| route.interface.as_deref());
        let named = |name| facts.interfaces.iter().find(|interface| interface.name == name);
        match route {
            Some(name) => named(name),
            None => self.redo_interface(node),
        }
    }

    /// The interface that has a node's redo address.
    pub fn redo_interface(&self, node: NodeId) -> Option<&'a Interface> {
        let address = &self.setup().nodes[node.0].redo_address;
        let interfaces = &self.facts(node)?.interfaces;
        interfaces.iter().find(|interface| holds(&interface.addresses, address))
    }

    pub fn route(&self, node: NodeId, peer: NodeId) -> Option<&'a Route> {
        self.facts(node)?.routes.iter().find(|route| route.peer == self.name(peer))
    }

    /// The driver of that interface, where it was told.
    pub fn driver(&self, node: NodeId, peer: NodeId) -> Option<&'a str> {
        let interface = self.interface(node, peer)?;
        if interface.name == "lo" { Some("loopback") } else { interface.driver.as_deref() }
    }

    /// Its driver passes unsegmented packets on, and its speed is a fiction.
    pub fn is_virtual(&self, node: NodeId, peer: NodeId) -> bool {
        self.driver(node, peer).is_some_and(|driver| UNSEGMENTED.contains(&driver))
    }

    /// The queueing discipline under a node's redo traffic.
    pub fn qdisc(&self, node: NodeId, peer: NodeId) -> Option<&'a str> {
        let facts = self.facts(node)?;
        let name = self.route(node, peer).and_then(|route| route.interface.as_deref());
        let interface = facts.interfaces.iter().find(|interface| Some(&*interface.name) == name);
        interface
            .and_then(|interface| interface.qdisc.as_deref())
            .or(facts.tcp.default_qdisc.as_deref())
    }

    /// What IP and TCP put around a segment of a pair, without options.
    pub fn headers(&self, pair: PairId) -> u64 {
        super::mtu::headers(self.setup(), pair)
    }

    /// Measurements of the way from one end of a pair to the other.
    pub fn paths_of(
        &self,
        pair: PairId,
        direction: Direction,
    ) -> impl Iterator<Item = &'a PathSummary> {
        let paths = self.paths.iter();
        paths.filter(move |path| path.pair == pair && path.direction == direction)
    }
}

/// Drivers that pass unsegmented packets on, so that the MTU says nothing.
pub const UNSEGMENTED: [&str; 3] = ["veth", "loopback", "tun"];

/// Addresses come with or without their prefix length.
fn holds(addresses: &[String], address: &str) -> bool {
    addresses.iter().any(|one| one.split('/').next() == Some(address))
}

/// Nothing was asked of the sockets that changes what the path can carry.
fn asks_nothing(summary: &Summary) -> bool {
    let socket = &summary.request.socket;
    socket.socket_buffer_bytes.is_none()
        && socket.send_buffer_bytes.is_none()
        && socket.receive_buffer_bytes.is_none()
        && socket.mss_bytes.is_none()
        && summary.request.mtu_bytes.is_none()
}

/// An ASYNC stream in one direction that nothing slows down or codes on its way.
pub fn is_plain(summary: &Summary) -> bool {
    let request = &summary.request;
    request.mode == "async"
        && request.encoding.is_none()
        && request.delay_us.is_none()
        && request.socket.pacing_bytes_per_second.is_none()
        && request.interface_mtu_bytes.is_none()
        && !request.both_directions
        && request.nodes != Nodes::AllToOne
}

/// As redo transport opens its connection when nobody asks for anything else.
fn is_default(summary: &Summary) -> bool {
    asks_nothing(summary)
        && summary.request.socket_buffer == "auto"
        && summary.request.socket.congestion_control.is_none()
}

/// The runbook's own limit held some pair of a test.
pub fn held_by_runbook(summary: &Summary) -> bool {
    summary.pairs.iter().any(|pair| at_limit(summary, pair))
}

/// The runbook's own limit held this pair: 7 % below it or closer.
pub fn at_limit(summary: &Summary, pair: &PairSummary) -> bool {
    const CLOSE: f64 = 0.93;
    let rate = pair.steady.as_ref().map(|steady| steady.rate.0);
    summary.request.rate_limit.zip(rate).is_some_and(|(limit, rate)| rate >= CLOSE * limit.0)
}

/// A test that lasted less than this share of another is a short one beside it.
const SHORT: f64 = 0.5;
/// Of what was asked for: a test whose samples reach so far lasted as long as it was to.
const REACHED: f64 = 0.8;

/// For how long a test was measured: of `duration: auto` until it knew its rate.
pub fn lasted(test: &Summary, steady: &Steady) -> Duration {
    let (asked, seen) = (Duration::from_millis(test.request.duration_ms), steady.elapsed());
    if seen >= asked.mul_f64(REACHED) { asked } else { seen }
}

/// [`lasted`]; nothing of a test without a rate.
pub fn time(test: &Summary) -> Duration {
    test.steady.as_ref().map_or(Duration::ZERO, |steady| lasted(test, steady))
}

/// Whether a test is no short one beside one of this length: short ones live on what a path lends.
pub fn is_as_long(test: &Summary, as_this: Duration) -> bool {
    time(test) >= as_this.mul_f64(SHORT)
}

/// Those of `tests` that are no short ones beside the longest.
pub fn as_long_as_others<'a>(tests: &[&'a Summary]) -> impl Iterator<Item = &'a Summary> {
    let longest = tests.iter().map(|test| time(test)).max().unwrap_or_default();
    tests.iter().copied().filter(move |test| is_as_long(test, longest))
}

/// Two rates differ by more than their intervals and by more than `share` of the smaller one.
pub fn differ(a: &Steady, b: &Steady, share: f64) -> bool {
    let (low, high) = if a.rate.0 <= b.rate.0 { (a, b) } else { (b, a) };
    let apart = match (low.at_most(), high.at_least()) {
        (Some(low), Some(high)) => high.0 > low.0,
        _ => false,
    };
    apart && high.rate.0 > low.rate.0 * (1.0 + share)
}

/// A mean that stands for something: one level, known to within a quarter. A first test with a credit
/// has two levels, a stream that stops and goes has none.
pub fn is_settled(steady: &Steady) -> bool {
    steady.level_shift.is_none() && !is_wide(steady)
}

/// A mean that is not known to within a quarter.
pub fn is_wide(steady: &Steady) -> bool {
    const WIDE: f64 = 0.25;
    steady.half_width.is_some_and(|half| half.0 > WIDE * steady.rate.0)
}
