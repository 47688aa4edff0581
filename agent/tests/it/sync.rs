//! SYNC transport: one message in flight, answered by the receiver, written first where asked.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use redoline_proto::transfer::{
    Acknowledge, Acknowledgements, ReceiveJob, RedoWrite, SendJob, StopCause,
};
use redoline_proto::units::{Bytes, BytesPerSecond};

use crate::support::{Agent, Told, own_address, receive_job, run_test, send_job};

fn receive_sync(address: IpAddr, message_bytes: u64, write: Option<RedoWrite>) -> ReceiveJob {
    let acknowledge = Some(Acknowledge { message_bytes, write });
    ReceiveJob { acknowledge, ..receive_job(address) }
}

fn send_sync(address: IpAddr, message_bytes: u64) -> SendJob {
    SendJob { acknowledged: true, message: Bytes(message_bytes), ..send_job(address, 0) }
}

fn write_to(dir: &Path, file_bytes: u64) -> Option<RedoWrite> {
    Some(RedoWrite { dir: dir.display().to_string(), file_bytes })
}

fn answers(sent: &Told) -> &Acknowledgements {
    sent.end.acknowledgements.as_ref().unwrap()
}

#[tokio::test]
async fn every_message_is_answered_once_and_its_time_is_known() {
    let address = own_address();
    let receive = ReceiveJob { num_conn: 2, ..receive_sync(address, 8192, None) };
    let send = SendJob { num_conn: 2, ..send_sync(address, 8192) };
    let (sent, received) = run_test(receive, send).await;

    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    assert!(sent.end.streams.iter().chain(&received.end.streams).all(|stream| stream.drained));
    let answers = answers(&sent);
    assert!(answers.messages > 0);
    assert_eq!(received.bytes(), answers.messages * 8192);
    assert_eq!(sent.bytes(), received.bytes());
    for told in [&sent, &received] {
        assert_eq!(told.sampled_bytes().iter().sum::<u64>(), told.bytes());
    }
    let total = &answers.total;
    assert_eq!(total.count, answers.messages);
    let rising =
        [total.min_us, total.p50_us, total.p90_us, total.p99_us, total.p999_us, total.max_us];
    assert!(rising.is_sorted() && total.min_us > 0.0, "{rising:?}");
    assert_eq!(answers.write, None, "nothing was written");
    assert_eq!(received.end.acknowledgements, None, "the sender counts them");
}

#[tokio::test]
async fn a_message_that_is_written_takes_longer_than_its_write() {
    let dir = tempfile::tempdir().unwrap();
    let address = own_address();
    let receive =
        ReceiveJob { num_conn: 2, ..receive_sync(address, 5000, write_to(dir.path(), 1 << 20)) };
    let send = SendJob { num_conn: 2, ..send_sync(address, 5000) };
    let (sent, received) = run_test(receive, send).await;

    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    let answers = answers(&sent);
    let write = answers.write.as_ref().unwrap();
    assert_eq!((write.count, answers.total.count), (answers.messages, answers.messages));
    assert_eq!(received.bytes(), answers.messages * 5000);
    assert!(write.min_us > 0.0);
    // Both ends are on one machine: each total contains its write.
    let total = &answers.total;
    assert!(total.mean_us > write.mean_us && total.min_us > write.min_us, "{answers:?}");
    assert!(total.p50_us >= write.p50_us && total.max_us >= write.max_us, "{answers:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a file is left behind");
}

#[tokio::test]
async fn messages_may_be_one_byte_or_longer_than_the_payload() {
    for message in [1, 5 * Bytes::MIB] {
        let address = own_address();
        let (sent, received) =
            run_test(receive_sync(address, message, None), send_sync(address, message)).await;
        assert_eq!(sent.end.stopped, None);
        assert_eq!(received.bytes(), answers(&sent).messages * message);
    }
}

#[tokio::test]
async fn only_whole_messages_count_towards_the_bytes_that_may_be_sent() {
    let address = own_address();
    let receive = ReceiveJob { num_conn: 3, ..receive_sync(address, 1000, None) };
    let send = SendJob {
        num_conn: 3,
        bytes_max: Some(Bytes(50_999)),
        duration: Duration::from_secs(20),
        ..send_sync(address, 1000)
    };
    let (sent, received) = run_test(receive, send).await;
    assert_eq!((answers(&sent).messages, received.bytes()), (50, 50_000));
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Limit);
    assert_eq!(
        sent.stop_text(),
        "as many messages of 1000 B were sent as fit into the 49.8 KiB that may be sent"
    );
}

#[tokio::test]
async fn a_rate_and_a_delay_hold_messages_back() {
    let slow = [
        SendJob { rate: Some(BytesPerSecond(1_000_000.0)), ..send_sync(own_address(), 50_000) },
        SendJob { delay: Some(Duration::from_millis(50)), ..send_sync(own_address(), 50_000) },
    ];
    for send in slow {
        let receive = receive_sync(send.address, 50_000, None);
        let (sent, _) = run_test(receive, send).await;
        // At most 20 in its second, and the one that leaves at once.
        let messages = answers(&sent).messages;
        assert!((2..=22).contains(&messages), "{messages}");
        assert_eq!(sent.end.stopped, None);
    }
}

