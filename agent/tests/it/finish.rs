//! A test that is ended before its duration is over, as if it were over.

use std::time::Duration;

use redoline_proto::encoding::{Compression, CompressionMethod, Encoding, TlsCipher};
use redoline_proto::transfer::{Acknowledge, ReceiveJob, SendJob, TransferEvent};
use redoline_proto::units::{Bytes, BytesPerSecond};

use crate::support::{Agent, LONG, Told, own_address, receive_job, send_job};

/// Starts a test that would run for an hour, and finishes it once bytes have arrived.
async fn finished(receive: ReceiveJob, send: SendJob) -> (Told, Told) {
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let hour = Duration::from_secs(3600);
    let mut received =
        receiver.client.receive(ReceiveJob { deadline: hour, ..receive }).await.unwrap();
    let port = received.port().await;
    let id = send.job;
    let job = SendJob { port, duration: hour, ..send };
    let mut sent = sender.client.send(job).await.unwrap();
    sent.connected().await;
    assert!(sender.client.go(id).await);
    loop {
        match received.next().await.unwrap().unwrap() {
            TransferEvent::Batch(batch)
                if batch.samples.iter().any(|sample| sample.bytes().0 > 0) =>
            {
                break;
            }
            TransferEvent::End(end) => panic!("{end:?}"),
            _ => {}
        }
    }
    assert!(sender.client.finish(id).await);
    tokio::time::timeout(LONG, async { tokio::join!(sent.rest(), received.rest()) }).await.unwrap()
}

#[track_caller]
fn assert_ran_its_course(sent: &Told, received: &Told) {
    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    assert!(sent.end.streams.iter().all(|stream| stream.drained));
    assert!(sent.bytes() > 0);
    assert_eq!(sent.bytes(), received.bytes());
}

#[tokio::test]
async fn a_finished_test_loses_nothing_and_was_not_stopped() {
    let address = own_address();
    let receive = ReceiveJob { num_conn: 3, ..receive_job(address) };
    let send = SendJob { num_conn: 3, ..send_job(address, 0) };
    let (sent, received) = finished(receive, send).await;
    assert_ran_its_course(&sent, &received);
}

#[tokio::test]
async fn it_is_not_waited_for_the_next_message_or_the_next_turn() {
    // Each of them would come after an hour.
    let delayed = |address| SendJob {
        message: Bytes(1000),
        delay: Some(Duration::from_secs(3600)),
        ..send_job(address, 0)
    };
    let slow = |address| SendJob {
        message: Bytes(1000),
        rate: Some(BytesPerSecond(1.0)),
        ..send_job(address, 0)
    };
    for job in [delayed, slow] as [fn(_) -> SendJob; 2] {
        for acknowledged in [false, true] {
            let address = own_address();
            let acknowledge =
                acknowledged.then_some(Acknowledge { message_bytes: 1000, write: None });
            let receive = ReceiveJob { acknowledge, ..receive_job(address) };
            let send = SendJob { acknowledged, ..job(address) };
            let (sent, received) = finished(receive, send).await;
            assert_ran_its_course(&sent, &received);
        }
    }
}

#[tokio::test]
async fn a_message_of_sync_under_way_is_still_answered() {
    let address = own_address();
    let message_bytes = 20_000;
    let acknowledge = Some(Acknowledge { message_bytes, write: None });
    let receive = ReceiveJob { acknowledge, ..receive_job(address) };
    let send =
        SendJob { acknowledged: true, message: Bytes(message_bytes), ..send_job(address, 0) };
    let (sent, received) = finished(receive, send).await;
    assert_ran_its_course(&sent, &received);
    let messages = sent.end.acknowledgements.unwrap().messages;
    assert_eq!(messages * message_bytes, received.end.streams[0].bytes);
}

#[tokio::test]
async fn an_encoded_stream_ends_with_a_whole_frame() {
    let lz4 = Compression { method: CompressionMethod::Lz4, level: 0 };
    for encoding in [Encoding::Compression(lz4), Encoding::Tls(TlsCipher::Chacha20Poly1305)] {
        let address = own_address();
        // Paced, so that a message is gathered from several turns.
        let rate = Some(BytesPerSecond(20e6));
        let receive = ReceiveJob { encoding: Some(encoding), ..receive_job(address) };
        let send = SendJob { encoding: Some(encoding), rate, ..send_job(address, 0) };
        let (sent, received) = finished(receive, send).await;
        assert_ran_its_course(&sent, &received);
    }
}
