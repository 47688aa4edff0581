//! The lab as a whole: brings it up, changes it, takes it down.

use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    addresses,
    cgroup::Cgroup,
    directory::{self, LabDirectory},
    inventory::{Inventory, InventoryNode},
    namespace::{Namespace, Spawned},
    node::{Carrier, LabNode, MANAGEMENT_INTERFACE, Network, Side},
    private_root,
    requirements::why_unavailable,
    ssh::Client,
    topology::{self, LabNumber},
    wan::{Lookout, Punctuality, Relay, WanSpec, remember},
};

/// What a lab is to be like.
#[derive(Clone, Debug)]
pub struct LabSpec {
    /// The number of nodes of the primary cluster.
    pub primary: usize,
    /// The number of nodes of the standby cluster.
    pub standby: usize,
    /// The MTU of the redo networks on both sides of the WAN, in bytes.
    pub lan_mtu: u32,
    /// Whether redo networks and WAN have IPv6 beside IPv4.
    pub ipv6: bool,
    /// The WAN between them.
    pub wan: WanSpec,
}

/// A running lab. Dropping it takes everything down.
#[derive(Debug)]
pub struct Lab {
    // In the order in which they are taken down.
    relay: Relay,
    lookout: Lookout,
    nodes: Vec<LabNode>,
    routers: [Namespace; 2],
    wan: Mutex<WanSpec>,
    client: Client,
    number: LabNumber,
    directory: LabDirectory,
}

/// Where receivers listen on every node.
pub const DATA_PORT: u16 = 5555;

impl LabSpec {
    /// Two nodes on each side of this WAN, and redo networks that can carry its MTU.
    pub fn new(wan: WanSpec) -> Self {
        Self { primary: 2, standby: 2, lan_mtu: wan.mtu_max().max(1500), ipv6: false, wan }
    }

    /// The same with this number of nodes on each side.
    #[must_use]
    pub fn nodes(self, each: usize) -> Self {
        Self { primary: each, standby: each, ..self }
    }
}

impl Default for LabSpec {
    /// Two nodes on each side of 10 ms and 300 Mbit/s, of which one flow gets 60 Mbit/s.
    fn default() -> Self {
        let wan = WanSpec::new(Duration::from_millis(10), 300_000_000).per_flow(60_000_000);
        Self::new(wan)
    }
}

impl Lab {
    /// Brings a lab up. When this returns, every node's sshd listens and the WAN carries packets.
    pub fn up(spec: &LabSpec) -> Result<Self> {
        if let Some(reason) = why_unavailable() {
            bail!("no lab on this machine: {reason}");
        }
        let count = spec.primary + spec.standby;
        ensure!(spec.primary > 0 && spec.standby > 0, "each side needs a node");
        ensure!(count <= addresses::NODES_MAX, "a lab has at most {} nodes", addresses::NODES_MAX);
        directory::sweep();
        let directory = LabDirectory::create()?;
        let number = LabNumber::reserve()?;
        let client = Client::create(directory.path())?;
        let (primary, primary_tun) = topology::router(Side::Primary, spec)?;
        let (standby, standby_tun) = topology::router(Side::Standby, spec)?;
        let mut lab = Self {
            relay: Relay::start(&primary_tun, &standby_tun, &spec.wan)?,
            lookout: Lookout::start().context("failed to start the lab's lookout")?,
            nodes: Vec::new(),
            routers: [primary, standby],
            wan: Mutex::new(spec.wan.clone()),
            client,
            number,
            directory,
        };
        lab.add_nodes(spec)?;
        let path = lab.directory.path().join("inventory.yaml");
        fs::write(&path, lab.inventory().to_yaml())
            .with_context(|| format!("failed to write `{}`", path.display()))?;
        Ok(lab)
    }

    /// All nodes, those of the primary first.
    pub fn nodes(&self) -> &[LabNode] {
        &self.nodes
    }

    /// The node of this name (`phx1`, `ash2`).
    pub fn node(&self, name: &str) -> Result<&LabNode> {
        let node = self.nodes.iter().find(|node| node.name() == name);
        node.with_context(|| format!("the lab has no node `{name}`"))
    }

    /// The router of one side; its device to the WAN is `wan0`.
    pub fn router(&self, side: Side) -> &Namespace {
        match side {
            Side::Primary => &self.routers[0],
            Side::Standby => &self.routers[1],
        }
    }

    /// The lab's directory: `inventory.yaml`, `id_ed25519`, `known_hosts`, and the nodes' logs. A
    /// test may put its own files there.
    pub fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// The key and known hosts of the controller's place.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The inventory of this lab, to change or to write; `inventory.yaml` has it unchanged.
    pub fn inventory(&self) -> Inventory {
        let nodes = self.nodes.iter().map(|node| InventoryNode {
            name: node.name().to_owned(),
            side: node.side(),
            host: node.management(),
            redo: node.redo().into(),
        });
        Inventory {
            name: "lab".to_owned(),
            bandwidth_bps: self.wan().rate_bps,
            ssh: Vec::new(),
            user: "oracle".to_owned(),
            key: self.client.key.clone(),
            known_hosts: self.client.known_hosts.clone(),
            data_port: DATA_PORT,
            data_ports: 1,
            nodes: nodes.collect(),
        }
    }

