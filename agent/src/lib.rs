//! Agent: measures network and storage on one node, driven by the controller.
//!
//! The controller starts it over SSH and speaks gRPC over its standard input and output. It opens
//! no control port and ends with the controller. Of its host it changes nothing, with one exception:
//! where a runbook allows it, the MTU of an interface for the time of a test (`interface_mtu`), and
//! that is restored however the agent ends.

pub mod facts;
pub mod jobs;
mod process;
mod channel;
mod server;
mod transport;
mod lease;
mod lock;
mod service;
mod sys;

pub use process::{AgentArgs, AgentError, run};
pub use server::{Ended, ServeError, serve};

/// Of this agent; the controller's is the same, or they refuse each other.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that this agent was built from.
pub const COMMIT: &str = env!("REDOLINE_COMMIT");

/// An error with its causes, outermost first.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
