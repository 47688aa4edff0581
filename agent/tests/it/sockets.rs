//! What a test asks of its sockets, and what the host says of the test.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use redoline_proto::transfer::{ReceiveJob, SendJob, SocketRequest, StopCause};
use redoline_proto::units::Bytes;

use crate::support::{Agent, Told, own_address, receive_job, run_test, send_job};

/// A short test whose ends ask the same of their sockets.
async fn run_with(address: IpAddr, socket: SocketRequest, num_conn: u32) -> (Told, Told) {
    let receive = ReceiveJob { num_conn, socket: socket.clone(), ..receive_job(address) };
    let send =
        SendJob { num_conn, socket, duration: Duration::from_millis(200), ..send_job(address, 0) };
    run_test(receive, send).await
}

fn local_ports(told: &Told) -> Vec<u16> {
    let streams = &told.connected.as_ref().unwrap().streams;
    let ports = streams.iter().map(|stream| stream.local.rsplit_once(':').unwrap().1);
    ports.map(|port| port.parse().unwrap()).collect()
}

/// So many ports in a row that nobody has on this address.
fn free_ports(address: IpAddr, count: u16) -> u16 {
    (20_000..60_000)
        .step_by(100)
        .find(|&base| (base..base + count).all(|port| TcpListener::bind((address, port)).is_ok()))
        .unwrap()
}

#[tokio::test]
async fn streams_leave_from_consecutive_ports_and_the_next_test_may_have_them_at_once() {
    for address in [own_address(), "::1".parse().unwrap()] {
        let base = free_ports(address, 3);
        let socket = SocketRequest { source_port_base: Some(base.into()), ..Default::default() };
        let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
        let mut data_port = 0;
        for _ in 0..3 {
            // The same four numbers each time: what TIME_WAIT is there to prevent.
            let job = ReceiveJob {
                num_conn: 3,
                socket: socket.clone(),
                ports: (data_port, data_port),
                ..receive_job(address)
            };
            let mut received = receiver.client.receive(job).await.unwrap();
            data_port = received.port().await;
            let job = SendJob {
                num_conn: 3,
                socket: socket.clone(),
                bind_address: Some(address),
                duration: Duration::from_millis(100),
                ..send_job(address, data_port)
            };
            let id = job.job;
            let sent = sender.client.send(job).await.unwrap();
            let (sent, received) =
                crate::support::start_and_finish(&mut sender.client, id, sent, received).await;
            assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
            assert_eq!(local_ports(&sent), [base, base + 1, base + 2]);
            assert_eq!(sent.bytes(), received.bytes());
            let mut ends = sent.end.streams.iter().chain(&received.end.streams);
            assert!(ends.all(|stream| stream.drained));
        }
    }
}

#[tokio::test]
async fn a_source_port_that_is_in_use_is_named() {
    let (address, target) = (own_address(), own_address());
    let taken = TcpListener::bind((address, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let listener = TcpListener::bind((target, 0)).unwrap();
    let socket = SocketRequest { source_port_base: Some(port.into()), ..Default::default() };
    let job = SendJob {
        socket,
        bind_address: Some(address),
        ..send_job(target, listener.local_addr().unwrap().port())
    };
    let told = Agent::new().await.client.send(job).await.unwrap().rest().await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Connect);
    let text = format!("source port {port} is in use on this node");
    assert!(told.stop_text().contains(&text), "{}", told.stop_text());
}

#[tokio::test]
async fn a_device_that_is_not_there_is_named_with_those_that_are() {
    let address = own_address();
    let socket = SocketRequest { device: Some("nope0".to_owned()), ..Default::default() };
    let job = SendJob { socket, ..send_job(address, 1) };
    let told = Agent::new().await.client.send(job).await.unwrap().rest().await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::System);
    let text = "there is no interface `nope0` on this node; there are ";
    assert!(told.stop_text().contains(text), "{}", told.stop_text());
}

#[tokio::test]
async fn a_test_over_the_loopback_device_says_that_it_carried_the_bytes() {
    let address = own_address();
    let socket = SocketRequest { device: Some("lo".to_owned()), ..Default::default() };
    let (sent, received) = run_with(address, socket, 1).await;
    if sent.stop_text().contains("may not be chosen by this user") {
        // Before Linux 5.7, and not as root.
        return;
    }
    for told in [&sent, &received] {
        let lo = told.end.interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(lo.received_bytes >= received.bytes() && lo.sent_bytes >= received.bytes());
        assert!(lo.sent_packets > 0);
        assert!(told.end.softnet.is_some());
    }
}

