//! What a test says of its times: short ones, late ones, slow ones, and how soon it says it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use redoline_proto::transfer::{Acknowledge, ReceiveJob, SendJob, StopCause, TransferEvent};
use redoline_proto::units::{Bytes, BytesPerSecond};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Agent, LONG, Told, hello, own_address, receive_job, run_test, send_job};

/// On the clock of all agents here.
fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() * 1_000_000_000 + now.tv_nsec()
}

/// Of all streams.
fn first_byte_ns(told: &Told) -> i64 {
    told.end.streams.iter().filter_map(|stream| stream.first_byte_ns).min().unwrap()
}

fn last_byte_ns(told: &Told) -> i64 {
    told.end.streams.iter().filter_map(|stream| stream.last_byte_ns).max().unwrap()
}

/// From the first byte to the last.
fn bytes_per_second(told: &Told) -> f64 {
    told.bytes() as f64 / ((last_byte_ns(told) - first_byte_ns(told)) as f64 / 1e9)
}

#[tokio::test]
async fn a_test_of_50_ms_has_its_times_in_nanoseconds_and_a_rate() {
    let address = own_address();
    let duration = Duration::from_millis(50);
    let send = SendJob { duration, ..send_job(address, 0) };
    let (sent, received) = run_test(receive_job(address), send).await;
    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    let mut times = Vec::new();
    for told in [&sent, &received] {
        let rate = bytes_per_second(told);
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
        times.extend([first_byte_ns(told), last_byte_ns(told)]);
    }
    // Ten in a row that are whole milliseconds do not happen by chance, and four hardly do.
    assert!(times.iter().any(|time| time % 1_000_000 != 0), "{times:?}");
    assert!(last_byte_ns(&sent) - first_byte_ns(&sent) >= 40_000_000, "{times:?}");
}

#[tokio::test]
async fn processor_time_is_set_against_all_of_the_time_since_the_first_byte() {
    let address = own_address();
    let duration = Duration::from_millis(50);
    let send = SendJob { duration, ..send_job(address, 0) };
    let (sent, received) = run_test(receive_job(address), send).await;
    for told in [&sent, &received] {
        let moved_us = (last_byte_ns(told) - first_byte_ns(told)) / 1000;
        let since_us = (told.end.at_ns - first_byte_ns(told)) / 1000 + 1;
        let elapsed_us = told.end.cpu.elapsed_us as i64;
        assert!((moved_us..=since_us).contains(&elapsed_us), "{elapsed_us} of {moved_us}");
    }
}

#[tokio::test]
async fn a_start_that_comes_late_is_waited_for_and_not_counted() {
    const LATE: Duration = Duration::from_secs(2);
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, Agent::new().await);
    let mut received = receiver.client.receive(receive_job(address)).await.unwrap();
    let port = received.port().await;
    let job = SendJob { duration: Duration::from_millis(300), ..send_job(address, port) };
    let id = job.job;
    let mut sent = sender.client.send(job).await.unwrap();
    let connected_ns = sent.connected().await.at_ns;
    tokio::time::sleep(LATE).await;
    let called_ns = now_ns();
    assert!(sender.client.go(id).await);
    let (sent, received) = tokio::join!(sent.rest(), received.rest());
    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    assert_eq!(sent.bytes(), received.bytes());
    let started_ns = sent.started_ns.unwrap();
    let order =
        [connected_ns + LATE.as_nanos() as i64, called_ns, started_ns, first_byte_ns(&sent)];
    assert!(order.is_sorted(), "{order:?}");
    assert!(first_byte_ns(&received) >= called_ns);
    for told in [&sent, &received] {
        let most_us = (told.end.at_ns - called_ns) / 1000 + 1;
        assert!(told.end.cpu.elapsed_us as i64 <= most_us, "the wait counts as a part of the test");
        let quiet = told.samples.iter().filter(|sample| sample.to_ns < called_ns);
        assert!(quiet.map(|sample| sample.bytes().0).sum::<u64>() == 0);
    }
}

#[tokio::test]
async fn the_rate_of_a_test_that_its_bytes_end_is_over_the_time_they_took() {
    let (address, rate) = (own_address(), 10e6);
    let send = SendJob {
        bytes_max: Some(Bytes(10_000_000)),
        rate: Some(BytesPerSecond(rate)),
        duration: Duration::from_secs(3600),
        ..send_job(address, 0)
    };
    let (sent, received) = run_test(receive_job(address), send).await;
    assert_eq!(sent.end.stopped.as_ref().unwrap().cause, StopCause::Limit);
    assert_eq!(received.bytes(), 10_000_000);
    // The pace is a limit, which a loaded machine may stay below.
    let measured = bytes_per_second(&received);
    assert!((0.5 * rate..1.05 * rate).contains(&measured), "{measured}");
    // As the samples say, which go on to the end.
    let last = received.samples.iter().rfind(|sample| sample.bytes().0 > 0).unwrap();
    assert!(last.from_ns <= last_byte_ns(&received) && last_byte_ns(&received) <= last.to_ns);
}

