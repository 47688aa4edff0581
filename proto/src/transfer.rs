//! A throughput test: what its two ends are asked, and what they tell while it runs.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::checks::{
    DSCP_MAX, InvalidSocketBuffer, InvalidSocketOption, MESSAGE_MAX, MESSAGES_WRITTEN_MAX,
    NUM_CONN_MAX, SOCKET_BUFFER_MAX, SOCKET_BUFFERS_MAX,
};
use crate::checks::{
    acknowledge, interval, message, num_conn, one_host, optional_address, port, positive, rate,
    share, socket, token,
};
use crate::encoding::Encoding;
pub use crate::host_use::{CpuUse, InterfaceUse, SoftnetUse};
pub use crate::sync::{Acknowledge, Acknowledgements, RedoWrite};
use crate::tcp_info::TcpInfo;
use crate::units::{Bytes, BytesPerSecond, Share, milliseconds};
use crate::{FromWire, InvalidMessage, ToWire, pb};

/// Names one job of one agent; the controller counts them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// Proves that a data connection belongs to the test; used once.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Token(pub [u8; 16]);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(***)")
    }
}

/// What a test asks of its sockets; `None` leaves it to the system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketRequest {
    /// Setting one stops auto-tuning of that buffer (tcp(7)).
    pub socket_buffer_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    /// Clamp of the maximum segment size (TCP_MAXSEG).
    pub mss_bytes: Option<u32>,
    /// Wins over `socket_buffer_bytes` for the sender's send buffer.
    pub send_buffer_bytes: Option<u64>,
    /// Wins over `socket_buffer_bytes` for the receiver's receive buffer.
    pub receive_buffer_bytes: Option<u64>,
    /// The 6 bits of DiffServ (RFC 2474), 0 to 63.
    pub dscp: Option<u32>,
    /// The sender's interface (SO_BINDTODEVICE).
    pub device: Option<String>,
    /// Stream i leaves from this port + i.
    pub source_port_base: Option<u32>,
    /// Of each stream (SO_MAX_PACING_RATE).
    pub pacing_bytes_per_second: Option<f64>,
}

/// When the agent ends a job by itself, or does not start it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guard {
    /// Ends a job that runs.
    pub cpu_share_max: Option<Share>,
    /// 1-minute load average per CPU above which no job starts. It ends none: a job is part of the
    /// load, which lags behind by a minute.
    pub load_max: Option<f64>,
}

/// What is in the messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Incompressible, different in every stream.
    Random,
    Zeros,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReceiveJob {
    pub job: JobId,
    pub token: Token,
    pub bind_address: IpAddr,
    /// First and last port that may be used.
    pub ports: (u16, u16),
    /// `None`: translated addresses; the token alone decides.
    pub expected_peer: Option<IpAddr>,
    pub num_conn: u32,
    pub socket: SocketRequest,
    /// Of the whole job; the port closes by itself after it.
    pub deadline: Duration,
    pub sample: Duration,
    /// Between two readings of TCP_INFO.
    pub reading: Duration,
    pub guard: Guard,
    /// SYNC: every message is answered.
    pub acknowledge: Option<Acknowledge>,
    pub encoding: Option<Encoding>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SendJob {
    pub job: JobId,
    pub token: Token,
    pub address: IpAddr,
    pub port: u16,
    pub bind_address: Option<IpAddr>,
    pub num_conn: u32,
    pub socket: SocketRequest,
    pub message: Bytes,
    pub payload: Payload,
    pub duration: Duration,
    pub reading: Duration,
    pub connect_deadline: Duration,
    /// For `Go` to arrive.
    pub go_deadline: Duration,
    /// Of all streams together.
    pub rate: Option<BytesPerSecond>,
    pub bytes_max: Option<Bytes>,
    pub guard: Guard,
    /// SYNC: the next message leaves when the one before it is acknowledged.
    pub acknowledged: bool,
    /// Between two messages of a stream.
    pub delay: Option<Duration>,
    /// Without an acknowledged byte for this long, the test ends; `None`: the agent's own patience.
    pub stall_deadline: Option<Duration>,
    pub encoding: Option<Encoding>,
    /// Of a random payload: the share that a good compressor takes out.
    pub compressible: Option<Share>,
}

/// What both ends tell while a test runs, in this order; batches repeat.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "the large one comes once, at the end of a job")]
pub enum TransferEvent {
    /// The receiver listens on this port.
    Ready {
        port: u16,
    },
    Connected(Connected),
    /// The sender's first byte is about to leave.
    Started {
        at_ns: i64,
    },
    Batch(Batch),
    End(TransferEnd),
}

/// All connections of this end stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connected {
    pub streams: Vec<StreamStart>,
    pub at_ns: i64,
}

