//! The texts that come with the program: the demo, and what `init` writes.

use super::inventory::InventoryFile;
use super::problem::Problem;

/// A runbook to begin with: the pre-migration assessment.
pub fn starting_runbook() -> &'static str {
    include_str!("../../runbooks/pre-migration.yaml")
}

/// An inventory to fill in.
pub fn starting_inventory() -> &'static str {
    include_str!("../../runbooks/inventory.example.yaml")
}

/// The runbook that `run` without arguments uses.
pub fn demo_runbook() -> &'static str {
    include_str!("../../runbooks/demo.yaml")
}

/// Two primary and two standby nodes that are agents on this machine, on loopback addresses.
const DEMO_INVENTORY: &str = r#"
name: demo
defaults: { ssh: { via: local }, data_port: "15551-15590" }
primary:
  cluster: demo-primary
  nodes:
    - { name: demo-p1, thread: 1, redo: 127.0.0.11 }
    - { name: demo-p2, thread: 2, redo: 127.0.0.12 }
standby:
  cluster: demo-standby
  nodes:
    - { name: demo-s1, redo: 127.0.0.21 }
    - { name: demo-s2, redo: 127.0.0.22 }
"#;

/// The inventory of a run without `-i`.
///
/// # Errors
/// None for the text that is built in, as a test shows.
pub fn demo_inventory() -> Result<InventoryFile, Vec<Problem>> {
    super::parse_inventory("(built in)", DEMO_INVENTORY)
        .map(|inventory| InventoryFile { demo: true, ..inventory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_inventory_is_right() {
        let demo = demo_inventory().unwrap();
        assert_eq!((demo.primary.nodes.len(), demo.standby.nodes.len()), (2, 2));
    }
}
