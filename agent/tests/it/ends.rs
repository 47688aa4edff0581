//! Everything that ends a test before its time, and the agent with it.

use std::net::TcpStream;
use std::time::Duration;

use redoline_agent::Ended;
use redoline_proto::transfer::{Guard, ReceiveJob, SendJob, StopCause, TransferEvent};
use redoline_proto::units::Share;

use crate::support::{Agent, Events, LONG, hello, own_address, receive_job, send_job};

/// A test that would run for an hour.
struct Running {
    sender: Agent,
    receiver: Agent,
    sent: Events,
    received: Events,
}

impl Running {
    async fn start(guard: Guard) -> Self {
        let address = own_address();
        let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
        let hour = Duration::from_secs(3600);
        let job = ReceiveJob { num_conn: 2, deadline: hour, ..receive_job(address) };
        let mut received = receiver.client.receive(job).await.unwrap();
        let port = received.port().await;
        let job = SendJob { num_conn: 2, duration: hour, guard, ..send_job(address, port) };
        let id = job.job;
        let mut sent = sender.client.send(job).await.unwrap();
        sent.connected().await;
        assert!(sender.client.go(id).await);
        let mut running = Self { sender, receiver, sent, received };
        running.wait_for_bytes().await;
        running
    }

    async fn wait_for_bytes(&mut self) {
        loop {
            match self.received.next().await.unwrap().unwrap() {
                TransferEvent::Batch(batch)
                    if batch.samples.iter().any(|sample| sample.bytes().0 > 0) =>
                {
                    return;
                }
                TransferEvent::End(end) => panic!("{end:?}"),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn cancelling_a_sender_ends_both_ends() {
    let mut running = Running::start(Guard::default()).await;
    assert!(running.sender.client.cancel(send_job(own_address(), 0).job).await);
    let (sent, received) = tokio::join!(running.sent.rest(), running.received.rest());
    assert_eq!(sent.end.stopped.unwrap().cause, StopCause::Cancelled);
    assert!(received.end.streams.iter().all(|stream| !stream.drained));
}

#[tokio::test]
async fn dropping_the_answer_cancels_the_job() {
    let running = Running::start(Guard::default()).await;
    drop(running.sent);
    let received = running.received.rest().await;
    assert!(received.end.streams.iter().all(|stream| !stream.drained));
}

#[tokio::test]
async fn a_sender_says_when_its_receiver_breaks_off() {
    let mut running = Running::start(Guard::default()).await;
    assert!(running.receiver.client.cancel(receive_job(own_address()).job).await);
    let sent = running.sent.rest().await;
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Peer);
    assert!(sent.stop_text().contains("broke stream"), "{}", sent.stop_text());
}

#[tokio::test]
async fn the_end_of_the_channel_ends_everything() {
    let running = Running::start(Guard::default()).await;
    drop(running.sent);
    assert_eq!(running.sender.abandon().await, Ended::ChannelClosed);
    let received = running.received.rest().await;
    assert!(received.bytes() > 0);
}

#[tokio::test]
async fn a_signal_ends_everything_and_the_controller_is_told() {
    let running = Running::start(Guard::default()).await;
    running.sender.shutdown.cancel();
    let sent = running.sent.rest().await;
    assert_eq!(sent.end.stopped.unwrap().cause, StopCause::Cancelled);
    drop(running.sender.client);
    assert_eq!(running.sender.served.await.unwrap(), Ended::ShutDown);
}

#[tokio::test]
async fn a_busy_host_ends_the_test() {
    let guard = Guard { cpu_share_max: Some(Share(0.001)), load_max: None };
    let running = Running::start(guard).await;
    let sent = running.sent.rest().await;
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Limit);
    assert!(sent.stop_text().starts_with("the host's processors were "), "{}", sent.stop_text());
}

#[tokio::test]
async fn a_start_that_is_never_called_for_does_not_come() {
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let mut received = receiver.client.receive(receive_job(address)).await.unwrap();
    let port = received.port().await;
    let job = SendJob { go_deadline: Duration::from_millis(50), ..send_job(address, port) };
    let sent = sender.client.send(job).await.unwrap().rest().await;
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Deadline);
    assert_eq!(sent.stop_text(), "the call to start did not come within 0.05 s");
    assert_eq!(received.rest().await.bytes(), 0);
}

#[tokio::test]
async fn a_transfer_ends_with_its_deadline() {
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let job = ReceiveJob { deadline: Duration::from_secs(3), ..receive_job(address) };
    let mut received = receiver.client.receive(job).await.unwrap();
    let port = received.port().await;
    let mut sent = sender.client.send(send_job(address, port)).await.unwrap();
    sent.connected().await;
    let received = received.rest().await;
    assert_eq!(received.end.stopped.unwrap().cause, StopCause::Deadline);
}

#[tokio::test]
async fn no_port_outlives_the_channel() {
    let address = own_address();
    let mut receiver = Agent::new().await;
    let mut received = receiver.client.receive(receive_job(address)).await.unwrap();
    let port = received.port().await;
    drop(received);
    assert_eq!(receiver.abandon().await, Ended::ChannelClosed);
    assert!(TcpStream::connect((address, port)).is_err());
}

#[tokio::test(start_paused = true)]
async fn silence_ends_an_agent() {
    let mut agent = Agent::silent().await;
    agent.client.hello(hello(&agent.lock)).await.unwrap();
    assert_eq!(agent.served.await.unwrap(), Ended::LeaseExpired);
}

#[tokio::test(start_paused = true)]
async fn beats_keep_an_agent_for_longer_than_its_lease() {
    let mut agent = Agent::new().await;
    for _ in 0..10 {
        tokio::time::sleep(LONG).await;
        agent.client.beat().await.unwrap();
    }
    assert_eq!(agent.abandon().await, Ended::ChannelClosed);
}
