//! What a test asked of its sockets, what it was granted, and which setting bound that.

use redoline_proto::facts::TcpSettings;
use redoline_proto::transfer::{SocketRequest, StreamEnd, StreamStart};
use redoline_proto::units::Bytes;

use super::super::model;
use super::least;
use crate::analysis::bdp;
use crate::analysis::throughput::Summary;
use crate::plan::node::NodeId;
use crate::record::measurement::{EndRecord, Throughput};
use crate::record::run::RunRecord;

pub(super) fn requested(summary: &Summary) -> model::SocketParameters {
    let (request, socket) = (&summary.request, &summary.request.socket);
    model::SocketParameters {
        socket_buffer: request.socket_buffer.clone(),
        socket_buffer_bytes: socket.socket_buffer_bytes,
        send_buffer_bytes: socket.send_buffer_bytes,
        receive_buffer_bytes: socket.receive_buffer_bytes,
        congestion_control: socket.congestion_control.clone(),
        mtu_bytes: request.mtu_bytes,
        mss_bytes: socket.mss_bytes,
        dscp: socket.dscp,
        device: socket.device.clone(),
        source_port: socket.source_port_base,
        pacing_bytes_per_second: socket.pacing_bytes_per_second,
    }
}

pub(super) fn granted(record: &RunRecord, raw: &Throughput, summary: &Summary) -> model::Granted {
    let usable = |granted: Option<u64>| granted.map(|bytes| bdp::usable(Bytes(bytes)).0);
    let send = least(&summary.pairs, |pair| pair.granted.send_buffer);
    let receive = least(&summary.pairs, |pair| pair.granted.receive_buffer);
    model::Granted {
        send_buffer_bytes: send,
        receive_buffer_bytes: receive,
        usable_send_buffer_bytes: usable(send),
        usable_receive_buffer_bytes: usable(receive),
        ends: ends(record, raw),
    }
}

fn ends(record: &RunRecord, raw: &Throughput) -> Vec<model::GrantedEnd> {
    let setup = &record.setup;
    let socket = &raw.request.socket;
    raw.pairs
        .iter()
        .flat_map(|pair| {
            let (sender, receiver) = setup.ends(pair.pair, raw.direction);
            [(&SENDER, sender, &pair.sender), (&RECEIVER, receiver, &pair.receiver)].map(
                |(side, node, end)| model::GrantedEnd {
                    pair: setup.pair_name(pair.pair),
                    node: setup.node_name(node).to_owned(),
                    ..side.granted(socket, tcp_of(record, node), end)
                },
            )
        })
        .collect()
}

fn tcp_of(record: &RunRecord, node: NodeId) -> Option<&TcpSettings> {
    Some(&record.nodes.get(&node)?.facts.as_ref()?.tcp)
}

/// One end of a transfer: which of its buffers carries the data, and what may bound it.
struct Side {
    name: &'static str,
    asked: fn(&SocketRequest) -> Option<u64>,
    begin: fn(&StreamStart) -> u64,
    end: fn(&StreamEnd) -> u64,
    /// Cuts a request down.
    request_maximum: &'static str,
    /// Where auto-tuning stops.
    tuning_maximum: &'static str,
    tuned: fn(&TcpSettings) -> Option<u64>,
}

const SENDER: Side = Side {
    name: "sender",
    asked: |socket| socket.send_buffer_bytes.or(socket.socket_buffer_bytes),
    begin: |start| start.send_buffer_bytes,
    end: |end| end.send_buffer_bytes,
    request_maximum: "net.core.wmem_max",
    tuning_maximum: "net.ipv4.tcp_wmem[2]",
    tuned: |tcp| tcp.wmem_max_bytes,
};

const RECEIVER: Side = Side {
    name: "receiver",
    asked: |socket| socket.receive_buffer_bytes.or(socket.socket_buffer_bytes),
    begin: |start| start.receive_buffer_bytes,
    end: |end| end.receive_buffer_bytes,
    request_maximum: "net.core.rmem_max",
    tuning_maximum: "net.ipv4.tcp_rmem[2]",
    tuned: |tcp| tcp.rmem_max_bytes,
};

impl Side {
    fn granted(
        &self,
        socket: &SocketRequest,
        tcp: Option<&TcpSettings>,
        end: &EndRecord,
    ) -> model::GrantedEnd {
        let starts = end.connected.as_ref().map_or(&[][..], |connected| &connected.streams);
        let ends = end.end.as_ref().map_or(&[][..], |end| &end.streams);
        let begin = starts.iter().map(self.begin).min();
        let last = ends.iter().map(self.end).min();
        let control = starts.first().map(|start| &start.congestion_control);
        let same = starts.iter().all(|start| Some(&start.congestion_control) == control);
        model::GrantedEnd {
            pair: String::new(),
            node: String::new(),
            end: self.name.to_owned(),
            begin_bytes: begin,
            end_bytes: last,
            forced: (!starts.is_empty()).then(|| starts.iter().any(|start| start.buffer_forced)),
            bound_by: self.bound_by((self.asked)(socket), last.or(begin), tcp).map(str::to_owned),
            congestion_control: control.filter(|_| same).cloned(),
        }
    }

    fn bound_by(
        &self,
        asked: Option<u64>,
        granted: Option<u64>,
        tcp: Option<&TcpSettings>,
    ) -> Option<&'static str> {
        let granted = granted?;
        match asked {
            Some(asked) => {
                bdp::capped(Bytes(asked), Bytes(granted)).then_some(self.request_maximum)
            }
            None => (granted >= (self.tuned)(tcp?)?).then_some(self.tuning_maximum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_request_that_was_cut_down_names_the_maximum_of_requests() {
        assert_eq!(SENDER.bound_by(Some(4 * MIB), Some(MIB), None), Some("net.core.wmem_max"));
        assert_eq!(RECEIVER.bound_by(Some(4 * MIB), Some(8 * MIB), None), None);
    }

    #[test]
    fn auto_tuning_at_its_end_names_its_own_maximum_if_the_node_told_it() {
        let tcp = TcpSettings { rmem_max_bytes: Some(6 * MIB), ..TcpSettings::default() };
        let bound = |granted| RECEIVER.bound_by(None, Some(granted), Some(&tcp));
        assert_eq!(bound(6 * MIB), Some("net.ipv4.tcp_rmem[2]"));
        assert_eq!(bound(5 * MIB), None);
        assert_eq!(SENDER.bound_by(None, Some(6 * MIB), Some(&tcp)), None, "wmem is not known");
    }
}
