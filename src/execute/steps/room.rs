//! Whether every receiver of a barrier has a data port of its own.

use crate::execute::failure;
use crate::plan::Plan;
use crate::plan::node::{Direction, NodeId, PairId, PortRange};
use crate::record::measurement::Failure;

/// Why a test of `pairs` in `directions` at once cannot begin.
pub fn lacking(plan: &Plan, pairs: &[PairId], directions: &[Direction]) -> Option<Failure> {
    let receivers = |direction: &Direction| {
        let direction = *direction;
        pairs.iter().map(move |pair| plan.pair(*pair).receiver(direction))
    };
    let all: Vec<NodeId> = directions.iter().flat_map(receivers).collect();
    all.iter().find_map(|id| {
        let node = plan.node(*id);
        let wanted = all.iter().filter(|other| *other == id).count();
        let text = too_few(&node.name, wanted, node.data_ports)?;
        Some(failure::could_not_measure(Some(*id), "open the data port", text))
    })
}

fn too_few(name: &str, wanted: usize, ports: PortRange) -> Option<String> {
    let PortRange { first, last } = ports;
    let had = usize::from(last.saturating_sub(first)) + 1;
    (had < wanted).then(|| {
        let right = usize::from(first) + wanted - 1;
        format!(
            "`{name}` receives from {wanted} senders at once and has {had} data port(s): give it a \
             range, such as `data_port: {first}-{right}`, and have it opened"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_of_several_needs_as_many_ports() {
        let ports = PortRange { first: 5555, last: 5556 };
        assert_eq!(too_few("ash1", 2, ports), None);
        let text = too_few("ash1", 3, ports).unwrap();
        assert!(text.contains("`data_port: 5555-5557`"), "{text}");
    }
}
