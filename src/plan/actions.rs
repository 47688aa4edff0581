//! From an action's rendered mapping to its checked parameters.

use std::collections::HashMap;
use std::time::Duration;

use redoline_proto::storage::{StoragePattern, StorageTarget};
use redoline_proto::transfer::{MESSAGE_MAX, NUM_CONN_MAX, Payload};
use redoline_proto::units::Bytes;

use super::clusters::Clusters;
use super::expression::Expression;
use super::node::{NodeId, PairId};
use super::step::{
    AssertSpec, BufferSize, LadderSpec, Mode, Nodes, NumConn, StorageReadSpec, SweepSpec, TestTime,
    ThroughputSpec, TopologySpec, Until, Vary,
};
use crate::runbook::check::{self, Templates};
use crate::runbook::fields::Fields;
use crate::runbook::keys;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::source::Place;
use crate::runbook::tree::{Content, Node};
use crate::runbook::value::{self, Buffer, Selection};

/// What reading an action needs besides its mapping.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// `None`: the inventory is wrong, which is told elsewhere; no name is looked up.
    pub clusters: Option<&'a Clusters>,
    /// Values that wait for results, by their places.
    pub late: &'a HashMap<Place, Expression>,
}

const TEST_MIN: Duration = Duration::from_millis(100);
const MTU_MIN: u32 = 576;
const MTU_MAX: u32 = 65_535;
/// Direct I/O reads whole sectors.
const SECTOR: u64 = 512;

pub fn topology(node: &Node) -> Result<TopologySpec, Faults> {
    let mut fields = Fields::checked(node, &keys::TOPOLOGY);
    let deadline = fields.read("deadline", |node| value::duration(node, Duration::from_millis(1)));
    whole(fields, deadline.map(|deadline| TopologySpec { deadline }))
}

pub fn throughput(node: &Node, around: Surroundings<'_>) -> Result<ThroughputSpec, Faults> {
    let mut fields = Fields::new(node, &keys::THROUGHPUT);
    // num_conn may still be a template, which is why its check is apart.
    let but_num_conn = without(node, "num_conn");
    fields.faults.extend(check::mapping(&but_num_conn, &keys::THROUGHPUT, Templates::Refused));
    let num_conn = fields.read("num_conn", |node| num_conn(node, around.late));
    let time = |node: &Node| value::duration(node, TEST_MIN);
    let duration = fields.read("duration", time);
    let interval = fields.read("interval", time);
    let message = fields.read("message_length", |node| value::size(node, Bytes(1), MESSAGE_MAX));
    let payload = fields.read("payload", |node| value::choice(node, &["random", "zeros"], &[]));
    let socket_buffer = fields.read("socket_buffer", buffer);
    let congestion_control = fields.read("congestion_control", value::congestion_control);
    let mtu = fields.read("mtu", mtu);
    let nodes = fields.read("nodes", |node| value::choice(node, &["each", "together"], &[]));
    let pairs = fields.read("pairs", |node| pairs(node, around.clusters));
    if let (Some(duration), Some(interval), Some(at)) =
        (duration, interval, fields.given("interval"))
        && interval > duration
    {
        fields.faults.push(
            Fault::new(at.place, "the interval is longer than the test")
                .right("make it shorter than `duration`"),
        );
    }
    let spec = (|| {
        let duration = duration?;
        Some(ThroughputSpec {
            pairs: pairs?,
            nodes: if nodes? == "together" { Nodes::Together } else { Nodes::Each },
            num_conn: num_conn?,
            both_directions: false,
            time: TestTime::Fixed(duration),
            mode: Mode::Async,
            delay: None,
            network_timeout: None,
            frequency: None,
            send_buffer: None,
            receive_buffer: None,
            dscp: None,
            device: None,
            source_port_base: None,
            pacing: None,
            encoding: None,
            compressible: None,
            interval: interval?.min(duration),
            message: message?,
            payload: if payload? == "zeros" { Payload::Zeros } else { Payload::Random },
            socket_buffer: socket_buffer?,
            congestion_control,
            mtu,
        })
    })();
    whole(fields, spec)
}

fn without(node: &Node, key: &str) -> Node {
    let content = match &node.content {
        Content::Map(entries) => {
            Content::Map(entries.iter().filter(|entry| entry.key != key).cloned().collect())
        }
        content => content.clone(),
    };
    Node { place: node.place, content }
}

