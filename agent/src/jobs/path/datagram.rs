//! The datagrams of a probe and of its answer.
//!
//! Both begin with the same 40 bytes, all big endian: `RDLP` (probe) or `RDLA` (answer), the
//! version (2), the kind (1), a zero, the token (16), the ticket (8), the number of the probe (4),
//! a size (4). What follows only fills the packet.

use std::hint::black_box;
use std::net::IpAddr;

use redoline_proto::transfer::Token;

/// Of a datagram without filling.
pub const HEADER_BYTES: usize = 40;

const PROBE: [u8; 4] = *b"RDLP";
const ANSWER: [u8; 4] = *b"RDLA";
const VERSION: [u8; 2] = 1_u16.to_be_bytes();
/// What stands before the kind, and what stands from it to the token.
const KIND: usize = 6;
const TOKEN: std::ops::Range<usize> = 8..24;

/// What is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    pub number: u32,
    pub ask: Ask,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ask {
    /// A small answer that says how much arrived.
    Echo,
    /// An answer in a packet of so many bytes, and the ticket that came with a small answer: proof
    /// that its receiver is who asks. A sender that was made up never sees one, so that nobody can
    /// have large packets sent to somebody else.
    Large { packet_bytes: u32, ticket: u64 },
}

/// What is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    pub number: u32,
    pub say: Say,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Say {
    /// The probe came in a packet of so many bytes.
    Arrived { packet_bytes: u32, ticket: u64 },
    /// This is the large packet that was asked for.
    Large { packet_bytes: u32 },
    /// No such packet leaves here: this is the most.
    TooLarge { mtu_bytes: u32 },
}

/// The header of a packet's IP and UDP, without options.
pub fn overhead_bytes(peer: IpAddr) -> u32 {
    if peer.is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// The smallest packet that holds a probe.
pub fn smallest_bytes(peer: IpAddr) -> u32 {
    overhead_bytes(peer) + HEADER_BYTES as u32
}

impl Probe {
    pub fn header(self, token: Token) -> [u8; HEADER_BYTES] {
        match self.ask {
            Ask::Echo => header(PROBE, 1, token, 0, self.number, 0),
            Ask::Large { packet_bytes, ticket } => {
                header(PROBE, 2, token, ticket, self.number, packet_bytes)
            }
        }
    }

    /// `None` when the datagram does not belong to the probe of `token`.
    pub fn parse(bytes: &[u8], token: Token) -> Option<Self> {
        let parts = parts(bytes, PROBE, token)?;
        let ask = match parts.kind {
            1 => Ask::Echo,
            2 => Ask::Large { packet_bytes: parts.size, ticket: parts.ticket },
            _ => return None,
        };
        Some(Self { number: parts.number, ask })
    }
}

impl Answer {
    pub fn header(self, token: Token) -> [u8; HEADER_BYTES] {
        match self.say {
            Say::Arrived { packet_bytes, ticket } => {
                header(ANSWER, 1, token, ticket, self.number, packet_bytes)
            }
            Say::Large { packet_bytes } => header(ANSWER, 2, token, 0, self.number, packet_bytes),
            Say::TooLarge { mtu_bytes } => header(ANSWER, 3, token, 0, self.number, mtu_bytes),
        }
    }

    /// `None` when the datagram does not belong to the probe of `token`.
    pub fn parse(bytes: &[u8], token: Token) -> Option<Self> {
        let parts = parts(bytes, ANSWER, token)?;
        let say = match parts.kind {
            1 => Say::Arrived { packet_bytes: parts.size, ticket: parts.ticket },
            2 => Say::Large { packet_bytes: parts.size },
            3 => Say::TooLarge { mtu_bytes: parts.size },
            _ => return None,
        };
        Some(Self { number: parts.number, say })
    }
}

/// The number in what a router quotes of a datagram that it did not pass on, which may be cut.
pub fn quoted_number(bytes: &[u8]) -> Option<u32> {
    bytes.starts_with(&PROBE).then_some(())?;
    Some(u32::from_be_bytes(bytes.get(32..36)?.try_into().ok()?))
}

fn header(
    magic: [u8; 4],
    kind: u8,
    token: Token,
    ticket: u64,
    number: u32,
    size: u32,
) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&magic);
    bytes[4..6].copy_from_slice(&VERSION);
    bytes[KIND] = kind;
    bytes[TOKEN].copy_from_slice(&token.0);
    bytes[24..32].copy_from_slice(&ticket.to_be_bytes());
    bytes[32..36].copy_from_slice(&number.to_be_bytes());
    bytes[36..].copy_from_slice(&size.to_be_bytes());
    bytes
}