/// One connection after its token was taken and before its first byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStart {
    pub stream: u32,
    pub local: String,
    pub remote: String,
    pub congestion_control: String,
    /// As getsockopt reports it: on Linux twice what may carry data (socket(7)).
    pub send_buffer_bytes: u64,
    pub receive_buffer_bytes: u64,
    /// The baseline for differences: `bytes_acked` counts the SYN.
    pub tcp: TcpInfo,
    /// A buffer was set past the system's maximum (SO_SNDBUFFORCE, SO_RCVBUFFORCE).
    #[serde(default)]
    pub buffer_forced: bool,
    /// The kernel's path MTU of this connection before its first byte (IP_MTU).
    #[serde(default)]
    pub known_path_mtu_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub samples: Vec<Sample>,
    pub readings: Vec<Reading>,
}

/// Bytes of each stream between two moments of the agent's monotonic clock: read at the receiver,
/// written at the sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub from_ns: i64,
    pub to_ns: i64,
    pub stream_bytes: Vec<u64>,
}

impl Sample {
    pub fn bytes(&self) -> Bytes {
        Bytes(self.stream_bytes.iter().sum())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub at_ns: i64,
    pub stream: u32,
    pub tcp: TcpInfo,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferEnd {
    pub streams: Vec<StreamEnd>,
    pub cpu: CpuUse,
    /// `None` when the job ran its course.
    pub stopped: Option<Stopped>,
    /// Connections that were closed because they did not belong to the test.
    pub strangers: u32,
    pub at_ns: i64,
    /// At the sender of a SYNC test.
    #[serde(default)]
    pub acknowledgements: Option<Acknowledgements>,
    /// Of the whole host during the job.
    #[serde(default)]
    pub interfaces: Vec<InterfaceUse>,
    #[serde(default)]
    pub softnet: Option<SoftnetUse>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamEnd {
    pub stream: u32,
    pub bytes: u64,
    pub first_byte_ns: Option<i64>,
    pub last_byte_ns: Option<i64>,
    /// Read before close.
    pub tcp: TcpInfo,
    /// Auto-tuning moves them during the test.
    pub send_buffer_bytes: u64,
    pub receive_buffer_bytes: u64,
    /// False when the peer had not taken everything within the drain deadline.
    pub drained: bool,
}

/// Why a job ended before its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopped {
    pub cause: StopCause,
    pub text: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A limit of the runbook: bytes, CPU, load.
    Limit,
    Cancelled,
    /// The data port could not be opened or reached.
    Connect,
    /// The other end went away or answered nonsense.
    Peer,
    Deadline,
    /// The operating system refused something.
    System,
}

mirror!(
    SocketRequest,
    SocketRequest {
        socket_buffer_bytes,
        congestion_control,
        mss_bytes,
        send_buffer_bytes,
        receive_buffer_bytes,
        dscp,
        device,
        source_port_base,
        pacing_bytes_per_second,
    }
);
mirror!(Connected, Connected { streams, at_ns });
mirror!(
    StreamStart,
    StreamStart {
        stream,
        local,
        remote,
        congestion_control,
        send_buffer_bytes,
        receive_buffer_bytes,
        tcp,
        buffer_forced,
        known_path_mtu_bytes,
    }
);
mirror!(Batch, Batch { samples, readings });
mirror!(Sample, Sample { from_ns, to_ns, stream_bytes });
mirror!(Reading, Reading { at_ns, stream, tcp });
mirror!(
    TransferEnd,
    TransferEnd { streams, cpu, stopped, strangers, at_ns, acknowledgements, interfaces, softnet }
);
mirror!(
    StreamEnd,
    StreamEnd {
        stream,
        bytes,
        first_byte_ns,
        last_byte_ns,
        tcp,
        send_buffer_bytes,
        receive_buffer_bytes,
        drained,
    }
);
mirror!(Stopped, Stopped { cause, text });
mirror_enum!(StopCause, StopCause { Limit, Cancelled, Connect, Peer, Deadline, System });
mirror_enum!(Payload, Payload { Random, Zeros });
mirror!(@required Guard, Guard);

impl ToWire<pb::Guard> for Guard {
    fn to_wire(self) -> pb::Guard {
        pb::Guard {
            cpu_share_max: self.cpu_share_max.map(|share| share.0),
            load_max: self.load_max,
        }
    }
}

impl FromWire<pb::Guard> for Guard {
    fn from_wire(wire: pb::Guard) -> Result<Self, InvalidMessage> {
        let share = wire.cpu_share_max.map(positive).transpose();
        let load = wire.load_max.map(positive).transpose();
        Ok(Self {
            cpu_share_max: share.map_err(|error| error.at("cpu_share_max"))?.map(Share),
            load_max: load.map_err(|error| error.at("load_max"))?,
        })
    }
}

impl ToWire<pb::ReceiveRequest> for ReceiveJob {
    fn to_wire(self) -> pb::ReceiveRequest {
        pb::ReceiveRequest {
            job: self.job.0,
            token: self.token.0.to_vec(),
            bind_address: self.bind_address.to_string(),
            port_first: self.ports.0.into(),
            port_last: self.ports.1.into(),
            expected_peer: self.expected_peer.map(|peer| peer.to_string()).unwrap_or_default(),
            num_conn: self.num_conn,
            socket: self.socket.to_wire(),
            deadline_ms: milliseconds(self.deadline),
            sample_ms: milliseconds(self.sample),
            reading_ms: milliseconds(self.reading),
            guard: self.guard.to_wire(),
            acknowledge: self.acknowledge.to_wire(),
            encoding: self.encoding.to_wire(),
        }
    }
}

impl FromWire<pb::ReceiveRequest> for ReceiveJob {
    fn from_wire(wire: pb::ReceiveRequest) -> Result<Self, InvalidMessage> {
        Ok(Self {
            job: JobId(wire.job),
            token: token(&wire.token)?,
            bind_address: one_host(&wire.bind_address).map_err(|error| error.at("bind_address"))?,
            ports: (port(wire.port_first)?, port(wire.port_last)?),
            // A connection's source is compared in this form.
            expected_peer: optional_address(&wire.expected_peer)
                .map_err(|error| error.at("expected_peer"))?,
            num_conn: num_conn(wire.num_conn)?,
            socket: socket(wire.socket, wire.num_conn).map_err(|error| error.at("socket"))?,
            deadline: Duration::from_millis(wire.deadline_ms),
            sample: interval(wire.sample_ms).map_err(|error| error.at("sample_ms"))?,
            reading: interval(wire.reading_ms).map_err(|error| error.at("reading_ms"))?,
            guard: Guard::from_wire(wire.guard).map_err(|error| error.at("guard"))?,
            acknowledge: wire
                .acknowledge
                .map(|asked| acknowledge(asked, wire.num_conn))
                .transpose()
                .map_err(|error| error.at("acknowledge"))?,
            encoding: Option::from_wire(wire.encoding).map_err(|error| error.at("encoding"))?,
        })
    }
}

impl ToWire<pb::SendRequest> for SendJob {
    fn to_wire(self) -> pb::SendRequest {
        pb::SendRequest {
            job: self.job.0,
            token: self.token.0.to_vec(),
            address: self.address.to_string(),
            port: self.port.into(),
            bind_address: self.bind_address.map(|bind| bind.to_string()).unwrap_or_default(),
            num_conn: self.num_conn,
            socket: self.socket.to_wire(),
            message_bytes: self.message.0,
            payload: self.payload.to_wire(),
            duration_ms: milliseconds(self.duration),
            reading_ms: milliseconds(self.reading),
            connect_deadline_ms: milliseconds(self.connect_deadline),
            go_deadline_ms: milliseconds(self.go_deadline),
            rate_bytes_per_second: self.rate.map(|rate| rate.0),
            bytes_max: self.bytes_max.map(|bytes| bytes.0),
            guard: self.guard.to_wire(),
            acknowledged: self.acknowledged,
            delay_us: self.delay.map(|delay| delay.as_micros() as u64),
            stall_deadline_ms: self.stall_deadline.map(milliseconds),
            encoding: self.encoding.to_wire(),
            compressible_share: self.compressible.map(|share| share.0),
        }
    }
}

impl FromWire<pb::SendRequest> for SendJob {
    fn from_wire(wire: pb::SendRequest) -> Result<Self, InvalidMessage> {
        Ok(Self {
            job: JobId(wire.job),
            token: token(&wire.token)?,
            address: one_host(&wire.address).map_err(|error| error.at("address"))?,
            port: port(wire.port)?,
            bind_address: optional_address(&wire.bind_address)
                .map_err(|error| error.at("bind_address"))?,
            num_conn: num_conn(wire.num_conn)?,
            socket: socket(wire.socket, wire.num_conn).map_err(|error| error.at("socket"))?,
            message: message(wire.message_bytes)?,
            payload: Payload::from_wire(wire.payload).map_err(|error| error.at("payload"))?,
            duration: interval(wire.duration_ms).map_err(|error| error.at("duration_ms"))?,
            reading: interval(wire.reading_ms).map_err(|error| error.at("reading_ms"))?,
            connect_deadline: Duration::from_millis(wire.connect_deadline_ms),
            go_deadline: Duration::from_millis(wire.go_deadline_ms),
            rate: wire.rate_bytes_per_second.map(rate).transpose()?,
            bytes_max: wire.bytes_max.map(Bytes),
            guard: Guard::from_wire(wire.guard).map_err(|error| error.at("guard"))?,
            acknowledged: wire.acknowledged,
            delay: wire.delay_us.map(Duration::from_micros),
            stall_deadline: wire
                .stall_deadline_ms
                .map(interval)
                .transpose()
                .map_err(|error| error.at("stall_deadline_ms"))?,
            encoding: Option::from_wire(wire.encoding).map_err(|error| error.at("encoding"))?,
            compressible: wire
                .compressible_share
                .map(share)
                .transpose()
                .map_err(|error| error.at("compressible_share"))?,
        })
    }
}

impl ToWire<pb::TransferEvent> for TransferEvent {
    fn to_wire(self) -> pb::TransferEvent {
        use pb::transfer_event::Event;
        let event = match self {
            Self::Ready { port } => Event::Ready(pb::Ready { port: port.into() }),
            Self::Connected(connected) => Event::Connected(connected.to_wire()),
            Self::Started { at_ns } => Event::Started(pb::Started { at_ns }),
            Self::Batch(batch) => Event::Batch(batch.to_wire()),
            Self::End(end) => Event::End(end.to_wire()),
        };
        pb::TransferEvent { event: Some(event) }
    }
}

impl FromWire<pb::TransferEvent> for TransferEvent {
    fn from_wire(wire: pb::TransferEvent) -> Result<Self, InvalidMessage> {
        use pb::transfer_event::Event;
        match wire.event.ok_or_else(|| InvalidMessage::missing().at("event"))? {
            Event::Ready(ready) => Ok(Self::Ready { port: port(ready.port)? }),
            Event::Connected(connected) => Connected::from_wire(connected).map(Self::Connected),
            Event::Started(started) => Ok(Self::Started { at_ns: started.at_ns }),
            Event::Batch(batch) => Batch::from_wire(batch).map(Self::Batch),
            Event::End(end) => TransferEnd::from_wire(end).map(Self::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_sample_survives_the_wire(from_ns: i64, to_ns: i64, stream_bytes: Vec<u64>) {
            let sample = Sample { from_ns, to_ns, stream_bytes };
            let event = TransferEvent::Batch(Batch { samples: vec![sample], readings: vec![] });
            let wire: pb::TransferEvent = event.clone().to_wire();
            prop_assert_eq!(TransferEvent::from_wire(wire).unwrap(), event);
        }

        #[test]
        fn every_send_job_survives_the_wire(
            job: u64, token: [u8; 16], port: u16, num_conn in 1..=NUM_CONN_MAX,
            message in 1..=MESSAGE_MAX.0, ms in 1..1_000_000u64,
            buffer in prop::option::of(1..=SOCKET_BUFFERS_MAX.0 / u64::from(NUM_CONN_MAX)),
        ) {
            let job = SendJob {
                job: JobId(job),
                token: Token(token),
                address: "127.0.0.1".parse().unwrap(),
                port,
                bind_address: None,
                num_conn,
                socket: SocketRequest { socket_buffer_bytes: buffer, ..SocketRequest::default() },
                message: Bytes(message),
                payload: Payload::Random,
                duration: Duration::from_millis(ms),
                reading: Duration::from_millis(ms),
                connect_deadline: Duration::from_millis(ms),
                go_deadline: Duration::from_millis(ms),
                rate: None,
                bytes_max: buffer.map(Bytes),
                guard: Guard { cpu_share_max: Some(Share(0.8)), load_max: None },
                acknowledged: job % 2 == 0,
                delay: buffer.map(Duration::from_micros),
                stall_deadline: Some(Duration::from_millis(ms)),
                encoding: Some(Encoding::Tls(crate::encoding::TlsCipher::Aes256Gcm)),
                compressible: Some(Share(0.5)),
            };
            let wire: pb::SendRequest = job.clone().to_wire();
            prop_assert_eq!(SendJob::from_wire(wire).unwrap(), job);
        }
    }

    #[test]
    fn a_message_that_makes_no_sense_says_where() {
        let wire = pb::TransferEvent { event: None };
        let error = TransferEvent::from_wire(wire).unwrap_err();
        assert_eq!(error.to_string(), "`event` is missing");
    }
}
