//! Every key that a runbook may hold.

use std::time::Duration;

use redoline_proto::storage::{OUTSTANDING_MAX, REQUEST_MAX};
use redoline_proto::transfer::MESSAGE_MAX;
use redoline_proto::units::Bytes;

pub use super::network_keys::{
    INTERFACE_MTU, LADDER, MTU_MAX, MTU_MIN, PATH, SWEEP, TEST_MIN, THROUGHPUT, VARY, WRITE,
};
use super::table::{Key, Kind, Table};

/// The actions, in the order in which messages and docs list them.
pub static ACTIONS: &[&Table] = &[
    &TOPOLOGY,
    &PATH,
    &THROUGHPUT,
    &SWEEP,
    &INTERFACE_MTU,
    &SWAP_ROLES,
    &REPEAT,
    &STORAGE_READ,
    &ASSERT,
];

const ANY_TIME: Kind = Kind::Duration { min: Duration::from_millis(1) };
const NAME: Kind = Kind::Text;
const OUTSTANDING: Kind = Kind::Integer { min: 1, max: OUTSTANDING_MAX };
const STORED: Kind = Kind::Size { min: 1, max: 1 << 53 };

pub static RUNBOOK: Table = Table {
    name: "runbook",
    sentence: "The whole file. Keys that begin with `x-` are allowed and ignored: they hold anchors.",
    keys: &[
        Key::required("name", NAME, "Stands over the report."),
        Key::optional(
            "vars",
            Kind::Anything,
            "Values that steps use as \"{{ name }}\"; `--set name=value` replaces them.",
        ),
        Key::optional("need", Kind::Table(&NEED), "What the databases require."),
        Key::optional(
            "limits",
            Kind::Table(&LIMITS),
            "What the run may use; enforced by the agents.",
        ),
        Key::optional(
            "allow",
            Kind::OneOrMore(&ALLOWED),
            "What steps may change on the hosts and restore; nothing unless given.",
        ),
        Key::required("steps", Kind::Steps, "What is done, in this order."),
        Key::optional(
            "finally",
            Kind::Steps,
            "Done at the end, also after a failure; not after Ctrl-C.",
        ),
        Key::optional("report", Kind::Table(&REPORT), "What is written."),
        Key::optional("agent", AGENT, "Whether the agent's executable stays on the nodes."),
    ],
};

pub const AGENT: Kind = Kind::Choice { now: &["remove", "keep"], later: &[] };

const ALLOWED: Kind = Kind::Choice { now: &["interface_mtu"], later: &[] };

pub static STEP: Table = Table {
    name: "step",
    sentence: "One step: exactly one action, and what holds for any action.",
    keys: &[
        Key::required("name", NAME, "Stands in progress and report."),
        Key::optional("when", Kind::Expression, "The step is skipped where this is false."),
        Key::optional("register", NAME, "The name under which later steps find its results."),
        Key::optional(
            "loop",
            Kind::Anything,
            "Items; the step is done for each, as \"{{ item }}\".",
        ),
        Key::optional("tags", Kind::OneOrMore(&NAME), "Names that `--only` can select."),
        Key::optional(
            "timeout",
            ANY_TIME,
            "Of the whole step; three times its expected time and a minute unless given.",
        ),
        Key::with_default(
            "on_error",
            Kind::Choice { now: &["continue", "stop"], later: &[] },
            "continue",
            "Whether the run goes on after this step failed.",
        ),
        Key::optional(
            "topology",
            Kind::Table(&TOPOLOGY),
            "Action: what the hosts are, and how traffic gets from one to the other.",
        ),
        Key::optional(
            "path",
            Kind::Table(&PATH),
            "Action: round trips, loss, and the largest packet that gets through.",
        ),
        Key::optional(
            "throughput",
            Kind::Table(&THROUGHPUT),
            "Action: what arrives over the network.",
        ),
        Key::optional(
            "sweep",
            Kind::Table(&SWEEP),
            "Action: the same test at several values of one key.",
        ),
        Key::optional(
            "interface_mtu",
            Kind::Table(&INTERFACE_MTU),
            "Action: the same test with the interfaces' MTU as it is and at another value.",
        ),
        Key::optional(
            "swap_roles",
            Kind::Table(&SWAP_ROLES),
            "Action: from here on the other cluster sends.",
        ),
        Key::optional(
            "repeat",
            Kind::OneOrMore(&NAME),
            "Action: named steps again, in the direction that holds here.",
        ),
        Key::optional(
            "storage_read",
            Kind::Table(&STORAGE_READ),
            "Action: reads as Oracle Database reads.",
        ),
        Key::optional(
            "assert",
            Kind::Table(&ASSERT),
            "Action: fails the run where something is not true.",
        ),
    ],
};

pub static TOPOLOGY: Table = Table {
    name: "topology",
    sentence: "Asks every node what it is, and the network how it gets from node to node.",
    keys: &[Key::with_default(
        "deadline",
        ANY_TIME,
        "10 s",
        "For what has to be asked of the network.",
    )],
};

pub static SWAP_ROLES: Table = Table {
    name: "swap_roles",
    sentence: "From here on the other cluster sends. A test direction only: no database switchover.",
    keys: &[],
};

pub static REPEAT: Table = Table {
    name: "repeat",
    sentence: "Does the named steps again, in the direction that holds here, and adds their results.",
    keys: &[],
};

