//! Which member of a bond streams take that a layer-3+4 hash spreads: by odd and even source ports.

use std::net::IpAddr;
use std::time::Duration;

use redoline_proto::transfer::{Payload, ReceiveJob, SendJob, SocketRequest};

use crate::Test;
use crate::namespace::Namespace;
use crate::shaped::agent_in;
use crate::support::{Told, receive_job, send_job, start_and_finish};

pub const TESTS: &[Test] = &[
    ("streams_with_a_source_port_take_both_links_that_a_hash_of_ports_chooses_from", by_port),
    ("streams_without_a_source_port_take_both_links_too", by_chance),
];

const STREAMS: u32 = 8;

/// As a bond of two links with `xmit_hash_policy layer3+4` tells them apart: by the lowest bit of the
/// source port, where the rest of the four numbers is the same. Counts what opens a connection.
const COUNTERS: &str = "\
table inet links {
counter even { }
counter odd { }
chain output {
type filter hook output priority 0;
tcp flags & (syn | ack) == syn tcp sport & 1 == 0 counter name even
tcp flags & (syn | ack) == syn tcp sport & 1 == 1 counter name odd
}
}";

fn by_port() {
    let (sent, [even, odd]) = run(Some(40_000));
    let ports = local_ports(&sent);
    assert!(ports.iter().copied().eq(40_000..40_008), "{ports:?}");
    // A connection may have to knock twice.
    assert!(even >= 4 && odd >= 4, "{even} and {odd} connections");
}

fn by_chance() {
    let (sent, [even, odd]) = run(None);
    let ports = local_ports(&sent);
    assert!(even > 0 && odd > 0, "{even} and {odd} connections, by {ports:?}");
    assert!(even + odd >= STREAMS.into(), "{even} and {odd} connections");
}

fn local_ports(told: &Told) -> Vec<u16> {
    let streams = &told.connected.as_ref().unwrap().streams;
    let ports = streams.iter().map(|stream| stream.local.rsplit_once(':').unwrap().1);
    ports.map(|port| port.parse().unwrap()).collect()
}

/// What the sender told, and how many connections left by even and by odd ports.
fn run(source_port_base: Option<u32>) -> (Told, [u64; 2]) {
    let (sender, receiver) = (Namespace::new(), Namespace::new());
    sender.cable("eth0", &receiver, "eth0");
    sender.set_up("eth0", "198.51.100.1/24", 1500);
    receiver.set_up("eth0", "198.51.100.2/24", 1500);
    sender.command("nft", COUNTERS);
    let address: IpAddr = "198.51.100.2".parse().unwrap();
    let socket = SocketRequest { source_port_base, ..Default::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (sent, received) = runtime.block_on(async {
        let (mut from, mut to) = (agent_in(&sender).await, agent_in(&receiver).await);
        let job = ReceiveJob { num_conn: STREAMS, socket: socket.clone(), ..receive_job(address) };
        let mut received = to.receive(job).await.unwrap();
        let port = received.port().await;
        let job = SendJob {
            num_conn: STREAMS,
            socket,
            // As a controller gives it.
            bind_address: Some("198.51.100.1".parse().unwrap()),
            payload: Payload::Zeros,
            duration: Duration::from_millis(200),
            ..send_job(address, port)
        };
        let id = job.job;
        let sent = from.send(job).await.unwrap();
        start_and_finish(&mut from, id, sent, received).await
    });
    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    let counts = ["even", "odd"].map(|name| {
        let text = sender.command("nft", &format!("list counter inet links {name}"));
        let packets = text.split_once("packets ").unwrap().1.split(' ').next().unwrap();
        packets.parse().unwrap()
    });
    (sent, counts)
}