fn num_conn(node: &Node, late: &HashMap<Place, Expression>) -> Result<NumConn, Faults> {
    if node.scalar().is_some() {
        return match late.get(&node.place) {
            Some(expression) => Ok(NumConn::Later(expression.clone())),
            None => value::count(node, 1, NUM_CONN_MAX).map(NumConn::Fixed),
        };
    }
    let mut fields = Fields::checked(node, &keys::LADDER);
    let level = |node: &Node| value::count(node, 1, NUM_CONN_MAX);
    let from = fields.read("from", level);
    let step = fields.read("step", level);
    let max = fields.read("max", level);
    let tolerance = fields.read("tolerance", |node| value::share(node, 0.5));
    let ladder = (|| {
        Some(LadderSpec {
            until: Until::Plateau,
            from: from?,
            step: step?,
            max: max?,
            tolerance: tolerance?.0,
        })
    })();
    if let Some(ladder) = ladder
        && ladder.from > ladder.max
    {
        let found = format!("the ladder begins at {} and ends at {}", ladder.from, ladder.max);
        fields.faults.push(Fault::new(node.place, found).right("make `max` larger than `from`"));
    }
    whole(fields, ladder.map(NumConn::Ladder))
}

fn buffer(node: &Node) -> Result<BufferSize, Faults> {
    value::buffer(node).map(|buffer| match buffer {
        Buffer::Auto => BufferSize::Auto,
        Buffer::Size(bytes) => BufferSize::Fixed(bytes),
        Buffer::TimesBdp(factor) => BufferSize::TimesBdp(factor),
    })
}

fn mtu(node: &Node) -> Result<u32, Faults> {
    value::count(node, MTU_MIN, MTU_MAX)
}

pub fn sweep(node: &Node, around: Surroundings<'_>) -> Result<SweepSpec, Faults> {
    let but_test = without(node, "throughput");
    let mut faults = check::mapping(&but_test, &SWEEP_WITHOUT_TEST, Templates::Refused);
    let vary = node.get("vary").map(vary).unwrap_or_else(|| Err(missing(node, "vary")));
    let test = match node.get("throughput") {
        Some(test) => throughput(test, around),
        None => Err(missing(node, "throughput")),
    };
    if let (Ok(vary), Some(test)) = (&vary, node.get("throughput"))
        && let Some(given) = test.get(vary.key())
    {
        let found = format!("`{}` is what the sweep varies", vary.key());
        faults.push(Fault::new(given.place, found).right("leave it out of `throughput`"));
    }
    if let (Ok(ThroughputSpec { num_conn: NumConn::Ladder(_), .. }), Some(at)) =
        (&test, node.get("throughput").and_then(|test| test.get("num_conn")))
    {
        faults.push(
            Fault::new(at.place, "a sweep varies one key, and a ladder would vary another")
                .right("give one num_conn"),
        );
    }
    match (vary, test) {
        (Ok(vary), Ok(throughput)) if faults.is_empty() => Ok(SweepSpec { vary, throughput }),
        (vary, test) => {
            faults.extend(vary.err().into_iter().chain(test.err()).flatten());
            Err(faults)
        }
    }
}

/// `throughput` is checked apart, since its num_conn may still be a template.
static SWEEP_WITHOUT_TEST: crate::runbook::table::Table = crate::runbook::table::Table {
    name: "sweep",
    sentence: "",
    keys: keys::SWEEP.keys.split_at(1).0,
};

fn missing(node: &Node, key: &str) -> Faults {
    vec![Fault::new(node.place, format!("`{key}` is missing in sweep"))]
}

fn vary(node: &Node) -> Result<Vary, Faults> {
    match (node.get("socket_buffer"), node.get("mtu")) {
        (Some(sizes), None) => value::list(sizes, buffer).map(Vary::SocketBuffer),
        (None, Some(sizes)) => value::list(sizes, mtu).map(Vary::Mtu),
        // Told by the check of the mapping.
        _ => Err(Faults::new()),
    }
}

pub fn storage_read(node: &Node, clusters: Option<&Clusters>) -> Result<StorageReadSpec, Faults> {
    let mut fields = Fields::checked(node, &keys::STORAGE_READ);
    let target = target(&mut fields);
    let patterns = fields.read("patterns", |node| value::list(node, pattern));
    let block = fields.read("block", sectors);
    let request = fields.read("request", sectors);
    let counts = |node: &Node| value::list(node, |node| value::count(node, 1, 1024));
    let sessions = fields.read("sessions", counts);
    let slots = fields.read("slots", counts);
    let duration = fields.read("duration", |node| value::duration(node, TEST_MIN));
    let nodes = fields.read("nodes", |node| nodes(node, clusters));
    let spec = (|| {
        Some(StorageReadSpec {
            nodes: nodes?,
            target: target?,
            patterns: patterns?,
            block: block?,
            request: request?,
            sessions: sessions?,
            slots: slots?,
            duration: duration?,
        })
    })();
    whole(fields, spec)
}

