//! The agent as a process: its arguments, its standard streams, its end.

use std::{fs, io};

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::channel::Streams;
use crate::jobs::interface_mtu;
use crate::server::{Ended, ServeError, serve};
use crate::sys::priority::set_nice;

/// What the controller starts an agent with.
#[derive(Clone, Debug, clap::Args)]
pub struct AgentArgs {
    /// Written alone on a line before the first byte of HTTP/2, so that the controller can skip
    /// what a login shell says
    #[arg(long, value_name = "HEX", value_parser = parse_marker)]
    pub marker: String,

    /// Delete the executable at once; its directory stays
    #[arg(long)]
    pub remove: bool,

    /// Lower the priority of the process
    #[arg(long, value_name = "1-19", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub nice: Option<i32>,

    /// Serve nobody, but restore an interface's MTU when standard input ends
    #[arg(long, hide = true, value_name = "INDEX:BEFORE:MILLISECONDS")]
    pub restore_mtu: Option<interface_mtu::Orders>,
}

/// Why an agent did not serve.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("failed to take over standard input and output")]
    Streams(#[source] io::Error),
    #[error("failed to start the runtime")]
    Runtime(#[source] io::Error),
    #[error("failed to watch for signals")]
    Signals(#[source] io::Error),
    #[error("failed to go on guard over an interface's MTU")]
    Guard(#[source] io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Serves the controller at the other end of standard input and output, until it goes.
pub fn run(args: &AgentArgs) -> Result<Ended, AgentError> {
    if let Some(orders) = &args.restore_mtu {
        interface_mtu::guard(orders).map_err(AgentError::Guard)?;
        return Ok(Ended::ChannelClosed);
    }
    interface_mtu::enable();
    // Before anything is logged or printed.
    let streams = Streams::take().map_err(AgentError::Streams)?;
    log_to_stderr();
    if args.remove {
        // The controller looks after the run whether something was left behind.
        if let Err(error) = remove_executable() {
            tracing::warn!(%error, "failed to remove the executable");
        }
    }
    if let Some(nice) = args.nice {
        // Limits and security modules may forbid it; a test at the usual priority is still one.
        if let Err(error) = set_nice(nice) {
            tracing::warn!(%error, nice, "failed to lower the priority; going on without");
        }
    }
    streams.write_line(&args.marker).map_err(AgentError::Streams)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(AgentError::Runtime)?;
    let ended = runtime.block_on(async {
        let channel = streams.into_channel().map_err(AgentError::Streams)?;
        let shutdown = signalled().map_err(AgentError::Signals)?;
        Ok(serve(channel, shutdown).await?)
    });
    // Reading facts may still wait for something; the process does not.
    runtime.shutdown_background();
    ended
}

/// Completes with the first signal to end.
fn signalled() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}

/// `REDOLINE_LOG` sets the level; the controller keeps what arrives.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("REDOLINE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // Set already when the controller's executable is the agent. Errors of writing are not
    // printed: that would be to standard error as well.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .log_internal_errors(false)
        .try_init();
}

/// The running process keeps its executable; nobody else sees it any more. Directories are not its
/// own to remove: other runs may be about to use them.
fn remove_executable() -> io::Result<()> {
    match fs::remove_file(fs::read_link("/proc/self/exe")?) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn parse_marker(text: &str) -> Result<String, String> {
    let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match hex && (8..=128).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("must be 8 to 128 hexadecimal digits".to_owned()),
    }
}
