//! Which flow a packet belongs to: its 5-tuple.

/// Addresses, protocol and ports of a packet; ports are zero where the protocol has none, and in
/// all fragments, so that those of one datagram stay together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct FlowKey {
    addresses: [u8; 32],
    protocol: u8,
    ports: [u8; 4],
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl FlowKey {
    /// `None` for what is not a whole IPv4 or IPv6 header.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => ipv4(packet),
            6 => ipv6(packet),
            _ => None,
        }
    }
}

fn ipv4(packet: &[u8]) -> Option<FlowKey> {
    let header = packet.get(..20)?;
    let mut addresses = [0; 32];
    addresses[..8].copy_from_slice(&header[12..20]);
    // More-fragments flag or an offset.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let payload = usize::from(header[0] & 0x0f) * 4;
    let ports = if fragment { [0; 4] } else { ports(packet, header[9], payload) };
    Some(FlowKey { addresses, protocol: header[9], ports })
}

fn ipv6(packet: &[u8]) -> Option<FlowKey> {
    let header = packet.get(..40)?;
    let mut addresses = [0; 32];
    addresses.copy_from_slice(&header[8..40]);
    Some(FlowKey { addresses, protocol: header[6], ports: ports(packet, header[6], 40) })
}

fn ports(packet: &[u8], protocol: u8, payload: usize) -> [u8; 4] {
    match packet.get(payload..payload + 4) {
        Some(&[a, b, c, d]) if matches!(protocol, TCP | UDP) => [a, b, c, d],
        _ => [0; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, source_port: u8, fragment: u8) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[6] = fragment;
        packet[9] = protocol;
        packet[12..20].copy_from_slice(&[198, 51, 100, 11, 203, 0, 113, 11]);
        packet[20..24].copy_from_slice(&[200, source_port, 21, 179]);
        packet
    }

    #[test]
    fn ports_tell_tcp_flows_apart() {
        assert_ne!(FlowKey::of(&packet(TCP, 1, 0)), FlowKey::of(&packet(TCP, 2, 0)));
        assert_eq!(FlowKey::of(&packet(TCP, 1, 0)), FlowKey::of(&packet(TCP, 1, 0x40)));
    }

    #[test]
    fn pings_and_fragments_are_told_apart_by_address_only() {
        assert_eq!(FlowKey::of(&packet(1, 1, 0)), FlowKey::of(&packet(1, 2, 0)));
        assert_eq!(FlowKey::of(&packet(UDP, 1, 0x20)), FlowKey::of(&packet(UDP, 2, 0x20)));
    }

    #[test]
    fn a_torn_header_is_no_flow() {
        assert_eq!(FlowKey::of(&packet(TCP, 1, 0)[..19]), None);
        assert_eq!(FlowKey::of(&[]), None);
    }
}
