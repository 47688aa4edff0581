//! Bounds of what an agent may be asked for, and the checks that hold messages to them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::transfer::{Acknowledge, RedoWrite, SocketRequest, Token};
use crate::units::{Bytes, BytesPerSecond, Share};
use crate::{FromWire, InvalidMessage, pb};

/// More connections than this at once no test needs, and no production host should get.
pub const NUM_CONN_MAX: u32 = 256;

/// A message longer than this would not fit an agent's memory bound (streams × message).
pub const MESSAGE_MAX: Bytes = Bytes(64 * Bytes::MIB);

/// Of one socket. With CAP_NET_ADMIN an agent goes past the system's maximum, but not past this.
pub const SOCKET_BUFFER_MAX: Bytes = Bytes(256 * Bytes::MIB);

/// Of the buffers of all connections of a test: the kernel's memory is shared by the whole host.
pub const SOCKET_BUFFERS_MAX: Bytes = Bytes(Bytes::GIB);

/// Of DiffServ: 6 bits (RFC 2474).
pub const DSCP_MAX: u32 = 63;

/// What Linux takes for TCP_MAXSEG (TCP_MIN_MSS, MAX_TCP_WINDOW).
const MSS_MIN: u32 = 88;
const MSS_MAX: u32 = 32_767;

/// Of all messages that a receiver keeps whole, one for each connection, to write them.
pub const MESSAGES_WRITTEN_MAX: Bytes = Bytes(Bytes::GIB);

pub(crate) fn token(bytes: &[u8]) -> Result<Token, InvalidMessage> {
    <[u8; 16]>::try_from(bytes)
        .map(Token)
        .map_err(|_| InvalidMessage::invalid("must be 16 bytes").at("token"))
}

fn address(text: &str) -> Result<IpAddr, InvalidMessage> {
    let scoped = text.split_once('%').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    match text.parse() {
        // Its interface is missing, and has no place in what is asked.
        Ok(IpAddr::V6(address)) if address.is_unicast_link_local() => Err(no_link_local(text)),
        Ok(address) => Ok(address),
        Err(_) if scoped => Err(no_link_local(text)),
        Err(_) => Err(InvalidMessage::invalid(format!("`{text}` is no IP address"))),
    }
}

fn no_link_local(text: &str) -> InvalidMessage {
    InvalidMessage::invalid(format!(
        "`{text}` holds on one link only: link-local addresses and scopes (`%`) are not supported; \
         give a global or unique local address"
    ))
}

/// A port that is open on every interface would be open to networks that are no part of the test.
pub(crate) fn one_host(text: &str) -> Result<IpAddr, InvalidMessage> {
    let address = address(text)?;
    let plain = address.to_canonical();
    if plain.is_unspecified() || plain.is_multicast() || plain == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(InvalidMessage::invalid(format!("`{text}` is not the address of one host")));
    }
    // A mapped address is IPv4 to the kernel's options, too.
    Ok(plain)
}

pub(crate) fn optional_address(text: &str) -> Result<Option<IpAddr>, InvalidMessage> {
    if text.is_empty() {
        Ok(None)
    } else {
        address(text).map(|address| Some(address.to_canonical()))
    }
}

pub(crate) fn port(number: u32) -> Result<u16, InvalidMessage> {
    u16::try_from(number)
        .map_err(|_| InvalidMessage::invalid(format!("{number} is no port")).at("port"))
}

pub(crate) fn num_conn(count: u32) -> Result<u32, InvalidMessage> {
    match count {
        1..=NUM_CONN_MAX => Ok(count),
        _ => {
            Err(InvalidMessage::invalid(format!("{count} is not 1 to {NUM_CONN_MAX}"))
                .at("num_conn"))
        }
    }
}

/// Socket buffers that no agent asks the kernel for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidSocketBuffer {
    #[error("a socket buffer of {bytes} bytes is not 1 byte to {SOCKET_BUFFER_MAX}")]
    One { bytes: u64 },
    #[error(
        "{num_conn} connections with socket buffers of {buffer} may take {all} of the kernel's \
         memory, but {SOCKET_BUFFERS_MAX} is the most"
    )]
    All { num_conn: u32, buffer: Bytes, all: Bytes },
}

/// Other options that no agent asks the kernel for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidSocketOption {
    #[error("DSCP {dscp} is not 0 to 63")]
    Dscp { dscp: u32 },
    #[error("source ports from {base} on for {num_conn} connections do not lie within 1 to 65535")]
    SourcePorts { base: u32, num_conn: u32 },
    #[error("`{name}` is no name of an interface")]
    Device { name: String },
    #[error("a segment of {bytes} bytes is not {MSS_MIN} to {MSS_MAX}")]
    SegmentSize { bytes: u32 },
    #[error("a pacing rate must be above 0 bytes per second")]
    Pacing,
}

