//! Why a data connection did not come about: refused or silently dropped, by whom, and what to ask
//! of whom.

use super::transfer::Ends;
use crate::plan::node::{Node, PortRange};
use crate::record::event::{DATA_PORT_FILTERED, DATA_PORT_REFUSED};
use crate::record::measurement::{Failure, FailureCause};

/// What came back of a connection's first packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    /// A reset, or ICMP "port unreachable".
    Refused,
    /// Another ICMP message, or this node's own firewall (EHOSTUNREACH, EACCES).
    Prohibited,
    Nothing,
}

/// The sender's words, as the agent of the same build says them.
const WORDS: &[(&str, Answer)] = &[
    ("connection refused", Answer::Refused),
    ("no answer within", Answer::Nothing),
    // EHOSTUNREACH. ENETUNREACH is this node's own lack of a route, which its words name.
    ("No route to host", Answer::Prohibited),
    ("not permitted", Answer::Prohibited),
];

/// The failure of a sender whose receiver was listening at `port`, with its way out. A connection
/// that failed for another reason keeps its failure.
pub fn explained(ends: Ends<'_>, port: u16, failure: Failure) -> Failure {
    if failure.cause != FailureCause::CouldNotMeasure {
        return failure;
    }
    let answer = WORDS.iter().find(|(words, _)| failure.text.contains(words));
    let Some((_, answer)) = answer else { return failure };
    let text = format!(
        "{}; {}",
        failure.text,
        way_out(*answer, ends.sender_node, ends.receiver_node, port)
    );
    Failure { phase: answer.phase().to_owned(), text, ..failure }
}

impl Answer {
    fn phase(self) -> &'static str {
        match self {
            Self::Refused | Self::Prohibited => DATA_PORT_REFUSED,
            Self::Nothing => DATA_PORT_FILTERED,
        }
    }
}

fn way_out(answer: Answer, sender: &Node, receiver: &Node, port: u16) -> String {
    let name = &receiver.name;
    let (bind, from, to) = (receiver.redo.bind, sender.redo.seen_as, receiver.redo.address);
    let why = match answer {
        Answer::Refused => format!(
            "the agent on `{name}` listens at {bind} port {port}, so a firewall on `{name}` or on \
             the way rejects it, or {to} leads to another host"
        ),
        Answer::Prohibited => format!(
            "the agent on `{name}` listens at {bind} port {port}; firewalld rejects with this answer \
             what it does not allow, and a router says the same where it has no route"
        ),
        Answer::Nothing => format!(
            "the agent on `{name}` listens at {bind} port {port}, so a firewall on `{name}` or on \
             the way drops the packets of one direction, or no route leads back"
        ),
    };
    let ports = asked(receiver.data_ports);
    format!(
        "{why}; have TCP {ports} from {from} to {to} opened by whoever runs the firewall of \
         `{name}` and those on the way, or set `data_port` to a port that is open"
    )
}

fn asked(ports: PortRange) -> String {
    match ports.first == ports.last {
        true => format!("port {}", ports.first),
        false => format!("ports {} to {}", ports.first, ports.last),
    }
}
