//! The first bytes of a data connection: whose test it belongs to, and which stream it is.
//!
//! Sender to receiver, 24 bytes: `RDLN`, the version (2), the token (16), the stream (2), all big
//! endian. The receiver answers one byte, or closes the connection without a word.

use std::hint::black_box;

use redoline_proto::transfer::Token;

pub const HELLO_BYTES: usize = 24;

/// The receiver's answer to a hello that it takes.
pub const ACCEPTED: u8 = 0x06;

const MAGIC: [u8; 4] = *b"RDLN";
const VERSION: [u8; 2] = 1_u16.to_be_bytes();

pub fn hello(token: Token, stream: u16) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION);
    bytes[6..22].copy_from_slice(&token.0);
    bytes[22..].copy_from_slice(&stream.to_be_bytes());
    bytes
}

/// The stream that `bytes` announce; `None` when they do not belong to the test of `token`.
///
/// Takes the same time wherever the first wrong byte is.
pub fn admitted_stream(bytes: &[u8; HELLO_BYTES], token: Token) -> Option<u16> {
    let stream = u16::from_be_bytes([bytes[22], bytes[23]]);
    let wanted = hello(token, stream);
    let difference = bytes.iter().zip(wanted).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    (difference == 0).then_some(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token([0xa5; 16]);

    #[test]
    fn the_right_token_admits_its_stream() {
        for stream in [0, 1, 255, u16::MAX] {
            assert_eq!(admitted_stream(&hello(TOKEN, stream), TOKEN), Some(stream));
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_before_the_stream_is_refused() {
        for bit in 0..22 * 8 {
            let mut bytes = hello(TOKEN, 3);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(admitted_stream(&bytes, TOKEN), None, "bit {bit}");
        }
    }
}
