//! The control channel, which tells when it has ended and can be hung up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Handles on a channel that a server owns.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The other end is gone, or the server has let go of the channel.
    pub ended: CancellationToken,
    /// Ends the channel from here.
    pub hang_up: CancellationToken,
}

#[derive(Debug)]
pub struct Transport<S> {
    stream: S,
    line: Line,
    hung_up: Pin<Box<WaitForCancellationFutureOwned>>,
    _end: DropGuard,
}

impl<S> Transport<S> {
    pub fn new(stream: S, line: &Line) -> Self {
        Self {
            stream,
            line: line.clone(),
            hung_up: Box::pin(line.hang_up.clone().cancelled_owned()),
            _end: line.ended.clone().drop_guard(),
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.line.hang_up.is_cancelled() {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
}

impl<S> Connected for Transport<S> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl<S: AsyncRead + Unpin> AsyncRead for Transport<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.hung_up.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let over = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if over {
            self.line.ended.cancel();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Transport<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