    /// What the WAN is like now.
    pub fn wan(&self) -> WanSpec {
        self.wan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How well it kept its times since it came up.
    pub fn punctuality(&self) -> Punctuality {
        self.relay.punctuality() + self.lookout.seen()
    }

    /// Changes the WAN while traffic goes on. The redo networks keep their MTU.
    pub fn set_wan(&self, wan: &WanSpec) -> Result<()> {
        for side in [Side::Primary, Side::Standby] {
            topology::configure(self.router(side), side, wan)?;
        }
        self.relay.set_wan(wan);
        *self.wan.lock().unwrap_or_else(PoisonError::into_inner) = wan.clone();
        Ok(())
    }

    /// Pulls a node's cable, or puts it in.
    ///
    /// The redo cable is pulled at the router: the node sees a link without carrier. That of the
    /// management network is pulled at the node, for the controller to see the same. As with real
    /// cables, packets may need some seconds to find their way again.
    pub fn set_carrier(&self, node: &LabNode, network: Network, carrier: Carrier) -> Result<()> {
        let (place, interface) = match network {
            Network::Management => (&node.namespace, MANAGEMENT_INTERFACE),
            Network::Redo => (self.router(node.side()), node.name()),
        };
        let state = match carrier {
            Carrier::Up => "up",
            Carrier::Down => "down",
        };
        place.run(&["ip", "link", "set", interface, state]).map(drop)
    }

    /// Gives a node a second interface, [`DETOUR_INTERFACE`](crate::node::DETOUR_INTERFACE), and
    /// sends what goes to the other side's nodes out there. What they send still comes in at the
    /// redo interface, and their packets take the same WAN.
    pub fn misroute(&self, node: &LabNode) -> Result<()> {
        let index = self.nodes.iter().position(|one| one.name() == node.name());
        let index = index.with_context(|| format!("the lab has no node `{}`", node.name()))?;
        topology::misroute(node, self.router(node.side()), index, 1500)
    }

    /// Gives all processes of a node together no more than this share of one processor (0.2 is a
    /// fifth). Logins that exist already are left out; what the kernel does for the network is not
    /// counted.
    pub fn limit_cpu(&self, node: &LabNode, share: f64) -> Result<()> {
        node.move_sshd(&self.cpu_group(node, share)?)
    }

    /// The same for those processes only whose command lines contain `part`, soon after they come, and
    /// until the result is dropped.
    pub fn limit_cpu_of(&self, node: &LabNode, part: &str, share: f64) -> Result<Spawned> {
        let group = self.cpu_group(node, share)?;
        let (first, rest) = part.split_at(part.chars().next().map_or(0, char::len_utf8));
        // The brackets keep the pattern from finding the shell that has it in its arguments.
        let script = format!(
            "while :; do for process in $(pgrep -f '[{first}]{rest}'); do \
             echo $process >{}; done; sleep 0.05; done",
            group.processes().display()
        );
        node.spawn(&["sh", "-c", &script], &self.dir().join("limit-cpu.log"))
    }

    fn cpu_group(&self, node: &LabNode, share: f64) -> Result<Cgroup> {
        let group = Cgroup::create(&format!("{}-{}", self.directory.name(), node.name()))?;
        group.limit_cpu(share)?;
        Ok(group)
    }

    fn add_nodes(&mut self, spec: &LabSpec) -> Result<()> {
        let sides = [(Side::Primary, spec.primary), (Side::Standby, spec.standby)];
        for (side, count) in sides {
            for index in 0..count {
                let node = self.make_node(side, index, spec.ipv6)?;
                self.nodes.push(node);
                let (Some(node), position) = (self.nodes.last(), self.nodes.len() - 1) else {
                    continue;
                };
                let router = self.router(side);
                topology::connect(node, router, self.number.number, position, spec)?;
            }
        }
        let names: Vec<_> =
            self.nodes.iter().map(|node| (node.name().to_owned(), node.redo())).collect();
        let hosts = topology::hosts(&names);
        let mut known_hosts = String::new();
        for node in &self.nodes {
            node.furnish(&hosts)?;
            node.start_sshd()?;
            known_hosts += &node.host_keys()?;
        }
        fs::write(&self.client.known_hosts, known_hosts).context("failed to write `known_hosts`")
    }

    fn make_node(&self, side: Side, index: usize, ipv6: bool) -> Result<LabNode> {
        let name = format!("{}{}", addresses::site(side), index + 1);
        let base = self.dir().join("nodes").join(&name);
        let disk = self.dir().join("disks").join(&name);
        for directory in [&base, &disk] {
            fs::create_dir_all(directory)
                .with_context(|| format!("failed to make `{}`", directory.display()))?;
        }
        let (namespace, upper) =
            Namespace::create(&name, move || private_root::enter(&base, &disk))?;
        Ok(LabNode {
            side,
            management: addresses::management(self.number.number, self.nodes.len()).1,
            redo: addresses::redo(side, index),
            redo6: ipv6.then(|| addresses::redo6(side, index)),
            client: self.client.clone(),
            sshd_log: self.dir().join(format!("{name}-sshd.log")),
            sshd: Mutex::new(None),
            upper,
            namespace,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        remember(self.punctuality());
        for node in &self.nodes {
            topology::disconnect(self.number.number, node.name());
        }
    }
}