#[tokio::test]
async fn the_receiver_s_series_has_no_gap_at_10_mbit() {
    let address = own_address();
    let every = Duration::from_millis(100);
    let receive = ReceiveJob { sample: every, ..receive_job(address) };
    let send = SendJob {
        rate: Some(BytesPerSecond(1.25e6)),
        duration: Duration::from_secs(3),
        ..send_job(address, 0)
    };
    let (_, received) = run_test(receive, send).await;
    let samples = &received.samples;
    assert!(samples.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
    assert!(samples[0].from_ns <= first_byte_ns(&received));
    assert!(samples.last().unwrap().to_ns >= last_byte_ns(&received));
    // 30 on a machine that has the time to make them.
    let flowing = |sample: &&redoline_proto::transfer::Sample| {
        sample.from_ns >= first_byte_ns(&received) && sample.to_ns <= last_byte_ns(&received)
    };
    let (full, empty): (Vec<_>, Vec<_>) =
        samples.iter().filter(flowing).partition(|sample| sample.bytes().0 > 0);
    assert!(full.len() >= 15, "{} samples", full.len());
    assert!(empty.len() <= 3, "{} of {} are empty", empty.len(), full.len() + empty.len());
}

#[tokio::test]
async fn ten_messages_of_sync_a_second_are_counted_and_timed() {
    const MESSAGE: u64 = 8192;
    let address = own_address();
    let acknowledge = Some(Acknowledge { message_bytes: MESSAGE, write: None });
    let receive = ReceiveJob { acknowledge, ..receive_job(address) };
    let send = SendJob {
        acknowledged: true,
        message: Bytes(MESSAGE),
        delay: Some(Duration::from_millis(100)),
        duration: Duration::from_secs(3),
        ..send_job(address, 0)
    };
    let (sent, received) = run_test(receive, send).await;
    assert_eq!((&sent.end.stopped, &received.end.stopped), (&None, &None));
    let answers = sent.end.acknowledgements.as_ref().unwrap();
    // One at once, and then at most one for each delay that has passed.
    assert!((5..=31).contains(&answers.messages), "{}", answers.messages);
    assert_eq!(received.bytes(), answers.messages * MESSAGE);
    assert_eq!(answers.total.count, answers.messages);
    let total = &answers.total;
    let rising = [total.min_us, total.p50_us, total.p99_us, total.max_us];
    assert!(rising.is_sorted() && total.min_us > 0.0, "{rising:?}");
    for told in [&sent, &received] {
        assert_eq!(told.sampled_bytes().iter().sum::<u64>(), answers.messages * MESSAGE);
        let times = told.samples.iter().flat_map(|sample| [sample.from_ns, sample.to_ns]);
        assert!(times.is_sorted());
    }
}

/// Its controller talks to it over TCP, with Nagle, on the device that the test fills.
async fn agent_over_loopback() -> Agent {
    let listener = TcpListener::bind((own_address(), 0)).await.unwrap();
    let (ours, theirs) =
        tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let mut agent = Agent::between(ours.unwrap(), theirs.unwrap().0).await;
    agent.client.hello(hello(&agent.lock)).await.unwrap();
    agent
}

#[tokio::test]
async fn samples_are_told_soon_while_the_path_is_full() {
    const OLD: Duration = Duration::from_secs(2);
    let address = own_address();
    let (mut sender, mut receiver) = (Agent::new().await, agent_over_loopback().await);
    let job = ReceiveJob { num_conn: 4, ..receive_job(address) };
    let mut received = receiver.client.receive(job).await.unwrap();
    let port = received.port().await;
    let duration = Duration::from_secs(3);
    let job = SendJob { num_conn: 4, duration, ..send_job(address, port) };
    let id = job.job;
    let mut sent = sender.client.send(job).await.unwrap();
    sent.connected().await;
    assert!(sender.client.go(id).await);
    let sent = tokio::spawn(sent.rest());
    let (mut batches, mut flowing) = (0, false);
    loop {
        match received.next().await.unwrap().unwrap() {
            TransferEvent::Batch(batch) => {
                flowing |= batch.samples.iter().any(|sample| sample.bytes().0 > 0);
                let oldest = batch.samples.first().map(|sample| sample.from_ns);
                if let Some(oldest_ns) = oldest.filter(|_| flowing && batches > 0) {
                    let age = Duration::from_nanos((now_ns() - oldest_ns).unsigned_abs());
                    assert!(age < OLD, "batch {batches}: {age:?}");
                }
                batches += u32::from(flowing);
            }
            TransferEvent::End(end) => {
                assert_eq!(end.stopped, None);
                break;
            }
            _ => {}
        }
    }
    assert!(tokio::time::timeout(LONG, sent).await.unwrap().unwrap().bytes() > 0);
    // The first at once, then one every half second.
    assert!(batches >= 5, "{batches} batches");
}
