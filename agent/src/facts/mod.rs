//! What this node is, as it sees itself.
//!
//! Reading is apart from parsing, and everything that could hang has its own thread: what is not
//! known in time is unknown.

mod block;
mod hops;
mod host;
pub(crate) mod interfaces;
pub(crate) mod netlink;
mod oracle;
mod root;
mod routes;
mod tcp;

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use redoline_proto::facts::{FactsRequest, HostFacts};

use self::interfaces::Live;
use self::root::Root;

/// Left at the end for gathering, so that routes that were probed to the last are not lost.
const RESERVE: Duration = Duration::from_millis(200);
/// However little time is asked for: files of /proc and /sys take a part of this.
const DEADLINE_MIN: Duration = Duration::from_secs(1);

/// Reads everything that the request asks for; blocks at most for its deadline.
pub fn read(request: FactsRequest) -> HostFacts {
    read_below(&Root::new("/"), request)
}

fn read_below(root: &Root, request: FactsRequest) -> HostFacts {
    let deadline = Instant::now() + Duration::from_millis(request.deadline_ms).max(DEADLINE_MIN);
    let root = || root.clone();
    let (below, user_id) = (root(), Uid::effective().as_raw());
    let host = ask("facts-host", move || host::read(&below, user_id));
    let below = root();
    let tcp = ask("facts-tcp", move || tcp::read(&below));
    let below = root();
    let interfaces =
        ask("facts-net", move || interfaces::read(&below, &Live::read(), interfaces::offloads));
    let below = root();
    // A deadline of zero asks nothing of the network.
    let probing = (request.deadline_ms > 0).then(|| deadline - RESERVE);
    let routes = ask("facts-routes", move || routes::read(&below, &request.peers, probing));
    let below = root();
    let block_devices = ask("facts-block", move || block::read(&below));
    let below = root();
    let oracle = ask("facts-oracle", move || oracle::read(&below));
    HostFacts {
        tcp: answer(tcp, deadline),
        interfaces: answer(interfaces, deadline),
        routes: answer(routes, deadline),
        block_devices: answer(block_devices, deadline),
        oracle: answer(oracle, deadline),
        ..answer(host, deadline)
    }
}

/// Answers in a thread of its own, which is left behind if a dead file system holds it.
fn ask<T: Send + 'static>(
    name: &'static str,
    question: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (report, answer) = mpsc::sync_channel(1);
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nobody listens any more after the deadline.
        let _ = report.send(question());
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for {name}");
    }
    answer
}

fn answer<T: Default>(answer: Receiver<T>, deadline: Instant) -> T {
    answer.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use redoline_proto::facts::Peer;

    use super::*;

    fn request() -> FactsRequest {
        FactsRequest {
            peers: vec![Peer { name: "ash1".to_owned(), address: "127.0.0.1".to_owned() }],
            redo_address: "127.0.0.1".to_owned(),
            deadline_ms: 10_000,
        }
    }

    #[test]
    fn this_node_tells_of_itself() {
        let facts = read(request());
        assert!(!facts.hostname.is_empty() && !facts.kernel.is_empty());
        assert!(facts.cpus.unwrap() > 0);
        assert!(facts.memory_bytes.unwrap() > 0);
        assert!(facts.tcp.rmem_max_bytes.unwrap() > 0);
        let lo = facts.interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(lo.addresses.contains(&"127.0.0.1".to_owned()));
        assert_eq!(lo.speed_mbit_per_s, None);
        assert_eq!(facts.routes.len(), 1);
    }

    #[test]
    fn an_empty_node_has_no_facts_and_no_zeros() {
        let empty = tempfile::tempdir().unwrap();
        let request = FactsRequest { peers: Vec::new(), ..request() };
        let facts = read_below(&Root::new(empty.path()), request);
        assert_eq!((facts.cpus, facts.memory_bytes, facts.load_1min), (None, None, None));
        assert_eq!(facts.tcp, Default::default());
        assert!(facts.interfaces.is_empty() && facts.block_devices.is_empty());
        assert_eq!(facts.oracle, Default::default());
    }

    #[test]
    fn a_question_that_hangs_is_unknown_at_the_deadline() {
        let (_keep, never) = mpsc::sync_channel::<Vec<u8>>(1);
        assert_eq!(answer(never, Instant::now()), Vec::<u8>::new());
    }
}
