//! Whole runs against nodes of the lab: real sshd, real agents, an emulated WAN.
//!
//! Needs root, `ip`, `sshd` and /dev/net/tun; without them every test is shown as ignored with the
//! reason, or fails with `REDOLINE_LAB=required`.

mod cleanup;
mod login;
mod runs;
mod scene;
mod trouble;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [runs::TESTS, login::TESTS, trouble::TESTS, cleanup::TESTS].concat();
    redoline_lab::harness::run(tests)
}
