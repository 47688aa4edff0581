//! Takes the values out of a checked mapping, with the defaults that its table states.

use super::check::{self, Templates};
use super::problem::Faults;
use super::table::{Presence, Table};
use super::tree::{self, Node};

/// A mapping, its table, and the mistakes found in it so far.
#[derive(Debug)]
pub struct Fields<'a> {
    node: &'a Node,
    table: &'static Table,
    pub faults: Faults,
}

impl<'a> Fields<'a> {
    pub fn new(node: &'a Node, table: &'static Table) -> Self {
        Self { node, table, faults: Faults::new() }
    }

    /// With the mistakes that its table shows.
    pub fn checked(node: &'a Node, table: &'static Table) -> Self {
        Self { node, table, faults: check::mapping(node, table, Templates::Refused) }
    }

    /// The value of a key: given, or the table's default. `None`: neither, or a mistake, which is
    /// then among the faults.
    pub fn read<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&Node) -> Result<T, Faults>,
    ) -> Option<T> {
        let result = match self.node.get(key) {
            Some(value) => read(value),
            None => read(&default(self.table, key, self.node)?),
        };
        result.map_err(|faults| self.faults.extend(faults)).ok()
    }

    pub fn given(&self, key: &str) -> Option<&'a Node> {
        self.node.get(key)
    }
}

/// A default as if it were written at the mapping's place.
fn default(table: &'static Table, key: &str, at: &Node) -> Option<Node> {
    let Presence::Default(text) = table.key(key)?.presence else { return None };
    let node = tree::read(text).0?;
    Some(Node { place: at.place, ..node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runbook::table::Kind;
    use crate::runbook::{inventory_keys, keys};

    fn every_default_is_right(table: &'static Table) {
        for key in table.keys {
            if let Presence::Default(text) = key.presence {
                let node = tree::read(text).0.unwrap();
                let faults = check::kind(&node, &key.kind, Templates::Refused);
                assert!(faults.is_empty(), "{}.{}: {faults:?}", table.name, key.name);
            }
            match &key.kind {
                Kind::Table(inner) | Kind::Either(_, inner) => every_default_is_right(inner),
                _ => {}
            }
        }
    }

    #[test]
    fn every_default_of_the_tables_passes_its_own_check() {
        for table in
            [&keys::RUNBOOK, &keys::STEP, &inventory_keys::INVENTORY, &inventory_keys::NODE]
        {
            every_default_is_right(table);
        }
    }
}
