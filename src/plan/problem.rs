//! What can be wrong with a plan although both files are well formed, worded for their authors.

use super::node::Direction;
use crate::runbook::problem::Fault;
use crate::runbook::source::Place;

pub use crate::runbook::problem::{Problem, render};

pub fn registered_later(place: Place, name: &str, line: usize) -> Fault {
    Fault::new(place, format!("`{name}` is registered only at line {line}, after this step"))
        .right("use it in a later step")
}

pub fn late_not_allowed(place: Place, name: &str) -> Fault {
    Fault::new(place, format!("the result of `{name}` is known only while the run goes on"))
        .right("results can be used in num_conn, when and assert; elsewhere use a variable")
}

pub fn registered_twice(place: Place, name: &str, line: usize) -> Fault {
    Fault::new(place, format!("`{name}` is registered a second time"))
        .right(format!("the first is at line {line}; give each step its own name"))
}

pub fn no_result_in_direction(place: Place, name: &str, direction: Direction) -> Fault {
    Fault::new(place, format!("`{name}` has no result {direction} before this step"))
        .right(format!("repeat `{name}` in this direction first"))
}

pub fn result_left_out(place: Place, name: &str, user: &str) -> Fault {
    Fault::new(
        place,
        format!("`{user}` uses the result of `{name}`, which --only or --from leaves out"),
    )
    .right(format!("add --only {name}, or run without"))
}

pub fn no_such_field<'a>(
    place: Place,
    name: &str,
    field: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Fault {
    let mut fault = Fault::unknown(place, "result", field, known);
    fault.found = format!("{} of `{name}`", fault.found);
    fault
}

pub fn bdp_without_source(place: Place, direction: Direction) -> Fault {
    Fault::new(place, format!("nothing tells the bandwidth-delay product {direction}"))
        .right("put a throughput step before, state the need, or declare the network's bandwidth")
}

pub fn no_node_of_thread(place: Place, thread: u32, known: &[u32]) -> Fault {
    let known: Vec<String> = known.iter().map(u32::to_string).collect();
    let right = match known.as_slice() {
        [] => "give the primary nodes their `thread` in the inventory".to_owned(),
        known => format!("the inventory's primary nodes have: {}", known.join(", ")),
    };
    Fault::new(place, format!("no primary node has thread {thread}")).right(right)
}

pub fn no_pair_left(place: Place, limit: &[String]) -> Fault {
    Fault::new(place, format!("--limit {} leaves no pair for this step", limit.join(" --limit ")))
        .right("name both ends of a pair")
}

pub fn no_pair_in_common(place: Place, names: &[String]) -> Fault {
    Fault::new(place, format!("no pair has results of all of {}", names.join(", ")))
        .right("make a step for each")
}

pub fn too_few_data_ports(
    place: Place,
    node: &str,
    receives: usize,
    (first, ports): (u16, usize),
) -> Fault {
    let noun = if ports == 1 { "port" } else { "ports" };
    let last = usize::from(first) + receives - 1;
    Fault::new(
        place,
        format!("`{node}` receives from {receives} nodes at once, and has {ports} data {noun}"),
    )
    .right(format!("give it a range in the inventory: data_port: \"{first}-{last}\""))
}

pub fn two_ip_versions(place: Place, one: &str, other: &str) -> Fault {
    Fault::new(place, format!("`{one}` and `{other}` have redo addresses of two IP versions"))
        .right("`nodes: all_to_one` needs addresses of one version")
}
