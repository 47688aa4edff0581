//! From a `throughput` mapping to its checked parameters.

use std::collections::HashMap;
use std::time::Duration;

use redoline_proto::encoding::{Compression, CompressionMethod, Encoding, TlsCipher};
use redoline_proto::transfer::{MESSAGE_MAX, NUM_CONN_MAX, Payload, RedoWrite};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::actions::{self, Surroundings, WriteSize, whole, without};
use super::combinations::{self, Seen};
use super::expression::Expression;
use super::node::PairId;
use super::step::{
    Action, BufferSize, Frequency, LadderSpec, Mode, Nodes, NumConn, SweepSpec, TestTime,
    ThroughputSpec, Until, Vary,
};
use super::storage;
use crate::runbook::check::{self, Templates};
use crate::runbook::fields::Fields;
use crate::runbook::keys;
use crate::runbook::network_keys::{CIPHERS, COMPRESSIONS};
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::source::Place;
use crate::runbook::tree::Node;
use crate::runbook::value::{self, Buffer};

/// Where the mapping stands; what is around it may rule out some of its keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Within {
    Step,
    /// With the key that it varies.
    Sweep(&'static str),
    InterfaceMtu,
}

/// A test, and the message lengths that it is done with.
#[derive(Clone, Debug)]
pub struct Test {
    pub spec: ThroughputSpec,
    lengths: Vec<Bytes>,
}

impl Test {
    /// Several message lengths are a sweep.
    pub fn into_action(self) -> Action {
        match self.lengths.len() {
            1 => Action::Throughput(self.spec),
            _ => Action::Sweep(SweepSpec {
                vary: Vary::MessageLength(self.lengths),
                throughput: self.spec,
            }),
        }
    }
}

/// Assumed where the need has mistakes, so that the rest can be checked.
const SOME_WRITE_SIZE: Bytes = Bytes(8192);

pub fn read(node: &Node, around: Surroundings<'_>, within: Within) -> Result<Test, Faults> {
    let mut fields = Fields::new(node, &keys::THROUGHPUT);
    // num_conn may still be a template, which is why its check is apart.
    let but_num_conn = without(node, "num_conn");
    fields.faults.extend(check::mapping(&but_num_conn, &keys::THROUGHPUT, Templates::Refused));
    let mode = mode(&mut fields);
    let nodes = fields.read("nodes", nodes);
    let frequency = fields.read("frequency", value::frequency);
    let mut seen = Seen {
        within,
        acknowledged: mode.as_ref().is_some_and(Mode::acknowledged),
        nodes: nodes.unwrap_or_default(),
        both: fields.read("directions", both).unwrap_or_default(),
        num_conn: fields.read("num_conn", |node| num_conn(node, around.late)),
        frequency: frequency.map(|(every, during)| Frequency { every, during }),
        time: time(&mut fields),
        lengths: Vec::new(),
        pairs: pairs(&mut fields, nodes, around),
    };
    seen.lengths = lengths(&mut fields, &seen, around);
    let rest = Rest {
        nodes,
        mode,
        interval: fields.read("interval", |node| value::duration(node, keys::TEST_MIN)),
        sockets: sockets(&mut fields),
        payload: payload(&mut fields),
        encoding: encoding(&mut fields),
    };
    let faults = combinations::faults(&fields, &seen, &rest);
    fields.faults.extend(faults);
    let lengths = seen.lengths.clone();
    let spec = assembled(&mut fields, seen, rest);
    whole(fields, spec.map(|spec| Test { spec, lengths }))
}

/// What was read besides [`Seen`].
#[derive(Clone, Debug)]
pub struct Rest {
    nodes: Option<Nodes>,
    pub mode: Option<Mode>,
    pub interval: Option<Duration>,
    pub sockets: Option<Sockets>,
    payload: Option<(Payload, Option<Share>)>,
    encoding: Option<Encoding>,
}

