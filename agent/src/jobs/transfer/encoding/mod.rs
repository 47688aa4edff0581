//! What is done to the bytes of a stream on their way: nothing, TLS 1.3, or compression.
//!
//! A model of Oracle Net encryption and of redo compression, to show what such work costs on these
//! hosts; not the thing itself. All bytes counted are those of the payload, before encoding at the
//! sender and after decoding at the receiver; what TCP carried is in its own counters.
//!
//! Before the first byte, both ends agree on the encoding (`agreement`), outside of the time that
//! is measured.

mod agreement;
mod buffers;
mod compression;
mod frame;
mod tls;

use std::io::{self, Read, Write};
use std::time::Instant;

use redoline_proto::encoding::Encoding;
use redoline_proto::transfer::{StopCause, Stopped};
use redoline_proto::units::BytesPerSecond;

use self::agreement::{Line, OpenError};
use self::compression::{Compressor, Decompressor, frame_max};
pub use self::tls::NotEncrypted;
use self::tls::{TlsReceiver, TlsSender};
use super::stopped;
use super::stream::Stream;
use crate::chain;
use crate::jobs::cancel::CancelFlag;

/// The sender's side of one stream.
pub enum Encoder {
    Plain,
    Tls(Box<TlsSender>),
    Compressed(Box<Compressor>),
}

/// The receiver's side of one stream.
pub enum Decoder {
    Plain,
    Tls(Box<TlsReceiver>),
    Compressed(Box<Decompressor>),
}

impl Encoder {
    /// Agrees on the encoding with the receiver. `streams` of the test share the memory, each held
    /// to the rate, if there is one.
    pub fn open(
        encoding: Option<Encoding>,
        stream: &Stream,
        (streams, rate): (usize, Option<BytesPerSecond>),
        halt: &CancelFlag,
    ) -> Result<Self, Stopped> {
        let Some(encoding) = encoding else { return Ok(Self::Plain) };
        let line = Line::new(&stream.socket, halt);
        let opened = line.propose(encoding).and_then(|()| match encoding {
            Encoding::Tls(cipher) => TlsSender::open(cipher, &line).map(Box::new).map(Self::Tls),
            Encoding::Compression(compression) => Ok(Self::Compressed(Box::new(Compressor::new(
                compression,
                frame_max(streams, rate),
            )))),
        });
        opened.map_err(|error| not_open(encoding, stream, &error))
    }

    /// Takes bytes of a message that has `left` of them, `bytes` among these, and writes once at
    /// most. Tells how many are through; the rest is to be offered again.
    ///
    /// While a part of them is encoded and not yet written, what is offered is not looked at: it
    /// is the rest of the same bytes.
    pub fn write(
        &mut self,
        socket: &mut impl Write,
        bytes: &[u8],
        left: usize,
    ) -> io::Result<usize> {
        match self {
            Self::Plain => socket.write(bytes),
            Self::Tls(sender) => sender.write(socket, bytes),
            Self::Compressed(compressor) => compressor.write(socket, bytes, left),
        }
    }

    /// Writes what is encoded or gathered and not yet written: without its end, the receiver could
    /// not decode it. False when it did not all leave.
    pub fn flush(&mut self, stream: &Stream, halt: &CancelFlag, deadline: Instant) -> bool {
        loop {
            let through = match self {
                Self::Plain => return true,
                Self::Tls(sender) if sender.outbox.is_empty() => return true,
                Self::Compressed(compressor) if compressor.is_empty() => return true,
                Self::Tls(sender) => sender.outbox.write(&mut &stream.socket),
                Self::Compressed(compressor) => compressor.flush(&mut &stream.socket),
            };
            self.count(stream);
            match through {
                Ok(0) => {}
                Ok(bytes) => stream.progress.add(bytes, crate::sys::clock::monotonic_ns()),
                Err(error) if super::writer::is_pause(&error) => {}
                Err(_) => return false,
            }
            if halt.is_set() || Instant::now() >= deadline {
                return false;
            }
        }
    }

    /// Tells the stream's watcher what the socket took of it.
    pub fn count(&self, stream: &Stream) {
        match self {
            Self::Plain => {}
            Self::Tls(sender) => stream.progress.encoded(sender.outbox.wire_bytes),
            Self::Compressed(frames) => stream.progress.encoded(frames.outbox.wire_bytes),
        }
    }
}

impl Decoder {
    /// Agrees on the encoding with the sender.
    pub fn open(
        encoding: Option<Encoding>,
        stream: &Stream,
        halt: &CancelFlag,
    ) -> Result<Self, Stopped> {
        let Some(encoding) = encoding else { return Ok(Self::Plain) };
        let line = Line::new(&stream.socket, halt);
        let opened = line.answer(encoding).and_then(|()| match encoding {
            Encoding::Tls(cipher) => TlsReceiver::open(cipher, &line).map(Box::new).map(Self::Tls),
            Encoding::Compression(compression) => {
                Ok(Self::Compressed(Box::new(Decompressor::new(compression.method))))
            }
        });
        opened.map_err(|error| not_open(encoding, stream, &error))
    }

    /// Reads payload into memory and tells how much; 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// `InvalidData` for what cannot be decoded, `UnexpectedEof` for a stream that ends within a
    /// record or a frame, and the socket's own.
    pub fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain => socket.read(buffer),
            Self::Tls(receiver) => receiver.read(socket, |_| {}),
            Self::Compressed(decompressor) => decompressor.read(socket, |_| {}),
        }
    }
}

/// Whether the sender, and not the network, made the stream unreadable.
pub fn is_undecodable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Whether it was this end, and neither the peer nor the network, that could not go on.
pub fn is_own_failure(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<NotEncrypted>)
}

fn not_open(encoding: Encoding, stream: &Stream, error: &OpenError) -> Stopped {
    let cause = match error {
        OpenError::Cancelled => StopCause::Cancelled,
        OpenError::NoAnswer { .. } => StopCause::Deadline,
        OpenError::Other { .. } | OpenError::NoAgreement | OpenError::Closed => StopCause::Peer,
        OpenError::Tls(_) => StopCause::Peer,
        OpenError::Socket(_) | OpenError::Key => StopCause::System,
    };
    let peer = stream.socket.peer_addr();
    let peer = peer.map_or_else(|_| "the other end".to_owned(), |peer| peer.to_string());
    let (index, why) = (stream.index, chain(error));
    stopped(cause, format!("stream {index} to {peer} does not carry {encoding}: {why}"))
}

#[cfg(test)]
mod tests;
