//! Runs lab tests, or says why it cannot: they are shown as ignored, unless `REDOLINE_LAB=required`.

use std::{env, fmt, process::ExitCode};

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::requirements::why_unavailable;
use crate::wan::of_past_labs;

/// How often a test is run whose labs were not what it asked for.
const ATTEMPTS: u32 = 3;

/// A test's name (a sentence in `snake_case`) and what it does.
pub type LabTest = (&'static str, fn() -> Result<()>);

/// A test that is made at run time, for example from a data file.
pub struct LabCase {
    name: String,
    /// Why it is shown as ignored; `None` if it is not.
    ignored: Option<String>,
    /// What it needs beyond a lab and does not find.
    unavailable: Option<String>,
    test: Box<dyn Fn() -> Result<()> + Send>,
}

impl LabCase {
    /// A test of this name.
    pub fn new(name: impl Into<String>, test: impl Fn() -> Result<()> + Send + 'static) -> Self {
        let name = name.into();
        Self { name, ignored: None, unavailable: None, test: Box::new(test) }
    }

    /// The same test, shown as ignored with this reason.
    #[must_use]
    pub fn ignored(self, reason: impl Into<String>) -> Self {
        Self { ignored: Some(reason.into()), ..self }
    }

    /// The same test, which cannot run for this reason, if there is one.
    #[must_use]
    pub fn unavailable(self, reason: Option<String>) -> Self {
        Self { unavailable: reason, ..self }
    }
}

impl From<LabTest> for LabCase {
    fn from((name, test): LabTest) -> Self {
        Self::new(name, test)
    }
}

impl fmt::Debug for LabCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabCase").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The `main` of a test file with `harness = false`. Tests run one at a time unless
/// `--test-threads` says otherwise, since labs share the processors whose speed they need.
pub fn run(tests: Vec<LabTest>) -> ExitCode {
    run_cases(tests.into_iter().map(LabCase::from))
}

/// The same for tests that are made at run time.
pub fn run_cases(tests: impl IntoIterator<Item = LabCase>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let trials = tests.into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(LabCase { name, ignored, unavailable, test }: LabCase) -> Trial {
    Trial::ignorable_test(name, move || match (ignored, why_unavailable().or(unavailable)) {
        (Some(reason), _) => Ok(Completion::ignored_with(reason)),
        (None, None) => attempt(&*test).map(|()| Completion::Completed),
        (None, Some(reason)) if is_required() => Err(Failed::from(format!("no lab: {reason}"))),
        (None, Some(reason)) => Ok(Completion::ignored_with(format!("no lab: {reason}"))),
    })
}

/// A test whose labs were late, since the machine had other things to do, is no witness: it is run
/// again.
fn attempt(test: &dyn Fn() -> Result<()>) -> Result<(), Failed> {
    let mut left = ATTEMPTS;
    loop {
        let before = of_past_labs();
        let Err(error) = test() else { return Ok(()) };
        let labs = of_past_labs() - before;
        left -= 1;
        if labs.holds() || left == 0 {
            return Err(Failed::from(format!("{error:#}\n  its labs: {labs}")));
        }
    }
}

fn is_required() -> bool {
    env::var_os("REDOLINE_LAB").is_some_and(|value| value == "required")
}