pub static STORAGE_READ: Table = Table {
    name: "storage_read",
    sentence: "Reads storage as Oracle Database reads it. Give exactly one of file, device, scratch.",
    keys: &[
        Key::optional("file", Kind::Text, "An existing file; opened read only."),
        Key::optional("device", Kind::Text, "A block device; opened read only."),
        Key::optional("scratch", Kind::Table(&SCRATCH), "A file that is made, filled and removed."),
        Key::with_default(
            "patterns",
            Kind::List(&PATTERN),
            "[single_block, direct_path]",
            "`db file sequential read` and `direct path read`.",
        ),
        Key::with_default("block", BLOCK, "8 KiB", "Of a single-block read (DB_BLOCK_SIZE)."),
        Key::with_default(
            "request",
            BLOCK,
            "1 MiB",
            "Of a direct path read (MBRC × DB_BLOCK_SIZE).",
        ),
        Key::with_default(
            "sessions",
            Kind::List(&OUTSTANDING),
            "[1]",
            "Concurrent single-block readers, one point each.",
        ),
        Key::with_default(
            "slots",
            Kind::List(&OUTSTANDING),
            "[1, 2, 4, 8, 16, 32]",
            "Outstanding direct path reads (I/O slots), one point each.",
        ),
        Key::with_default("duration", Kind::Duration { min: TEST_MIN }, "5 s", "Of each point."),
        Key::with_default("nodes", Kind::Selection, "all", "Which nodes: all, first, or a list."),
    ],
};

const PATTERN: Kind = Kind::Choice { now: &["single_block", "direct_path"], later: &[] };
const BLOCK: Kind = Kind::Size { min: 512, max: REQUEST_MAX.0 };

pub static SCRATCH: Table = Table {
    name: "scratch",
    sentence: "A file of incompressible blocks, removed at the end.",
    keys: &[
        Key::required("dir", Kind::Text, "Where the database's files would be."),
        Key::required(
            "size",
            Kind::Size { min: Bytes::MIB, max: 1 << 53 },
            "Larger than what the array caches, or the cache is what is measured.",
        ),
    ],
};

pub static ASSERT: Table = Table {
    name: "assert",
    sentence: "Fails the run (exit code 1) where one of its expressions is false.",
    keys: &[
        Key::required(
            "that",
            Kind::OneOrMore(&Kind::Expression),
            "What must be true, for every pair; rates are in bytes per second, `10 * Mbit` is a rate.",
        ),
        Key::optional("message", Kind::Text, "What its being false means."),
    ],
};

pub static NEED: Table = Table {
    name: "need",
    sentence: "What the databases require; the verdict compares the measured with it.",
    keys: &[
        Key::optional("redo", Kind::Table(&REDO), "Redo rates."),
        Key::with_default(
            "headroom",
            Kind::Share { max: 10.0 },
            "30 %",
            "Added to the rates before they are compared.",
        ),
        Key::with_default(
            "transport",
            Kind::Choice { now: &["async", "sync", "fastsync"], later: &[] },
            "async",
            "ASYNC, SYNC AFFIRM, or SYNC NOAFFIRM.",
        ),
        Key::optional("database_size", STORED, "What instantiating the standby has to copy."),
        Key::optional("instantiate_within", ANY_TIME, "How long that may take."),
        Key::later("from", "write the rates under `redo`"),
    ],
};

pub static REDO: Table = Table {
    name: "redo",
    sentence: "Peak redo rates, without headroom.",
    keys: &[
        Key::optional("threads", Kind::Numbered(&Kind::Rate), "Of each thread, by its number."),
        Key::optional("total", Kind::Rate, "Of all threads in the same moment."),
        Key::optional(
            "write_size",
            Kind::Size { min: 1, max: MESSAGE_MAX.0 },
            "Average redo write size (`redo size` / `redo writes`): the message of SYNC tests.",
        ),
        Key::optional(
            "local_write",
            Kind::Duration { min: Duration::from_micros(1) },
            "Average `log file parallel write`: what a commit waits for without SYNC.",
        ),
    ],
};

pub static LIMITS: Table = Table {
    name: "limits",
    sentence: "What the run may use.",
    keys: &[
        Key::optional("rate", Kind::Rate, "Of each node; traffic is paced to it."),
        Key::optional("bytes", STORED, "Of the whole run."),
        Key::optional(
            "cpu",
            Kind::Share { max: 1.0 },
            "Of a host's CPU time, above 0 %; a test above it is ended.",
        ),
        Key::optional("load", Kind::Number, "Load average per CPU; above it no test starts."),
        Key::optional(
            "window",
            Kind::Window,
            "Time of day in which tests may start: \"22:00-05:00\".",
        ),
    ],
};

pub static REPORT: Table = Table {
    name: "report",
    sentence: "What is written when the run ends.",
    keys: &[Key::with_default(
        "formats",
        Kind::List(&FORMAT),
        "[html, markdown, json]",
        "The files.",
    )
    .oratcptest("-output")],
};

const FORMAT: Kind = Kind::Choice { now: &["html", "markdown", "json"], later: &[] };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_a_key_of_a_step() {
        for action in ACTIONS {
            assert!(STEP.key(action.name).is_some(), "{}", action.name);
        }
    }
}
