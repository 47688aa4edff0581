//! Throughput over a path that is held to a rate, with the queue that such a path has.

use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use redoline_proto::transfer::{Payload, ReceiveJob, SendJob};

use crate::Test;
use crate::namespace::Namespace;
use crate::support::{Client, Told, hello, own_lock, receive_job, send_job, start_and_finish};

pub const TESTS: &[Test] = &[
    ("no_sample_holds_more_than_the_path_could_bring", samples_stay_below_the_rate),
    ("a_test_ends_in_time_although_its_queue_takes_longer", a_deep_queue_is_not_waited_for),
];

/// As in the agent: for the rest to arrive, and then to notice that it does not.
const DRAIN_MAX: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(3);

/// Two nodes and a cable, whose sending end is shaped as `tc` is told.
fn shaped(shape: &str) -> (Namespace, Namespace) {
    let (sender, receiver) = (Namespace::new(), Namespace::new());
    sender.cable("eth0", &receiver, "eth0");
    sender.set_up("eth0", "198.51.100.1/24", 1500);
    receiver.set_up("eth0", "198.51.100.2/24", 1500);
    sender.command("tc", &format!("qdisc add dev eth0 root tbf {shape}"));
    (sender, receiver)
}

/// An agent in this process whose sockets are in the namespace; it ends with its client.
pub async fn agent_in(namespace: &Namespace) -> Client {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    namespace.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(redoline_agent::serve(theirs, pending())).unwrap()
    });
    let mut client = Client::over(ours).await;
    client.hello(hello(&own_lock())).await.unwrap();
    client
}

fn run(nodes: &(Namespace, Namespace), num_conn: u32, duration: Duration) -> (Told, Told) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let address: IpAddr = "198.51.100.2".parse().unwrap();
        let (mut sender, mut receiver) = (agent_in(&nodes.0).await, agent_in(&nodes.1).await);
        let sample = Duration::from_millis(100);
        let receive = ReceiveJob { num_conn, sample, ..receive_job(address) };
        let mut received = receiver.receive(receive).await.unwrap();
        let port = received.port().await;
        let payload = Payload::Zeros;
        let job = SendJob { num_conn, duration, payload, ..send_job(address, port) };
        let id = job.job;
        let sent = sender.send(job).await.unwrap();
        start_and_finish(&mut sender, id, sent, received).await
    })
}

/// In bytes per second and bytes: what came up to each sample's end is no more than the path could
/// bring since the sender's start, whenever the reader got to run. Both ends have the same clock.
fn assert_possible((sent, received): (&Told, &Told), rate: f64, burst: f64) {
    let first_ns = sent.started_ns.unwrap();
    let mut came = 0;
    for sample in &received.samples {
        came += sample.bytes().0;
        let seconds = (sample.to_ns - first_ns).max(0) as f64 / 1e9;
        // What the path held back while the first byte was on its way counts as its burst, too.
        let possible = 1.1 * rate * seconds + 2.0 * burst;
        assert!(came as f64 <= possible, "{came} bytes in {seconds} s, and {possible} at most");
    }
    assert_eq!(came, received.bytes());
}

fn samples_stay_below_the_rate() {
    const RATE: f64 = 50e6 / 8.0;
    let nodes = shaped("rate 50mbit burst 32kb limit 300kb");
    let (sent, received) = run(&nodes, 2, Duration::from_secs(4));
    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    assert_eq!(sent.bytes(), received.bytes());
    assert_possible((&sent, &received), RATE, 32e3);
    // And one by one after the ramp, but for those in which a reader that had to wait catches up.
    let first_ns = received.samples[0].to_ns;
    let mut rates: Vec<f64> = (received.samples.iter())
        .filter(|sample| sample.from_ns > first_ns + 1_000_000_000)
        .map(|sample| sample.bytes().0 as f64 / ((sample.to_ns - sample.from_ns) as f64 / 1e9))
        .collect();
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    assert!((0.5 * RATE..1.1 * RATE).contains(&median), "{median} of {RATE}: {rates:?}");
}

/// What 8 streams hand to the kernel in a second takes longer to leave than is waited for the rest.
fn a_deep_queue_is_not_waited_for() {
    const RATE: f64 = 500e3 / 8.0;
    let duration = Duration::from_secs(1);
    let nodes = shaped("rate 500kbit burst 16kb limit 4mb");
    let (sent, received) = run(&nodes, 8, duration);
    let took = Duration::from_nanos((sent.end.at_ns - sent.started_ns.unwrap()).unsigned_abs());
    assert!(took < duration + DRAIN_MAX + GRACE, "{took:?}");
    assert!(sent.end.streams.iter().any(|stream| !stream.drained), "the queue is not deep enough");
    // What never arrived is counted by its sender only, and nothing comes faster for being late.
    assert!(received.bytes() < sent.bytes());
    for (written, read) in sent.end.streams.iter().zip(&received.end.streams) {
        assert!(read.bytes <= written.bytes);
        // A stream's last bytes may come after its sender has given up on them.
        assert!(!read.drained || read.bytes == written.bytes, "stream {}", read.stream);
        assert!(!written.drained || read.drained, "stream {}", read.stream);
    }
    assert_possible((&sent, &received), RATE, 16e3);
}
