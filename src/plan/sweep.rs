//! From a `sweep` mapping to its checked parameters.

use redoline_proto::transfer::{MESSAGE_MAX, SocketRequest};
use redoline_proto::units::Bytes;

use super::actions::{Surroundings, but_the_test, missing};
use super::step::{BufferSize, Mode, NumConn, SweepSpec, ThroughputSpec, Vary};
use super::throughput::{self, Within};
use crate::runbook::keys;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::table::Table;
use crate::runbook::tree::Node;
use crate::runbook::value;

pub fn read(node: &Node, around: Surroundings<'_>) -> Result<SweepSpec, Faults> {
    let mut faults = but_the_test(node, &WITHOUT_TEST);
    let vary = node.get("vary").map_or_else(|| Err(missing(node, "vary", "sweep")), vary);
    // Told by the check of the mapping where it is not exactly one.
    let varied =
        node.get("vary").and_then(|vary| keys::VARY.names().find(|name| vary.get(name).is_some()));
    let test = match node.get("throughput") {
        Some(test) => throughput::read(test, around, Within::Sweep(varied.unwrap_or_default())),
        None => Err(missing(node, "throughput", "sweep")),
    };
    if let (Some(key), Some(test)) = (varied, node.get("throughput"))
        && let Some(given) = test.get(key)
    {
        let found = format!("`{key}` is what the sweep varies");
        faults.push(Fault::new(given.place, found).right("leave it out of `throughput`"));
    }
    match (vary, test) {
        (Ok(vary), Ok(test)) => {
            let values = node.get("vary").and_then(|node| node.get(vary.key())).unwrap_or(node);
            faults.extend(too_large(values, &vary, &test.spec));
            let sweep = SweepSpec { throughput: first_of(&vary, test.spec), vary };
            if faults.is_empty() { Ok(sweep) } else { Err(faults) }
        }
        (vary, test) => {
            faults.extend(vary.err().into_iter().chain(test.err()).flatten());
            Err(faults)
        }
    }
}

/// `throughput` is checked apart, since its num_conn may still be a template.
static WITHOUT_TEST: Table =
    Table { name: "sweep", sentence: "", keys: keys::SWEEP.keys.split_at(1).0 };

fn vary(node: &Node) -> Result<Vary, Faults> {
    let size = |node: &Node| value::size(node, Bytes(1), MESSAGE_MAX);
    let mut varies = keys::VARY.names().filter_map(|name| Some((name, node.get(name)?)));
    match (varies.next(), varies.next()) {
        (Some(("socket_buffer", values)), None) => {
            value::list(values, throughput::buffer).map(Vary::SocketBuffer)
        }
        (Some(("mtu", values)), None) => value::list(values, throughput::mtu).map(Vary::Mtu),
        (Some(("message_length", values)), None) => {
            value::list(values, size).map(Vary::MessageLength)
        }
        (Some(("encryption", values)), None) => {
            value::list(values, throughput::cipher).map(Vary::Encryption)
        }
        (Some((_, values)), None) => {
            value::list(values, throughput::compression).map(Vary::Compression)
        }
        // Told by the check of the mapping.
        _ => Err(Faults::new()),
    }
}

/// What an agent would refuse in the middle of the run.
fn too_large(values: &Node, vary: &Vary, test: &ThroughputSpec) -> Faults {
    let NumConn::Fixed(num_conn) = test.num_conn else { return Faults::new() };
    match vary {
        Vary::SocketBuffer(sizes) => {
            let fault = |size: &BufferSize| {
                let BufferSize::Fixed(bytes) = size else { return None };
                let request = SocketRequest {
                    socket_buffer_bytes: Some(bytes.0),
                    ..SocketRequest::default()
                };
                let error = request.check(num_conn).err()?;
                let right = "take smaller buffers or fewer connections";
                Some(Fault::new(values.place, error.to_string()).right(right))
            };
            sizes.iter().find_map(fault).into_iter().collect()
        }
        Vary::MessageLength(lengths) => match (&test.mode, lengths.iter().max()) {
            (Mode::Sync(write), Some(longest)) if longest.0 > write.file_bytes => {
                let found = format!("a message of {longest} does not fit the file of `write`");
                vec![Fault::new(values.place, found).right("give `write` a larger `size`")]
            }
            _ => Faults::new(),
        },
        Vary::Mtu(_) | Vary::Encryption(_) | Vary::Compression(_) => Faults::new(),
    }
}

/// The test of the first point.
fn first_of(vary: &Vary, test: ThroughputSpec) -> ThroughputSpec {
    match vary {
        Vary::MessageLength(lengths) => {
            ThroughputSpec { message: lengths.first().copied().unwrap_or(test.message), ..test }
        }
        _ => test,
    }
}
