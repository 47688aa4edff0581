//! The keys of the actions that use the network under test.

use std::time::Duration;

use redoline_proto::path::PROBES_MAX;
use redoline_proto::transfer::{MESSAGE_MAX, NUM_CONN_MAX};
use redoline_proto::units::Bytes;

use super::table::{Key, Kind, Table};

/// A test of less says nothing: the ramp alone takes longer.
pub const TEST_MIN: Duration = Duration::from_millis(100);
/// The smallest that IPv4 hosts must take (RFC 791).
pub const MTU_MIN: u32 = 576;
/// The largest IP packet.
pub const MTU_MAX: u32 = 65_535;

const NUM_CONN: Kind = Kind::Integer { min: 1, max: NUM_CONN_MAX };
const MTU: Kind = Kind::Integer { min: MTU_MIN, max: MTU_MAX };
const MESSAGE: Kind = Kind::Size { min: 1, max: MESSAGE_MAX.0 };
const MOMENT: Kind = Kind::Duration { min: Duration::from_millis(1) };
const SECOND: Kind = Kind::Duration { min: Duration::from_secs(1) };

pub static PATH: Table = Table {
    name: "path",
    sentence: "Round trips idle and under load, loss, order, and the largest packet that gets through, each way.",
    keys: &[
        Key::with_default(
            "pairs",
            Kind::Selection,
            "all",
            "Which pairs: all, first, or a list such as [phx1-ash1].",
        ),
        Key::with_default(
            "probes",
            Kind::Integer { min: 1, max: PROBES_MAX },
            "100",
            "Small packets, for round trips, loss and order.",
        ),
        Key::with_default("spacing", MOMENT, "10 ms", "Between two of them."),
        Key::optional(
            "packet_sizes",
            Kind::OneOrMore(&MTU),
            "Sizes of packets that may not be fragmented, tried beside the interface's MTU.",
        ),
        Key::with_default(
            "load",
            Kind::Duration { min: Duration::from_millis(500) },
            "2 s",
            "Of the stream that shows the round trip under load.",
        ),
        Key::with_default(
            "deadline",
            SECOND,
            "10 s",
            "Of the probes; a black hole takes no longer.",
        ),
    ],
};

pub static THROUGHPUT: Table = Table {
    name: "throughput",
    sentence: "Sends redo-like traffic between the nodes of a pair and measures what arrives.",
    keys: &[
        Key::with_default(
            "mode",
            Kind::Choice { now: &["async", "sync", "fastsync"], later: &[] },
            "async",
            "async: a stream; sync: each message waits until the receiver has written it (AFFIRM); fastsync: until it has it in memory (NOAFFIRM).",
        )
        .oratcptest("-mode"),
        Key::optional(
            "write",
            Kind::Table(&WRITE),
            "Where the receiver writes each message of `mode: sync`. oratcptest also writes with ASYNC; here that is refused, since nobody waits for those writes and a slow disk would pass for a slow network.",
        )
        .oratcptest("-write"),
        Key::with_default(
            "num_conn",
            Kind::Either(&NUM_CONN, &LADDER),
            "1",
            "Parallel connections; a ladder of them; or an earlier step's result.",
        )
        .oratcptest("-num_conn"),
        Key::with_default(
            "duration",
            Kind::TestTime { min: TEST_MIN },
            "10 s",
            "Of each test; `auto` ends it as soon as the rate is known to within `accuracy`.",
        )
        .oratcptest("-duration"),
        Key::with_default(
            "accuracy",
            Kind::Share { max: 0.5 },
            "2.5 %",
            "With `duration: auto`: half the width of the 95 % interval, as a share of the rate.",
        ),
        Key::with_default(
            "at_most",
            SECOND,
            "60 s",
            "With `duration: auto`: a test that is not accurate by then ends and says so.",
        ),
        Key::with_default(
            "interval",
            Kind::Duration { min: TEST_MIN },
            "1 s",
            "Between two readings of the kernel's counters.",
        )
        .oratcptest("-interval"),
        Key::optional(
            "frequency",
            Kind::Frequency,
            "Repeats the test: `1 h/24 h` is every hour for a day.",
        )
        .oratcptest("-freq"),
        Key::with_default(
            "message_length",
            Kind::OneOrMore(&MESSAGE),
            "1 MiB",
            "Of each message; a list measures each. In SYNC modes, unless given: `need.redo.write_size`, and twice that. oratcptest also takes 0; here that is refused, since a message without a byte has no rate: `path` measures round trips.",
        )
        .oratcptest("-length"),
        Key::with_default(
            "payload",
            Kind::Choice { now: &["random", "zeros"], later: &[] },
            "random",
            "Random bytes show what a compressing WAN really carries.",
        )
        .oratcptest("(payload content type)"),
        Key::optional(
            "compressible",
            Kind::Share { max: 0.99 },
            "Of random bytes: the share that a good compressor takes out.",
        ),
        Key::optional(
            "delay",
            Kind::Duration { min: Duration::from_micros(1) },
            "Between two messages of a stream.",
        )
        .oratcptest("-delay"),
        Key::optional(
            "pacing",
            Kind::Rate,
            "The most that each stream sends; the kernel paces it.",
        ),
        Key::with_default(
            "socket_buffer",
            Kind::Buffer,
            "auto",
            "Of both ends: `auto` leaves it to the system, a size sets it, `3xBDP` computes it.",
        ),
        Key::optional(
            "send_buffer",
            Kind::Buffer,
            "Of the sender's end, where it differs from `socket_buffer`.",
        )
        .oratcptest("-sockbuf"),
        Key::optional(
            "receive_buffer",
            Kind::Buffer,
            "Of the receiver's end, where it differs from `socket_buffer`.",
        )
        .oratcptest("-rcvbuf"),
        Key::optional(
            "congestion_control",
            Kind::CongestionControl,
            "Set per socket; the system's default unless given.",
        ),
        Key::optional("mtu", MTU, "Clamps the segment size, so it can only lower."),
        Key::optional(
            "dscp",
            Kind::Dscp,
            "Marks the packets, for networks with classes of service.",
        ),
        Key::optional("device", Kind::Device, "The sender's interface; the route's unless given."),
        Key::optional(
            "source_port",
            Kind::Integer { min: 1024, max: 65_535 },
            "Of the first stream, and one more for each next; any unless given.",
        ),
        Key::optional(
            "network_timeout",
            SECOND,
            "A test without an acknowledged byte for this long ends.",
        )
        .oratcptest("(network timeout)"),
        Key::with_default(
            "encryption",
            Kind::Choice { now: CIPHERS, later: &[] },
            "none",
            "TLS 1.3 on each stream: a model of Oracle Net encryption, not the thing.",
        ),
        Key::with_default(
            "compression",
            Kind::Choice { now: COMPRESSIONS, later: &[] },
            "none",
            "Of each message: a model of redo transport compression, not the thing.",
        ),
        Key::with_default(
            "directions",
            Kind::Choice { now: &["one", "both"], later: &[] },
            "one",
            "both: the same the other way at the same time.",
        ),
        Key::with_default(
            "nodes",
            Kind::Choice { now: &["each", "together", "all_to_one"], later: &[] },
            "each",
            "One pair after the other; all pairs from one moment on; or all senders to the first receiver.",
        ),
        Key::with_default(
            "pairs",
            Kind::Selection,
            "all",
            "Which pairs: all, first, or a list such as [phx1-ash1].",
        ),
    ],
};

