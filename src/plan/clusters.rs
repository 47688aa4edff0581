//! From the inventory to nodes and pairs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::access::{Access, SshAccess};
use super::node::{
    Configuration, DeclaredNetwork, Direction, Node, NodeId, Pair, PairId, PortRange, RedoAddress,
    Role,
};
use super::options::Options;
use crate::runbook::inventory::{self, ClusterFile, InventoryFile, NodeFile, SshFile};
use crate::runbook::problem::{Fault, Faults, Problem};
use crate::runbook::source::Place;

/// What `--limit` keeps away from a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The nodes that are kept, as `--limit` names them; empty without `--limit`.
    pub limited_to: Vec<String>,
    /// How many pairs of the configuration lost an end.
    pub pair_count: usize,
    /// Redo threads whose node has no pair left.
    pub threads: Vec<u32>,
}

/// Both clusters, as far as `--limit` keeps them.
#[derive(Clone, Debug)]
pub struct Clusters {
    pub configuration: Configuration,
    pub nodes: Vec<Node>,
    pub pairs: Vec<Pair>,
    /// What `nodes: all_to_one` adds in either direction; a PairId counts them after `pairs`.
    pub crossed: Vec<Pair>,
    pub remarks: Vec<String>,
    /// Names of all nodes and pairs before `--limit`.
    pub all_node_names: Vec<String>,
    pub all_pair_names: Vec<String>,
    /// Of all primary nodes.
    pub threads: Vec<u32>,
    pub left_out: LeftOut,
}

impl Clusters {
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.name == name).map(NodeId)
    }

    /// The configuration's own or a crossed one.
    pub fn pair(&self, id: PairId) -> Pair {
        match self.pairs.get(id.0) {
            Some(pair) => *pair,
            None => self.crossed[id.0 - self.pairs.len()],
        }
    }

    pub fn pair_named(&self, name: &str) -> Option<PairId> {
        self.pairs.iter().position(|pair| self.pair_name(*pair) == name).map(PairId)
    }

    /// Every sender with the first receiver.
    pub fn all_to_one(&self, direction: Direction) -> Vec<PairId> {
        let all: Vec<&Pair> = self.pairs.iter().chain(&self.crossed).collect();
        let first = |role: Role| self.nodes.iter().position(|node| node.role == role).map(NodeId);
        let Some(receiver) = first(direction.receiver()) else { return Vec::new() };
        let senders = (0..self.nodes.len()).map(NodeId);
        senders
            .filter(|id| self.nodes[id.0].role == direction.sender())
            .filter_map(|sender| {
                let is_it = |pair: &&Pair| {
                    pair.sender(direction) == sender && pair.receiver(direction) == receiver
                };
                all.iter().position(is_it).map(PairId)
            })
            .collect()
    }

    fn pair_name(&self, pair: Pair) -> String {
        format!("{}-{}", self.nodes[pair.primary.0].name, self.nodes[pair.standby.0].name)
    }
}

/// Nodes and pairs, or every reason why not.
pub fn resolve(inventory: &InventoryFile, options: &Options) -> Result<Clusters, Vec<Problem>> {
    let mut faults = inventory::clashes(inventory);
    let mut nodes = Vec::new();
    for (file, role) in [(&inventory.primary, Role::Primary), (&inventory.standby, Role::Standby)] {
        for node in &file.nodes {
            match resolve_node(node, file, role, inventory, options) {
                Ok(node) => nodes.push(node),
                Err(more) => faults.extend(more),
            }
        }
    }
    let pairs = pairs(inventory.primary.nodes.len(), inventory.standby.nodes.len());
    if faults.is_empty() {
        faults.extend(same_names(inventory, &nodes, &pairs));
        faults.extend(families(inventory, &nodes, &pairs));
    }
    let mut problems = Problem::all_of_file(&inventory.source, faults);
    let names: Vec<String> = all_names(inventory);
    problems.extend(options.limit.iter().filter(|name| !names.contains(name)).map(|name| {
        let known = names.iter().map(String::as_str);
        Problem::of_argument("--limit", Fault::unknown(Place::new(1, 1), "node", name, known))
    }));
    if !problems.is_empty() {
        return Err(problems);
    }
    let clusters = Clusters {
        configuration: configuration(inventory),
        all_pair_names: pair_names(&nodes, &pairs),
        all_node_names: names,
        threads: inventory.primary.nodes.iter().filter_map(|node| node.thread).collect(),
        remarks: remarks(inventory),
        left_out: LeftOut::default(),
        crossed: Vec::new(),
        nodes,
        pairs,
    };
    let clusters = limited(clusters, &options.limit);
    Ok(Clusters { crossed: crossed(&clusters.nodes, &clusters.pairs), ..clusters })
}

fn all_names(inventory: &InventoryFile) -> Vec<String> {
    let nodes = inventory.primary.nodes.iter().chain(&inventory.standby.nodes);
    nodes.map(|node| node.name.clone()).collect()
}

