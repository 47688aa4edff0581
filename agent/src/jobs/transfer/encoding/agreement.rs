//! Both ends of a stream say how they are to encode it before they do.
//!
//! Each end sends 8 bytes, the sender first: `RDLE`, the version (1), the kind (1), the cipher or
//! method (1) and the level (1). They come from one plan and are the same, unless something is
//! wrong: then both ends can say what.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use redoline_proto::encoding::{Compression, CompressionMethod, Encoding, TlsCipher};

use crate::jobs::cancel::CancelFlag;

/// For the agreement and the handshake of TLS.
const DEADLINE: Duration = Duration::from_secs(10);

/// How late a cancelled job may notice.
const ATTENTION: Duration = Duration::from_millis(50);

const PROPOSAL_BYTES: usize = 8;
const MAGIC: [u8; 4] = *b"RDLE";
const VERSION: u8 = 1;

/// Why a stream cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cancelled")]
    Cancelled,
    #[error("the other end did not answer within {} s", .deadline.as_secs_f64())]
    NoAnswer { deadline: Duration },
    #[error("the other end is to use {theirs}")]
    Other { theirs: String },
    #[error("the other end sends bytes that were not to be encoded")]
    NoAgreement,
    #[error("the other end closed the connection")]
    Closed,
    #[error("the connection broke")]
    Socket(#[source] io::Error),
    #[error("the handshake of TLS failed")]
    Tls(#[source] rustls::Error),
    #[error("failed to make a key")]
    Key,
}

/// A connection before its first payload byte.
#[derive(Debug)]
pub struct Line<'a> {
    socket: &'a TcpStream,
    halt: &'a CancelFlag,
    deadline: Instant,
    time: Duration,
}

impl<'a> Line<'a> {
    pub fn new(socket: &'a TcpStream, halt: &'a CancelFlag) -> Self {
        Self::within(socket, halt, DEADLINE)
    }

    fn within(socket: &'a TcpStream, halt: &'a CancelFlag, time: Duration) -> Self {
        Self { socket, halt, deadline: Instant::now() + time, time }
    }

    /// The sender's part.
    pub fn propose(&self, encoding: Encoding) -> Result<(), OpenError> {
        self.write(&proposal(encoding))?;
        agree(encoding, self.proposal()?)
    }

    /// The receiver's part. It answers in any case, so that the sender can say what is wrong, too.
    pub fn answer(&self, encoding: Encoding) -> Result<(), OpenError> {
        let theirs = self.proposal()?;
        self.write(&proposal(encoding))?;
        agree(encoding, theirs).inspect_err(|_| {
            // Closing at once, with a reset, could overtake the answer. The sender hangs up.
            let _ = self.read(&mut [0]);
        })
    }

    /// Some bytes, at least one.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, OpenError> {
        loop {
            self.wait(PollFlags::POLLIN)?;
            match (&mut &*self.socket).read(buffer) {
                Ok(0) if self.halt.is_set() => return Err(OpenError::Cancelled),
                Ok(0) => return Err(OpenError::Closed),
                Ok(bytes) => return Ok(bytes),
                Err(error) if super::super::writer::is_pause(&error) => {}
                Err(error) => return Err(OpenError::Socket(error)),
            }
        }
    }

    pub fn write(&self, mut bytes: &[u8]) -> Result<(), OpenError> {
        while !bytes.is_empty() {
            self.wait(PollFlags::POLLOUT)?;
            match (&mut &*self.socket).write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if super::super::writer::is_pause(&error) => {}
                Err(error) => return Err(OpenError::Socket(error)),
            }
        }
        Ok(())
    }

    fn wait(&self, events: PollFlags) -> Result<(), OpenError> {
        let timeout = PollTimeout::try_from(ATTENTION).unwrap_or(PollTimeout::ZERO);
        loop {
            if self.halt.is_set() {
                return Err(OpenError::Cancelled);
            }
            if Instant::now() >= self.deadline {
                return Err(OpenError::NoAnswer { deadline: self.time });
            }
            match poll(&mut [PollFd::new(self.socket.as_fd(), events)], timeout) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(OpenError::Socket(error.into())),
            }
        }
    }

    fn proposal(&self) -> Result<[u8; PROPOSAL_BYTES], OpenError> {
        let (mut bytes, mut filled) = ([0; PROPOSAL_BYTES], 0);
        while filled < PROPOSAL_BYTES {
            filled += self.read(&mut bytes[filled..])?;
        }
        Ok(bytes)
    }
}