#[tokio::test]
async fn the_processors_share_of_a_test_is_told_with_what_it_waited_for() {
    let (sent, received) = run_with(own_address(), SocketRequest::default(), 2).await;
    for told in [sent, received] {
        let cpu = told.end.cpu;
        assert!(cpu.busiest_core_softirq_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
        assert!(cpu.busiest_core_softirq_share <= cpu.busiest_core_share);
        assert!(cpu.busiest_thread_wait_us.is_some(), "this kernel counts it");
    }
}

#[tokio::test]
async fn the_larger_buffer_of_each_end_is_granted_as_asked() {
    let socket = SocketRequest {
        send_buffer_bytes: Some(60_000),
        receive_buffer_bytes: Some(70_000),
        ..Default::default()
    };
    let (sent, received) = run_with(own_address(), socket, 1).await;
    let (sender, receiver) =
        (&sent.connected.unwrap().streams[0], &received.connected.unwrap().streams[0]);
    // Linux grants twice what is asked for (socket(7)).
    assert_eq!(sender.send_buffer_bytes, 120_000);
    assert_eq!(receiver.receive_buffer_bytes, 140_000);
    assert!(!sender.buffer_forced && !receiver.buffer_forced);
    assert!(sender.known_path_mtu_bytes.is_some_and(|mtu| mtu >= 1280));
}

#[tokio::test]
async fn a_buffer_beyond_the_maximum_is_forced_and_said_to_be_or_bound_by_it() {
    let most: u64 =
        std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap().trim().parse().unwrap();
    let asked = most + 100_000;
    let socket = SocketRequest { send_buffer_bytes: Some(asked), ..Default::default() };
    if socket.check(1).is_err() {
        // The maximum of this host is the most that an agent asks for.
        return;
    }
    let (sent, received) = run_with(own_address(), socket, 1).await;
    let start = &sent.connected.unwrap().streams[0];
    // With CAP_NET_ADMIN what was asked for, else the maximum; each twice (socket(7)).
    let granted = if start.buffer_forced { asked } else { most };
    assert_eq!(start.send_buffer_bytes, 2 * granted);
    assert!(!received.connected.unwrap().streams[0].buffer_forced, "its buffers are as they were");
}

#[tokio::test]
async fn pacing_holds_each_stream_to_its_rate() {
    let rate = 4_000_000.0;
    let socket = SocketRequest { pacing_bytes_per_second: Some(rate), ..Default::default() };
    let address = own_address();
    let receive = ReceiveJob { socket: socket.clone(), ..receive_job(address) };
    let send = SendJob { socket, ..send_job(address, 0) };
    let (sent, received) = run_test(receive, send).await;
    let pacing: Vec<_> =
        sent.readings.iter().filter_map(|reading| reading.tcp.pacing_rate_bytes_per_s).collect();
    assert!(!pacing.is_empty() && pacing.iter().all(|&told| told <= rate as u64), "{pacing:?}");
    // TCP does not pace its first 10 segments (tcp_update_skb_after_send), here of up to 64 KiB.
    let burst = 11.0 * 65_536.0;
    let stream = &received.end.streams[0];
    let took_ns = stream.last_byte_ns.unwrap() - stream.first_byte_ns.unwrap();
    let most = rate * took_ns as f64 / 1e9 * 1.1 + burst;
    assert!(stream.bytes as f64 <= most, "{} bytes, {most} at most", stream.bytes);
}

#[tokio::test]
async fn a_marked_and_clamped_test_runs_over_both_families() {
    for address in [own_address(), "::1".parse().unwrap()] {
        let socket = SocketRequest { dscp: Some(46), mss_bytes: Some(1228), ..Default::default() };
        let (sent, received) = run_with(address, socket, 1).await;
        assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
        assert!(received.bytes() > 0);
        let mss = sent.end.streams[0].tcp.snd_mss_bytes.unwrap();
        assert!(mss <= 1228, "{mss}");
        let start = &sent.connected.unwrap().streams[0];
        assert!(start.local.parse::<std::net::SocketAddr>().is_ok(), "{}", start.local);
    }
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_not_waited_for_longer_than_asked() {
    let address = own_address();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let receiver = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.read_exact(&mut [0; 24]).unwrap();
        socket.write_all(&[0x06]).unwrap();
        // Takes what fits into its buffer, and no more.
        let _ = released.recv();
    });
    let job = SendJob {
        duration: Duration::from_secs(3600),
        stall_deadline: Some(Duration::from_millis(1500)),
        ..send_job(address, port)
    };
    let id = job.job;
    let mut sender = Agent::new().await;
    let mut sent = sender.client.send(job).await.unwrap();
    sent.connected().await;
    assert!(sender.client.go(id).await);
    let told = sent.rest().await;
    drop(release);
    receiver.join().unwrap();
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Peer);
    assert!(told.stop_text().contains(" acknowledged nothing for 1.5 s while "), "{told:?}");
}

#[tokio::test]
async fn a_compressible_payload_arrives_like_any_other() {
    let address = own_address();
    let send = SendJob {
        compressible: Some(redoline_proto::units::Share(0.5)),
        bytes_max: Some(Bytes(5_000_000)),
        ..send_job(address, 0)
    };
    let (_, received) = run_test(receive_job(address), send).await;
    assert_eq!(received.bytes(), 5_000_000);
}
