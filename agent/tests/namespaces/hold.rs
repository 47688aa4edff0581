//! An interface's MTU is restored, however the test that changed it ends.

use std::io::Read;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redoline_proto::path::{HoldMtuEvent, MtuHeld, MtuRestored};
use redoline_proto::transfer::StopCause;

use crate::Test;
use crate::agent::{Agent, Holding, LONG, guardian};
use crate::namespace::Namespace;

pub const TESTS: &[Test] = &[
    ("a_held_mtu_is_restored_when_it_is_finished", a_held_mtu_is_restored_when_it_is_finished),
    ("a_held_mtu_is_restored_when_it_is_cancelled", a_held_mtu_is_restored_when_it_is_cancelled),
    ("a_held_mtu_is_restored_when_nobody_listens", a_held_mtu_is_restored_when_nobody_listens),
    ("a_held_mtu_is_restored_at_its_deadline", a_held_mtu_is_restored_at_its_deadline),
    ("a_held_mtu_is_restored_when_the_agent_is_told_to_end", restored_after_sigterm),
    ("a_held_mtu_is_restored_when_the_channel_ends", a_held_mtu_is_restored_when_the_channel_ends),
    ("a_held_mtu_is_restored_when_the_agent_is_killed", restored_after_sigkill),
    ("a_held_mtu_is_restored_when_the_agent_is_stopped", restored_by_the_guardian_at_its_deadline),
    ("somebody_elses_change_stays", somebody_elses_change_stays),
    ("an_mtu_that_is_set_back_meanwhile_ends_the_hold", set_back_meanwhile),
    ("a_guardian_restores_what_a_driver_made_of_the_change", restored_from_another_value),
    ("an_ipvlan_of_another_mtu_forbids_the_change", an_ipvlan_of_another_mtu_forbids_the_change),
    ("an_mtu_that_takes_ipv6_away_is_refused", an_mtu_that_takes_ipv6_away_is_refused),
    ("an_mtu_that_is_so_already_is_held_as_it_is", an_mtu_that_is_so_already_is_held_as_it_is),
];

fn node() -> (Namespace, Namespace) {
    let (node, other) = (Namespace::new(), Namespace::new());
    node.cable("eth0", &other, "peer");
    node.run(|| std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1").unwrap());
    node.set_up("eth0", "198.51.100.1/24", 1500);
    (node, other)
}

fn address() -> IpAddr {
    "198.51.100.1".parse().unwrap()
}

fn held<'a>(agent: &'a Agent, node: &Namespace, deadline: Duration) -> Holding<'a> {
    let mut holding = agent.hold(address(), 1400, deadline);
    let expected = MtuHeld { interface: "eth0".to_owned(), before_bytes: 1500, now_bytes: 1400 };
    assert_eq!(holding.next(), HoldMtuEvent::Held(expected));
    assert_eq!(node.mtu("eth0"), 1400);
    holding
}

fn restored(holding: &mut Holding<'_>) -> MtuRestored {
    match holding.next() {
        HoldMtuEvent::Restored(restored) => restored,
        other => panic!("{other:?}"),
    }
}

/// Nobody is left to tell it.
fn await_restored(node: &Namespace) {
    await_that("the MTU is restored", || node.mtu("eth0") == 1500);
}

fn await_end(process: Pid) {
    await_that("the guardian ends", || kill(process, None) == Err(Errno::ESRCH));
}

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_held_mtu_is_restored_when_it_is_finished() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    for _ in 0..2 {
        let mut holding = held(&agent, &node, LONG);
        let guardian = agent.guardian();
        agent.finish();
        let expected =
            MtuRestored { interface: "eth0".to_owned(), now_bytes: Some(1500), stopped: None };
        assert_eq!(restored(&mut holding), expected);
        assert_eq!(node.mtu("eth0"), 1500);
        await_end(guardian);
    }
    agent.wait();
}

fn a_held_mtu_is_restored_when_it_is_cancelled() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let mut holding = held(&agent, &node, LONG);
    agent.cancel();
    let restored = restored(&mut holding);
    assert_eq!(restored.now_bytes, Some(1500));
    assert_eq!(restored.stopped.unwrap().cause, StopCause::Cancelled);
    agent.wait();
}

fn a_held_mtu_is_restored_when_nobody_listens() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    drop(held(&agent, &node, LONG));
    await_that("the MTU is restored", || {
        // The end of the call leaves with the next word.
        agent.beat();
        node.mtu("eth0") == 1500
    });
    agent.wait();
}

fn a_held_mtu_is_restored_at_its_deadline() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let mut holding = held(&agent, &node, Duration::from_millis(300));
    let restored = restored(&mut holding);
    assert_eq!(restored.now_bytes, Some(1500));
    assert_eq!(restored.stopped.unwrap().cause, StopCause::Deadline);
    agent.wait();
}

fn restored_after_sigterm() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let mut holding = held(&agent, &node, LONG);
    agent.signal(Signal::SIGTERM);
    let restored = restored(&mut holding);
    assert_eq!(restored.now_bytes, Some(1500));
    assert_eq!(restored.stopped.unwrap().cause, StopCause::Cancelled);
    drop(holding);
    agent.wait();
}

fn a_held_mtu_is_restored_when_the_channel_ends() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let holding = held(&agent, &node, LONG);
    let guardian = agent.guardian();
    drop(holding);
    agent.wait();
    assert_eq!(node.mtu("eth0"), 1500);
    await_end(guardian);
}