#[tokio::test]
async fn a_delay_holds_back_messages_of_async_too() {
    let address = own_address();
    let send = SendJob {
        message: Bytes(1000),
        delay: Some(Duration::from_millis(50)),
        ..send_job(address, 0)
    };
    let (sent, received) = run_test(receive_job(address), send).await;
    assert!((2_000..=22_000).contains(&received.bytes()), "{}", received.bytes());
    assert_eq!(received.bytes() % 1000, 0);
    assert_eq!(sent.end.acknowledgements, None);
}

#[tokio::test]
async fn a_place_that_cannot_be_written_as_a_redo_log_is_refused_before_the_port_opens() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = vec![
        (
            write_to(Path::new("/nowhere/at/all"), 1 << 20),
            "failed to open the scratch directory `/nowhere/at/all`: ".to_owned(),
        ),
        (
            write_to(dir.path(), 1 << 50),
            format!("a scratch file of 1 PiB does not fit in `{}`: ", dir.path().display()),
        ),
    ];
    if Path::new("/dev/shm").exists() {
        let text = "`/dev/shm` lies on tmpfs, which keeps its files in memory: ".to_owned();
        cases.push((write_to(Path::new("/dev/shm"), 1 << 20), text));
    }
    for (write, start) in cases {
        let mut receiver = Agent::new().await;
        let job = receive_sync(own_address(), 8192, write);
        let told = receiver.client.receive(job).await.unwrap().rest().await;
        assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::System);
        assert!(told.stop_text().starts_with(&start), "{}", told.stop_text());
    }
}

#[tokio::test]
async fn a_cancelled_test_of_sync_ends_at_both_ends() {
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let mut received = receiver.client.receive(receive_sync(address, 8192, None)).await.unwrap();
    let port = received.port().await;
    let hour = Duration::from_secs(3600);
    let job = SendJob { port, duration: hour, ..send_sync(address, 8192) };
    let id = job.job;
    let mut sent = sender.client.send(job).await.unwrap();
    sent.connected().await;
    assert!(sender.client.go(id).await);
    assert!(sender.client.cancel(id).await);
    let (sent, received) = tokio::join!(sent.rest(), received.rest());
    assert_eq!(sent.end.stopped.unwrap().cause, StopCause::Cancelled);
    assert!(received.end.streams.iter().all(|stream| !stream.drained));
}

/// A receiver that takes the token and then does as it likes.
async fn sent_to(
    other: impl FnOnce(std::net::TcpStream) + Send + 'static,
    job: impl FnOnce(SendJob) -> SendJob,
) -> Told {
    let address = own_address();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let receiver = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.read_exact(&mut [0; 24]).unwrap();
        socket.write_all(&[0x06]).unwrap();
        other(socket);
    });
    let hour = Duration::from_secs(3600);
    let job = job(SendJob { port, duration: hour, ..send_sync(address, 1000) });
    let id = job.job;
    let mut sender = Agent::new().await;
    let mut sent = sender.client.send(job).await.unwrap();
    sent.connected().await;
    assert!(sender.client.go(id).await);
    let told = sent.rest().await;
    receiver.join().unwrap();
    told
}

/// Reads whatever comes until the sender has gone.
fn swallow(mut socket: std::net::TcpStream) {
    while socket.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
}

#[tokio::test]
async fn a_receiver_that_takes_messages_but_answers_none_is_not_waited_for_longer_than_asked() {
    let patience = Some(Duration::from_millis(500));
    let told = sent_to(swallow, |job| SendJob { stall_deadline: patience, ..job }).await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Peer);
    let rest = " did not answer a message of stream 0 for 0.5 s: it has the message, but does not \
                write or answer; 0 messages were answered before";
    assert!(told.stop_text().ends_with(rest), "{}", told.stop_text());
    assert_eq!(told.end.acknowledgements.unwrap().messages, 0);
}

#[tokio::test]
async fn an_answer_to_another_message_is_not_taken() {
    let nonsense = |mut socket: std::net::TcpStream| {
        socket.write_all(&[0x55; 16]).unwrap();
        swallow(socket);
    };
    let told = sent_to(nonsense, |job| job).await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Peer);
    assert!(told.stop_text().ends_with("what came is no answer to it"), "{}", told.stop_text());
}

#[tokio::test]
async fn a_receiver_that_goes_away_is_told_of() {
    let told =
        sent_to(|socket| socket.shutdown(std::net::Shutdown::Both).unwrap(), |job| job).await;
    assert_eq!(told.end.stopped.as_ref().unwrap().cause, StopCause::Peer);
    assert!(told.stop_text().contains(" broke stream 0 after "), "{}", told.stop_text());
}
