//! Encoded bytes that wait: to be written to a socket, or to be decoded.

use std::io::{self, Read, Write};

/// Encoded bytes on their way to a socket that takes them in parts.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    written: usize,
    end: usize,
    /// Of the payload that is in `bytes`: all, and what was told to be through.
    payload: usize,
    told: usize,
    /// Written since the start.
    pub wire_bytes: u64,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.written == self.end
    }

    /// Room to encode into, at least `len` long. Only when nothing waits.
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes
    }

    /// `len` bytes of the room are to be written; they hold `payload` bytes that are not told yet.
    pub fn load(&mut self, len: usize, payload: usize) {
        (self.written, self.end) = (0, len);
        (self.told, self.payload) = (0, payload);
    }

    /// Writes once, and tells how many more bytes of the payload are through: in proportion, so
    /// that a large frame on a slow path is seen to move.
    pub fn write(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let bytes = socket.write(&self.bytes[self.written..self.end])?;
        self.written += bytes;
        self.wire_bytes += bytes as u64;
        let through = match self.is_empty() {
            true => self.payload,
            false => (self.payload as u64 * self.written as u64 / self.end as u64) as usize,
        };
        Ok(through - std::mem::replace(&mut self.told, through))
    }
}

/// Bytes as they came, until enough are there to be decoded.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], start: 0, end: 0 }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The first `len` bytes are decoded.
    pub fn discard(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
    }

    /// Reads once, behind what is there, and makes sure before it that `len` bytes fit; 0 at the
    /// end of the stream.
    pub fn fill(&mut self, socket: &mut impl Read, len: usize) -> io::Result<usize> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        let bytes = socket.read(&mut self.bytes[self.end..])?;
        self.end += bytes;
        Ok(bytes)
    }
}
