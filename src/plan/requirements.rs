//! Need, limits and report of a runbook, read from rendered trees.

use std::collections::BTreeMap;
use std::time::Duration;

use redoline_proto::transfer::MESSAGE_MAX;
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::ReportFormat;
use super::need::{Limits, Need, TimeWindow, Transport};
use super::problem::no_node_of_thread;
use crate::runbook::fields::Fields;
use crate::runbook::keys;
use crate::runbook::problem::Faults;
use crate::runbook::tree::Node;
use crate::runbook::value;

const MOMENT: Duration = Duration::from_millis(1);
const ANY_SIZE: (Bytes, Bytes) = (Bytes(1), Bytes(1 << 53));

/// `threads`: those that primary nodes have, where the inventory is known.
pub fn need(node: &Node, threads: Option<&[u32]>) -> Result<Need, Faults> {
    let mut fields = Fields::checked(node, &keys::NEED);
    let redo = match fields.given("redo") {
        Some(node) => redo(node, threads).map_err(|faults| fields.faults.extend(faults)).ok(),
        None => None,
    };
    let redo = redo.unwrap_or_default();
    let words = ["async", "sync", "fastsync"];
    let transport = fields.read("transport", |node| value::choice(node, &words, &[]));
    let size = |node: &Node| value::size(node, ANY_SIZE.0, ANY_SIZE.1);
    let need = Need {
        threads: redo.threads,
        total: redo.total,
        write_size: redo.write_size,
        local_write: redo.local_write,
        headroom: fields.read("headroom", |node| value::share(node, 10.0)).unwrap_or_default(),
        transport: match transport {
            Some("sync") => Transport::Sync,
            Some("fastsync") => Transport::Fastsync,
            _ => Transport::Async,
        },
        database_size: fields.read("database_size", size),
        instantiate_within: fields.read("instantiate_within", |node| value::duration(node, MOMENT)),
    };
    if fields.faults.is_empty() { Ok(need) } else { Err(fields.faults) }
}

#[derive(Default)]
struct Redo {
    threads: BTreeMap<u32, BytesPerSecond>,
    total: Option<BytesPerSecond>,
    write_size: Option<Bytes>,
    local_write: Option<Duration>,
}

fn redo(node: &Node, threads: Option<&[u32]>) -> Result<Redo, Faults> {
    let mut fields = Fields::new(node, &keys::REDO);
    let mut of_threads = BTreeMap::new();
    for entry in fields.given("threads").and_then(Node::entries).unwrap_or_default() {
        let number = value::count(&Node::plain(entry.place, entry.key.clone()), 1, 1023);
        match (number, value::rate(&entry.value)) {
            (Ok(thread), Ok(rate)) => {
                if let Some(known) = threads
                    && !known.contains(&thread)
                {
                    fields.faults.push(no_node_of_thread(entry.place, thread, known));
                }
                of_threads.insert(thread, rate);
            }
            (number, rate) => {
                fields.faults.extend(number.err().into_iter().chain(rate.err()).flatten());
            }
        }
    }
    let redo = Redo {
        threads: of_threads,
        total: fields.read("total", value::rate),
        write_size: fields.read("write_size", |node| value::size(node, Bytes(1), MESSAGE_MAX)),
        local_write: fields
            .read("local_write", |node| value::duration(node, Duration::from_micros(1))),
    };
    if fields.faults.is_empty() { Ok(redo) } else { Err(fields.faults) }
}

pub fn limits(node: &Node) -> Result<Limits, Faults> {
    let mut fields = Fields::checked(node, &keys::LIMITS);
    let limits = Limits {
        rate: fields.read("rate", value::rate),
        bytes: fields.read("bytes", |node| value::size(node, ANY_SIZE.0, ANY_SIZE.1)),
        cpu: fields.read("cpu", cpu),
        load: fields.read("load", value::number),
        window: fields
            .read("window", value::window)
            .map(|(from_minute, to_minute)| TimeWindow { from_minute, to_minute }),
    };
    if fields.faults.is_empty() { Ok(limits) } else { Err(fields.faults) }
}

fn cpu(node: &Node) -> Result<Share, Faults> {
    match value::share(node, 1.0)? {
        Share(0.0) => Err(value::one(
            node,
            "a limit of 0 % leaves no CPU time for any test",
            "write for example `80 %`, or leave the limit out",
        )),
        share => Ok(share),
    }
}

/// Words of `allow`.
pub fn allowed(node: &Node) -> Result<Vec<&'static str>, Faults> {
    value::one_or_more(node, |node| value::choice(node, &["interface_mtu"], &[]))
}

/// All formats when the runbook says nothing.
pub fn formats(node: &Node) -> Result<Vec<ReportFormat>, Faults> {
    let mut fields = Fields::checked(node, &keys::REPORT);
    let word = |node: &Node| value::choice(node, &["html", "markdown", "json"], &[]);
    let words = fields.read("formats", |node| value::list(node, word)).unwrap_or_default();
    let mut formats = Vec::new();
    for word in words {
        let format = match word {
            "html" => ReportFormat::Html,
            "markdown" => ReportFormat::Markdown,
            _ => ReportFormat::Json,
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    if fields.faults.is_empty() { Ok(formats) } else { Err(fields.faults) }
}
