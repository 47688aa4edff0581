//! A whole throughput test between two agents.

use std::time::Duration;

use redoline_proto::transfer::{Payload, ReceiveJob, SendJob, SocketRequest, StopCause};
use redoline_proto::units::{Bytes, BytesPerSecond};

use crate::support::{Agent, own_address, receive_job, run_test, send_job};

#[tokio::test]
async fn everything_that_was_written_is_received_and_counted_once() {
    let address = own_address();
    let receive = ReceiveJob { num_conn: 3, ..receive_job(address) };
    let send = SendJob { num_conn: 3, ..send_job(address, 0) };
    let (sent, received) = run_test(receive, send).await;

    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    assert!(received.bytes() > 0);
    for (written, read) in sent.end.streams.iter().zip(&received.end.streams) {
        assert_eq!(written.stream, read.stream);
        assert_eq!(written.bytes, read.bytes);
        assert!(written.drained && read.drained);
    }
    assert_eq!(received.end.strangers, 0);
    for told in [&sent, &received] {
        let totals: Vec<_> = told.end.streams.iter().map(|stream| stream.bytes).collect();
        assert_eq!(told.sampled_bytes(), totals);
    }
}

#[tokio::test]
async fn ipv6_is_as_good() {
    let address = "::1".parse().unwrap();
    let receive = ReceiveJob { expected_peer: Some(address), ..receive_job(address) };
    let send = SendJob { duration: Duration::from_secs(1), ..send_job(address, 0) };
    let (sent, received) = run_test(receive, send).await;
    assert!(received.bytes() > 0, "{sent:?} {received:?}");
    assert_eq!(sent.bytes(), received.bytes());
}

#[tokio::test]
async fn samples_follow_each_other_without_a_gap() {
    let address = own_address();
    let (sent, received) = run_test(receive_job(address), send_job(address, 0)).await;
    for told in [sent, received] {
        assert!(told.samples.len() > 1);
        for pair in told.samples.windows(2) {
            assert_eq!(pair[0].to_ns, pair[1].from_ns);
            assert!(pair[0].from_ns < pair[0].to_ns);
        }
    }
}

