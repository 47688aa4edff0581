//! From an action's rendered mapping to its checked parameters.

use std::collections::HashMap;
use std::time::Duration;

use redoline_proto::units::Bytes;

use super::clusters::Clusters;
use super::expression::Expression;
use super::node::{Direction, NodeId, PairId};
use super::step::{AssertSpec, InterfaceMtuSpec, PathSpec, TopologySpec};
use super::throughput::{self, Within};
use crate::runbook::check::{self, Templates};
use crate::runbook::fields::Fields;
use crate::runbook::keys;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::source::Place;
use crate::runbook::table::Table;
use crate::runbook::tree::{Content, Node};
use crate::runbook::value::{self, Selection};

/// What reading an action needs besides its mapping.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// `None`: the inventory is wrong, which is told elsewhere; no name is looked up.
    pub clusters: Option<&'a Clusters>,
    pub direction: Direction,
    pub stated: Stated,
    /// Values that wait for results, by their places.
    pub late: &'a HashMap<Place, Expression>,
}

/// What the top of the runbook says and actions ask for.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    pub write_size: WriteSize,
    /// `allow: [interface_mtu]`, or it could not be read, which is told elsewhere.
    pub may_change_mtu: bool,
}

/// `need.redo.write_size`.
#[derive(Clone, Copy, Debug)]
pub enum WriteSize {
    Known(Bytes),
    NotStated,
    /// The need has mistakes, which are told elsewhere.
    Unreadable,
}

pub fn topology(node: &Node) -> Result<TopologySpec, Faults> {
    let mut fields = Fields::checked(node, &keys::TOPOLOGY);
    let deadline = fields.read("deadline", |node| value::duration(node, Duration::from_millis(1)));
    whole(fields, deadline.map(|deadline| TopologySpec { deadline }))
}

pub fn path(node: &Node, clusters: Option<&Clusters>) -> Result<PathSpec, Faults> {
    // `path:` with nothing behind it.
    let empty = Node { place: node.place, content: Content::Map(Vec::new()) };
    let node = if node.is_null() { &empty } else { node };
    let mut fields = Fields::checked(node, &keys::PATH);
    let time = |node: &Node| value::duration(node, Duration::from_millis(1));
    let size = |node: &Node| value::count(node, keys::MTU_MIN, keys::MTU_MAX);
    let probes = fields.read("probes", |node| value::count(node, 1, u32::MAX));
    let spacing = fields.read("spacing", time);
    let load = fields.read("load", time);
    let deadline = fields.read("deadline", time);
    let packet_sizes = fields.read("packet_sizes", |node| value::one_or_more(node, size));
    let pairs = fields.read("pairs", |node| pairs(node, clusters));
    if let (Some(probes), Some(spacing), Some(deadline)) = (probes, spacing, deadline)
        && spacing.saturating_mul(probes) > deadline
    {
        let at = ["deadline", "probes", "spacing"].into_iter().find_map(|key| fields.given(key));
        let took = super::show::time_text(spacing.saturating_mul(probes));
        let found = format!("the probes take {took}, which is longer than their deadline");
        let right = "send fewer, at a smaller `spacing`, or raise `deadline`";
        fields.faults.push(Fault::new(at.unwrap_or(node).place, found).right(right));
    }
    let spec = (|| {
        Some(PathSpec {
            pairs: pairs?,
            probes: probes?,
            spacing: spacing?,
            packet_sizes: packet_sizes.unwrap_or_default(),
            load: load?,
            deadline: deadline?,
        })
    })();
    whole(fields, spec)
}

pub fn interface_mtu(node: &Node, around: Surroundings<'_>) -> Result<InterfaceMtuSpec, Faults> {
    let mut faults = Faults::new();
    if !around.stated.may_change_mtu {
        faults.push(
            Fault::new(node.place, "interface_mtu changes the MTU of the hosts' interfaces").right(
                "write `allow: [interface_mtu]` at the top of the runbook if that may be; a sweep \
                 of `mtu` changes nothing on the hosts",
            ),
        );
    }
    faults.extend(but_the_test(node, &INTERFACE_MTU_WITHOUT_TEST));
    let mtu = node.get("mtu").map(|node| value::count(node, keys::MTU_MIN, keys::MTU_MAX));
    let mtu = mtu.unwrap_or_else(|| Err(missing(node, "mtu", "interface_mtu")));
    let test = match node.get("throughput") {
        Some(test) => throughput::read(test, around, Within::InterfaceMtu),
        None => Err(missing(node, "throughput", "interface_mtu")),
    };
    match (mtu, test) {
        (Ok(mtu), Ok(test)) if faults.is_empty() => {
            Ok(InterfaceMtuSpec { mtu, throughput: test.spec })
        }
        (mtu, test) => {
            faults.extend(mtu.err().into_iter().chain(test.err()).flatten());
            Err(faults)
        }
    }
}

/// `throughput` is checked apart, since its num_conn may still be a template.
static INTERFACE_MTU_WITHOUT_TEST: Table =
    Table { name: "interface_mtu", sentence: "", keys: keys::INTERFACE_MTU.keys.split_at(1).0 };

/// What is wrong with a mapping apart from its `throughput`.
pub(super) fn but_the_test(node: &Node, table: &'static Table) -> Faults {
    check::mapping(&without(node, "throughput"), table, Templates::Refused)
}

pub(super) fn missing(node: &Node, key: &str, action: &str) -> Faults {
    vec![Fault::new(node.place, format!("`{key}` is missing in {action}"))]
}

pub(super) fn without(node: &Node, key: &str) -> Node {
    let content = match &node.content {
        Content::Map(entries) => {
            Content::Map(entries.iter().filter(|entry| entry.key != key).cloned().collect())
        }
        content => content.clone(),
    };
    Node { place: node.place, content }
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
            Ok((AssertSpec { pairs: Vec::new(), that, message }, reads))
        }
        (that, message) => Err(that.err().into_iter().chain(message.err()).flatten().collect()),
    }
}

/// Pairs by name; those that `--limit` dropped are passed over.
pub(super) fn pairs(node: &Node, clusters: Option<&Clusters>) -> Result<Vec<PairId>, Faults> {
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
pub(super) fn nodes(node: &Node, clusters: Option<&Clusters>) -> Result<Vec<NodeId>, Faults> {
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

/// The value, if nothing in its mapping was wrong.
pub(super) fn whole<T>(fields: Fields<'_>, value: Option<T>) -> Result<T, Faults> {
    match value {
        Some(value) if fields.faults.is_empty() => Ok(value),
        _ => Err(fields.faults),
    }
}
