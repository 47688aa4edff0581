//! The first words, and the lock that they take.

use redoline_proto::PROTOCOL;
use tonic::Code;

use crate::support::{Agent, hello};

#[tokio::test]
async fn the_answer_tells_who_answers_and_at_what_time() {
    let mut agent = Agent::silent().await;
    let answer = agent.client.hello(hello(&agent.lock)).await.unwrap();
    assert_eq!(answer.process_id, std::process::id());
    assert_eq!(answer.version, redoline_agent::VERSION);
    assert_eq!(answer.clock.sent_ns, 7);
    assert!(answer.clock.answered_ns >= answer.clock.received_ns);
}

#[tokio::test]
async fn nothing_is_done_before_hello() {
    let mut agent = Agent::silent().await;
    for status in [agent.client.beat().await.unwrap_err(), agent.client.facts().await.unwrap_err()]
    {
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(status.message(), "hello has to be said first");
    }
}

#[tokio::test]
async fn a_node_that_is_busy_says_with_whom() {
    let first = Agent::new().await;
    let mut second = Agent::silent().await;
    let status = second.client.hello(hello(&first.lock)).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    let start = format!("{} is busy: run run-1 of ann@jump (process ", first.lock);
    assert!(status.message().starts_with(&start), "{}", status.message());
}

#[tokio::test]
async fn a_node_is_free_again_when_its_run_has_gone() {
    let first = Agent::new().await;
    let lock = first.lock.clone();
    first.abandon().await;
    let mut second = Agent::silent().await;
    second.client.hello(hello(&lock)).await.unwrap();
}

#[tokio::test]
async fn another_protocol_is_refused_before_anything_else() {
    let mut agent = Agent::silent().await;
    let mut strange = hello(&agent.lock);
    strange.protocol += 1;
    let status = agent.client.hello(strange).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let text = format!("speaks protocol {PROTOCOL}");
    assert!(status.message().contains(&text), "{}", status.message());
    // The lock was not taken for it.
    Agent::silent().await.client.hello(hello(&agent.lock)).await.unwrap();
}

#[tokio::test]
async fn facts_come_after_hello() {
    Agent::new().await.client.facts().await.unwrap();
}
