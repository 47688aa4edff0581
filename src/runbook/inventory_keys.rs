//! Every key that an inventory may hold.

use super::keys::AGENT;
use super::table::{Key, Kind, Table};

pub static INVENTORY: Table = Table {
    name: "inventory",
    sentence: "One Data Guard configuration: two clusters and how their nodes are reached.",
    keys: &[
        Key::required("name", Kind::Text, "Of the configuration."),
        Key::optional("network", Kind::Table(&NETWORK), "What is said of the network in between."),
        Key::optional(
            "defaults",
            Kind::Table(&DEFAULTS),
            "For every node that does not say otherwise.",
        ),
        Key::required("primary", Kind::Table(&CLUSTER), "The cluster that ships redo."),
        Key::required("standby", Kind::Table(&CLUSTER), "The cluster that receives it."),
    ],
};

pub static NETWORK: Table = Table {
    name: "network",
    sentence: "Declared, and compared with what is measured.",
    keys: &[
        Key::optional(
            "bandwidth",
            Kind::Rate,
            "Between the clusters, as ordered from the provider.",
        ),
        Key::optional(
            "devices",
            Kind::OneOrMore(&Kind::Text),
            "Firewalls, routers and switches on the way.",
        ),
        Key::optional("notes", Kind::Text, "Anything the report should say about it."),
    ],
};

pub static DEFAULTS: Table = Table {
    name: "defaults",
    sentence: "For every node that does not say otherwise.",
    keys: &[
        Key::optional("ssh", Kind::Table(&SSH), "How nodes are reached."),
        Key::with_default(
            "data_port",
            Kind::Ports,
            "5555",
            "Receivers listen here, only while a test runs; a range such as \"5555-5560\" may be given.",
        )
        .oratcptest("-port"),
        Key::optional("agent_dir", Kind::Text, "Where the agent goes on a node; the first that works unless given."),
        Key::with_default("agent", AGENT, "remove", "Whether the agent's executable stays on the nodes."),
    ],
};

pub static SSH: Table = Table {
    name: "ssh",
    sentence: "How a node is reached.",
    keys: &[
        Key::optional("user", Kind::Text, "Your own login name unless given."),
        Key::optional(
            "key",
            Kind::Text,
            "Private key file; the SSH agent's identities unless given.",
        ),
        Key::with_default("port", Kind::Integer { min: 1, max: 65_535 }, "22", "Of sshd."),
        Key::optional(
            "known_hosts",
            Kind::OneOrMore(&Kind::Text),
            "Files with host keys; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts unless given.",
        ),
        Key::with_default(
            "via",
            Kind::Choice { now: &["ssh", "local"], later: &["openssh"] },
            "ssh",
            "ssh, or a child process on this machine.",
        ),
        Key::optional(
            "password_from",
            Kind::Table(&PASSWORD),
            "Where a password comes from; it is never written here.",
        ),
        Key::later("jump", "run the controller on the jump host"),
        Key::later("become", "log in as the user that shall measure"),
    ],
};

pub static PASSWORD: Table = Table {
    name: "password_from",
    sentence: "Exactly one of these.",
    keys: &[
        Key::optional("env", Kind::Text, "The name of an environment variable."),
        Key::optional("file", Kind::Text, "A file that only you can read."),
        Key::optional("prompt", Kind::Choice { now: &["true"], later: &[] }, "Asked at the start."),
    ],
};

pub static CLUSTER: Table = Table {
    name: "cluster",
    sentence: "One cluster of the configuration.",
    keys: &[
        Key::optional("cluster", Kind::Text, "Its name; `primary` or `standby` unless given."),
        Key::required("nodes", Kind::Nodes, "In the order in which they are paired."),
    ],
};

pub static NODE: Table = Table {
    name: "node",
    sentence: "One node of a cluster.",
    keys: &[
        Key::required("name", Kind::Text, "As the report calls it."),
        Key::optional(
            "thread",
            Kind::Integer { min: 1, max: 1023 },
            "The redo thread of its instance.",
        ),
        Key::optional(
            "host",
            Kind::Text,
            "Management address or name, for SSH; the redo address unless given.",
        ),
        Key::required(
            "redo",
            Kind::Either(&Kind::Address, &REDO_ADDRESS),
            "The IP address that carries redo: this is what is measured.",
        ),
        Key::optional("ssh", Kind::Table(&SSH), "What differs from the defaults."),
        Key::optional("data_port", Kind::Ports, "Where it differs from the defaults.")
            .oratcptest("-port"),
        Key::optional("agent_dir", Kind::Text, "Where it differs from the defaults."),
    ],
};

pub static REDO_ADDRESS: Table = Table {
    name: "redo",
    sentence: "For addresses that are translated on the way.",
    keys: &[
        Key::required("address", Kind::Address, "What the other side connects to."),
        Key::optional("bind", Kind::Address, "What this node binds to; the address unless given."),
        Key::optional(
            "seen_as",
            Kind::Address,
            "What the other side sees this node's connections come from; the address unless given.",
        ),
    ],
};
