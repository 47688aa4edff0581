//! Keys of a throughput test that do not go together, each told with the way out.

use std::time::Duration;

use redoline_proto::transfer::{NUM_CONN_MAX, SocketRequest};
use redoline_proto::units::Bytes;

use super::cost::AROUND_A_TEST;
use super::node::PairId;
use super::show::time_text;
use super::step::{
    AUTO_AT_MOST_MIN, BufferSize, Frequency, LadderSpec, Mode, Nodes, NumConn, TestTime,
};
use super::throughput::{Rest, Sockets, Within};
use crate::runbook::fields::Fields;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::tree::Node;

/// What was read of a test; `None` and empty where it could not be, which is told elsewhere.
#[derive(Clone, Debug)]
pub struct Seen {
    pub within: Within,
    /// A SYNC mode.
    pub acknowledged: bool,
    pub nodes: Nodes,
    pub both: bool,
    pub num_conn: Option<NumConn>,
    pub frequency: Option<Frequency>,
    pub time: Option<TestTime>,
    pub lengths: Vec<Bytes>,
    pub pairs: Option<Vec<PairId>>,
}

impl Seen {
    /// Nothing but the message length would vary.
    pub fn may_be_a_sweep(&self) -> bool {
        self.within == Within::Step
            && self.nodes == Nodes::Each
            && !self.both
            && self.frequency.is_none()
            && matches!(self.num_conn, None | Some(NumConn::Fixed(_)))
    }

    /// What varies from test to test besides the number of connections, as a subject of sentences.
    fn varied(&self) -> Option<String> {
        match self.within {
            Within::Sweep(_) => Some("a sweep".to_owned()),
            Within::InterfaceMtu => Some("interface_mtu".to_owned()),
            Within::Step if self.lengths.len() > 1 => Some("a list of message lengths".to_owned()),
            Within::Step => None,
        }
    }

    fn most_conn(&self) -> Option<u32> {
        Some(match self.num_conn.as_ref()? {
            NumConn::Fixed(count) | NumConn::Ladder(LadderSpec { max: count, .. }) => *count,
            NumConn::Later(_) => NUM_CONN_MAX,
        })
    }
}

pub fn faults(fields: &Fields<'_>, seen: &Seen, rest: &Rest) -> Faults {
    let mut faults = of_time(fields, seen, rest.interval);
    faults.extend(of_frequency(fields, seen));
    faults.extend(of_one_variable(fields, seen));
    faults.extend(of_sync(fields, seen, rest.mode.as_ref()));
    faults.extend(of_directions(fields, seen));
    faults.extend(of_all_to_one(fields, seen));
    if let Some(sockets) = &rest.sockets {
        faults.extend(of_ports(fields, seen, sockets));
        faults.extend(of_buffers(fields, seen, sockets));
    }
    faults
}

/// A fault at a key that is given.
fn at(fields: &Fields<'_>, key: &str, found: impl Into<String>, right: &str) -> Option<Fault> {
    Some(Fault::new(fields.given(key)?.place, found).right(right))
}

fn of_time(fields: &Fields<'_>, seen: &Seen, interval: Option<Duration>) -> Faults {
    let mut faults = Faults::new();
    match seen.time {
        Some(TestTime::Fixed(_)) => {
            for key in ["accuracy", "at_most"] {
                let found = format!("`{key}` has a meaning only with `duration: auto`");
                faults.extend(at(fields, key, found, "set `duration: auto`, or leave it out"));
            }
        }
        Some(TestTime::Auto { target, max }) => {
            if target <= 0.0 {
                let found = "no test is accurate to 0 %";
                faults.extend(at(fields, "accuracy", found, "write for example `2.5 %`"));
            }
            if max < AUTO_AT_MOST_MIN {
                let least = time_text(AUTO_AT_MOST_MIN);
                let found = format!("`duration: auto` needs up to {least} to see a rate twice");
                let right = format!("give `at_most` {least} or more, or a fixed `duration`");
                faults.extend(at(fields, "at_most", found, &right));
            }
        }
        None => {}
    }
    if let (Some(time), Some(interval)) = (seen.time, interval)
        && interval > time.longest()
    {
        let found = "the interval is longer than the test";
        let right = match time {
            TestTime::Fixed(_) => "make it shorter than `duration`",
            TestTime::Auto { .. } => "make it shorter than `at_most`",
        };
        faults.extend(at(fields, "interval", found, right));
    }
    faults
}