/// Below this the kernel's bursts are most of what a stream sends, and 0 would be no limit at all.
const PACING_MIN: BytesPerSecond = BytesPerSecond(125_000.0);

fn paced(node: &Node) -> Result<BytesPerSecond, Faults> {
    let rate = value::rate(node)?;
    if rate.0 < PACING_MIN.0 {
        let found = format!("{rate} is too slow to be paced");
        return Err(value::one(node, found, "from 1 Mbit/s on, or use `delay` for less"));
    }
    Ok(rate)
}

fn assembled(fields: &mut Fields<'_>, seen: Seen, rest: Rest) -> Option<ThroughputSpec> {
    let least = Duration::from_micros(1);
    let delay = fields.read("delay", |node| value::duration(node, least));
    let network_timeout = fields.read("network_timeout", |node| value::duration(node, least));
    let pacing = fields.read("pacing", paced);
    let (payload, compressible) = rest.payload?;
    let (sockets, time) = (rest.sockets?, seen.time?);
    Some(ThroughputSpec {
        pairs: seen.pairs?,
        nodes: rest.nodes?,
        both_directions: seen.both,
        num_conn: seen.num_conn?,
        time,
        mode: rest.mode?,
        delay,
        network_timeout,
        frequency: seen.frequency,
        interval: rest.interval?.min(time.longest()),
        message: *seen.lengths.first()?,
        payload,
        socket_buffer: sockets.both,
        send_buffer: sockets.send,
        receive_buffer: sockets.receive,
        congestion_control: sockets.congestion_control,
        mtu: sockets.mtu,
        dscp: sockets.dscp,
        device: sockets.device,
        source_port_base: sockets.source_port,
        pacing,
        encoding: rest.encoding,
        compressible,
    })
}

fn nodes(node: &Node) -> Result<Nodes, Faults> {
    let word = value::choice(node, &["each", "together", "all_to_one"], &[])?;
    Ok(match word {
        "together" => Nodes::Together,
        "all_to_one" => Nodes::AllToOne,
        _ => Nodes::Each,
    })
}

fn both(node: &Node) -> Result<bool, Faults> {
    value::choice(node, &["one", "both"], &[]).map(|word| word == "both")
}

fn pairs(
    fields: &mut Fields<'_>,
    nodes: Option<Nodes>,
    around: Surroundings<'_>,
) -> Option<Vec<PairId>> {
    if nodes == Some(Nodes::AllToOne) {
        return Some(around.clusters.map_or_else(Vec::new, |all| all.all_to_one(around.direction)));
    }
    fields.read("pairs", |node| actions::pairs(node, around.clusters))
}

fn mode(fields: &mut Fields<'_>) -> Option<Mode> {
    let word =
        fields.read("mode", |node| value::choice(node, &["async", "sync", "fastsync"], &[]))?;
    let write = fields.read("write", write);
    match (word, fields.given("write")) {
        ("sync", None) => {
            let at = fields.given("mode")?;
            let found = "`mode: sync` acknowledges what is written, and no `write` says where";
            fields.faults.push(
                Fault::new(at.place, found).right(
                    "add for example `write: { dir: /u02/oradata }`, or take `mode: fastsync`",
                ),
            );
            // Whatever else is wrong can still be told.
            Some(Mode::Fastsync)
        }
        ("sync", Some(_)) => write.map(Mode::Sync),
        (word, Some(at)) => {
            let found = format!("`write` has no meaning with `mode: {word}`");
            let right = "take `mode: sync`, or leave `write` out";
            fields.faults.push(Fault::new(at.place, found).right(right));
            None
        }
        ("fastsync", None) => Some(Mode::Fastsync),
        _ => Some(Mode::Async),
    }
}

