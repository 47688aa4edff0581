//! Every encoding over sockets and over pieces of any size, and what is wrong on purpose.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redoline_proto::encoding::{Compression, CompressionMethod};
use socket2::{Domain, SockRef, Socket, Type};

use super::agreement::known;
use super::compression::{FRAME_MIN, next_frame_max};
use super::frame::PAYLOAD_MAX;
use super::*;

const LZ4: Encoding =
    Encoding::Compression(Compression { method: CompressionMethod::Lz4, level: 0 });

fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(7).fill_bytes(&mut bytes);
    bytes
}

/// Of every 4 KiB, this share is random and the rest zeros.
fn compressible(len: usize, share: f64) -> Vec<u8> {
    let mut bytes = random(len);
    bytes.chunks_mut(4096).for_each(|block| {
        let start = (block.len() as f64 * share) as usize;
        block[start..].fill(0);
    });
    bytes
}

/// A connection whose sender waits as in a test; with buffers as small as the system has them.
fn connection(tiny: bool) -> (Stream, Stream) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    if tiny {
        listener.set_recv_buffer_size(1).unwrap();
    }
    listener.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    listener.listen(1).unwrap();
    let listener: TcpListener = listener.into();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    if tiny {
        SockRef::from(&near).set_send_buffer_size(1).unwrap();
    }
    near.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
    (Stream::new(0, near), Stream::new(0, listener.accept().unwrap().0))
}

/// Both ends after they have agreed.
fn open(near: &Stream, far: &Stream, encoding: Encoding) -> (Encoder, Decoder) {
    thread::scope(|scope| {
        let receiver =
            scope.spawn(|| Decoder::open(Some(encoding), far, &CancelFlag::new()).unwrap());
        let encoder = Encoder::open(Some(encoding), near, (1, None), &CancelFlag::new()).unwrap();
        (encoder, receiver.join().unwrap())
    })
}

impl Decoder {
    fn read_into(&mut self, socket: &mut impl Read, all: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain => unreachable!("not encoded"),
            Self::Tls(receiver) => receiver.read(socket, |bytes| all.extend_from_slice(bytes)),
            Self::Compressed(frames) => frames.read(socket, |bytes| all.extend_from_slice(bytes)),
        }
    }

    fn read_all(&mut self, socket: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let before = all.len();
            let told = self.read_into(socket, &mut all)?;
            assert_eq!(told, all.len() - before);
            if told == 0 {
                return Ok(all);
            }
        }
    }
}

/// Sends `bytes` as messages, in the pieces that a rate or a ring cuts them into.
fn send(
    encoder: &mut Encoder,
    socket: &mut impl Write,
    bytes: &[u8],
    message: usize,
    mut piece: impl FnMut() -> usize,
) {
    for message in bytes.chunks(message) {
        let mut at = 0;
        while at < message.len() {
            let left = message.len() - at;
            let offered = &message[at..at + piece().clamp(1, left)];
            match encoder.write(socket, offered, left) {
                Ok(through) => at += through,
                Err(error) => assert!(super::super::writer::is_pause(&error), "{error}"),
            }
        }
    }
}

/// What one end writes in tests without sockets: takes some bytes now, some later.
struct Flaky {
    wire: Vec<u8>,
    random: SmallRng,
    most: usize,
}

impl Write for Flaky {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = (self.random.next_u32() as usize % (self.most + 1)).min(bytes.len());
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.wire.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives `most` bytes at a time.
struct Sips<'a> {
    wire: &'a [u8],
    most: usize,
}

impl Read for Sips<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.most.min(buffer.len());
        self.wire.read(&mut buffer[..most])
    }
}

/// Everything as it is on the wire, with the end that was gathered.
fn wire(encoder: &mut Encoder, bytes: &[u8], message: usize, seed: u64, most: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut flaky = Flaky { wire: Vec::new(), random: SmallRng::seed_from_u64(seed), most };
    send(encoder, &mut flaky, bytes, message, || random.next_u32() as usize % (most * 2));
    flaky.wire
}

#[test]
fn every_encoding_carries_every_byte_through_tiny_buffers() {
    let bytes = compressible(300_000, 0.7);
    for encoding in known() {
        let (near, far) = connection(true);
        let (mut encoder, mut decoder) = open(&near, &far, encoding);
        let got = thread::scope(|scope| {
            let receiver = scope.spawn(|| decoder.read_all(&mut &far.socket).unwrap());
            send(&mut encoder, &mut &near.socket, &bytes, 70_000, || 50_000);
            near.socket.shutdown(std::net::Shutdown::Write).unwrap();
            receiver.join().unwrap()
        });
        assert!(got == bytes, "{encoding}");
    }
}

