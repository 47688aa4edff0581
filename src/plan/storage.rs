//! From a `storage_read` mapping to its checked parameters.

use redoline_proto::storage::{StoragePattern, StoragePoint, StorageTarget};
use redoline_proto::units::{Bytes, milliseconds};

use super::actions::{nodes, whole};
use super::clusters::Clusters;
use super::step::StorageReadSpec;
use crate::runbook::fields::Fields;
use crate::runbook::keys;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::tree::Node;
use crate::runbook::value;

/// Direct I/O reads whole sectors.
const SECTOR: u64 = 512;

pub fn read(node: &Node, clusters: Option<&Clusters>) -> Result<StorageReadSpec, Faults> {
    let mut fields = Fields::checked(node, &keys::STORAGE_READ);
    let target = target(&mut fields);
    let patterns = fields.read("patterns", |node| value::list(node, pattern));
    let block = fields.read("block", sectors);
    let request = fields.read("request", sectors);
    let counts = |node: &Node| value::list(node, |node| value::count(node, 1, 1024));
    let sessions = fields.read("sessions", counts);
    let slots = fields.read("slots", counts);
    let duration = fields.read("duration", |node| value::duration(node, keys::TEST_MIN));
    let nodes = fields.read("nodes", |node| nodes(node, clusters));
    let of_points = [
        (StoragePattern::SingleBlock, block, &sessions, ["sessions", "block"]),
        (StoragePattern::DirectPath, request, &slots, ["slots", "request"]),
    ];
    for (pattern, size, counts, blamed) in of_points {
        if let (Some(size), Some(counts), Some(patterns)) = (size, counts, &patterns)
            && patterns.contains(&pattern)
        {
            let at = blamed.into_iter().find_map(|key| fields.given(key)).unwrap_or(node);
            fields.faults.extend(too_much_at_a_time(at, pattern, size, counts));
        }
    }
    let spec = (|| {
        Some(StorageReadSpec {
            nodes: nodes?,
            target: target?,
            patterns: patterns?,
            block: block?,
            request: request?,
            sessions: sessions?,
            slots: slots?,
            duration: duration?,
        })
    })();
    whole(fields, spec)
}

/// Each agent would refuse it, one by one and in the middle of the run.
fn too_much_at_a_time(
    at: &Node,
    pattern: StoragePattern,
    size: Bytes,
    counts: &[u32],
) -> Option<Fault> {
    let point = |outstanding: u32| StoragePoint {
        pattern,
        request_bytes: size.0,
        outstanding,
        duration_ms: milliseconds(keys::TEST_MIN),
    };
    let error = counts.iter().find_map(|count| point(*count).check().err())?.to_string();
    let (found, right) = error.split_once("; ").unwrap_or((&error, "ask for less"));
    Some(Fault::new(at.place, found).right(right))
}

fn target(fields: &mut Fields<'_>) -> Option<StorageTarget> {
    let file = fields.read("file", path).map(StorageTarget::File);
    let device = fields.read("device", path).map(StorageTarget::Device);
    let scratch = fields.read("scratch", |node| {
        let mut fields = Fields::new(node, &keys::SCRATCH);
        let dir = fields.read("dir", path);
        let size = fields.read("size", |node| value::size(node, Bytes(Bytes::MIB), Bytes(1 << 53)));
        let scratch = dir.zip(size).map(|(dir, size)| StorageTarget::Scratch { dir, size });
        whole(fields, scratch)
    });
    file.or(device).or(scratch)
}

pub(super) fn path(node: &Node) -> Result<String, Faults> {
    let path = value::text(node)?;
    if path.starts_with('/') {
        return Ok(path);
    }
    let found = format!("`{path}` is not an absolute path");
    Err(value::one(node, found, "write the path from `/` on: it is a path on the nodes"))
}

fn pattern(node: &Node) -> Result<StoragePattern, Faults> {
    value::choice(node, &["single_block", "direct_path"], &[]).map(|word| match word {
        "single_block" => StoragePattern::SingleBlock,
        _ => StoragePattern::DirectPath,
    })
}

fn sectors(node: &Node) -> Result<Bytes, Faults> {
    let size = value::size(node, Bytes(SECTOR), Bytes(64 * Bytes::MIB))?;
    if size.0 % SECTOR != 0 {
        let found = format!("{size} is not a multiple of {SECTOR} B");
        return Err(value::one(node, found, "direct I/O reads whole sectors"));
    }
    Ok(size)
}