impl InvalidSocketOption {
    fn field(&self) -> &'static str {
        match self {
            Self::Dscp { .. } => "dscp",
            Self::SourcePorts { .. } => "source_port_base",
            Self::Device { .. } => "device",
            Self::SegmentSize { .. } => "mss_bytes",
            Self::Pacing => "pacing_bytes_per_second",
        }
    }
}

impl SocketRequest {
    /// Whether an agent may ask for the options other than buffers; these are in [`Self::check`].
    pub fn check_options(&self, num_conn: u32) -> Result<(), InvalidSocketOption> {
        if let Some(dscp) = self.dscp.filter(|dscp| *dscp > DSCP_MAX) {
            return Err(InvalidSocketOption::Dscp { dscp });
        }
        if let Some(base) = self.source_port_base {
            let last = u64::from(base) + u64::from(num_conn.max(1)) - 1;
            if base == 0 || last > u16::MAX.into() {
                return Err(InvalidSocketOption::SourcePorts { base, num_conn });
            }
        }
        if let Some(name) = self.device.as_ref().filter(|name| !is_interface_name(name)) {
            return Err(InvalidSocketOption::Device { name: name.escape_default().to_string() });
        }
        if let Some(bytes) = self.mss_bytes.filter(|mss| !(MSS_MIN..=MSS_MAX).contains(mss)) {
            return Err(InvalidSocketOption::SegmentSize { bytes });
        }
        match self.pacing_bytes_per_second {
            Some(rate) if positive(rate).is_err() => Err(InvalidSocketOption::Pacing),
            _ => Ok(()),
        }
    }

    /// What is asked of the sender's send buffer.
    pub fn send_buffer(&self) -> Option<Bytes> {
        self.send_buffer_bytes.or(self.socket_buffer_bytes).map(Bytes)
    }

    /// What is asked of the receiver's receive buffer.
    pub fn receive_buffer(&self) -> Option<Bytes> {
        self.receive_buffer_bytes.or(self.socket_buffer_bytes).map(Bytes)
    }

    /// Whether an agent may ask this of the sockets of `num_conn` connections.
    pub fn check(&self, num_conn: u32) -> Result<(), InvalidSocketBuffer> {
        let asked = [self.socket_buffer_bytes, self.send_buffer_bytes, self.receive_buffer_bytes];
        asked.into_iter().flatten().try_for_each(|bytes| Self::check_one(Bytes(bytes), num_conn))
    }

    fn check_one(buffer: Bytes, num_conn: u32) -> Result<(), InvalidSocketBuffer> {
        if !(1..=SOCKET_BUFFER_MAX.0).contains(&buffer.0) {
            return Err(InvalidSocketBuffer::One { bytes: buffer.0 });
        }
        let all = Bytes(buffer.0.saturating_mul(num_conn.into()));
        if all > SOCKET_BUFFERS_MAX {
            return Err(InvalidSocketBuffer::All { num_conn, buffer, all });
        }
        Ok(())
    }
}

/// As `dev_valid_name` of net/core/dev.c has it.
fn is_interface_name(name: &str) -> bool {
    let strange = |char: char| char.is_whitespace() || char.is_control() || "/:".contains(char);
    (1..=15).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(strange)
}

pub(crate) fn socket(
    wire: Option<pb::SocketRequest>,
    num_conn: u32,
) -> Result<SocketRequest, InvalidMessage> {
    let request = SocketRequest::from_wire(wire)?;
    request
        .check(num_conn)
        .map_err(|error| InvalidMessage::invalid(error.to_string()).at("socket_buffer_bytes"))?;
    request
        .check_options(num_conn)
        .map_err(|error| InvalidMessage::invalid(error.to_string()).at(error.field()))?;
    Ok(request)
}

/// A message of this size is answered; its scratch file holds at least one of each connection.
pub(crate) fn acknowledge(
    wire: pb::Acknowledge,
    num_conn: u32,
) -> Result<Acknowledge, InvalidMessage> {
    let acknowledge = Acknowledge::from_wire(wire)?;
    let bytes = message(acknowledge.message_bytes)?;
    let Some(write) = &acknowledge.write else { return Ok(acknowledge) };
    if bytes.0 * u64::from(num_conn) > MESSAGES_WRITTEN_MAX.0 {
        let why = format!(
            "{num_conn} connections keep a message of {bytes} each to write it, but \
             {MESSAGES_WRITTEN_MAX} is the most of all together"
        );
        return Err(InvalidMessage::invalid(why).at("message_bytes"));
    }
    let least = RedoWrite::file_bytes_min(bytes.0, num_conn);
    if write.file_bytes < least.0 {
        let why = format!(
            "{num_conn} connections write messages of {bytes} side by side, which takes {least}, \
             not {}: give the file that much, or take fewer connections or shorter messages",
            Bytes(write.file_bytes)
        );
        return Err(InvalidMessage::invalid(why).at("file_bytes").at("write"));
    }
    Ok(acknowledge)
}