#[tokio::test]
async fn a_controller_that_does_not_listen_holds_nothing_up_and_misses_nothing() {
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let often = Duration::from_millis(5);
    let job = ReceiveJob { num_conn: 16, sample: often, reading: often, ..receive_job(address) };
    let mut received = receiver.client.receive(job).await.unwrap();
    let port = received.port().await;
    let duration = Duration::from_secs(2);
    let job = SendJob { num_conn: 16, duration, ..send_job(address, port) };
    let id = job.job;
    let mut sent = sender.client.send(job).await.unwrap();
    sent.connected().await;
    assert!(sender.client.go(id).await);
    // More than fits between the two is told meanwhile, and nobody takes it.
    let sent = sent.rest().await;
    assert!(sent.end.streams.iter().all(|stream| stream.drained));

    let received = received.rest().await;
    assert!(received.readings.len() > 1000, "{}", received.readings.len());
    assert_eq!(received.bytes(), sent.bytes());
    assert_eq!(received.sampled_bytes().iter().sum::<u64>(), sent.bytes());
    assert!(received.samples.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
}

#[tokio::test]
async fn times_are_in_the_order_of_what_happened() {
    let address = own_address();
    let (sent, received) = run_test(receive_job(address), send_job(address, 0)).await;
    let start = sent.started_ns.unwrap();
    let first = sent.end.streams[0].first_byte_ns.unwrap();
    // Both agents are on one machine: their clocks are one.
    let got_first = received.end.streams[0].first_byte_ns.unwrap();
    let got_last = received.end.streams[0].last_byte_ns.unwrap();
    let order = [sent.connected.unwrap().at_ns, start, first, got_first, got_last];
    assert!(order.is_sorted(), "{order:?}");
    assert!(received.end.at_ns >= got_last);
}

#[tokio::test]
async fn what_tcp_knows_is_told_at_the_start_meanwhile_and_at_the_end() {
    let address = own_address();
    let (sent, received) = run_test(receive_job(address), send_job(address, 0)).await;
    let start = &sent.connected.as_ref().unwrap().streams[0];
    assert_eq!(start.remote, received.connected.unwrap().streams[0].local);
    assert!(!start.congestion_control.is_empty());
    assert!(!sent.readings.is_empty() && !received.readings.is_empty());

    let acked = |tcp: &redoline_proto::tcp_info::TcpInfo| tcp.bytes_acked.unwrap();
    let end = &sent.end.streams[0];
    // The FIN counts as a byte.
    assert_eq!(acked(&end.tcp) - acked(&start.tcp), end.bytes + 1);
    assert!(end.tcp.busy_time_us.is_some_and(|time| time > 0));
    assert!(sent.end.cpu.threads_us > 0 && received.end.cpu.threads_us > 0);
    assert!(sent.end.cpu.busiest_thread_us <= sent.end.cpu.threads_us);
}

#[tokio::test]
async fn a_message_may_be_larger_or_smaller_than_the_payload_is_long() {
    for message in [1, 20 * Bytes::KIB, 11 * Bytes::MIB] {
        let address = own_address();
        let send = SendJob {
            message: Bytes(message),
            payload: Payload::Zeros,
            duration: Duration::from_secs(1),
            ..send_job(address, 0)
        };
        let (sent, received) = run_test(receive_job(address), send).await;
        assert!(sent.bytes() > 0);
        assert_eq!(sent.bytes(), received.bytes());
    }
}

#[tokio::test]
async fn a_default_run_leaves_the_buffers_to_the_system() {
    let address = own_address();
    let send = SendJob { duration: Duration::from_secs(1), ..send_job(address, 0) };
    let (_, received) = run_test(receive_job(address), send).await;
    let rmem = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
    let default: u64 = rmem.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(received.connected.unwrap().streams[0].receive_buffer_bytes, default);
}

#[tokio::test]
async fn a_socket_buffer_is_set_at_both_ends_and_read_back() {
    let address = own_address();
    let socket = SocketRequest { socket_buffer_bytes: Some(100_000), ..SocketRequest::default() };
    let receive = ReceiveJob { socket: socket.clone(), ..receive_job(address) };
    let send = SendJob { socket, duration: Duration::from_secs(1), ..send_job(address, 0) };
    let (sent, received) = run_test(receive, send).await;
    for told in [sent, received] {
        let start = &told.connected.unwrap().streams[0];
        assert_eq!(start.receive_buffer_bytes, 200_000);
        assert_eq!(start.send_buffer_bytes, 200_000);
        assert_eq!(told.end.streams[0].receive_buffer_bytes, 200_000, "auto-tuning is off");
    }
}

#[tokio::test]
async fn congestion_control_and_segment_size_are_as_asked_for() {
    let address = own_address();
    let socket = SocketRequest {
        congestion_control: Some("reno".to_owned()),
        mss_bytes: Some(1000),
        ..SocketRequest::default()
    };
    let receive = ReceiveJob { socket: socket.clone(), ..receive_job(address) };
    let send = SendJob { socket, duration: Duration::from_secs(1), ..send_job(address, 0) };
    let (sent, received) = run_test(receive, send).await;
    for told in [&sent, &received] {
        assert_eq!(told.connected.as_ref().unwrap().streams[0].congestion_control, "reno");
    }
    let mss = sent.end.streams[0].tcp.snd_mss_bytes.unwrap();
    assert!((900..=1000).contains(&mss), "{mss}");
}

#[tokio::test]
async fn a_rate_is_kept_by_all_streams_together() {
    let address = own_address();
    let rate = 20e6;
    let receive = ReceiveJob { num_conn: 4, ..receive_job(address) };
    let send = SendJob {
        num_conn: 4,
        rate: Some(BytesPerSecond(rate)),
        duration: Duration::from_millis(1500),
        ..send_job(address, 0)
    };
    let (sent, _) = run_test(receive, send).await;
    let first = sent.end.streams.iter().filter_map(|stream| stream.first_byte_ns).min().unwrap();
    let last = sent.end.streams.iter().filter_map(|stream| stream.last_byte_ns).max().unwrap();
    let measured = sent.bytes() as f64 / ((last - first) as f64 / 1e9);
    // It is a limit: a loaded machine may stay below it, but never go above.
    assert!(measured < rate * 1.05, "{measured}");
    assert!(measured > rate * 0.7, "{measured}");
}

#[tokio::test]
async fn no_more_bytes_are_sent_than_may_be() {
    let address = own_address();
    let receive = ReceiveJob { num_conn: 3, ..receive_job(address) };
    let send = SendJob {
        num_conn: 3,
        bytes_max: Some(Bytes(10_000_001)),
        duration: Duration::from_secs(20),
        ..send_job(address, 0)
    };
    let (sent, received) = run_test(receive, send).await;
    assert_eq!(received.bytes(), 10_000_001);
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Limit);
    assert_eq!(sent.stop_text(), "all 9.54 MiB that may be sent were sent");
    assert!(sent.end.streams.iter().all(|stream| stream.drained));
}
