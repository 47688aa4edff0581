//! The two clusters: nodes, pairs and directions.

use std::fmt;
use std::net::IpAddr;

use redoline_proto::units::BytesPerSecond;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Access;

/// A node's place in `Plan::nodes`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub usize);

/// A pair's place in `Plan::pairs`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PairId(pub usize);

/// The part that a cluster has in the inventory; a test direction does not change it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Primary,
    Standby,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Primary => "primary",
            Self::Standby => "standby",
        })
    }
}

/// Which cluster sends, by the roles of the inventory.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    PrimaryToStandby,
    StandbyToPrimary,
}

impl Direction {
    /// What `swap_roles` does: a test direction only, no database switchover.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::PrimaryToStandby => Self::StandbyToPrimary,
            Self::StandbyToPrimary => Self::PrimaryToStandby,
        }
    }

    pub fn sender(self) -> Role {
        match self {
            Self::PrimaryToStandby => Role::Primary,
            Self::StandbyToPrimary => Role::Standby,
        }
    }

    pub fn receiver(self) -> Role {
        self.swapped().sender()
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::PrimaryToStandby => "primary to standby",
            Self::StandbyToPrimary => "standby to primary",
        })
    }
}

/// One Data Guard configuration, as the inventory declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    pub name: String,
    pub network: DeclaredNetwork,
    pub primary_cluster: String,
    pub standby_cluster: String,
    /// All redo addresses are loopback addresses, as those of the built-in inventory: no statement
    /// about a network follows.
    pub demo: bool,
}

/// What is said of the network between the clusters; compared with what is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeclaredNetwork {
    pub bandwidth: Option<BytesPerSecond>,
    /// Switches, routers and firewalls on the way.
    pub devices: Vec<String>,
    pub notes: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: String,
    pub role: Role,
    pub cluster: String,
    /// The redo thread of a primary's instance.
    pub thread: Option<u32>,
    pub access: Access,
    pub redo: RedoAddress,
    /// Receivers listen on one of these, only while a test runs.
    pub data_ports: PortRange,
    /// A directory on the node for the agent; `None`: the first that works is taken.
    pub agent_dir: Option<String>,
}

/// Where a node's redo traffic goes; three addresses where they are translated on the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RedoAddress {
    /// What the other side connects to.
    pub address: IpAddr,
    /// What this node binds to.
    pub bind: IpAddr,
    /// What the other side sees this node's connections come from.
    pub seen_as: IpAddr,
}

impl RedoAddress {
    pub fn plain(address: IpAddr) -> Self {
        Self { address, bind: address, seen_as: address }
    }
}

/// First and last port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

/// Nodes that exchange redo with each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pair {
    pub primary: NodeId,
    pub standby: NodeId,
}

impl Pair {
    pub fn sender(self, direction: Direction) -> NodeId {
        match direction {
            Direction::PrimaryToStandby => self.primary,
            Direction::StandbyToPrimary => self.standby,
        }
    }

    pub fn receiver(self, direction: Direction) -> NodeId {
        self.sender(direction.swapped())
    }
}