struct Parts {
    kind: u8,
    ticket: u64,
    number: u32,
    size: u32,
}

/// Takes the same time wherever the first wrong byte before the ticket is.
fn parts(bytes: &[u8], magic: [u8; 4], token: Token) -> Option<Parts> {
    let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let kind = bytes[KIND];
    let wanted = header(magic, kind, token, 0, 0, 0);
    let pairs = bytes[..TOKEN.end].iter().zip(wanted);
    let difference = pairs.fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    let [.., a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    (difference == 0).then_some(Parts {
        kind,
        ticket: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        number: u32::from_be_bytes([i, j, k, l]),
        size: u32::from_be_bytes([m, n, o, p]),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINE: Token = Token([0xa5; 16]);

    fn asks() -> impl Strategy<Value = Ask> {
        let large = (any::<u32>(), any::<u64>())
            .prop_map(|(packet_bytes, ticket)| Ask::Large { packet_bytes, ticket });
        prop_oneof![Just(Ask::Echo), large]
    }

    fn says() -> impl Strategy<Value = Say> {
        prop_oneof![
            (any::<u32>(), any::<u64>())
                .prop_map(|(packet_bytes, ticket)| Say::Arrived { packet_bytes, ticket }),
            any::<u32>().prop_map(|packet_bytes| Say::Large { packet_bytes }),
            any::<u32>().prop_map(|mtu_bytes| Say::TooLarge { mtu_bytes }),
        ]
    }

    proptest! {
        #[test]
        fn a_probe_is_read_as_it_was_written(number: u32, ask in asks(), filling in 0_usize..64) {
            let probe = Probe { number, ask };
            let mut bytes = probe.header(MINE).to_vec();
            bytes.resize(HEADER_BYTES + filling, 0xff);
            prop_assert_eq!(Probe::parse(&bytes, MINE), Some(probe));
            prop_assert_eq!(Answer::parse(&bytes, MINE), None);
            prop_assert_eq!(quoted_number(&bytes), Some(number));
        }

        #[test]
        fn an_answer_is_read_as_it_was_written_and_is_never_answered(number: u32, say in says()) {
            let answer = Answer { number, say };
            let bytes = answer.header(MINE);
            prop_assert_eq!(Answer::parse(&bytes, MINE), Some(answer));
            prop_assert_eq!(Probe::parse(&bytes, MINE), None);
        }

        #[test]
        fn one_wrong_bit_up_to_the_token_is_refused(ask in asks(), bit in 0_usize..24 * 8) {
            let mut bytes = Probe { number: 7, ask }.header(MINE);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Probe::parse(&bytes, MINE);
            // Two kinds differ by two bits.
            prop_assert_eq!(read, None, "bit {}", bit);
        }

        #[test]
        fn what_is_cut_is_refused(ask in asks(), length in 0..HEADER_BYTES) {
            let bytes = Probe { number: 7, ask }.header(MINE);
            prop_assert_eq!(Probe::parse(&bytes[..length], MINE), None);
        }

        #[test]
        fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Probe::parse(&bytes, MINE), None);
            prop_assert_eq!(Answer::parse(&bytes, MINE), None);
            let _ = quoted_number(&bytes);
        }
    }

    #[test]
    fn another_probes_token_is_refused() {
        let bytes = Probe { number: 7, ask: Ask::Echo }.header(Token([0x5a; 16]));
        assert_eq!(Probe::parse(&bytes, MINE), None);
    }
}
