//! An inventory as it was written: every value read, nothing resolved yet.

use std::net::IpAddr;

use redoline_proto::units::BytesPerSecond;

use super::check::{self, Templates};
use super::fields::Fields;
use super::file::{second_opinion, told};
use super::inventory_keys as keys;
use super::problem::{Fault, Faults, Problem};
use super::source::{Place, Source};
use super::tree::{self, Content, Node};
use super::value;

#[derive(Clone, Debug, PartialEq)]
pub struct InventoryFile {
    pub source: Source,
    pub name: String,
    pub network: NetworkFile,
    pub defaults: DefaultsFile,
    pub primary: ClusterFile,
    pub standby: ClusterFile,
    /// The built-in inventory of this machine's own agents.
    pub demo: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkFile {
    pub bandwidth: Option<BytesPerSecond>,
    pub devices: Vec<String>,
    pub notes: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DefaultsFile {
    pub ssh: SshFile,
    pub data_ports: (u16, u16),
    pub agent_dir: Option<String>,
    /// `remove` or `keep`; `None`: not said here.
    pub agent: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClusterFile {
    pub name: Option<String>,
    pub nodes: Vec<NodeFile>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeFile {
    pub place: Place,
    pub name: String,
    pub thread: Option<u32>,
    pub host: Option<String>,
    pub redo: RedoFile,
    pub ssh: SshFile,
    pub data_ports: Option<(u16, u16)>,
    pub agent_dir: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RedoFile {
    pub place: Place,
    pub address: IpAddr,
    pub bind: Option<IpAddr>,
    pub seen_as: Option<IpAddr>,
}

/// What a mapping `ssh` says; a node's goes before the defaults'.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SshFile {
    pub user: Option<String>,
    pub key: Option<String>,
    pub port: Option<u16>,
    pub known_hosts: Option<Vec<String>>,
    pub via: Option<&'static str>,
    pub password_from: Option<PasswordSource>,
}

/// Where a password comes from; looked up by whoever may read the environment, before the plan is
/// made.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PasswordSource {
    Environment(String),
    File(String),
    Prompt,
}

impl InventoryFile {
    /// Every place that a password has to be fetched from, each once.
    pub fn passwords(&self) -> Vec<PasswordSource> {
        let nodes = self.primary.nodes.iter().chain(&self.standby.nodes);
        let mut sources: Vec<PasswordSource> = nodes
            .map(|node| &node.ssh)
            .chain([&self.defaults.ssh])
            .filter_map(|ssh| ssh.password_from.clone())
            .collect();
        sources.sort();
        sources.dedup();
        sources
    }
}

/// The inventory, or everything that is wrong with it.
pub fn read(source: Source) -> Result<InventoryFile, Vec<Problem>> {
    let (root, mut faults) = tree::read(source.text());
    let Some(root) = root else { return Err(told(&source, faults)) };
    faults.extend(check::mapping(&root, &keys::INVENTORY, Templates::Refused));
    if faults.is_empty() {
        faults.extend(second_opinion(source.text()));
    }
    match decode(&root, &source) {
        Ok(inventory) if faults.is_empty() => Ok(inventory),
        inventory => {
            faults.extend(inventory.err().into_iter().flatten());
            Err(told(&source, faults))
        }
    }
}

fn decode(root: &Node, source: &Source) -> Result<InventoryFile, Faults> {
    let mut fields = Fields::new(root, &keys::INVENTORY);
    let name = fields.read("name", value::text);
    let network = fields.read("network", network).unwrap_or_default();
    let defaults = match fields.given("defaults") {
        Some(_) => fields.read("defaults", defaults),
        None => defaults(&Node { content: Content::Map(Vec::new()), ..root.clone() }).ok(),
    };
    let primary = fields.read("primary", cluster);
    let standby = fields.read("standby", cluster);
    match (name, defaults, primary, standby) {
        (Some(name), Some(defaults), Some(primary), Some(standby)) if fields.faults.is_empty() => {
            let source = source.clone();
            Ok(InventoryFile { source, name, network, defaults, primary, standby, demo: false })
        }
        _ => Err(fields.faults),
    }
}

fn network(node: &Node) -> Result<NetworkFile, Faults> {
    let mut fields = Fields::new(node, &keys::NETWORK);
    let network = NetworkFile {
        bandwidth: fields.read("bandwidth", value::rate),
        devices: fields
            .read("devices", |node| value::one_or_more(node, value::text))
            .unwrap_or_default(),
        notes: fields.read("notes", value::text),
    };
    finish(fields, Some(network))
}

fn defaults(node: &Node) -> Result<DefaultsFile, Faults> {
    let mut fields = Fields::new(node, &keys::DEFAULTS);
    let ssh = fields.read("ssh", ssh).unwrap_or_default();
    let data_ports = fields.read("data_port", value::ports);
    let agent_dir = fields.read("agent_dir", value::text);
    let agent = fields.given("agent").is_some().then(|| fields.read("agent", agent)).flatten();
    let defaults = data_ports.map(|data_ports| DefaultsFile { ssh, data_ports, agent_dir, agent });
    finish(fields, defaults)
}

/// `remove` or `keep`.
pub fn agent(node: &Node) -> Result<&'static str, Faults> {
    value::choice(node, &["remove", "keep"], &[])
}

fn cluster(node: &Node) -> Result<ClusterFile, Faults> {
    let mut fields = Fields::new(node, &keys::CLUSTER);
    let name = fields.read("cluster", value::text);
    let nodes = fields.read("nodes", |node| value::list(node, self::node));
    let cluster = nodes.map(|nodes| ClusterFile { name, nodes });
    finish(fields, cluster)
}

fn node(node: &Node) -> Result<NodeFile, Faults> {
    let mut fields = Fields::new(node, &keys::NODE);
    let name = fields.read("name", value::text);
    let thread = fields.read("thread", |node| value::count(node, 1, 1023));
    let host = fields.read("host", host);
    let redo = fields.read("redo", redo);
    let ssh = fields.read("ssh", ssh).unwrap_or_default();
    let data_ports = fields.read("data_port", value::ports);
    let agent_dir = fields.read("agent_dir", value::text);
    let whole = name.zip(redo).map(|(name, redo)| NodeFile {
        place: node.place,
        name,
        thread,
        host,
        redo,
        ssh,
        data_ports,
        agent_dir,
    });
    finish(fields, whole)
}

/// A name or an address, without a port: an IPv6 address has colons of its own.
fn host(node: &Node) -> Result<String, Faults> {
    let host = value::text(node)?;
    let is_name = |host: &str| {
        host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    if host.parse::<IpAddr>().is_ok() || is_name(&host) {
        return Ok(host);
    }
    let found = format!("`{host}` is neither a host name nor an IP address");
    let right = "write the name alone; user and port go under `ssh`";
    Err(value::one(node, found, right))
}

fn redo(node: &Node) -> Result<RedoFile, Faults> {
    if node.scalar().is_some() {
        let address = value::address(node)?;
        return Ok(RedoFile { place: node.place, address, bind: None, seen_as: None });
    }
    let mut fields = Fields::new(node, &keys::REDO_ADDRESS);
    let address = fields.read("address", value::address);
    let bind = fields.read("bind", value::address);
    let seen_as = fields.read("seen_as", value::address);
    let redo = address.map(|address| RedoFile { place: node.place, address, bind, seen_as });
    finish(fields, redo)
}

fn ssh(node: &Node) -> Result<SshFile, Faults> {
    let mut fields = Fields::new(node, &keys::SSH);
    let given = |fields: &Fields<'_>, key| fields.given(key).is_some();
    let ssh = SshFile {
        user: fields.read("user", value::text),
        key: fields.read("key", value::text),
        port: given(&fields, "port")
            .then(|| fields.read("port", |node| value::integer(node, 1, 65_535)))
            .flatten()
            .and_then(|port| u16::try_from(port).ok()),
        known_hosts: fields.read("known_hosts", |node| value::one_or_more(node, value::text)),
        via: given(&fields, "via")
            .then(|| {
                fields.read("via", |node| value::choice(node, &["ssh", "local"], &["openssh"]))
            })
            .flatten(),
        password_from: fields.read("password_from", password),
    };
    finish(fields, Some(ssh))
}

fn password(node: &Node) -> Result<PasswordSource, Faults> {
    let mut fields = Fields::new(node, &keys::PASSWORD);
    let environment = fields.read("env", value::text).map(PasswordSource::Environment);
    let file = fields.read("file", value::text).map(PasswordSource::File);
    let prompt = fields.read("prompt", |node| value::choice(node, &["true"], &[]));
    let source = environment.or(file).or(prompt.map(|_| PasswordSource::Prompt));
    finish(fields, source)
}

/// The value, if nothing in its mapping was wrong.
fn finish<T>(fields: Fields<'_>, value: Option<T>) -> Result<T, Faults> {
    match value {
        Some(value) if fields.faults.is_empty() => Ok(value),
        _ => Err(fields.faults),
    }
}

/// Two nodes that cannot be told apart, by name or by what is measured.
pub fn clashes(inventory: &InventoryFile) -> Vec<Fault> {
    let nodes: Vec<&NodeFile> =
        inventory.primary.nodes.iter().chain(&inventory.standby.nodes).collect();
    let mut faults = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        for earlier in &nodes[..index] {
            if earlier.name == node.name {
                let found = format!("a second node is called `{}`", node.name);
                let right = format!("the first is at line {}", earlier.place.line);
                faults.push(Fault::new(node.place, found).right(right));
            }
            if earlier.redo.address == node.redo.address {
                let found = format!(
                    "`{}` has the redo address {} of `{}`",
                    node.name, node.redo.address, earlier.name
                );
                faults.push(
                    Fault::new(node.redo.place, found).right("give each node its own redo address"),
                );
            }
        }
    }
    for (index, node) in inventory.primary.nodes.iter().enumerate() {
        let Some(thread) = node.thread else { continue };
        let earlier = &inventory.primary.nodes[..index];
        if let Some(first) = earlier.iter().find(|first| first.thread == Some(thread)) {
            let found = format!("thread {thread} is also that of `{}`", first.name);
            faults
                .push(Fault::new(node.place, found).right("each primary node has its own thread"));
        }
    }
    faults
}