fn write(node: &Node) -> Result<RedoWrite, Faults> {
    let mut fields = Fields::new(node, &keys::WRITE);
    let dir = fields.read("dir", storage::path);
    let size = fields.read("size", |node| value::size(node, Bytes(Bytes::MIB), Bytes(1 << 53)));
    let write = dir.zip(size).map(|(dir, size)| RedoWrite { dir, file_bytes: size.0 });
    whole(fields, write)
}

fn time(fields: &mut Fields<'_>) -> Option<TestTime> {
    let duration = fields.read("duration", |node| value::test_time(node, keys::TEST_MIN))?;
    let target = fields.read("accuracy", |node| value::share(node, 0.5));
    let max = fields.read("at_most", |node| value::duration(node, Duration::from_secs(1)));
    match duration {
        Some(duration) => Some(TestTime::Fixed(duration)),
        None => Some(TestTime::Auto { target: target?.0, max: max? }),
    }
}

/// In SYNC modes, unless given: the average redo write, and twice that, since SYNC doubles redo
/// writes (facts of MAA tables: +92 to +94 %).
fn lengths(fields: &mut Fields<'_>, seen: &Seen, around: Surroundings<'_>) -> Vec<Bytes> {
    let size = |node: &Node| value::size(node, Bytes(1), MESSAGE_MAX);
    let varied = seen.within == Within::Sweep("message_length");
    let mode = fields.given("mode").filter(|_| seen.acknowledged && !varied);
    let (Some(mode), None) = (mode, fields.given("message_length")) else {
        let given = fields.read("message_length", |node| value::one_or_more(node, size));
        return given.unwrap_or_default();
    };
    let write_size = match around.stated.write_size {
        WriteSize::Known(size) => size,
        WriteSize::Unreadable => SOME_WRITE_SIZE,
        WriteSize::NotStated => {
            let found = "SYNC sends messages of the average redo write size, and none is stated";
            let right = "state `need.redo.write_size` (`redo size` / `redo writes`), or give \
                         `message_length`";
            fields.faults.push(Fault::new(mode.place, found).right(right));
            SOME_WRITE_SIZE
        }
    };
    let twice = Bytes(write_size.0.saturating_mul(2));
    match seen.may_be_a_sweep() && twice <= MESSAGE_MAX {
        true => vec![write_size, twice],
        false => vec![write_size],
    }
}

fn payload(fields: &mut Fields<'_>) -> Option<(Payload, Option<Share>)> {
    let word = fields.read("payload", |node| value::choice(node, &["random", "zeros"], &[]))?;
    let compressible = fields.read("compressible", |node| value::share(node, 0.99));
    if word == "zeros"
        && let Some(at) = fields.given("compressible")
    {
        let found = "`compressible` is a share of random bytes, and the payload is zeros";
        let right = "leave out one of the two: zeros compress to nothing";
        fields.faults.push(Fault::new(at.place, found).right(right));
    }
    let payload = if word == "zeros" { Payload::Zeros } else { Payload::Random };
    Some((payload, compressible))
}

/// What is asked of sockets.
#[derive(Clone, Debug)]
pub struct Sockets {
    pub both: BufferSize,
    pub send: Option<BufferSize>,
    pub receive: Option<BufferSize>,
    congestion_control: Option<String>,
    mtu: Option<u32>,
    dscp: Option<u32>,
    device: Option<String>,
    pub source_port: Option<u16>,
}

fn sockets(fields: &mut Fields<'_>) -> Option<Sockets> {
    Some(Sockets {
        both: fields.read("socket_buffer", buffer)?,
        send: fields.read("send_buffer", buffer),
        receive: fields.read("receive_buffer", buffer),
        congestion_control: fields.read("congestion_control", value::congestion_control),
        mtu: fields.read("mtu", mtu),
        dscp: fields.read("dscp", value::dscp),
        device: fields.read("device", value::device),
        source_port: fields
            .read("source_port", |node| value::integer(node, 1024, 65_535))
            .and_then(|port| u16::try_from(port).ok()),
    })
}

