//! What the way to a peer is like, and an interface's MTU held at another value for a time.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checks::{one_host, optional_address, port, token};
use crate::latency::Latency;
use crate::transfer::{JobId, Stopped, Token};
use crate::units::milliseconds;
use crate::{FromWire, InvalidMessage, ToWire, pb};

/// Small probes of one path.
pub const PROBES_MAX: u32 = 10_000;
/// Sizes that are tried beside those of the search; a packet has at most 65,535 bytes.
pub const PACKET_SIZES_MAX: usize = 16;
const PACKET_BYTES_MAX: u32 = 65_535;
/// What an interface's MTU may be held at: from what every IPv4 host takes (RFC 791) to the longest
/// packet there is.
pub const HELD_MTU_BYTES: std::ops::RangeInclusive<u32> = 576..=65_535;
/// Answers to datagrams of the token that come from the expected peer.
#[derive(Clone, Debug, PartialEq)]
pub struct ReflectJob {
    pub job: JobId,
    pub token: Token,
    pub bind_address: IpAddr,
    /// First and last port that may be used.
    pub ports: (u16, u16),
    /// `None`: translated addresses; the token alone decides.
    pub expected_peer: Option<IpAddr>,
    pub deadline: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReflectEvent {
    Ready { port: u16 },
    End(ReflectEnd),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReflectEnd {
    pub answered: u64,
    /// Datagrams that were not answered: without the token, or from elsewhere.
    pub strangers: u32,
    /// `None` after `Finish`.
    pub stopped: Option<Stopped>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProbeJob {
    pub job: JobId,
    pub token: Token,
    pub address: IpAddr,
    pub port: u16,
    pub bind_address: Option<IpAddr>,
    /// Small datagrams.
    pub count: u32,
    pub spacing: Duration,
    /// Of the whole probe.
    pub deadline: Duration,
    /// IP packets that are tried beside one of the interface's MTU.
    pub packet_bytes: Vec<u32>,
}

/// What a probe found. Sizes are of IP packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathProbe {
    pub interface: Option<String>,
    pub interface_mtu_bytes: Option<u32>,
    pub source_address: Option<String>,
    pub gateway: Option<String>,
    /// A path MTU below the interface's that the kernel remembered from earlier traffic.
    pub remembered_mtu_bytes: Option<u32>,
    /// `None`: nothing small came back, so nothing can be said of large packets.
    pub way: Option<ProbeWay>,
    pub sent: u32,
    pub answered: u32,
    pub reordered: u32,
    /// Of the small datagrams; `None` when none was answered.
    pub rtt: Option<Latency>,
    pub sizes: Vec<SizeProbe>,
    /// The largest that came back; `None` when none did, and when the search did not come to its end.
    pub path_mtu_bytes: Option<u32>,
    /// The largest answer of the reflector that came back, likewise.
    pub return_path_mtu_bytes: Option<u32>,
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeWay {
    /// To the agent at the other end.
    Udp,
    /// Echo, answered by the peer's kernel.
    Icmp,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeProbe {
    pub packet_bytes: u32,
    pub outcome: SizeOutcome,
    /// As the router or the interface said.
    pub told_mtu_bytes: Option<u32>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeOutcome {
    Passed,
    /// This node's own interface or route refused it.
    TooBigHere,
    /// A router said so.
    TooBigThere,
    /// Nothing came back, again and again.
    Lost,
}

/// An interface's MTU at another value, for as long as somebody listens.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldMtuJob {
    pub job: JobId,
    /// Of the interface.
    pub address: IpAddr,
    pub mtu_bytes: u32,
    pub deadline: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HoldMtuEvent {
    Held(MtuHeld),
    Restored(MtuRestored),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MtuHeld {
    pub interface: String,
    pub before_bytes: u32,
    pub now_bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MtuRestored {
    pub interface: String,
    /// As it is read after the restore; `None` when it could not be read.
    pub now_bytes: Option<u32>,
    /// Why it was held for less than was asked, or is not as it was before. `None` after `Finish`.
    pub stopped: Option<Stopped>,
}

mirror!(ReflectEnd, ReflectEnd { answered, strangers, stopped });
mirror!(SizeProbe, SizeProbe { packet_bytes, outcome, told_mtu_bytes });
mirror!(
    PathProbe,
    ProbePathReply {
        interface,
        interface_mtu_bytes,
        source_address,
        gateway,
        remembered_mtu_bytes,
        way,
        sent,
        answered,
        reordered,
        rtt,
        sizes,
        path_mtu_bytes,
        return_path_mtu_bytes,
        remarks,
    }
);
mirror!(MtuHeld, MtuHeld { interface, before_bytes, now_bytes });
mirror!(MtuRestored, MtuRestored { interface, now_bytes, stopped });
mirror_enum!(ProbeWay, ProbeWay { Udp, Icmp });
mirror_enum!(SizeOutcome, SizeOutcome { Passed, TooBigHere, TooBigThere, Lost });

impl ToWire<pb::ReflectRequest> for ReflectJob {
    fn to_wire(self) -> pb::ReflectRequest {
        pb::ReflectRequest {
            job: self.job.0,
            token: self.token.0.to_vec(),
            bind_address: self.bind_address.to_string(),
            port_first: self.ports.0.into(),
            port_last: self.ports.1.into(),
            expected_peer: self.expected_peer.map(|peer| peer.to_string()).unwrap_or_default(),
            deadline_ms: milliseconds(self.deadline),
        }
    }
}

impl FromWire<pb::ReflectRequest> for ReflectJob {
    fn from_wire(wire: pb::ReflectRequest) -> Result<Self, InvalidMessage> {
        Ok(Self {
            job: JobId(wire.job),
            token: token(&wire.token)?,
            bind_address: one_host(&wire.bind_address).map_err(|error| error.at("bind_address"))?,
            ports: (port(wire.port_first)?, port(wire.port_last)?),
            expected_peer: optional_address(&wire.expected_peer)
                .map_err(|error| error.at("expected_peer"))?
                .map(|peer| peer.to_canonical()),
            deadline: Duration::from_millis(wire.deadline_ms),
        })
    }
}

impl ToWire<pb::ReflectEvent> for ReflectEvent {
    fn to_wire(self) -> pb::ReflectEvent {
        use pb::reflect_event::Event;
        let event = match self {
            Self::Ready { port } => Event::Ready(pb::Ready { port: port.into() }),
            Self::End(end) => Event::End(end.to_wire()),
        };
        pb::ReflectEvent { event: Some(event) }
    }
}

impl FromWire<pb::ReflectEvent> for ReflectEvent {
    fn from_wire(wire: pb::ReflectEvent) -> Result<Self, InvalidMessage> {
        use pb::reflect_event::Event;
        match wire.event.ok_or_else(|| InvalidMessage::missing().at("event"))? {
            Event::Ready(ready) => Ok(Self::Ready { port: port(ready.port)? }),
            Event::End(end) => ReflectEnd::from_wire(end).map(Self::End),
        }
    }
}

impl ToWire<pb::ProbePathRequest> for ProbeJob {
    fn to_wire(self) -> pb::ProbePathRequest {
        pb::ProbePathRequest {
            job: self.job.0,
            token: self.token.0.to_vec(),
            address: self.address.to_string(),
            port: self.port.into(),
            bind_address: self.bind_address.map(|bind| bind.to_string()).unwrap_or_default(),
            count: self.count,
            spacing_ms: milliseconds(self.spacing),
            deadline_ms: milliseconds(self.deadline),
            packet_bytes: self.packet_bytes,
        }
    }
}

impl FromWire<pb::ProbePathRequest> for ProbeJob {
    fn from_wire(wire: pb::ProbePathRequest) -> Result<Self, InvalidMessage> {
        if wire.count > PROBES_MAX {
            let why = format!("{} is more than {PROBES_MAX}", wire.count);
            return Err(InvalidMessage::invalid(why).at("count"));
        }
        if wire.packet_bytes.len() > PACKET_SIZES_MAX {
            let why = format!("{} are more than {PACKET_SIZES_MAX}", wire.packet_bytes.len());
            return Err(InvalidMessage::invalid(why).at("packet_bytes"));
        }
        if let Some(size) = wire.packet_bytes.iter().find(|size| **size > PACKET_BYTES_MAX) {
            let why = format!("no packet has {size} bytes");
            return Err(InvalidMessage::invalid(why).at("packet_bytes"));
        }
        Ok(Self {
            job: JobId(wire.job),
            token: token(&wire.token)?,
            address: one_host(&wire.address).map_err(|error| error.at("address"))?,
            port: port(wire.port)?,
            bind_address: optional_address(&wire.bind_address)
                .map_err(|error| error.at("bind_address"))?,
            count: wire.count,
            spacing: Duration::from_millis(wire.spacing_ms),
            deadline: Duration::from_millis(wire.deadline_ms),
            packet_bytes: wire.packet_bytes,
        })
    }
}

impl ToWire<pb::HoldMtuRequest> for HoldMtuJob {
    fn to_wire(self) -> pb::HoldMtuRequest {
        pb::HoldMtuRequest {
            job: self.job.0,
            address: self.address.to_string(),
            mtu_bytes: self.mtu_bytes,
            deadline_ms: milliseconds(self.deadline),
        }
    }
}

impl FromWire<pb::HoldMtuRequest> for HoldMtuJob {
    fn from_wire(wire: pb::HoldMtuRequest) -> Result<Self, InvalidMessage> {
        if !HELD_MTU_BYTES.contains(&wire.mtu_bytes) {
            let (least, most) = (HELD_MTU_BYTES.start(), HELD_MTU_BYTES.end());
            let why = format!("{} is not {least} to {most}", wire.mtu_bytes);
            return Err(InvalidMessage::invalid(why).at("mtu_bytes"));
        }
        Ok(Self {
            job: JobId(wire.job),
            address: one_host(&wire.address).map_err(|error| error.at("address"))?,
            mtu_bytes: wire.mtu_bytes,
            deadline: Duration::from_millis(wire.deadline_ms),
        })
    }
}

impl ToWire<pb::HoldMtuEvent> for HoldMtuEvent {
    fn to_wire(self) -> pb::HoldMtuEvent {
        use pb::hold_mtu_event::Event;
        let event = match self {
            Self::Held(held) => Event::Held(held.to_wire()),
            Self::Restored(restored) => Event::Restored(restored.to_wire()),
        };
        pb::HoldMtuEvent { event: Some(event) }
    }
}

impl FromWire<pb::HoldMtuEvent> for HoldMtuEvent {
    fn from_wire(wire: pb::HoldMtuEvent) -> Result<Self, InvalidMessage> {
        use pb::hold_mtu_event::Event;
        match wire.event.ok_or_else(|| InvalidMessage::missing().at("event"))? {
            Event::Held(held) => MtuHeld::from_wire(held).map(Self::Held),
            Event::Restored(restored) => MtuRestored::from_wire(restored).map(Self::Restored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> ProbeJob {
        ProbeJob {
            job: JobId(7),
            token: Token([0xa5; 16]),
            address: "203.0.113.11".parse().unwrap(),
            port: 5555,
            bind_address: None,
            count: 100,
            spacing: Duration::from_millis(10),
            deadline: Duration::from_secs(10),
            packet_bytes: vec![1500, 9000],
        }
    }

    fn refusal(job: ProbeJob) -> String {
        ProbeJob::from_wire(job.to_wire()).unwrap_err().to_string()
    }

    #[test]
    fn a_probe_survives_the_wire() {
        assert_eq!(ProbeJob::from_wire(probe().to_wire()).unwrap(), probe());
    }

    #[test]
    fn a_probe_has_its_bounds() {
        let count = refusal(ProbeJob { count: PROBES_MAX + 1, ..probe() });
        assert_eq!(count, "`count` is invalid: 10001 is more than 10000");
        let sizes = refusal(ProbeJob { packet_bytes: vec![1500; 17], ..probe() });
        assert_eq!(sizes, "`packet_bytes` is invalid: 17 are more than 16");
        let size = refusal(ProbeJob { packet_bytes: vec![65_536], ..probe() });
        assert_eq!(size, "`packet_bytes` is invalid: no packet has 65536 bytes");
    }

    #[test]
    fn an_mtu_that_no_interface_should_have_is_refused() {
        let job = |mtu_bytes| HoldMtuJob {
            job: JobId(7),
            address: "198.51.100.11".parse().unwrap(),
            mtu_bytes,
            deadline: Duration::from_secs(60),
        };
        for mtu in [576, 9000, 65_535] {
            assert_eq!(HoldMtuJob::from_wire(job(mtu).to_wire()).unwrap(), job(mtu));
        }
        for mtu in [0, 575, 65_536] {
            let error = HoldMtuJob::from_wire(job(mtu).to_wire()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`mtu_bytes` is invalid: {mtu} is not 576 to 65535")
            );
        }
    }
}
