//! What does not belong to a test, and what a test cannot have.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use redoline_proto::transfer::{ReceiveJob, SendJob, SocketRequest, StopCause, Token};

use crate::support::{
    Agent, Events, Told, own_address, receive_job, run_test, send_job, start_and_finish,
};

/// A receiver that listens, and a sender's agent.
async fn listening(receive: ReceiveJob) -> (Agent, Agent, Events, u16) {
    let (sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let mut received = receiver.client.receive(receive).await.unwrap();
    let port = received.port().await;
    (sender, receiver, received, port)
}

async fn send(sender: &mut Agent, job: SendJob) -> Events {
    sender.client.send(job).await.unwrap()
}

async fn failed_send(job: SendJob) -> Told {
    let mut sender = Agent::new().await;
    send(&mut sender, job).await.rest().await
}

#[tokio::test]
async fn strangers_are_closed_without_a_word_and_the_test_still_runs() {
    let address = own_address();
    let (mut sender, _receiver, received, port) = listening(receive_job(address)).await;
    // Never says anything, and never goes.
    let _idle = TcpStream::connect((address, port)).unwrap();
    let mut wrong = TcpStream::connect((address, port)).unwrap();
    wrong.write_all(&[0x55; 24]).unwrap();
    let answer = tokio::task::spawn_blocking(move || wrong.read(&mut [0; 8])).await.unwrap();
    assert_eq!(answer.unwrap(), 0);

    let job = SendJob { duration: Duration::from_secs(1), ..send_job(address, port) };
    let (id, sent) = (job.job, send(&mut sender, job).await);
    let (sent, received) = start_and_finish(&mut sender.client, id, sent, received).await;
    assert_eq!(received.bytes(), sent.bytes());
    assert!(received.bytes() > 0);
    assert_eq!(received.end.strangers, 2);
}

#[tokio::test]
async fn a_sender_with_another_token_is_told_that_it_was_not_taken() {
    let address = own_address();
    let (mut sender, mut receiver, received, port) = listening(receive_job(address)).await;
    let job = SendJob { token: Token([1; 16]), ..send_job(address, port) };
    let sent = send(&mut sender, job).await.rest().await;
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Connect);
    assert!(sent.stop_text().contains("did not take the token"), "{}", sent.stop_text());

    assert!(receiver.client.cancel(receive_job(address).job).await);
    let received = received.rest().await;
    assert_eq!(received.end.stopped.as_ref().unwrap().cause, StopCause::Cancelled);
    assert_eq!(received.end.strangers, 1);
}

#[tokio::test]
async fn connections_from_elsewhere_are_strangers() {
    let (address, peer) = (own_address(), own_address());
    let job = ReceiveJob { expected_peer: Some(peer), ..receive_job(address) };
    let (mut sender, _receiver, received, port) = listening(job).await;
    let elsewhere = SendJob { bind_address: Some(own_address()), ..send_job(address, port) };
    let refused = send(&mut sender, elsewhere).await.rest().await;
    assert_eq!(refused.end.stopped.as_ref().unwrap().cause, StopCause::Connect);

    let job = SendJob {
        bind_address: Some(peer),
        duration: Duration::from_secs(1),
        ..send_job(address, port)
    };
    let (id, sent) = (job.job, send(&mut sender, job).await);
    let (_, received) = start_and_finish(&mut sender.client, id, sent, received).await;
    assert!(received.bytes() > 0);
    assert_eq!(received.end.strangers, 1);
}

#[tokio::test]
async fn the_port_is_closed_once_the_connections_stand() {
    let address = own_address();
    let (mut sender, _receiver, mut received, port) = listening(receive_job(address)).await;
    let mut sent = send(&mut sender, send_job(address, port)).await;
    sent.connected().await;
    received.connected().await;
    let error = TcpStream::connect((address, port)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn the_port_closes_by_itself_when_nobody_comes() {
    let address = own_address();
    let job = ReceiveJob { deadline: Duration::from_millis(200), ..receive_job(address) };
    let (_sender, _receiver, received, port) = listening(job).await;
    let told = received.rest().await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Deadline);
    assert_eq!(told.stop_text(), "0 of 1 connections came within the deadline");
    assert!(TcpStream::connect((address, port)).is_err());
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_told_apart() {
    let address = own_address();
    let free = TcpListener::bind((address, 0)).unwrap().local_addr().unwrap().port();
    let told =
        failed_send(SendJob { bind_address: Some(address), ..send_job(address, free) }).await;
    assert_eq!(
        told.stop_text(),
        format!(
            "{address} could not connect to {address}:{free}: connection refused — a firewall \
             rejects it or nothing listens"
        )
    );
}

#[tokio::test]
async fn another_program_that_listens_there_is_told_apart() {
    let address = own_address();
    let other = TcpListener::bind((address, 0)).unwrap();
    let port = other.local_addr().unwrap().port();
    let job = SendJob { connect_deadline: Duration::from_secs(2), ..send_job(address, port) };
    let told = failed_send(job).await;
    assert!(told.stop_text().contains("no answer to the token"), "{}", told.stop_text());
}

#[tokio::test]
async fn an_unknown_congestion_control_is_named_with_the_known_ones() {
    let address = own_address();
    let socket =
        SocketRequest { congestion_control: Some("warp".to_owned()), ..SocketRequest::default() };
    let mut receiver = Agent::new().await;
    let job = ReceiveJob { socket, ..receive_job(address) };
    let told = receiver.client.receive(job).await.unwrap().rest().await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::System);
    let start = "congestion control `warp` is not available on this host; available are ";
    assert!(told.stop_text().starts_with(start), "{}", told.stop_text());
}

#[tokio::test]
async fn a_range_of_ports_that_are_all_in_use_is_named() {
    let address = own_address();
    let taken = TcpListener::bind((address, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut receiver = Agent::new().await;
    let job = ReceiveJob { ports: (port, port), ..receive_job(address) };
    let told = receiver.client.receive(job).await.unwrap().rest().await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Connect);
    assert_eq!(told.stop_text(), format!("no free data port at {address}: in use are {port}"));
}

#[tokio::test]
async fn one_job_number_is_one_job() {
    let address = own_address();
    let (_sender, mut receiver, _received, _) = listening(receive_job(address)).await;
    let status = receiver.client.receive(receive_job(address)).await.err().unwrap();
    assert_eq!(status.code(), tonic::Code::AlreadyExists);
}

#[tokio::test]
async fn nothing_of_one_test_is_left_for_the_next() {
    let address = own_address();
    let socket = SocketRequest {
        congestion_control: Some("reno".to_owned()),
        socket_buffer_bytes: Some(50_000),
        ..SocketRequest::default()
    };
    let short = || SendJob { duration: Duration::from_secs(1), ..send_job(address, 0) };
    let (plain, _) = run_test(receive_job(address), short()).await;
    let set = ReceiveJob { socket: socket.clone(), ..receive_job(address) };
    run_test(set, SendJob { socket, ..short() }).await;
    let (again, _) = run_test(receive_job(address), short()).await;
    let settings = |told: &Told| {
        let start = &told.connected.as_ref().unwrap().streams[0];
        (start.congestion_control.clone(), start.receive_buffer_bytes)
    };
    assert_eq!(settings(&plain), settings(&again));
}
