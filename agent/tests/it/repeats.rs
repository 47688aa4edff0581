//! Many tests of one agent, one after the other and at once: none leaves anything behind.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use redoline_proto::transfer::{JobId, Payload, ReceiveJob, SendJob};

use crate::process::{EXECUTABLE, Process, exit};
use crate::support::{
    Agent, Client, LONG, Told, hello, own_address, own_lock, receive_job, send_job,
    start_and_finish,
};

/// One agent receives what another sends, or the same one; the numbers of the jobs follow `first`.
async fn run_once(
    sender: &mut Client,
    receiver: &mut Client,
    first: u64,
    receive: ReceiveJob,
    send: SendJob,
) -> (Told, Told) {
    let receive = ReceiveJob { job: JobId(first), ..receive };
    let mut received = receiver.receive(receive).await.unwrap();
    let port = received.port().await;
    let id = JobId(first + 1);
    let sent = sender.send(SendJob { job: id, port, ..send }).await.unwrap();
    start_and_finish(sender, id, sent, received).await
}

/// Descriptors and threads of a process.
fn held(process: u32) -> (usize, usize) {
    let count = |what| fs::read_dir(format!("/proc/{process}/{what}")).unwrap().count();
    (count("fd"), count("task"))
}

/// What a process holds once it holds no more than `most`: a thread ends a moment after its last
/// word.
async fn held_at_last(process: u32, most: (usize, usize)) -> (usize, usize) {
    let end = Instant::now() + LONG;
    loop {
        let now = held(process);
        if (now.0 <= most.0 && now.1 <= most.1) || Instant::now() > end {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn twenty_tests_of_32_streams_leave_no_descriptor_and_no_thread() {
    let (child, mut client) = Process::start(Path::new(EXECUTABLE), &[]).into_client().await;
    client.hello(hello(&own_lock())).await.unwrap();
    let idle = held(child.id());
    for turn in 0..20 {
        let address = own_address();
        let receive = ReceiveJob { num_conn: 32, ..receive_job(address) };
        let duration = Duration::from_millis(30);
        let payload = Payload::Zeros;
        let send = SendJob { num_conn: 32, duration, payload, ..send_job(address, 0) };
        let mut other = client.clone();
        let (sent, received) = run_once(&mut client, &mut other, 10 * turn, receive, send).await;
        assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
        assert_eq!(sent.bytes(), received.bytes());
    }
    let (descriptors, threads) = held_at_last(child.id(), idle).await;
    assert!(descriptors <= idle.0, "{descriptors} descriptors, {} before", idle.0);
    assert!(threads <= idle.1, "{threads} threads, {} before", idle.1);
    drop(client);
    assert!(exit(child).await.success());
}

#[tokio::test]
async fn a_hundred_short_tests_in_a_row_all_end_well_and_add_up() {
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let address = own_address();
    for turn in 0..100 {
        let sample = Duration::from_millis(10);
        let receive = ReceiveJob { num_conn: 2, sample, ..receive_job(address) };
        let duration = Duration::from_millis(50);
        let payload = Payload::Zeros;
        let send = SendJob { num_conn: 2, duration, payload, ..send_job(address, 0) };
        let (sent, received) =
            run_once(&mut sender.client, &mut receiver.client, 10 * turn, receive, send).await;
        for told in [&sent, &received] {
            assert_eq!(told.end.stopped, None, "turn {turn}");
            assert!(told.end.streams.iter().all(|stream| stream.drained), "turn {turn}");
            let totals: Vec<_> = told.end.streams.iter().map(|stream| stream.bytes).collect();
            assert_eq!(told.sampled_bytes(), totals, "turn {turn}");
        }
        assert!(received.bytes() > 0, "turn {turn}");
        assert_eq!(sent.bytes(), received.bytes(), "turn {turn}");
    }
}

/// Ready to go to a receiver of its own.
async fn connect_to(
    address: IpAddr,
    sender: &mut Client,
    id: JobId,
) -> (Agent, crate::support::Events, crate::support::Events) {
    let mut receiver = Agent::new().await;
    let job = ReceiveJob { num_conn: 2, ..receive_job(address) };
    let mut received = receiver.client.receive(job).await.unwrap();
    let port = received.port().await;
    let job = SendJob { job: id, num_conn: 2, ..send_job(address, port) };
    let mut sent = sender.send(job).await.unwrap();
    sent.connected().await;
    (receiver, sent, received)
}

#[tokio::test]
async fn one_sender_reaches_two_receivers_at_once() {
    let mut sender = Agent::new().await;
    let (one, two) = (JobId(11), JobId(12));
    let (_first, sent_one, received_one) = connect_to(own_address(), &mut sender.client, one).await;
    let (_other, sent_two, received_two) = connect_to(own_address(), &mut sender.client, two).await;
    assert!(sender.client.go(one).await && sender.client.go(two).await);
    let (sent_one, received_one, sent_two, received_two) =
        tokio::join!(sent_one.rest(), received_one.rest(), sent_two.rest(), received_two.rest());
    for (sent, received) in [(&sent_one, &received_one), (&sent_two, &received_two)] {
        assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
        assert!(received.end.streams.iter().all(|stream| stream.bytes > 0 && stream.drained));
        assert_eq!(sent.bytes(), received.bytes());
    }
    // At once: each had begun before the other was through.
    let started = sent_one.started_ns.max(sent_two.started_ns);
    assert!(started < Some(received_one.end.at_ns.min(received_two.end.at_ns)));
}
