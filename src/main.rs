//! Parses the arguments, runs the command, prints an error's chain once.

use std::process::{ExitCode, Termination as _};

use clap::Parser;
use redoline::cli::Cli;
use redoline::commands;

fn main() -> ExitCode {
    commands::run(Cli::parse()).report()
}