fn target(fields: &mut Fields<'_>) -> Option<StorageTarget> {
    let file = fields.read("file", path).map(StorageTarget::File);
    let device = fields.read("device", path).map(StorageTarget::Device);
    let scratch = fields.read("scratch", |node| {
        let mut fields = Fields::new(node, &keys::SCRATCH);
        let dir = fields.read("dir", path);
        let size = fields.read("size", |node| value::size(node, Bytes(Bytes::MIB), Bytes(1 << 53)));
        let scratch = dir.zip(size).map(|(dir, size)| StorageTarget::Scratch { dir, size });
        whole(fields, scratch)
    });
    file.or(device).or(scratch)
}

fn path(node: &Node) -> Result<String, Faults> {
    let path = value::text(node)?;
    if path.starts_with('/') {
        return Ok(path);
    }
    let found = format!("`{path}` is not an absolute path");
    Err(value::one(node, found, "write the path from `/` on: it is a path on the nodes"))
}

fn pattern(node: &Node) -> Result<StoragePattern, Faults> {
    value::choice(node, &["single_block", "direct_path"], &[]).map(|word| match word {
        "single_block" => StoragePattern::SingleBlock,
        _ => StoragePattern::DirectPath,
    })
}

fn sectors(node: &Node) -> Result<Bytes, Faults> {
    let size = value::size(node, Bytes(SECTOR), Bytes(64 * Bytes::MIB))?;
    if size.0 % SECTOR != 0 {
        let found = format!("{size} is not a multiple of {SECTOR} B");
        return Err(value::one(node, found, "direct I/O reads whole sectors"));
    }
    Ok(size)
}

pub fn assertion(
    node: &Node,
    message: Option<&Node>,
    that: impl Fn(&Node) -> Result<(Place, Expression), Faults>,
) -> Result<(AssertSpec, Vec<(Place, Expression)>), Faults> {
    let that = match node.get("that") {
        Some(node) => value::one_or_more(node, that),
        // Told by the check of the file.
        None => Err(Faults::new()),
    };
    let message = message.map(value::text).transpose();
    match (that, message) {
        (Ok(reads), Ok(message)) => {
            let that = reads.iter().map(|(_, expression)| expression.clone()).collect();
            Ok((AssertSpec { that, message }, reads))
        }
        (that, message) => Err(that.err().into_iter().chain(message.err()).flatten().collect()),
    }
}

/// Pairs by name; those that `--limit` dropped are passed over.
fn pairs(node: &Node, clusters: Option<&Clusters>) -> Result<Vec<PairId>, Faults> {
    let selection = value::selection(node)?;
    let Some(clusters) = clusters else { return Ok(Vec::new()) };
    let names = &clusters.all_pair_names;
    let known = |name: &str| names.iter().any(|known| known == name);
    selected(
        selection,
        clusters.pairs.len(),
        PairId,
        |name| clusters.pair_named(name),
        |name, place| {
            (!known(name))
                .then(|| Fault::unknown(place, "pair", name, names.iter().map(String::as_str)))
        },
    )
}

/// Nodes by name; those that `--limit` dropped are passed over.
fn nodes(node: &Node, clusters: Option<&Clusters>) -> Result<Vec<NodeId>, Faults> {
    let selection = value::selection(node)?;
    let Some(clusters) = clusters else { return Ok(Vec::new()) };
    let names = &clusters.all_node_names;
    let known = |name: &str| names.iter().any(|known| known == name);
    selected(
        selection,
        clusters.nodes.len(),
        NodeId,
        |name| clusters.node_named(name),
        |name, place| {
            (!known(name))
                .then(|| Fault::unknown(place, "node", name, names.iter().map(String::as_str)))
        },
    )
}

fn selected<T: PartialEq>(
    selection: Selection,
    count: usize,
    id: impl Fn(usize) -> T,
    find: impl Fn(&str) -> Option<T>,
    unknown: impl Fn(&str, Place) -> Option<Fault>,
) -> Result<Vec<T>, Faults> {
    let names = match selection {
        Selection::All => return Ok((0..count).map(id).collect()),
        Selection::First => return Ok((0..count.min(1)).map(id).collect()),
        Selection::Named(names) => names,
    };
    let faults: Faults = names.iter().filter_map(|(name, place)| unknown(name, *place)).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut ids = Vec::new();
    for id in names.iter().filter_map(|(name, _)| find(name)) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn whole<T>(fields: Fields<'_>, value: Option<T>) -> Result<T, Faults> {
    match value {
        Some(value) if fields.faults.is_empty() => Ok(value),
        _ => Err(fields.faults),
    }
}
