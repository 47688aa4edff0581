//! Plain values for the tests of steps.

use std::time::Duration;

use redoline_proto::transfer::{Payload, SocketRequest};
use redoline_proto::units::Bytes;

use super::measure::Parameters;
use crate::plan::node::PairId;
use crate::plan::step::{BufferSize, Mode, Nodes, NumConn, TestTime, ThroughputSpec};

pub fn spec() -> ThroughputSpec {
    ThroughputSpec {
        pairs: vec![PairId(0)],
        nodes: Nodes::Each,
        both_directions: false,
        num_conn: NumConn::Fixed(1),
        time: TestTime::Fixed(Duration::from_secs(10)),
        mode: Mode::Async,
        delay: None,
        network_timeout: None,
        frequency: None,
        interval: Duration::from_secs(1),
        message: Bytes(1 << 20),
        payload: Payload::Random,
        socket_buffer: BufferSize::Auto,
        send_buffer: None,
        receive_buffer: None,
        congestion_control: None,
        mtu: None,
        dscp: None,
        device: None,
        source_port_base: None,
        pacing: None,
        encoding: None,
        compressible: None,
    }
}

pub fn parameters(num_conn: u32) -> Parameters {
    Parameters {
        nodes: Nodes::Each,
        num_conn,
        socket: SocketRequest::default(),
        socket_buffer: "auto".to_owned(),
        mtu: None,
        interface_mtu: None,
        note: None,
    }
}
