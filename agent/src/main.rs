//! The lean executable that is copied to a node.

use std::process::ExitCode;

use clap::Parser;

/// Measures network and storage on this node, driven by the Redoline controller
#[derive(Debug, Parser)]
#[command(name = "redoline-agent", version = redoline_agent::VERSION)]
struct Cli {
    #[command(flatten)]
    args: redoline_agent::AgentArgs,
}

fn main() -> ExitCode {
    match redoline_agent::run(&Cli::parse().args) {
        Ok(_ended) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", redoline_agent::chain(&error));
            ExitCode::FAILURE
        }
    }
}
