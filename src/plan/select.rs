//! Which steps run: `--only`, `--from` and `--limit` leave out others, and what then is missing is a
//! mistake.

use super::clusters::Clusters;
use super::node::{Direction, NodeId, Pair, PortRange};
use super::options::Options;
use super::problem::{self, Problem};
use super::step::{Action, BufferSize, Nodes, ThroughputSpec, Vary};
use super::steps::Draft;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::source::Place;

/// Marks the steps that do not run. Directions stay as they are.
pub fn mark(drafts: &mut [Draft], options: &Options) -> Vec<Problem> {
    let mut problems = unknown(drafts, "--only", &options.only);
    problems.extend(unknown(drafts, "--from", options.from.as_slice()));
    if !problems.is_empty() {
        return problems;
    }
    if !options.only.is_empty() {
        for draft in drafts.iter_mut() {
            draft.step.excluded |= !draft.names.iter().any(|name| options.only.contains(name));
        }
    }
    if let Some(from) = &options.from {
        let begin = drafts.iter().position(|draft| draft.names.contains(from));
        for draft in &mut drafts[..begin.unwrap_or(0)] {
            draft.step.excluded = true;
        }
    }
    show_swaps(drafts);
    problems
}

/// A swap of roles whose direction is used is no step left out.
fn show_swaps(drafts: &mut [Draft]) {
    let is_swap = |draft: &Draft| matches!(draft.step.action, Action::SwapRoles);
    for index in (0..drafts.len()).filter(|index| is_swap(&drafts[*index])).collect::<Vec<_>>() {
        let until_next = drafts[index + 1..].iter().take_while(|draft| !is_swap(draft));
        drafts[index].step.excluded = !until_next
            .into_iter()
            .any(|draft| !draft.step.excluded && draft.step.action.is_about_pairs())
            && drafts[index].step.excluded;
    }
}

fn unknown(drafts: &[Draft], argument: &str, given: &[String]) -> Vec<Problem> {
    let mut known: Vec<&str> = Vec::new();
    for name in drafts.iter().flat_map(|draft| &draft.names) {
        if !known.contains(&name.as_str()) {
            known.push(name);
        }
    }
    let short: Vec<&str> = known.iter().copied().filter(|name| !name.contains(' ')).collect();
    let right = format!("registered names and tags: {}", short.join(", "));
    let names = given.iter().filter(|name| !known.contains(&name.as_str()));
    names
        .map(|name| Fault::unknown(Place::new(1, 1), "step or tag", name, known.iter().copied()))
        .map(|fault| Problem::of_argument(argument, fault.right(&right)))
        .collect()
}

/// Steps that would run without what they need.
pub fn check(drafts: &[Draft], options: &Options, bandwidth_known: bool) -> Faults {
    let mut faults = Faults::new();
    let running = drafts.iter().filter(|draft| !draft.step.excluded);
    for draft in running {
        for name in &draft.uses {
            let runs =
                |other: &Draft| !other.step.excluded && other.step.register.as_ref() == Some(name);
            let is_known = |other: &Draft| other.step.register.as_ref() == Some(name);
            if drafts.iter().any(is_known) && !drafts.iter().any(runs) {
                faults.push(problem::result_left_out(draft.place, name, &draft.step.name));
            }
        }
        if draft.emptied && draft.step.action.is_about_pairs() {
            faults.push(problem::no_pair_left(draft.place, &options.limit));
        }
    }
    if !bandwidth_known {
        faults.extend(bdp_without_source(drafts));
    }
    faults
}

fn bdp_without_source(drafts: &[Draft]) -> Faults {
    let mut measured: Vec<Direction> = Vec::new();
    let mut faults = Faults::new();
    for draft in drafts.iter().filter(|draft| !draft.step.excluded) {
        let Some(test) = draft.step.action.test() else { continue };
        let direction = draft.step.direction;
        if uses_bdp(&draft.step.action, test) && !measured.contains(&direction) {
            faults.push(problem::bdp_without_source(draft.place, direction));
        }
        if tells_a_rate(test) {
            measured.push(direction);
        }
    }
    faults
}