fn of_frequency(fields: &Fields<'_>, seen: &Seen) -> Option<Fault> {
    let Frequency { every, .. } = seen.frequency?;
    let varied = seen.varied().or_else(|| is_ladder(fields).then(|| "a ladder".to_owned()));
    if let Some(what) = varied {
        let found = format!("{what} is not repeated over time");
        let right = "repeat one test: one num_conn, one message_length";
        return at(fields, "frequency", found, right);
    }
    let in_turn = match seen.nodes {
        Nodes::Each => seen.pairs.as_ref().map_or(1, Vec::len).max(1),
        Nodes::Together | Nodes::AllToOne => 1,
    };
    let one = (seen.time?.longest() + AROUND_A_TEST)
        .saturating_mul(u32::try_from(in_turn).unwrap_or(u32::MAX));
    if one <= every {
        return None;
    }
    let tests = if in_turn == 1 { "a test" } else { "the tests of all pairs in turn" };
    let found = format!(
        "{tests} may take {}, and the next shall begin after {}",
        time_text(one),
        time_text(every)
    );
    at(fields, "frequency", found, "repeat less often, or make the test shorter")
}

fn is_ladder(fields: &Fields<'_>) -> bool {
    fields.given("num_conn").and_then(Node::entries).is_some()
}

/// A series varies one thing.
fn of_one_variable(fields: &Fields<'_>, seen: &Seen) -> Faults {
    let mut faults = Faults::new();
    let Some(what) = seen.varied() else { return faults };
    let is_late = matches!(seen.num_conn, Some(NumConn::Later(_)));
    if is_ladder(fields) {
        let found = format!("{what} varies one key, and a ladder would vary another");
        faults.extend(at(fields, "num_conn", found, "give one num_conn"));
    } else if is_late && seen.within != Within::InterfaceMtu {
        let found = format!("{what} needs its num_conn before the run");
        faults.extend(at(fields, "num_conn", found, "give a number"));
    }
    if seen.within != Within::Step && seen.lengths.len() > 1 {
        let found = format!("{what} varies one key, and a list of message lengths another");
        faults.extend(at(fields, "message_length", found, "give one message_length"));
    }
    if seen.nodes != Nodes::Each {
        let found = format!("{what} goes from pair to pair");
        let right = match seen.within {
            Within::InterfaceMtu => "leave `nodes` out",
            _ => "leave `nodes` out; for all at once, use `loop` over a throughput step",
        };
        faults.extend(at(fields, "nodes", found, right));
    }
    if seen.within == Within::InterfaceMtu {
        let found = "the segments would be clamped whatever the interface's MTU is";
        faults.extend(at(fields, "mtu", found, "leave `mtu` out of `throughput`"));
    }
    if seen.within == Within::Sweep("socket_buffer") {
        for key in ["send_buffer", "receive_buffer"] {
            let found = format!("`{key}` would win over the buffers that the sweep varies");
            faults.extend(at(fields, key, found, "leave it out"));
        }
    }
    for (vary, other) in [("encryption", "compression"), ("compression", "encryption")] {
        let is_none = |node: &Node| node.scalar().is_some_and(|scalar| scalar.text == "none");
        if seen.within == Within::Sweep(vary) && !fields.given(other).is_some_and(is_none) {
            let found = format!("{other} in a sweep of {vary}");
            let right = "make a step of each, so that the cost of each is known";
            faults.extend(at(fields, other, found, right));
        }
    }
    faults
}