fn pair_names(nodes: &[Node], pairs: &[Pair]) -> Vec<String> {
    let name = |id: NodeId| &nodes[id.0].name;
    pairs.iter().map(|pair| format!("{}-{}", name(pair.primary), name(pair.standby))).collect()
}

fn configuration(inventory: &InventoryFile) -> Configuration {
    let cluster = |file: &ClusterFile, role: Role| file.name.clone().unwrap_or(role.to_string());
    Configuration {
        name: inventory.name.clone(),
        network: DeclaredNetwork {
            bandwidth: inventory.network.bandwidth,
            devices: inventory.network.devices.clone(),
            notes: inventory.network.notes.clone(),
        },
        primary_cluster: cluster(&inventory.primary, Role::Primary),
        standby_cluster: cluster(&inventory.standby, Role::Standby),
        demo: inventory.demo || on_loopback(inventory),
    }
}

/// Addresses of one machine to itself: no network is between them.
fn on_loopback(inventory: &InventoryFile) -> bool {
    let nodes = inventory.primary.nodes.iter().chain(&inventory.standby.nodes);
    nodes.map(|node| node.redo.address).all(|address| address.is_loopback())
}

/// Node i to node i; the shorter side is used again in turn.
fn pairs(primaries: usize, standbys: usize) -> Vec<Pair> {
    (0..primaries.max(standbys))
        .map(|index| Pair {
            primary: NodeId(index % primaries),
            standby: NodeId(primaries + index % standbys),
        })
        .collect()
}

/// Every primary with the first standby and every standby with the first primary, as far as they
/// are no pair and of one IP version.
fn crossed(nodes: &[Node], pairs: &[Pair]) -> Vec<Pair> {
    let of_role = |role: Role| {
        let ids = (0..nodes.len()).filter(move |id| nodes[*id].role == role);
        ids.map(NodeId).collect::<Vec<_>>()
    };
    let (primaries, standbys) = (of_role(Role::Primary), of_role(Role::Standby));
    let to_standby = primaries.iter().zip(standbys.iter().take(1).cycle());
    let to_primary = primaries.iter().take(1).cycle().zip(&standbys);
    let mut crossed = Vec::new();
    for (primary, standby) in to_standby.chain(to_primary) {
        let pair = Pair { primary: *primary, standby: *standby };
        if !pairs.contains(&pair) && !crossed.contains(&pair) {
            crossed.push(pair);
        }
    }
    crossed
}

/// Pairs `a-b` with `c` and `a` with `b-c` would have one name in results and selections.
fn same_names(inventory: &InventoryFile, nodes: &[Node], pairs: &[Pair]) -> Faults {
    let files: Vec<&NodeFile> =
        inventory.primary.nodes.iter().chain(&inventory.standby.nodes).collect();
    let all: Vec<Pair> = pairs.iter().copied().chain(crossed(nodes, pairs)).collect();
    let names = pair_names(nodes, &all);
    let mut faults = Faults::new();
    for (index, name) in names.iter().enumerate() {
        let Some(first) = names[..index].iter().position(|earlier| earlier == name) else {
            continue;
        };
        let nodes_of = |pair: Pair| {
            format!("`{}` with `{}`", nodes[pair.primary.0].name, nodes[pair.standby.0].name)
        };
        let found = format!(
            "{} and {} would both be the pair `{name}`",
            nodes_of(all[first]),
            nodes_of(all[index])
        );
        let place = files[all[index].primary.0].place;
        faults.push(Fault::new(place, found).right("give one of the nodes another name"));
    }
    faults
}

fn remarks(inventory: &InventoryFile) -> Vec<String> {
    let (primaries, standbys) = (inventory.primary.nodes.len(), inventory.standby.nodes.len());
    let (shorter, count) = match primaries.cmp(&standbys) {
        std::cmp::Ordering::Equal => return Vec::new(),
        std::cmp::Ordering::Less => (Role::Primary, primaries),
        std::cmp::Ordering::Greater => (Role::Standby, standbys),
    };
    let nodes = if count == 1 { "node is" } else { "nodes are" };
    vec![format!(
        "{primaries} primary and {standbys} standby nodes: the {count} {shorter} {nodes} used again \
         in turn, so some pairs share a node"
    )]
}

