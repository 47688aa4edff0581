//! Whole runs against nodes of the lab: real sshd, real agents, an emulated WAN.
//!
//! Needs root, `ip`, `sshd` and /dev/net/tun; without them every test is shown as ignored with the
//! reason, or fails with `REDOLINE_LAB=required`.

mod cleanup;
mod crossings;
mod dead_man;
mod encodings;
mod faults;
mod firewall;
mod interface_mtu;
mod login;
mod paths;
mod peers;
mod runs;
mod scene;
mod trouble;

use std::process::ExitCode;

use redoline_lab::harness::LabCase;

fn main() -> ExitCode {
    let tests = [
        runs::TESTS,
        paths::TESTS,
        crossings::TESTS,
        encodings::TESTS,
        firewall::TESTS,
        interface_mtu::TESTS,
        login::TESTS,
        trouble::TESTS,
        cleanup::TESTS,
    ]
    .concat();
    let rows = faults::cases().into_iter().chain(peers::cases()).chain(dead_man::cases());
    redoline_lab::harness::run_cases(tests.into_iter().map(LabCase::from).chain(rows))
}