/// SYNC waits for each message: it has a latency, and a rate only as far as that allows.
fn of_sync(fields: &Fields<'_>, seen: &Seen, mode: Option<&Mode>) -> Faults {
    let mut faults = Faults::new();
    if !seen.acknowledged {
        return faults;
    }
    if is_ladder(fields) {
        let found = "a ladder looks for a rate, and SYNC transport waits for each message";
        let right = "give one num_conn: redo goes over one connection per thread and destination";
        faults.extend(at(fields, "num_conn", found, right));
    }
    let is_none = |node: &Node| node.scalar().is_some_and(|scalar| scalar.text == "none");
    for key in ["encryption", "compression"] {
        if fields.given(key).is_some_and(|node| !is_none(node)) {
            let found = format!("{key} is measured on streams, not message by message");
            faults.extend(at(fields, key, found, "take `mode: async`, or leave it out"));
        }
    }
    if let Within::Sweep("encryption" | "compression") = seen.within {
        let found = "encryption and compression are measured on streams, not message by message";
        faults.extend(at(fields, "mode", found, "leave `mode` out"));
    }
    if let (Some(Mode::Sync(write)), Some(longest)) = (mode, seen.lengths.iter().max())
        && longest.0 > write.file_bytes
    {
        let found = format!("a message of {longest} does not fit the file of `write`");
        faults.extend(at(fields, "write", found, "give it a larger `size`"));
    }
    faults
}

fn of_directions(fields: &Fields<'_>, seen: &Seen) -> Option<Fault> {
    let what = match seen {
        Seen { both: false, .. } => return None,
        _ if is_ladder(fields) => "a ladder".to_owned(),
        Seen { nodes: Nodes::AllToOne, .. } => "all to one".to_owned(),
        Seen { acknowledged: true, .. } => "SYNC transport".to_owned(),
        _ => seen.varied()?,
    };
    let found = format!("{what} is not measured in both directions at once");
    let right = "leave `directions` out, and repeat the step after a swap_roles";
    at(fields, "directions", found, right)
}

fn of_all_to_one(fields: &Fields<'_>, seen: &Seen) -> Option<Fault> {
    let found = "`nodes: all_to_one` is about every sender and the first receiver";
    let is_all_to_one = seen.nodes == Nodes::AllToOne;
    is_all_to_one.then(|| at(fields, "pairs", found, "leave `pairs` out")).flatten()
}

fn of_ports(fields: &Fields<'_>, seen: &Seen, sockets: &Sockets) -> Option<Fault> {
    let (first, count) = (u32::from(sockets.source_port?), seen.most_conn()?);
    let last = first + count - 1;
    if last <= u32::from(u16::MAX) {
        return None;
    }
    let found = format!("{count} connections from port {first} on would need port {last}");
    at(fields, "source_port", found, "ports end at 65535: begin lower, or use fewer connections")
}

/// The agents would refuse it in the middle of the run.
fn of_buffers(fields: &Fields<'_>, seen: &Seen, sockets: &Sockets) -> Option<Fault> {
    let num_conn = match seen.num_conn.as_ref()? {
        NumConn::Fixed(count) | NumConn::Ladder(LadderSpec { max: count, .. }) => *count,
        NumConn::Later(_) => return None,
    };
    let bytes = |size: Option<BufferSize>| match size? {
        BufferSize::Fixed(bytes) => Some(bytes.0),
        BufferSize::Auto | BufferSize::TimesBdp(_) => None,
    };
    let both = bytes(Some(sockets.both));
    let asked = [
        ("socket_buffer", both),
        ("send_buffer", bytes(sockets.send)),
        ("receive_buffer", bytes(sockets.receive)),
    ];
    asked.into_iter().find_map(|(key, bytes)| {
        let request =
            SocketRequest { socket_buffer_bytes: Some(bytes?), ..SocketRequest::default() };
        let error = request.check(num_conn).err()?;
        at(fields, key, error.to_string(), "take smaller buffers or fewer connections")
    })
}
