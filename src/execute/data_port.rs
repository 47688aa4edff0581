//! Why a data connection did not come about: refused or silently dropped, by whom, and what to ask
//! of whom.

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
pub fn explained(sender: &Node, receiver: &Node, port: u16, failure: Failure) -> Failure {
    if failure.cause != FailureCause::CouldNotMeasure {
        return failure;
    }
    let answer = WORDS.iter().find(|(words, _)| failure.text.contains(words));
    let Some((_, answer)) = answer else { return failure };
    let text = format!("{}; {}", failure.text, way_out(*answer, sender, receiver, port));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::failure::could_not_measure;
    use crate::plan::access::Access;
    use crate::plan::node::{RedoAddress, Role};

    fn node(name: &str, role: Role, address: &str) -> Node {
        Node {
            name: name.to_owned(),
            role,
            cluster: String::new(),
            thread: None,
            access: Access::Local,
            redo: RedoAddress::plain(address.parse().unwrap()),
            data_ports: PortRange { first: 5555, last: 5555 },
            agent_dir: None,
        }
    }

    /// What becomes of the words of the sender's agent.
    fn told(words: &str) -> Failure {
        let sender = node("phx1", Role::Primary, "198.51.100.11");
        let receiver = node("ash1", Role::Standby, "203.0.113.11");
        let text = format!("198.51.100.11 could not connect to 203.0.113.11:5555: {words}");
        explained(&sender, &receiver, 5555, could_not_measure(None, "data connection", text))
    }

    #[test]
    fn what_refuses_and_what_drops_are_told_apart() {
        let refused = told("connection refused — a firewall rejects it or nothing listens");
        let icmp =
            "No route to host (os error 113) — look at the route to 203.0.113.11 on this node";
        let prohibited = told(icmp);
        let dropped = told("no answer within 5 s — a firewall drops it or no route leads there");
        assert_eq!(refused.phase, DATA_PORT_REFUSED);
        assert_eq!(prohibited.phase, DATA_PORT_REFUSED);
        assert!(prohibited.text.contains("firewalld"), "{}", prohibited.text);
        assert_eq!(dropped.phase, DATA_PORT_FILTERED);
        for failure in [refused, prohibited, dropped] {
            let asked = "have TCP port 5555 from 198.51.100.11 to 203.0.113.11 opened";
            assert!(failure.text.contains(asked), "{}", failure.text);
        }
    }

    #[test]
    fn a_connection_that_fails_for_another_reason_keeps_its_failure() {
        for words in [
            "connected, but no answer to the token within 5 s — another program listens there",
            "Network is unreachable (os error 101) — look at the route to 203.0.113.11 on this node",
        ] {
            let failure = told(words);
            assert_eq!(failure.phase, "data connection");
            assert!(failure.text.ends_with(words), "{}", failure.text);
        }
    }
}
