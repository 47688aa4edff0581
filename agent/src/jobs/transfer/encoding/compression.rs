//! Compresses each message on its own, as redo transport does with what it sends at a time.
//!
//! LZ4 blocks by lz4_flex; zlib by zlib-rs, whose levels are those of zlib-ng: close to the ratios of
//! zlib, not the same.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use redoline_proto::encoding::{Compression, CompressionMethod};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::buffers::{Inbox, Outbox};
use super::frame::{Form, HEAD_BYTES, Head, InvalidHead, PAYLOAD_MAX};

/// Of the messages that all streams of a job gather: a production host has better uses for its
/// memory.
const ALL_GATHERED: usize = 64 * Bytes::MIB as usize;

/// Room to read into beside a frame that is not complete.
const READ_BYTES: usize = 256 * Bytes::KIB as usize;

/// A receiver counts whole frames: on a slow stream they are so short that it does so several times
/// a second, and that the last of them ends in time. Below this, compression would suffer.
pub const FRAME_MIN: usize = 4 * Bytes::KIB as usize;

/// What a frame of a stream that is held to a rate holds.
const FRAME_TIME: Duration = Duration::from_millis(100);

/// For a frame to leave where only the path is slow, and when its length is to be another.
const LEAVE_TIME: Duration = Duration::from_millis(250);
const LEAVE_TIME_MAX: Duration = Duration::from_millis(500);
const LEAVE_TIME_MIN: Duration = Duration::from_millis(100);

/// The longest payload of a frame of one of `streams` streams, held to `rate` each; longer messages
/// are cut.
pub fn frame_max(streams: usize, rate: Option<BytesPerSecond>) -> usize {
    let of_memory = PAYLOAD_MAX.min(ALL_GATHERED / streams.max(1));
    let of_rate = rate.map(|rate| (rate.0 * FRAME_TIME.as_secs_f64()) as usize);
    of_rate.map_or(of_memory, |of_rate| of_rate.clamp(FRAME_MIN, of_memory))
}

/// After one of `len` bytes took so long to leave.
pub fn next_frame_max(len: usize, took: Duration, most: usize) -> usize {
    let share = LEAVE_TIME.as_secs_f64() / took.as_secs_f64();
    let next = match took {
        _ if took > LEAVE_TIME_MAX => (len as f64 * share) as usize,
        _ if took < LEAVE_TIME_MIN => len.saturating_mul(2),
        _ => len,
    };
    next.clamp(FRAME_MIN.min(most), most)
}

/// Makes frames of messages.
pub struct Compressor {
    method: Method,
    /// As memory and rate allow, and as the path lets it be.
    frame_most: usize,
    frame_max: usize,
    /// Since when the frame in `outbox` is leaving.
    loaded: Instant,
    /// The beginning of a message that came in parts; told to be through already.
    gathered: Vec<u8>,
    pub outbox: Outbox,
}

enum Method {
    Lz4(CompressTable),
    Zlib(Compress),
}

impl Compressor {
    pub fn new(compression: Compression, frame_max: usize) -> Self {
        let method = match compression.method {
            CompressionMethod::Lz4 => Method::Lz4(CompressTable::large()),
            CompressionMethod::Zlib => {
                let level = flate2::Compression::new(compression.level.clamp(1, 9));
                Method::Zlib(Compress::new(level, true))
            }
        };
        Self {
            method,
            frame_most: frame_max,
            frame_max,
            loaded: Instant::now(),
            gathered: Vec::new(),
            outbox: Outbox::default(),
        }
    }

    /// Nothing waits to be compressed or written.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.gathered.is_empty()
    }

    /// As `Encoder::write`. A message that a limit of the rate or the end of the payload's ring
    /// cuts is gathered first.
    pub fn write(
        &mut self,
        socket: &mut impl Write,
        bytes: &[u8],
        left: usize,
    ) -> io::Result<usize> {
        if self.outbox.is_empty() {
            let missing = left.min(self.frame_max - self.gathered.len());
            if bytes.len() < missing {
                self.gathered.extend_from_slice(bytes);
                return Ok(bytes.len());
            }
            self.complete(&bytes[..missing]);
        }
        self.leave(socket)
    }

    /// Writes once of what waits; what is gathered goes as a shorter message.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        if self.outbox.is_empty() {
            self.complete(&[]);
        }
        self.leave(socket)
    }

    /// The next frame is as long as the path brings in good time.
    fn leave(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let through = self.outbox.write(socket)?;
        if self.outbox.is_empty() {
            let took = self.loaded.elapsed();
            self.frame_max = next_frame_max(self.frame_max, took, self.frame_most);
        }
        Ok(through)
    }

    /// A frame of what is gathered and of `rest`.
    fn complete(&mut self, rest: &[u8]) {
        if self.gathered.is_empty() {
            encode(&mut self.method, rest, rest.len(), &mut self.outbox);
        } else {
            self.gathered.extend_from_slice(rest);
            encode(&mut self.method, &self.gathered, rest.len(), &mut self.outbox);
            self.gathered.clear();
        }
        self.loaded = Instant::now();
    }
}

