//! Runs lab tests, or says why it cannot: they are shown as ignored, unless `REDOLINE_LAB=required`.

use std::{env, process::ExitCode};

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::requirements::why_unavailable;

/// A test's name (a sentence in `snake_case`) and what it does.
pub type LabTest = (&'static str, fn() -> Result<()>);

/// The `main` of a test file with `harness = false`. Tests run one at a time unless
/// `--test-threads` says otherwise, since labs share the processors whose speed they need.
pub fn run(tests: Vec<LabTest>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let trials = tests.into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial((name, test): LabTest) -> Trial {
    Trial::ignorable_test(name, move || match why_unavailable() {
        None => test()
            .map(|()| Completion::Completed)
            .map_err(|error| Failed::from(format!("{error:#}"))),
        Some(reason) if is_required() => Err(Failed::from(format!("no lab: {reason}"))),
        Some(reason) => Ok(Completion::ignored_with(format!("no lab: {reason}"))),
    })
}

fn is_required() -> bool {
    env::var_os("REDOLINE_LAB").is_some_and(|value| value == "required")
}