/// Keeps the named nodes, and the pairs of which both ends are kept.
fn limited(clusters: Clusters, limit: &[String]) -> Clusters {
    if limit.is_empty() {
        return clusters;
    }
    let kept: Vec<usize> =
        (0..clusters.nodes.len()).filter(|id| limit.contains(&clusters.nodes[*id].name)).collect();
    let new_id = |id: NodeId| kept.iter().position(|kept| *kept == id.0).map(NodeId);
    let pairs = clusters.pairs.iter().filter_map(|pair| {
        Some(Pair { primary: new_id(pair.primary)?, standby: new_id(pair.standby)? })
    });
    let pairs: Vec<Pair> = pairs.collect();
    let nodes: Vec<Node> = kept.iter().map(|id| clusters.nodes[*id].clone()).collect();
    let with_pair =
        |thread: u32| pairs.iter().any(|pair| nodes[pair.primary.0].thread == Some(thread));
    let left_out = LeftOut {
        limited_to: limit.to_vec(),
        pair_count: clusters.pairs.len() - pairs.len(),
        threads: clusters.threads.iter().copied().filter(|thread| !with_pair(*thread)).collect(),
    };
    let mut remarks = clusters.remarks;
    remarks.push(format!("limited to {}", limit.join(", ")));
    Clusters { nodes, pairs, remarks, left_out, ..clusters }
}

/// An IPv4 address cannot reach an IPv6 address.
fn families(inventory: &InventoryFile, nodes: &[Node], pairs: &[Pair]) -> Faults {
    let files: Vec<&NodeFile> =
        inventory.primary.nodes.iter().chain(&inventory.standby.nodes).collect();
    let mismatch = |pair: &Pair| {
        let (primary, standby) = (&nodes[pair.primary.0], &nodes[pair.standby.0]);
        if primary.redo.address.is_ipv4() == standby.redo.address.is_ipv4() {
            return None;
        }
        let found = format!(
            "`{}` and `{}` are a pair, but {} and {} are not of one IP version",
            primary.name, standby.name, primary.redo.address, standby.redo.address
        );
        let place = files[pair.standby.0].redo.place;
        Some(Fault::new(place, found).right("give both an IPv4 or both an IPv6 address"))
    };
    pairs.iter().filter_map(mismatch).collect()
}

fn resolve_node(
    file: &NodeFile,
    cluster: &ClusterFile,
    role: Role,
    inventory: &InventoryFile,
    options: &Options,
) -> Result<Node, Faults> {
    let defaults = &inventory.defaults;
    let (first, last) = file.data_ports.unwrap_or(defaults.data_ports);
    Ok(Node {
        name: file.name.clone(),
        role,
        cluster: cluster.name.clone().unwrap_or(role.to_string()),
        thread: file.thread,
        access: access(file, &defaults.ssh, options)?,
        redo: RedoAddress {
            address: file.redo.address,
            bind: file.redo.bind.unwrap_or(file.redo.address),
            seen_as: file.redo.seen_as.unwrap_or(file.redo.address),
        },
        data_ports: PortRange { first, last },
        agent_dir: file.agent_dir.clone().or_else(|| defaults.agent_dir.clone()),
    })
}

const SSH_PORT: u16 = 22;

fn access(file: &NodeFile, defaults: &SshFile, options: &Options) -> Result<Access, Faults> {
    let own = &file.ssh;
    if own.via.or(defaults.via) == Some("local") {
        return Ok(Access::Local);
    }
    let mut faults = Faults::new();
    let user = own.user.as_ref().or(defaults.user.as_ref()).or(options.user.as_ref()).cloned();
    if user.is_none() {
        let found = format!("nothing tells the user for `{}`", file.name);
        faults.push(Fault::new(file.place, found).right("give `user` under `ssh`"));
    }
    let home = options.home.as_deref();
    let mut path = |text: &String| expanded(text, home, file.place, &mut faults);
    let key = own.key.as_ref().or(defaults.key.as_ref()).map(&mut path);
    let known_hosts = match own.known_hosts.as_ref().or(defaults.known_hosts.as_ref()) {
        Some(files) => files.iter().map(path).collect(),
        None => usual_known_hosts(home),
    };
    let source = own.password_from.as_ref().or(defaults.password_from.as_ref());
    match user {
        Some(user) if faults.is_empty() => Ok(Access::Ssh(Box::new(SshAccess {
            host: file.host.clone().unwrap_or_else(|| file.redo.address.to_string()),
            port: own.port.or(defaults.port).unwrap_or(SSH_PORT),
            user,
            key,
            password: source.and_then(|source| options.passwords.get(source)).cloned(),
            known_hosts,
            host_key_policy: options.host_key_policy,
        }))),
        _ => Err(faults),
    }
}

fn usual_known_hosts(home: Option<&Path>) -> Vec<PathBuf> {
    let own = home.map(|home| home.join(".ssh/known_hosts"));
    own.into_iter().chain([PathBuf::from("/etc/ssh/ssh_known_hosts")]).collect()
}

/// `~/x` to the home directory's `x`.
fn expanded(text: &str, home: Option<&Path>, place: Place, faults: &mut Faults) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (None, _) => PathBuf::from(text),
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => {
            let found = format!("`{text}` needs a home directory, and none is known");
            faults.push(Fault::new(place, found).right("write the whole path"));
            PathBuf::new()
        }
    }
}