/// Of `payload`, `untold` bytes are told when they are written.
fn encode(method: &mut Method, payload: &[u8], untold: usize, outbox: &mut Outbox) {
    if payload.is_empty() {
        return;
    }
    // The most that lz4_flex asks for; what comes out longer than the payload is stored instead.
    let room = outbox.room(HEAD_BYTES + get_maximum_output_size(payload.len()));
    let (head, body) = room.split_at_mut(HEAD_BYTES);
    let compressed = method.compress(payload, body).filter(|&len| len < payload.len());
    let (form, body_len) =
        compressed.map_or((Form::Stored, payload.len()), |len| (method.form(), len));
    if form == Form::Stored {
        body[..payload.len()].copy_from_slice(payload);
    }
    head.copy_from_slice(&Head { form, payload_len: payload.len(), body_len }.to_bytes());
    outbox.load(HEAD_BYTES + body_len, untold);
}

impl Method {
    fn form(&self) -> Form {
        match self {
            Self::Lz4(_) => Form::Lz4,
            Self::Zlib(_) => Form::Zlib,
        }
    }

    /// The compressed length; `None` when it does not fit.
    fn compress(&mut self, payload: &[u8], out: &mut [u8]) -> Option<usize> {
        match self {
            Self::Lz4(table) => compress_into_with_table(payload, out, table).ok(),
            Self::Zlib(compress) => {
                compress.reset();
                let out = &mut out[..payload.len() - 1];
                let status = compress.compress(payload, out, FlushCompress::Finish).ok()?;
                (status == Status::StreamEnd).then(|| compress.total_out() as usize)
            }
        }
    }
}

/// Takes frames apart again.
pub struct Decompressor {
    form: Form,
    zlib: Decompress,
    inbox: Inbox,
    /// Where the payload goes.
    payload: Vec<u8>,
}

/// Why a frame cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum InvalidFrame {
    #[error(transparent)]
    Head(#[from] InvalidHead),
    #[error("a frame is of {0:?}, which was not agreed on")]
    OtherForm(Form),
    #[error("failed to decompress a frame of LZ4")]
    Lz4(#[source] lz4_flex::block::DecompressError),
    #[error("failed to decompress a frame of zlib")]
    Zlib(#[source] flate2::DecompressError),
    #[error("a frame holds another number of bytes than the {0} that it says")]
    Length(usize),
}

impl Decompressor {
    pub fn new(method: CompressionMethod) -> Self {
        let form = match method {
            CompressionMethod::Lz4 => Form::Lz4,
            CompressionMethod::Zlib => Form::Zlib,
        };
        Self {
            form,
            zlib: Decompress::new(true),
            inbox: Inbox::new(READ_BYTES),
            payload: Vec::new(),
        }
    }

    /// As `Decoder::read`: decodes all frames that are complete.
    pub fn read(
        &mut self,
        socket: &mut impl Read,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        loop {
            let mut bytes = 0;
            while let Some(head) = self.complete_frame().map_err(invalid)? {
                let payload = self.decode(head).map_err(invalid)?;
                each(payload);
                bytes += payload.len();
                self.inbox.discard(HEAD_BYTES + head.body_len);
            }
            if bytes > 0 {
                return Ok(bytes);
            }
            let frame_len = self.next_head().map_err(invalid)?.map_or(HEAD_BYTES, Head::frame_len);
            if self.inbox.fill(socket, frame_len)? == 0 {
                return match self.inbox.is_empty() {
                    true => Ok(0),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    fn next_head(&mut self) -> Result<Option<Head>, InvalidFrame> {
        let head = Head::from_bytes(self.inbox.bytes())?;
        match head {
            Some(Head { form, .. }) if form != Form::Stored && form != self.form => {
                Err(InvalidFrame::OtherForm(form))
            }
            head => Ok(head),
        }
    }

    fn complete_frame(&mut self) -> Result<Option<Head>, InvalidFrame> {
        let there = self.inbox.bytes().len();
        Ok(self.next_head()?.filter(|head| head.frame_len() <= there))
    }

    /// The payload of the first frame, which is complete.
    fn decode(&mut self, head: Head) -> Result<&[u8], InvalidFrame> {
        let body = &self.inbox.bytes()[HEAD_BYTES..head.frame_len()];
        if self.payload.len() < head.payload_len {
            self.payload.resize(head.payload_len, 0);
        }
        let payload = &mut self.payload[..head.payload_len];
        let len = match head.form {
            Form::Stored => {
                payload.copy_from_slice(body);
                head.payload_len
            }
            Form::Lz4 => decompress_into(body, payload).map_err(InvalidFrame::Lz4)?,
            Form::Zlib => {
                self.zlib.reset(true);
                let status = self.zlib.decompress(body, payload, FlushDecompress::Finish);
                let status = status.map_err(InvalidFrame::Zlib)?;
                let is_whole =
                    status == Status::StreamEnd && self.zlib.total_in() == head.body_len as u64;
                if is_whole { self.zlib.total_out() as usize } else { 0 }
            }
        };
        match len == head.payload_len {
            true => Ok(payload),
            false => Err(InvalidFrame::Length(head.payload_len)),
        }
    }
}

impl Head {
    fn frame_len(self) -> usize {
        HEAD_BYTES + self.body_len
    }
}

fn invalid(error: InvalidFrame) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