/// From 0 to 1.
pub(crate) fn share(share: f64) -> Result<Share, InvalidMessage> {
    if (0.0..=1.0).contains(&share) {
        Ok(Share(share))
    } else {
        Err(InvalidMessage::invalid("must be 0 to 1"))
    }
}

pub(crate) fn message(bytes: u64) -> Result<Bytes, InvalidMessage> {
    const MAX: u64 = MESSAGE_MAX.0;
    match bytes {
        1..=MAX => Ok(Bytes(bytes)),
        _ => Err(InvalidMessage::invalid(format!("{bytes} is not 1 to {MAX}")).at("message_bytes")),
    }
}

pub(crate) fn interval(ms: u64) -> Result<Duration, InvalidMessage> {
    if ms == 0 {
        return Err(InvalidMessage::invalid("must be above 0"));
    }
    Ok(Duration::from_millis(ms))
}

pub(crate) fn rate(bytes_per_second: f64) -> Result<BytesPerSecond, InvalidMessage> {
    positive(bytes_per_second)
        .map(BytesPerSecond)
        .map_err(|error| error.at("rate_bytes_per_second"))
}

pub(crate) fn positive(number: f64) -> Result<f64, InvalidMessage> {
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err(InvalidMessage::invalid("must be above 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToWire;
    use crate::transfer::{Guard, JobId, ReceiveJob};

    fn receive_request() -> pb::ReceiveRequest {
        let ms = Duration::from_millis(100);
        let job = ReceiveJob {
            job: JobId(1),
            token: Token([1; 16]),
            bind_address: "192.0.2.1".parse().unwrap(),
            ports: (5555, 5560),
            expected_peer: None,
            num_conn: 8,
            socket: SocketRequest::default(),
            deadline: ms,
            sample: ms,
            reading: ms,
            guard: Guard::default(),
            acknowledge: None,
            encoding: None,
        };
        job.to_wire()
    }

    #[track_caller]
    fn refused(wire: pb::ReceiveRequest) -> String {
        ReceiveJob::from_wire(wire).unwrap_err().to_string()
    }

    #[test]
    fn a_port_is_opened_on_one_address_only() {
        for bind in ["0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            let text =
                refused(pb::ReceiveRequest { bind_address: bind.into(), ..receive_request() });
            assert_eq!(
                text,
                format!("`bind_address` is invalid: `{bind}` is not the address of one host")
            );
        }
    }

    #[test]
    fn addresses_of_one_link_are_refused_with_the_way_out() {
        for bind in ["fe80::1%eth0", "fe80::1"] {
            let text =
                refused(pb::ReceiveRequest { bind_address: bind.into(), ..receive_request() });
            assert!(text.contains(bind) && text.contains("global or unique local"), "{text}");
        }
    }

    #[test]
    fn an_expected_peer_is_compared_in_its_plain_form() {
        let wire =
            pb::ReceiveRequest { expected_peer: "::ffff:192.0.2.9".into(), ..receive_request() };
        let job = ReceiveJob::from_wire(wire).unwrap();
        assert_eq!(job.expected_peer, Some("192.0.2.9".parse().unwrap()));
    }

    #[test]
    fn a_guard_is_a_number_above_0() {
        for number in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let share = pb::Guard { cpu_share_max: Some(number), load_max: None };
            let load = pb::Guard { cpu_share_max: None, load_max: Some(number) };
            for guard in [share, load] {
                let text = refused(pb::ReceiveRequest { guard: Some(guard), ..receive_request() });
                assert!(text.ends_with("is invalid: must be above 0"), "{text}");
            }
        }
    }

    #[test]
    fn socket_buffers_have_a_bound_each_and_together() {
        let request =
            |bytes| SocketRequest { socket_buffer_bytes: Some(bytes), ..Default::default() };
        assert_eq!(request(SOCKET_BUFFER_MAX.0).check(4), Ok(()));
        for (bytes, text) in [
            (
                SOCKET_BUFFER_MAX.0 + 1,
                "a socket buffer of 268435457 bytes is not 1 byte to 256 MiB",
            ),
            (0, "a socket buffer of 0 bytes is not 1 byte to 256 MiB"),
            (
                SOCKET_BUFFER_MAX.0,
                "8 connections with socket buffers of 256 MiB may take 2 GiB of the kernel's \
                 memory, but 1 GiB is the most",
            ),
        ] {
            let socket = request(bytes).to_wire();
            assert_eq!(
                refused(pb::ReceiveRequest { socket, ..receive_request() }),
                format!("`socket.socket_buffer_bytes` is invalid: {text}")
            );
        }
    }

    #[test]
    fn options_of_sockets_are_held_to_their_ranges() {
        let nothing = SocketRequest::default;
        let refused = |request: SocketRequest| {
            let socket = request.to_wire();
            refused(pb::ReceiveRequest { socket, ..receive_request() })
        };
        assert_eq!(
            refused(SocketRequest { dscp: Some(64), ..nothing() }),
            "`socket.dscp` is invalid: DSCP 64 is not 0 to 63"
        );
        for base in [0, 65_529] {
            assert_eq!(
                refused(SocketRequest { source_port_base: Some(base), ..nothing() }),
                format!(
                    "`socket.source_port_base` is invalid: source ports from {base} on for 8 \
                     connections do not lie within 1 to 65535"
                )
            );
        }
        for device in ["", "a-name-that-is-too-long", "eth 1", "../eth1", "e\u{1b}[2J"] {
            let text = refused(SocketRequest { device: Some(device.to_owned()), ..nothing() });
            assert!(text.ends_with("` is no name of an interface"), "{text}");
            assert!(!text.contains('\u{1b}'));
        }
        for mss in [0, 87, 32_768] {
            let text = refused(SocketRequest { mss_bytes: Some(mss), ..nothing() });
            assert!(text.starts_with("`socket.mss_bytes` is invalid: a segment of"), "{text}");
        }
        for rate in [0.0, -1.0, f64::NAN] {
            refused(SocketRequest { pacing_bytes_per_second: Some(rate), ..nothing() });
        }
        let most = SocketRequest {
            dscp: Some(63),
            source_port_base: Some(65_528),
            device: Some("enp0s31f6.4094".to_owned()),
            mss_bytes: Some(1448),
            ..nothing()
        };
        assert_eq!(most.check_options(8), Ok(()));
    }

    #[test]
    fn messages_that_are_written_fit_into_memory_and_into_their_file() {
        let asked = |message_bytes, file_bytes| {
            let write = RedoWrite { dir: "/u02".to_owned(), file_bytes };
            let acknowledge = Acknowledge { message_bytes, write: Some(write) };
            pb::ReceiveRequest {
                num_conn: 32,
                acknowledge: Some(acknowledge.to_wire()),
                ..receive_request()
            }
        };
        assert!(ReceiveJob::from_wire(asked(32 * Bytes::MIB, Bytes::GIB)).is_ok());
        assert_eq!(
            refused(asked(64 * Bytes::MIB, Bytes::GIB)),
            "`acknowledge.message_bytes` is invalid: 32 connections keep a message of 64 MiB each \
             to write it, but 1 GiB is the most of all together"
        );
    }

    #[test]
    fn a_scratch_file_has_a_place_for_a_message_of_each_connection() {
        let asked = |num_conn, message_bytes, file_bytes| {
            let write = RedoWrite { dir: "/u02".to_owned(), file_bytes };
            let acknowledge = Acknowledge { message_bytes, write: Some(write) };
            let acknowledge = Some(acknowledge.to_wire());
            pb::ReceiveRequest { num_conn, acknowledge, ..receive_request() }
        };
        // 32 × 100 000 bytes are less, but 32 × 102 400, in blocks, are more than 3 MiB.
        assert_eq!(
            refused(asked(32, 100_000, 3 * Bytes::MIB)),
            "`acknowledge.write.file_bytes` is invalid: 32 connections write messages of 97.7 KiB \
             side by side, which takes 4 MiB, not 3 MiB: give the file that much, or take fewer \
             connections or shorter messages"
        );
        assert!(ReceiveJob::from_wire(asked(32, 100_000, 4 * Bytes::MIB)).is_ok());
        assert!(ReceiveJob::from_wire(asked(1, 1, Bytes::MIB)).is_ok());
        assert!(ReceiveJob::from_wire(asked(1, 1, Bytes::MIB - 1)).is_err());
        assert_eq!(RedoWrite::file_bytes_min(u64::MAX, u32::MAX).0, u64::MAX);
    }
}
