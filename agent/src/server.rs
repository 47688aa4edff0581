//! Serves one controller over one stream, and ends everything when that ends.

use std::convert::Infallible;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::jobs::Jobs;
use crate::lease::Lease;
use crate::service;
use crate::transport::{Line, Transport};

/// For the controller's first words to come.
const FIRST_WORDS: Duration = Duration::from_secs(30);

/// For jobs to end once they are cancelled, and for their last events to leave.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Of requests that this end has not read yet; they are all small.
const WINDOW_BYTES: u32 = 256 * 1024;

/// Calls at once: a few jobs, a beat, and room.
const CALLS_MAX: u32 = 64;

const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// Why an agent stopped serving.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The controller closed the channel, or the way to it broke.
    ChannelClosed,
    /// The controller was silent for the length of the lease.
    LeaseExpired,
    /// This end was told to stop.
    ShutDown,
}

/// The control channel could not be served.
#[derive(Debug, thiserror::Error)]
#[error("failed to serve the control channel")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves until `stream` ends, the lease expires, or `shutdown` completes. Then all traffic has
/// stopped, whatever the controller does.
pub async fn serve<S>(stream: S, shutdown: impl Future<Output = ()>) -> Result<Ended, ServeError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (jobs, lease, line) = (Jobs::default(), Lease::new(FIRST_WORDS), Line::default());
    let stop = CancellationToken::new();
    // The server ends when its incoming stream does: it never may.
    let channel = Ok::<_, Infallible>(Transport::new(stream, &line));
    let incoming = tokio_stream::once(channel).chain(tokio_stream::pending());
    let serving = Server::builder()
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(CALLS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .add_routes(service::routes(jobs.clone(), lease.clone()))
        .serve_with_incoming_shutdown(incoming, stop.cancelled());
    let ending = async {
        let ended = tokio::select! {
            () = line.ended.cancelled() => Ended::ChannelClosed,
            () = lease.expired() => Ended::LeaseExpired,
            () = shutdown => Ended::ShutDown,
        };
        // Before anything that may wait, as a log may.
        jobs.end();
        tracing::info!(?ended, "ending");
        if !jobs.idle(LAST_WAIT).await {
            tracing::warn!("a job did not end in time");
        }
        stop.cancel();
        let _ = tokio::time::timeout(LAST_WAIT, line.ended.cancelled()).await;
        line.hang_up.cancel();
        ended
    };
    let (served, ended) = tokio::join!(serving, ending);
    served?;
    Ok(ended)
}
