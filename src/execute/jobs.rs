//! From what a test asks to the two jobs of a pair: receiver's and sender's, with their deadlines.

use std::time::Duration;

use redoline_proto::encoding::Encoding;
use redoline_proto::transfer::{
    Acknowledge, Guard, JobId, Payload, ReceiveJob, RedoWrite, SendJob, SocketRequest, Token,
};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::transfer::Ends;

/// For the receiver to listen, and for the sender's job to be taken.
pub const PREPARE_DEADLINE: Duration = Duration::from_secs(10);
/// For the data connections; a firewall that drops shows as this running out.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// From the first pair's connections to the barrier; all pairs connect at the same time.
const GO_DEADLINE: Duration = Duration::from_secs(30);
/// After the duration: for queues on the way to empty, and for the last events.
const DRAIN_DEADLINE: Duration = Duration::from_secs(15);
/// Between two samples; batch means need many of them.
const SAMPLE: Duration = Duration::from_millis(100);
/// What is asked of both ends of every pair of a test.
#[derive(Clone, Debug)]
pub struct Test {
    pub num_conn: u32,
    /// With a stop rule, the most.
    pub duration: Duration,
    pub reading: Duration,
    pub message: Bytes,
    pub payload: Payload,
    pub socket: SocketRequest,
    pub rate: Option<BytesPerSecond>,
    pub bytes_max: Option<Bytes>,
    pub guard: Guard,
    /// SYNC: what the receiver does before it answers a message.
    pub acknowledge: Option<Acknowledge>,
    /// Between two messages of a stream.
    pub delay: Option<Duration>,
    pub connect_deadline: Duration,
    /// `None`: the agent's own patience.
    pub stall_deadline: Option<Duration>,
    pub encoding: Option<Encoding>,
    pub compressible: Option<Share>,
}

impl Test {
    /// For the receiver to listen. A scratch file is filled before: the agent gives that up first,
    /// so that what it says of it arrives.
    pub fn prepare_deadline(&self) -> Duration {
        let write = self.acknowledge.as_ref().and_then(|acknowledge| acknowledge.write.as_ref());
        write.map(RedoWrite::prepare_deadline).unwrap_or_default() + PREPARE_DEADLINE
    }

    /// From the barrier to the last event of either end.
    pub fn run_deadline(&self) -> Duration {
        self.duration + DRAIN_DEADLINE + self.stall_deadline.unwrap_or_default()
    }

    /// Others of the same barrier may still be filling their scratch files.
    fn go_deadline(&self) -> Duration {
        GO_DEADLINE + self.prepare_deadline()
    }
}

pub fn receive_job(ends: Ends<'_>, job: JobId, token: Token, test: &Test) -> ReceiveJob {
    let ports = ends.receiver_node.data_ports;
    ReceiveJob {
        job,
        token,
        bind_address: ends.receiver_node.redo.bind,
        ports: (ports.first, ports.last),
        expected_peer: Some(ends.sender_node.redo.seen_as),
        num_conn: test.num_conn,
        socket: test.socket.clone(),
        deadline: test.prepare_deadline()
            + test.connect_deadline
            + test.go_deadline()
            + test.run_deadline(),
        sample: SAMPLE,
        reading: test.reading,
        guard: test.guard,
        acknowledge: test.acknowledge.clone(),
        encoding: test.encoding,
    }
}

pub fn send_job(ends: Ends<'_>, job: JobId, token: Token, port: u16, test: &Test) -> SendJob {
    SendJob {
        job,
        token,
        address: ends.receiver_node.redo.address,
        port,
        bind_address: Some(ends.sender_node.redo.bind),
        num_conn: test.num_conn,
        socket: test.socket.clone(),
        message: test.message,
        payload: test.payload,
        duration: test.duration,
        reading: test.reading,
        connect_deadline: test.connect_deadline,
        go_deadline: test.go_deadline(),
        rate: test.rate,
        bytes_max: test.bytes_max,
        guard: test.guard,
        acknowledged: test.acknowledge.is_some(),
        delay: test.delay,
        stall_deadline: test.stall_deadline,
        encoding: test.encoding,
        compressible: test.compressible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(acknowledge: Option<Acknowledge>) -> Test {
        Test {
            num_conn: 1,
            duration: Duration::from_secs(10),
            reading: Duration::from_secs(1),
            message: Bytes(8192),
            payload: Payload::Random,
            socket: SocketRequest::default(),
            rate: None,
            bytes_max: None,
            guard: Guard::default(),
            acknowledge,
            delay: None,
            connect_deadline: CONNECT_DEADLINE,
            stall_deadline: None,
            encoding: None,
            compressible: None,
        }
    }

    #[test]
    fn an_agent_that_fills_a_file_too_slowly_says_so_before_the_controller_gives_up() {
        for file_bytes in [Bytes::MIB, Bytes::GIB, 1 << 40] {
            let write = RedoWrite { dir: "/u02".to_owned(), file_bytes };
            let agent = write.prepare_deadline();
            let test = test(Some(Acknowledge { message_bytes: 8192, write: Some(write) }));
            assert_eq!(test.prepare_deadline(), agent + PREPARE_DEADLINE);
            assert!(test.go_deadline() > agent, "others wait for it at the barrier");
        }
        assert_eq!(test(None).prepare_deadline(), PREPARE_DEADLINE);
    }
}
