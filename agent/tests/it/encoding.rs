//! Whole tests between two agents whose streams are encrypted or compressed.

use std::time::Duration;

use redoline_proto::encoding::{Compression, CompressionMethod, Encoding, TlsCipher};
use redoline_proto::transfer::{Payload, ReceiveJob, SendJob, StopCause};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use crate::support::{Agent, Told, own_address, receive_job, run_test, send_job};

const LZ4: Encoding =
    Encoding::Compression(Compression { method: CompressionMethod::Lz4, level: 0 });
const ZLIB: Encoding =
    Encoding::Compression(Compression { method: CompressionMethod::Zlib, level: 1 });
const AES: Encoding = Encoding::Tls(TlsCipher::Aes128Gcm);
const ALL: [Encoding; 5] = [
    AES,
    Encoding::Tls(TlsCipher::Aes256Gcm),
    Encoding::Tls(TlsCipher::Chacha20Poly1305),
    LZ4,
    ZLIB,
];

async fn run_encoded(encoding: Encoding, receive: ReceiveJob, send: SendJob) -> (Told, Told) {
    let receive = ReceiveJob { encoding: Some(encoding), ..receive };
    run_test(receive, SendJob { encoding: Some(encoding), ..send }).await
}

/// What TCP carried for each byte of payload.
fn wire_ratio(sent: &Told) -> f64 {
    let start = sent.connected.as_ref().unwrap().streams[0].tcp.bytes_acked.unwrap();
    let end = sent.end.streams[0].tcp.bytes_acked.unwrap();
    (end - start) as f64 / sent.bytes() as f64
}

#[tokio::test]
async fn with_every_encoding_both_ends_count_the_bytes_of_the_payload() {
    for encoding in ALL {
        let address = own_address();
        let receive = ReceiveJob { num_conn: 2, ..receive_job(address) };
        let send =
            SendJob { num_conn: 2, duration: Duration::from_millis(500), ..send_job(address, 0) };
        let (sent, received) = run_encoded(encoding, receive, send).await;
        assert_eq!((sent.stop_text(), received.stop_text()), ("", ""), "{encoding}");
        assert!(received.bytes() > 0, "{encoding}");
        for (written, read) in sent.end.streams.iter().zip(&received.end.streams) {
            assert_eq!(written.bytes, read.bytes, "{encoding}");
            assert!(written.drained && read.drained, "{encoding}");
        }
        for told in [&sent, &received] {
            let totals: Vec<_> = told.end.streams.iter().map(|stream| stream.bytes).collect();
            assert_eq!(told.sampled_bytes(), totals, "{encoding}");
            assert!(told.end.cpu.threads_us > 0, "{encoding}");
        }
    }
}

#[tokio::test]
async fn tcp_carries_what_is_left_of_the_payload() {
    for (encoding, payload, compressible, ratios) in [
        (AES, Payload::Random, 0.5, 1.001..1.01),
        (LZ4, Payload::Random, 0.0, 1.0..1.001),
        (LZ4, Payload::Random, 0.5, 0.5..0.52),
        (ZLIB, Payload::Random, 0.75, 0.25..0.3),
        (LZ4, Payload::Zeros, 0.0, 0.0..0.01),
        (ZLIB, Payload::Zeros, 0.0, 0.0..0.01),
    ] {
        let address = own_address();
        // The handshake was before the start.
        let send = SendJob {
            payload,
            compressible: Some(Share(compressible)),
            message: Bytes(Bytes::MIB),
            bytes_max: Some(Bytes(20 * Bytes::MIB)),
            duration: Duration::from_secs(20),
            ..send_job(address, 0)
        };
        let (sent, received) = run_encoded(encoding, receive_job(address), send).await;
        let ratio = wire_ratio(&sent);
        assert!(ratios.contains(&ratio), "{encoding} {payload:?}: {ratio}");
        assert_eq!(received.bytes(), 20 * Bytes::MIB);
        assert_eq!(sent.end.stopped.unwrap().cause, StopCause::Limit);
    }
}

#[tokio::test]
async fn no_more_of_the_payload_is_sent_than_may_be_nor_faster() {
    for encoding in [AES, LZ4] {
        let address = own_address();
        let receive = ReceiveJob { num_conn: 3, ..receive_job(address) };
        let send = SendJob {
            num_conn: 3,
            bytes_max: Some(Bytes(10_000_001)),
            duration: Duration::from_secs(20),
            ..send_job(address, 0)
        };
        let (sent, received) = run_encoded(encoding, receive, send).await;
        assert_eq!((sent.bytes(), received.bytes()), (10_000_001, 10_000_001), "{encoding}");
        assert!(sent.end.streams.iter().all(|stream| stream.drained), "{encoding}");

        let address = own_address();
        let rate = Some(BytesPerSecond(20e6));
        let duration = Duration::from_secs(1);
        let send = SendJob { rate, duration, ..send_job(address, 0) };
        let (sent, received) = run_encoded(encoding, receive_job(address), send).await;
        assert_eq!(sent.bytes(), received.bytes(), "{encoding}");
        let stream = &sent.end.streams[0];
        let seconds = (stream.last_byte_ns.unwrap() - stream.first_byte_ns.unwrap()) as f64 / 1e9;
        // A message ahead, at most.
        let most = 20e6 * seconds * 1.05 + 1e6;
        assert!((sent.bytes() as f64) < most, "{encoding}: {} > {most}", sent.bytes());
    }
}

#[tokio::test]
async fn a_sync_test_is_not_encoded() {
    let job = SendJob { encoding: Some(LZ4), acknowledged: true, ..send_job(own_address(), 1) };
    let told = Agent::new().await.client.send(job).await.unwrap().rest().await;
    assert_eq!(told.stop_text(), "a SYNC test does not carry lz4: its messages are not encoded");
}

#[tokio::test]
async fn ends_of_different_encodings_do_not_start_and_say_why() {
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let job = ReceiveJob { encoding: Some(ALL[1]), ..receive_job(address) };
    let mut received = receiver.client.receive(job).await.unwrap();
    let port = received.port().await;
    let job = SendJob { encoding: Some(AES), ..send_job(address, port) };
    let sent = sender.client.send(job).await.unwrap().rest().await;
    assert_eq!(
        sent.stop_text(),
        format!(
            "stream 0 to {address}:{port} does not carry aes-128-gcm: the other end is to use \
             aes-256-gcm"
        )
    );
    let received = received.rest().await;
    assert!(received.stop_text().ends_with("the other end is to use aes-128-gcm"), "{received:?}");
    assert_eq!(received.bytes(), 0);
}

#[tokio::test]
async fn an_encoded_test_can_be_cancelled_in_the_middle() {
    for encoding in [AES, ZLIB] {
        let address = own_address();
        let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
        let job = ReceiveJob { encoding: Some(encoding), ..receive_job(address) };
        let mut received = receiver.client.receive(job).await.unwrap();
        let port = received.port().await;
        let duration = Duration::from_secs(60);
        let job = SendJob { encoding: Some(encoding), duration, ..send_job(address, port) };
        let id = job.job;
        let mut sent = sender.client.send(job).await.unwrap();
        sent.connected().await;
        assert!(sender.client.go(id).await);
        while !matches!(
            received.next().await.unwrap(),
            Some(redoline_proto::transfer::TransferEvent::Batch(_))
        ) {}
        assert!(sender.client.cancel(id).await);
        let sent = sent.rest().await;
        assert_eq!(sent.end.stopped.unwrap().cause, StopCause::Cancelled);
        assert!(!received.rest().await.end.streams[0].drained);
    }
}
