//! What the kernels of both ends counted of a pair's streams, beside the figures of every report.

use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::units::Bytes;

use super::readings::{end_of, ends, growth, known, last_known, starts};
use super::steady::Steady;
use crate::record::measurement::{EndRecord, PairTransfer};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Bytes sent again of all sent after the ramp, 0 to 1: what slow start drowned is not of the
    /// path. Of the whole test where the kernel does not count meanwhile.
    pub lost_share: Option<f64>,
    /// Segments, and those sent again.
    pub delivered_packets: Option<u64>,
    /// Times that the sender saw segments overtake others.
    pub reordered: Option<u64>,
    /// Segments that the receiver got too early, behind a gap.
    pub out_of_order_packets: Option<u64>,
    /// Segments that arrived twice: they were sent again for nothing.
    pub duplicates: Option<u64>,
    /// The MSS after connect and at the end.
    pub mss_at_start: Option<Bytes>,
    pub mss_at_end: Option<Bytes>,
    /// What the receiver told the sender that it takes in one segment.
    pub receiver_mss: Option<Bytes>,
    /// The path MTU that the sender's kernel knew before the first byte.
    pub known_path_mtu: Option<Bytes>,
    /// Windows that the receiver offered: half of the readings are at most this.
    pub offered_window_p50: Option<Bytes>,
    /// A buffer was set past the system's maximum.
    pub buffer_forced: bool,
    /// Connected, and not one byte of the test came through.
    pub stuck: bool,
}

pub fn of(pair: &PairTransfer, steady: Option<&Steady>) -> Kernel {
    let (sender, receiver) = (&pair.sender, &pair.receiver);
    let bytes = |field: fn(&TcpInfo) -> Option<u64>, end| last_known(end, field).map(Bytes);
    Kernel {
        lost_share: lost_after_ramp(sender, steady).or_else(|| lost_in_all(sender)),
        delivered_packets: growth(sender, |tcp| tcp.delivered_packets),
        reordered: growth(sender, |tcp| tcp.reord_seen),
        out_of_order_packets: growth(receiver, |tcp| tcp.rcv_ooopack),
        duplicates: growth(sender, |tcp| tcp.dsack_dups),
        mss_at_start: starts(sender).iter().filter_map(|s| s.tcp.snd_mss_bytes).min().map(Bytes),
        mss_at_end: bytes(|tcp| tcp.snd_mss_bytes, sender),
        receiver_mss: bytes(|tcp| tcp.advmss_bytes, receiver),
        known_path_mtu: starts(sender)
            .iter()
            .filter_map(|s| s.known_path_mtu_bytes)
            .min()
            .map(Bytes),
        offered_window_p50: offered_window(sender),
        buffer_forced: starts(sender).iter().chain(starts(receiver)).any(|s| s.buffer_forced),
        stuck: stuck(pair),
    }
}

/// From the first readings after the ramp to the last ones, over all streams.
fn lost_after_ramp(sender: &EndRecord, steady: Option<&Steady>) -> Option<f64> {
    let ramp = steady?.truncated.as_nanos() as i64;
    let from = sender.started_ns?.saturating_add(ramp);
    let (mut sent, mut again) = (0, 0);
    for last in ends(sender) {
        let mut after = sender.readings.iter().filter(|one| one.stream == last.stream);
        let first = &after.find(|one| one.at_ns >= from)?.tcp;
        sent += last.tcp.bytes_sent?.saturating_sub(first.bytes_sent?);
        again += last.tcp.bytes_retrans?.saturating_sub(first.bytes_retrans?);
    }
    (sent > 0).then(|| again as f64 / sent as f64)
}

fn lost_in_all(sender: &EndRecord) -> Option<f64> {
    let sent = growth(sender, |tcp| tcp.bytes_sent).filter(|sent| *sent > 0)?;
    Some(growth(sender, |tcp| tcp.bytes_retrans)? as f64 / sent as f64)
}

fn offered_window(sender: &EndRecord) -> Option<Bytes> {
    let mut windows: Vec<u64> = known(sender, |tcp| tcp.snd_wnd_bytes).collect();
    windows.sort_unstable();
    windows.get(windows.len() / 2).copied().map(Bytes)
}

/// The signature of a packet that is too big and of which nobody is told: the handshake passed, the
/// timer backs off again and again, one segment is under way, and nothing is acknowledged.
fn stuck(pair: &PairTransfer) -> bool {
    let received = pair.receiver.samples.iter().any(|sample| sample.bytes().0 > 0)
        || ends(&pair.receiver).iter().any(|end| end.bytes > 0);
    let streams = starts(&pair.sender);
    !received
        && !streams.is_empty()
        && streams.iter().all(|start| {
            let read = pair.sender.readings.iter().filter(|one| one.stream == start.stream);
            let read = read.map(|one| &one.tcp);
            let last = end_of(&pair.sender, start.stream).map(|end| &end.tcp);
            let seen: Vec<&TcpInfo> = read.chain(last).collect();
            let acked = seen.iter().filter_map(|tcp| tcp.bytes_acked).max();
            let silent = acked.is_none_or(|acked| acked <= start.tcp.bytes_acked.unwrap_or(acked));
            silent && seen.iter().any(|tcp| backs_off(tcp))
        })
}

fn backs_off(tcp: &TcpInfo) -> bool {
    tcp.backoff.is_some_and(|backoff| backoff >= BACKOFF_STUCK)
        && tcp.unacked_packets.is_some_and(|unacked| unacked > 0)
        && tcp.snd_cwnd_packets.is_none_or(|cwnd| cwnd <= 1)
}

/// From so many back-offs in a row on, nothing comes back.
const BACKOFF_STUCK: u32 = 2;
