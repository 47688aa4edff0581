//! What needs a network of its own: paths of several MTUs, and interfaces whose MTU is changed.
//!
//! Each test makes network namespaces, which vanish with it. Where that is not allowed, tests are
//! shown as ignored with the reason; with `REDOLINE_LAB=required` they fail instead.

#![expect(clippy::unwrap_used, reason = "the lint's own exception does not cover helpers of tests")]

mod agent;
mod hold;
mod namespace;
mod ports;
mod probe;
mod shaped;

#[path = "../it/support.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod support;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A test's name (a sentence) and what it does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = probe::TESTS.iter().chain(hold::TESTS).chain(shaped::TESTS).chain(ports::TESTS);
    let trials = tests.map(|(name, test)| trial(name, *test)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, test: fn()) -> Trial {
    let required = env::var_os("REDOLINE_LAB").is_some_and(|value| value == "required");
    Trial::ignorable_test(name, move || match namespace::why_unavailable() {
        None => {
            test();
            Ok(Completion::Completed)
        }
        Some(why) if required => Err(Failed::from(format!("no namespace: {why}"))),
        Some(why) => Ok(Completion::ignored_with(format!("no namespace: {why}"))),
    })
}