pub const CIPHERS: &[&str] = &["none", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];

pub const COMPRESSIONS: &[&str] = &[
    "none", "lz4", "zlib-1", "zlib-2", "zlib-3", "zlib-4", "zlib-5", "zlib-6", "zlib-7", "zlib-8",
    "zlib-9",
];

pub static WRITE: Table = Table {
    name: "write",
    sentence: "A scratch file that the receiver writes round and round, past the cache (O_DIRECT, O_DSYNC), as RFS writes a standby redo log. It is new, and removed at the end.",
    keys: &[
        Key::required(
            "dir",
            Kind::Text,
            "A directory of the receiving nodes, on the disks of the standby redo logs.",
        ),
        Key::with_default(
            "size",
            Kind::Size { min: Bytes::MIB, max: 1 << 53 },
            "1 GiB",
            "Of the file.",
        ),
    ],
};

pub static LADDER: Table = Table {
    name: "num_conn",
    sentence: "More and more connections, until the aggregate stops rising.",
    keys: &[
        Key::required(
            "until",
            Kind::Choice { now: &["plateau", "knee"], later: &[] },
            "plateau: three levels in a row that do not rise; knee: steps of √2 (1, 2, 3, 4, 6, 8, 12, …) until two do not, at least four levels, then the two best candidates again.",
        ),
        Key::optional(
            "from",
            NUM_CONN,
            "The first level: 2 of a plateau, 1 of a knee unless given.",
        ),
        Key::optional("step", NUM_CONN, "Added for each next level of a plateau; 2 unless given."),
        Key::with_default(
            "tolerance",
            Kind::Share { max: 0.5 },
            "3 %",
            "A level rises when its mean exceeds the best so far by more.",
        ),
        Key::with_default("max", NUM_CONN, "64", "The last level."),
    ],
};

pub static SWEEP: Table = Table {
    name: "sweep",
    sentence: "The same throughput test at several values of one key.",
    keys: &[
        Key::required("vary", Kind::Table(&VARY), "The one key, and its values."),
        Key::required("throughput", Kind::Table(&THROUGHPUT), "The test."),
    ],
};

pub static VARY: Table = Table {
    name: "vary",
    sentence: "Exactly one of these.",
    keys: &[
        Key::optional("socket_buffer", Kind::List(&Kind::Buffer), "Socket buffers of both ends."),
        Key::optional("mtu", Kind::List(&MTU), "Packet sizes, by clamping the segment size."),
        Key::optional("message_length", Kind::List(&MESSAGE), "Sizes of the messages."),
        Key::optional(
            "encryption",
            Kind::List(&Kind::Choice { now: CIPHERS, later: &[] }),
            "Ciphers of TLS 1.3, and `none`.",
        ),
        Key::optional(
            "compression",
            Kind::List(&Kind::Choice { now: COMPRESSIONS, later: &[] }),
            "Methods and levels, and `none`.",
        ),
    ],
};

pub static INTERFACE_MTU: Table = Table {
    name: "interface_mtu",
    sentence: "The same throughput test with the interfaces' MTU as it is, at another value, and as it was. Changes the redo interfaces of both nodes, needs root there and `allow: [interface_mtu]` in the runbook, and restores them whatever happens.",
    keys: &[
        Key::required(
            "mtu",
            Kind::Integer { min: INTERFACE_MTU_MIN, max: MTU_MAX },
            "Of the interfaces, for the time of the test.",
        ),
        Key::required("throughput", Kind::Table(&THROUGHPUT), "The test."),
    ],
};

/// Below it an interface loses its IPv6 addresses (RFC 8200, section 5).
const INTERFACE_MTU_MIN: u32 = 1280;