pub fn buffer(node: &Node) -> Result<BufferSize, Faults> {
    value::buffer(node).map(|buffer| match buffer {
        Buffer::Auto => BufferSize::Auto,
        Buffer::Size(bytes) => BufferSize::Fixed(bytes),
        Buffer::TimesBdp(factor) => BufferSize::TimesBdp(factor),
    })
}

pub fn mtu(node: &Node) -> Result<u32, Faults> {
    value::count(node, keys::MTU_MIN, keys::MTU_MAX)
}

fn encoding(fields: &mut Fields<'_>) -> Option<Encoding> {
    let cipher = fields.read("encryption", cipher).flatten();
    let compression = fields.read("compression", compression).flatten();
    if let (Some(_), Some(_), Some(at)) = (cipher, compression, fields.given("compression")) {
        let found = "encryption and compression in one test";
        let right = "make a step of each, so that the cost of each is known";
        fields.faults.push(Fault::new(at.place, found).right(right));
    }
    cipher.map(Encoding::Tls).or(compression.map(Encoding::Compression))
}

/// `None`: in the clear.
pub fn cipher(node: &Node) -> Result<Option<TlsCipher>, Faults> {
    Ok(match value::choice(node, CIPHERS, &[])? {
        "aes-128-gcm" => Some(TlsCipher::Aes128Gcm),
        "aes-256-gcm" => Some(TlsCipher::Aes256Gcm),
        "chacha20-poly1305" => Some(TlsCipher::Chacha20Poly1305),
        _ => None,
    })
}

/// `None`: as it is.
pub fn compression(node: &Node) -> Result<Option<Compression>, Faults> {
    let word = value::choice(node, COMPRESSIONS, &[])?;
    let level = word.strip_prefix("zlib-").and_then(|level| level.parse().ok());
    Ok(match (word, level) {
        ("lz4", _) => Some(Compression { method: CompressionMethod::Lz4, level: 0 }),
        (_, Some(level)) => Some(Compression { method: CompressionMethod::Zlib, level }),
        _ => None,
    })
}

fn num_conn(node: &Node, late: &HashMap<Place, Expression>) -> Result<NumConn, Faults> {
    if node.scalar().is_some() {
        return match late.get(&node.place) {
            Some(expression) => Ok(NumConn::Later(expression.clone())),
            None => value::count(node, 1, NUM_CONN_MAX).map(NumConn::Fixed),
        };
    }
    ladder(node).map(NumConn::Ladder)
}

fn ladder(node: &Node) -> Result<LadderSpec, Faults> {
    let mut fields = Fields::checked(node, &keys::LADDER);
    let level = |node: &Node| value::count(node, 1, NUM_CONN_MAX);
    let until = fields.read("until", |node| value::choice(node, &["plateau", "knee"], &[]));
    let until = until.map(|word| if word == "knee" { Until::Knee } else { Until::Plateau });
    let from = fields.read("from", level);
    let step = fields.read("step", level);
    let max = fields.read("max", level);
    let tolerance = fields.read("tolerance", |node| value::share(node, 0.5));
    if let (Some(Until::Knee), Some(at)) = (until, fields.given("step")) {
        let found = "`until: knee` has steps of its own: 1, 2, 3, 4, 6, 8, 12, 16, …";
        let right = "leave `step` out, or take `until: plateau`";
        fields.faults.push(Fault::new(at.place, found).right(right));
    }
    let ladder = (|| {
        let until = until?;
        Some(LadderSpec {
            until,
            from: from.unwrap_or(if until == Until::Knee { 1 } else { 2 }),
            step: step.unwrap_or(2),
            max: max?,
            tolerance: tolerance?.0,
        })
    })();
    if let Some(ladder) = ladder
        && ladder.from > ladder.max
    {
        let found = format!("the ladder begins at {} and ends at {}", ladder.from, ladder.max);
        fields.faults.push(Fault::new(node.place, found).right("make `max` larger than `from`"));
    }
    whole(fields, ladder)
}