fn proposal(encoding: Encoding) -> [u8; PROPOSAL_BYTES] {
    let [r, d, l, e] = MAGIC;
    let [kind, which, level] = match encoding {
        Encoding::Tls(TlsCipher::Aes128Gcm) => [1, 1, 0],
        Encoding::Tls(TlsCipher::Aes256Gcm) => [1, 2, 0],
        Encoding::Tls(TlsCipher::Chacha20Poly1305) => [1, 3, 0],
        Encoding::Compression(Compression { method: CompressionMethod::Lz4, .. }) => [2, 1, 0],
        Encoding::Compression(Compression { method: CompressionMethod::Zlib, level }) => {
            [2, 2, level.min(9) as u8]
        }
    };
    [r, d, l, e, VERSION, kind, which, level]
}

fn agree(ours: Encoding, theirs: [u8; PROPOSAL_BYTES]) -> Result<(), OpenError> {
    if theirs == proposal(ours) {
        return Ok(());
    }
    if theirs[..4] != MAGIC {
        return Err(OpenError::NoAgreement);
    }
    let known = known().find(|&encoding| proposal(encoding) == theirs);
    let theirs = known.map_or_else(|| "another encoding".to_owned(), |known| known.to_string());
    Err(OpenError::Other { theirs })
}

/// All encodings that there are.
pub fn known() -> impl Iterator<Item = Encoding> {
    let ciphers = [TlsCipher::Aes128Gcm, TlsCipher::Aes256Gcm, TlsCipher::Chacha20Poly1305];
    let lz4 = Compression { method: CompressionMethod::Lz4, level: 0 };
    let zlib = (1..=9).map(|level| Compression { method: CompressionMethod::Zlib, level });
    let methods = std::iter::once(lz4).chain(zlib);
    ciphers.into_iter().map(Encoding::Tls).chain(methods.map(Encoding::Compression))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn no_two_encodings_are_proposed_alike() {
        let proposals: std::collections::HashSet<_> = known().map(proposal).collect();
        assert_eq!(proposals.len(), 13);
    }

    #[test]
    fn ends_that_differ_both_say_what_the_other_wants() {
        let (near, far) = pair();
        let encodings: Vec<_> = known().collect();
        let (ours, theirs) = (encodings[0], encodings[12]);
        let flag = CancelFlag::new();
        let receiver = thread::spawn(move || {
            Line::new(&far, &CancelFlag::new()).answer(theirs).unwrap_err().to_string()
        });
        let error = Line::new(&near, &flag).propose(ours).unwrap_err().to_string();
        assert_eq!(error, "the other end is to use zlib-9");
        drop(near);
        assert_eq!(receiver.join().unwrap(), "the other end is to use aes-128-gcm");
    }

    #[test]
    fn an_end_that_says_nothing_is_not_waited_for() {
        let (near, _far) = pair();
        let flag = CancelFlag::new();
        let line = Line::within(&near, &flag, Duration::from_millis(10));
        let error = line.propose(known().next().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the other end did not answer within 0.01 s");
    }

    #[test]
    fn a_cancelled_job_waits_for_nobody() {
        let (near, _far) = pair();
        let flag = CancelFlag::new();
        flag.set();
        let error = Line::new(&near, &flag).answer(known().next().unwrap()).unwrap_err();
        assert!(matches!(error, OpenError::Cancelled));
    }

    #[test]
    fn an_end_that_does_not_encode_is_told_from_one_that_does() {
        let (near, mut far) = pair();
        far.write_all(&[7; 100]).unwrap();
        let flag = CancelFlag::new();
        let error = Line::new(&near, &flag).answer(known().next().unwrap()).unwrap_err();
        assert!(matches!(error, OpenError::NoAgreement));
    }
}
