//! The shape of the tables of keys: one table serves the checks, the JSON Schema and the docs.

use std::time::Duration;

/// The keys of one mapping.
#[derive(Debug)]
pub struct Table {
    /// What the mapping is called in messages and headings: `throughput`.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub sentence: &'static str,
    pub keys: &'static [Key],
}

/// One key.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub presence: Presence,
    /// oratcptest's option for the same.
    pub oratcptest: Option<&'static str>,
    pub sentence: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Presence {
    Required,
    Optional,
    /// As it would be written in the file.
    Default(&'static str),
}

/// What may stand behind a key.
#[derive(Debug)]
pub enum Kind {
    Text,
    /// A minijinja expression, with or without its braces.
    Expression,
    Integer {
        min: u32,
        max: u32,
    },
    Number,
    Duration {
        min: Duration,
    },
    /// How long a test sends: a time, or `auto`.
    TestTime {
        min: Duration,
    },
    /// Every time for a time: `1 h/24 h`.
    Frequency,
    /// In bytes.
    Size {
        min: u64,
        max: u64,
    },
    Rate,
    /// 1.0 is 100 %.
    Share {
        max: f64,
    },
    /// Words known now, and words that a later version will know.
    Choice {
        now: &'static [&'static str],
        later: &'static [&'static str],
    },
    Buffer,
    CongestionControl,
    /// 0 to 63, or a name such as `ef`.
    Dscp,
    /// A network interface's name.
    Device,
    Window,
    Address,
    Ports,
    /// `all`, `first`, or names.
    Selection,
    List(&'static Kind),
    OneOrMore(&'static Kind),
    Table(&'static Table),
    /// A scalar of the kind, or a mapping of the table.
    Either(&'static Kind, &'static Table),
    /// Numbered keys, each with a value of the kind.
    Numbered(&'static Kind),
    /// Named values of any type.
    Anything,
    Steps,
    Nodes,
    /// A key that a later version will know; what to do instead.
    Later(&'static str),
}

impl Table {
    /// The keys of which exactly one must be given; empty where there is no such rule.
    pub fn alternatives(&self) -> Vec<&'static str> {
        match self.name {
            "vary" | "password_from" => self.names().collect(),
            "storage_read" => vec!["file", "device", "scratch"],
            _ => Vec::new(),
        }
    }

    /// May stand with nothing behind it: `topology:`.
    pub fn may_be_empty(&self) -> bool {
        self.keys.is_empty() || matches!(self.name, "topology" | "path")
    }

    /// The top of a file, where keys that begin with `x-` hold anchors.
    pub fn is_whole_file(&self) -> bool {
        matches!(self.name, "runbook" | "inventory")
    }

    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The names that a message lists.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let keys: &'static [Key] = self.keys;
        keys.iter().filter(|key| !matches!(key.kind, Kind::Later(_))).map(|key| key.name)
    }
}

impl Key {
    pub const fn required(name: &'static str, kind: Kind, sentence: &'static str) -> Self {
        Self { name, kind, presence: Presence::Required, oratcptest: None, sentence }
    }

    pub const fn optional(name: &'static str, kind: Kind, sentence: &'static str) -> Self {
        Self { name, kind, presence: Presence::Optional, oratcptest: None, sentence }
    }

    pub const fn with_default(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        sentence: &'static str,
    ) -> Self {
        Self { name, kind, presence: Presence::Default(default), oratcptest: None, sentence }
    }

    pub const fn later(name: &'static str, instead: &'static str) -> Self {
        let kind = Kind::Later(instead);
        Self { name, kind, presence: Presence::Optional, oratcptest: None, sentence: "" }
    }

    /// oratcptest's name for it.
    #[must_use]
    pub const fn oratcptest(mut self, option: &'static str) -> Self {
        self.oratcptest = Some(option);
        self
    }
}