/// What waits for each message, is slowed down, encoded or shared says little of what a path carries.
fn tells_a_rate(test: &ThroughputSpec) -> bool {
    !test.mode.acknowledged()
        && !test.both_directions
        && test.nodes != Nodes::AllToOne
        && test.delay.is_none()
        && test.pacing.is_none()
        && test.encoding.is_none()
}

fn uses_bdp(action: &Action, test: &ThroughputSpec) -> bool {
    let is_bdp = |size: &BufferSize| matches!(size, BufferSize::TimesBdp(_));
    let varied = match action {
        // A first point without it gives the rate that the others need.
        Action::Sweep(sweep) => match &sweep.vary {
            Vary::SocketBuffer(sizes) => sizes.first().is_some_and(is_bdp),
            Vary::Mtu(_) | Vary::MessageLength(_) | Vary::Encryption(_) | Vary::Compression(_) => {
                false
            }
        },
        _ => false,
    };
    let own = [Some(&test.socket_buffer), test.send_buffer.as_ref(), test.receive_buffer.as_ref()];
    varied || own.into_iter().flatten().any(is_bdp)
}

/// Steps whose receivers have too few data ports, or whose nodes are of two IP versions.
pub fn check_nodes(drafts: &[Draft], clusters: &Clusters) -> Faults {
    let running = drafts.iter().filter(|draft| !draft.step.excluded);
    running
        .filter_map(|draft| {
            let test = draft.step.action.test()?;
            let at_once = matches!(test.nodes, Nodes::Together | Nodes::AllToOne);
            let pairs: Vec<Pair> = test.pairs.iter().map(|id| clusters.pair(*id)).collect();
            let directions = [draft.step.direction, draft.step.direction.swapped()];
            let used = if test.both_directions { 2 } else { 1 };
            let too_few = directions.into_iter().take(used).find_map(|direction| {
                too_few_ports(draft.place, clusters, &pairs, direction).filter(|_| at_once)
            });
            too_few.or_else(|| two_ip_versions(draft.place, clusters, &pairs))
        })
        .collect()
}

/// Each receiving job of a node listens on a port of its own.
fn too_few_ports(
    place: Place,
    clusters: &Clusters,
    pairs: &[Pair],
    direction: Direction,
) -> Option<Fault> {
    clusters.nodes.iter().enumerate().find_map(|(id, node)| {
        let receives = pairs.iter().filter(|pair| pair.receiver(direction) == NodeId(id)).count();
        let PortRange { first, last } = node.data_ports;
        let ports = usize::from(last - first) + 1;
        (receives > ports)
            .then(|| problem::too_few_data_ports(place, &node.name, receives, (first, ports)))
    })
}

/// Pairs of the configuration were checked with the inventory.
fn two_ip_versions(place: Place, clusters: &Clusters, pairs: &[Pair]) -> Option<Fault> {
    pairs.iter().find_map(|pair| {
        let nodes = [pair.primary, pair.standby].map(|id| &clusters.nodes[id.0]);
        let [one, other] = nodes.map(|node| node.redo.address.is_ipv4());
        (one != other).then(|| problem::two_ip_versions(place, &nodes[0].name, &nodes[1].name))
    })
}

/// Steps that `--limit` left without a pair or node of those they name do not run.
pub fn drop_emptied(drafts: &mut [Draft], any_pair: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    for draft in drafts.iter_mut().filter(|draft| draft.emptied && !draft.step.excluded) {
        if any_pair || !draft.step.action.is_about_pairs() {
            draft.step.excluded = true;
            draft.emptied = false;
            remarks.push(format!(
                "`{}` is left out: --limit keeps none of what it names",
                draft.step.name
            ));
        }
    }
    remarks
}