#[test]
fn a_message_that_the_end_cuts_short_arrives_as_far_as_it_was_taken() {
    let bytes = random(10_000);
    for encoding in known() {
        let (near, far) = connection(false);
        let (mut encoder, mut decoder) = open(&near, &far, encoding);
        // More of the message was to come.
        let told = encoder.write(&mut &near.socket, &bytes, 1 << 20).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(encoder.flush(&near, &CancelFlag::new(), deadline));
        assert_eq!(told as u64 + near.progress.bytes(), 10_000);
        near.socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(decoder.read_all(&mut &far.socket).unwrap() == bytes, "{encoding}");
    }
}

#[test]
fn what_is_half_written_is_completed_or_said_not_to_be() {
    let (near, far) = connection(true);
    let (mut encoder, mut decoder) = open(&near, &far, LZ4);
    let bytes = random(PAYLOAD_MAX);
    let told = encoder.write(&mut &near.socket, &bytes, bytes.len()).unwrap();
    assert!(told < bytes.len());
    assert!(!encoder.flush(&near, &CancelFlag::new(), Instant::now()), "nobody reads");
    thread::scope(|scope| {
        let receiver = scope.spawn(|| decoder.read_all(&mut &far.socket).unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(encoder.flush(&near, &CancelFlag::new(), deadline));
        near.socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(receiver.join().unwrap() == bytes);
    });
    assert_eq!(told as u64 + near.progress.bytes(), bytes.len() as u64);
    assert!(near.progress.wire_bytes() > bytes.len() as u64);
}

#[test]
fn ends_of_different_ciphers_both_say_so() {
    let encodings: Vec<_> = known().collect();
    let (near, far) = connection(false);
    thread::scope(|scope| {
        let receiver = scope
            .spawn(|| Decoder::open(Some(encodings[1]), &far, &CancelFlag::new()).err().unwrap());
        let sender =
            Encoder::open(Some(encodings[0]), &near, (1, None), &CancelFlag::new()).err().unwrap();
        let peer = near.socket.peer_addr().unwrap();
        assert_eq!(
            sender.text,
            format!(
                "stream 0 to {peer} does not carry aes-128-gcm: the other end is to use aes-256-gcm"
            )
        );
        assert_eq!(sender.cause, StopCause::Peer);
        near.socket.shutdown(std::net::Shutdown::Both).unwrap();
        let receiver = receiver.join().unwrap();
        assert!(receiver.text.ends_with("the other end is to use aes-128-gcm"), "{receiver:?}");
    });
}

#[test]
fn a_changed_byte_is_no_payload() {
    let bytes = compressible(50_000, 0.5);
    for encoding in known() {
        let (near, far) = connection(false);
        let (mut encoder, mut decoder) = open(&near, &far, encoding);
        let mut wire = wire(&mut encoder, &bytes, 50_000, 1, 100_000);
        let middle = wire.len() / 2;
        wire[middle] ^= 0x40;
        match decoder.read_all(&mut Sips { wire: &wire, most: 9999 }) {
            Err(error) => assert!(is_undecodable(&error), "{encoding}: {error}"),
            // LZ4 has no checksum.
            Ok(got) => assert!(encoding == LZ4 && got.len() == bytes.len(), "{encoding}"),
        }
    }
}

#[test]
fn a_stream_that_ends_within_a_frame_is_not_complete() {
    for encoding in known() {
        let (near, far) = connection(false);
        let (mut encoder, mut decoder) = open(&near, &far, encoding);
        let wire = wire(&mut encoder, &random(5000), 5000, 1, 10_000);
        let cut = &wire[..wire.len() - 1];
        let error = decoder.read_all(&mut Sips { wire: cut, most: 999 }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{encoding}");
    }
}

#[test]
fn known_compressibility_gives_the_ratio_that_it_promises() {
    for encoding in known().skip(3) {
        for (share, most) in [(1.0, 1.001), (0.5, 0.55), (0.25, 0.3), (0.0, 0.02)] {
            let bytes = compressible(1 << 17, share);
            let (near, far) = connection(false);
            let (mut encoder, _) = open(&near, &far, encoding);
            let wire = wire(&mut encoder, &bytes, 1 << 16, 1, 1 << 20);
            let ratio = wire.len() as f64 / bytes.len() as f64;
            assert!((share..=most).contains(&ratio), "{encoding} {share}: {ratio}");
        }
    }
}

#[test]
fn many_streams_cut_their_messages_smaller() {
    assert_eq!(frame_max(1, None), PAYLOAD_MAX);
    assert_eq!(frame_max(256, None), 256 * 1024);
}

#[test]
fn a_slow_stream_cuts_its_messages_so_that_the_receiver_sees_them_move() {
    let frame = |rate| frame_max(1, Some(BytesPerSecond(rate)));
    assert_eq!((frame(1e9), frame(1e6), frame(1.0)), (PAYLOAD_MAX, 100_000, FRAME_MIN));
    // And where nothing but the path is slow: a frame that took 8 s becomes one of a quarter.
    let (most, ms) = (PAYLOAD_MAX, Duration::from_millis);
    assert_eq!(next_frame_max(PAYLOAD_MAX, ms(8000), most), PAYLOAD_MAX / 32);
    assert_eq!(next_frame_max(32_768, ms(250), most), 32_768, "as it should be");
    assert_eq!(next_frame_max(32_768, ms(3), most), 65_536, "the path has become faster");
    assert_eq!(next_frame_max(PAYLOAD_MAX, ms(3), most), PAYLOAD_MAX);
    assert_eq!(next_frame_max(FRAME_MIN, ms(60_000), most), FRAME_MIN);
    assert_eq!(next_frame_max(100_000, ms(0), 100_000), 100_000);
}

#[test]
fn a_frame_that_took_long_to_leave_is_followed_by_shorter_ones() {
    let Encoding::Compression(lz4) = LZ4 else { unreachable!() };
    let mut compressor = Compressor::new(lz4, PAYLOAD_MAX);
    let (bytes, mut wire) = (random(PAYLOAD_MAX), Vec::new());
    let mut slow = Slow { wire: &mut wire, pause: Duration::from_millis(600) };
    assert_eq!(compressor.write(&mut slow, &bytes, bytes.len()).unwrap(), PAYLOAD_MAX);
    slow.pause = Duration::ZERO;
    let told = compressor.write(&mut slow, &bytes, bytes.len()).unwrap();
    assert!((FRAME_MIN..=PAYLOAD_MAX * 250 / 600).contains(&told), "{told}");
    let mut decoder = Decoder::Compressed(Box::new(Decompressor::new(CompressionMethod::Lz4)));
    assert_eq!(decoder.read_all(&mut &wire[..]).unwrap().len(), PAYLOAD_MAX + told);
}

/// A socket that keeps each writer waiting.
struct Slow<'a> {
    wire: &'a mut Vec<u8>,
    pause: Duration,
}

impl Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        thread::sleep(self.pause);
        self.wire.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_and_pauses_of_any_size_change_no_byte(
        which in 0..13_usize, len in 1..200_000_usize, message in 1..150_000_usize,
        share in 0.0..1.0, seed: u64, most in 1..100_000_usize,
    ) {
        // One byte at a time, both ways, takes long and shows nothing more of a long stream.
        let len = len.min(most * 500);
        let message = message.max(len / 100);
        let bytes = compressible(len, share);
        let (near, far) = connection(false);
        let (mut encoder, mut decoder) = open(&near, &far, known().nth(which).unwrap());
        let wire = wire(&mut encoder, &bytes, message, seed, most);
        let got = decoder.read_all(&mut Sips { wire: &wire, most }).unwrap();
        prop_assert!(got == bytes);
    }

    #[test]
    fn a_message_in_parts_is_the_same_frame_as_a_whole_one(
        len in 1..100_000_usize, seed: u64, most in 1..100_000_usize,
    ) {
        let bytes = compressible(len, 0.5);
        let Encoding::Compression(lz4) = LZ4 else { unreachable!() };
        let encode = |most| {
            let mut encoder = Encoder::Compressed(Box::new(Compressor::new(lz4, PAYLOAD_MAX)));
            wire(&mut encoder, &bytes, len, seed, most)
        };
        prop_assert!(encode(most) == encode(len));
    }

    #[test]
    fn no_garbage_is_more_than_an_error(
        zlib: bool, form in 0..3_u8, payload in 0..2_000_000_u32, body in 0..4000_u32,
        garbage in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let method = if zlib { CompressionMethod::Zlib } else { CompressionMethod::Lz4 };
        let mut decompressor = Decompressor::new(method);
        let mut wire = vec![form];
        wire.extend(payload.to_be_bytes());
        wire.extend(body.to_be_bytes());
        wire.extend(garbage);
        let mut most = 0;
        let sips = &mut Sips { wire: &wire, most: 1000 };
        while let Ok(bytes @ 1..) = decompressor.read(sips, |_| {}) {
            most = most.max(bytes);
        }
        prop_assert!(most <= PAYLOAD_MAX + READ_MARGIN);
    }
}

/// Stored frames that came with one read are told together.
const READ_MARGIN: usize = 300_000;
