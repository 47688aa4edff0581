//! The inventory file of a lab, for the controller under test.

use std::{
    fmt::Write,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use crate::{node::Side, units::format_rate};

/// What goes into the inventory. Change what a test wants otherwise, then take
/// [`Inventory::to_yaml`].
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The name of the configuration.
    pub name: String,
    /// The declared bandwidth in bit/s, where there is one.
    pub bandwidth_bps: Option<u64>,
    /// Further keys of `defaults.ssh`, such as `via: openssh`.
    pub ssh: Vec<(String, String)>,
    /// The login on all nodes.
    pub user: String,
    /// The private key.
    pub key: PathBuf,
    /// The file of trusted host keys.
    pub known_hosts: PathBuf,
    /// Where receivers listen.
    pub data_port: u16,
    /// How many ports they may take from there on.
    pub data_ports: u16,
    /// The nodes, in order.
    pub nodes: Vec<InventoryNode>,
}

/// A line of the inventory.
#[derive(Clone, Debug)]
pub struct InventoryNode {
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub side: Side,
    /// Its management address.
    pub host: Ipv4Addr,
    /// Its redo address.
    pub redo: IpAddr,
}

impl Inventory {
    /// The file's text.
    pub fn to_yaml(&self) -> String {
        let mut yaml = format!("name: {}\n", self.name);
        if let Some(rate_bps) = self.bandwidth_bps {
            line(&mut yaml, &format!("network: {{ bandwidth: {} }}", format_rate(rate_bps)));
        }
        line(&mut yaml, "defaults:");
        line(&mut yaml, "  ssh:");
        line(&mut yaml, &format!("    user: {}", self.user));
        line(&mut yaml, &format!("    key: {}", self.key.display()));
        line(&mut yaml, &format!("    known_hosts: {}", self.known_hosts.display()));
        for (key, value) in &self.ssh {
            line(&mut yaml, &format!("    {key}: {value}"));
        }
        line(&mut yaml, &format!("  data_port: {}", self.ports()));
        self.cluster(&mut yaml, "primary", "phx", Side::Primary);
        self.cluster(&mut yaml, "standby", "ash", Side::Standby);
        yaml
    }

    fn ports(&self) -> String {
        match self.data_ports {
            0 | 1 => self.data_port.to_string(),
            count => format!("\"{}-{}\"", self.data_port, self.data_port + count - 1),
        }
    }

    fn cluster(&self, yaml: &mut String, key: &str, site: &str, side: Side) {
        line(yaml, &format!("{key}:\n  cluster: {}-{site}\n  nodes:", self.name));
        let nodes = self.nodes.iter().filter(|node| node.side == side);
        for (index, node) in nodes.enumerate() {
            let InventoryNode { name, host, redo, .. } = node;
            let thread = match side {
                Side::Primary => format!("thread: {}, ", index + 1),
                Side::Standby => String::new(),
            };
            // The colons of an IPv6 address would be YAML's own.
            let redo = if redo.is_ipv6() { format!("\"{redo}\"") } else { redo.to_string() };
            let entry = format!("    - {{ name: {name}, {thread}host: {host}, redo: {redo} }}");
            line(yaml, &entry);
        }
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_reads_as_the_controller_wants_it() {
        let node = |name: &str, side, host: &str, redo: &str| InventoryNode {
            name: name.to_owned(),
            side,
            host: host.parse().unwrap(),
            redo: redo.parse().unwrap(),
        };
        let inventory = Inventory {
            name: "lab".to_owned(),
            bandwidth_bps: Some(300_000_000),
            ssh: vec![("via".to_owned(), "openssh".to_owned())],
            user: "oracle".to_owned(),
            key: PathBuf::from("/tmp/lab/id_ed25519"),
            known_hosts: PathBuf::from("/tmp/lab/known_hosts"),
            data_port: 5555,
            data_ports: 1,
            nodes: vec![
                node("phx1", Side::Primary, "198.18.0.2", "198.51.100.11"),
                node("ash1", Side::Standby, "198.18.0.6", "2001:db8:200::11"),
            ],
        };
        let expected = "\
name: lab
network: { bandwidth: 300 Mbit/s }
defaults:
  ssh:
    user: oracle
    key: /tmp/lab/id_ed25519
    known_hosts: /tmp/lab/known_hosts
    via: openssh
  data_port: 5555
primary:
  cluster: lab-phx
  nodes:
    - { name: phx1, thread: 1, host: 198.18.0.2, redo: 198.51.100.11 }
standby:
  cluster: lab-ash
  nodes:
    - { name: ash1, host: 198.18.0.6, redo: \"2001:db8:200::11\" }
";
        assert_eq!(inventory.to_yaml(), expected);
    }
}