fn restored_after_sigkill() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let holding = held(&agent, &node, LONG);
    let guardian = agent.guardian();
    // As the end of a session does, which reaches all of its processes.
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGPIPE] {
        kill(guardian, signal).unwrap();
    }
    assert_eq!(node.mtu("eth0"), 1400, "a guardian restores nothing while its agent lives");
    agent.signal(Signal::SIGKILL);
    drop(holding);
    agent.wait();
    await_restored(&node);
    await_end(guardian);
}

fn restored_by_the_guardian_at_its_deadline() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let holding = held(&agent, &node, Duration::from_millis(300));
    agent.signal(Signal::SIGSTOP);
    await_restored(&node);
    agent.signal(Signal::SIGKILL);
    drop(holding);
    agent.wait();
}

fn somebody_elses_change_stays() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let mut holding = held(&agent, &node, LONG);
    let guardian = agent.guardian();
    node.ip("link set eth0 mtu 1300");
    agent.finish();
    let told = restored(&mut holding);
    assert_eq!(told.now_bytes, Some(1300));
    assert_eq!(
        told.stopped.unwrap().text,
        "somebody else set the MTU of eth0 to 1300 meanwhile, so it stays; before the test it was \
         1500"
    );
    await_end(guardian);
    assert_eq!(node.mtu("eth0"), 1300);
    // And so it does when it is the guardian who would restore it.
    node.ip("link set eth0 mtu 1500");
    let holding = held(&agent, &node, LONG);
    let guardian = agent.guardian();
    node.ip("link set eth0 mtu 1300");
    agent.signal(Signal::SIGKILL);
    drop(holding);
    agent.wait();
    await_end(guardian);
    assert_eq!(node.mtu("eth0"), 1300);
}

fn set_back_meanwhile() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let mut holding = held(&agent, &node, LONG);
    let guardian = agent.guardian();
    // As a NetworkManager that applies its profile again.
    node.ip("link set eth0 mtu 1500");
    let told = restored(&mut holding);
    assert_eq!(told.now_bytes, Some(1500));
    assert_eq!(
        told.stopped.unwrap().text,
        "somebody else set the MTU of eth0 to 1500 while the test held it at 1400: for an unknown \
         part of the time it was another"
    );
    await_end(guardian);
    drop(holding);
    agent.wait();
}

/// Whose agent died before it could read what the driver took.
fn restored_from_another_value() {
    let (node, _other) = node();
    let line = node.ip("-o link show eth0");
    let index = line.split(':').next().unwrap();
    let mut guardian = guardian(&node, &format!("{index}:1500:30000"));
    guardian.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    node.ip("link set eth0 mtu 1300");
    drop(guardian.stdin.take());
    guardian.wait().unwrap();
    assert_eq!(node.mtu("eth0"), 1500);
}

fn an_ipvlan_of_another_mtu_forbids_the_change() {
    let (node, _other) = node();
    if !node.try_ip("link add link eth0 name ipvl0 type ipvlan mode l2") {
        // Not every kernel has it; the rule itself is tested without.
        return;
    }
    let agent = Agent::start(&node);
    drop(held(&agent, &node, LONG));
    await_that("both are restored", || {
        agent.beat();
        (node.mtu("eth0"), node.mtu("ipvl0")) == (1500, 1500)
    });
    node.ip("link set ipvl0 mtu 1300");
    let mut holding = agent.hold(address(), 1400, LONG);
    let text = restored(&mut holding).stopped.unwrap().text;
    assert!(text.starts_with("ipvl0 on eth0 would get its MTU"), "{text}");
    drop(holding);
    agent.wait();
}

fn an_mtu_that_takes_ipv6_away_is_refused() {
    let (node, _other) = node();
    node.run(|| std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "0").unwrap());
    node.ip("address add fd00::1/64 dev eth0 nodad");
    let agent = Agent::start(&node);
    let mut holding = agent.hold(address(), 1200, LONG);
    let told = restored(&mut holding);
    assert_eq!((told.interface.as_str(), told.now_bytes), ("eth0", Some(1500)));
    let text = told.stopped.unwrap().text;
    assert!(text.starts_with("eth0 has IPv6 addresses"), "{text}");
    // To the last that IPv6 takes, the addresses stay.
    let mut holding = agent.hold("fd00::1".parse().unwrap(), 1280, LONG);
    assert!(matches!(holding.next(), HoldMtuEvent::Held(_)));
    agent.finish();
    assert_eq!(restored(&mut holding).now_bytes, Some(1500));
    assert!(node.ip("-6 address show dev eth0").contains("fd00::1/64"));
    drop(holding);
    agent.wait();
}

fn an_mtu_that_is_so_already_is_held_as_it_is() {
    let (node, _other) = node();
    let agent = Agent::start(&node);
    let mut holding = agent.hold(address(), 1500, LONG);
    let expected = MtuHeld { interface: "eth0".to_owned(), before_bytes: 1500, now_bytes: 1500 };
    assert_eq!(holding.next(), HoldMtuEvent::Held(expected));
    node.ip("link set eth0 mtu 1400");
    agent.finish();
    assert_eq!(restored(&mut holding).now_bytes, Some(1400), "never ours to restore");
    drop(holding);
    agent.wait();
}
