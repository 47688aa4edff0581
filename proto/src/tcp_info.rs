//! The kernel's `struct tcp_info`, each field unknown where the kernel is too old to tell.

use serde::{Deserialize, Serialize};

macro_rules! tcp_info {
    ($($(#[$doc:meta])* $field:ident: $kind:ty),* $(,)?) => {
        /// What the kernel knows of one TCP connection (`getsockopt(TCP_INFO)`).
        ///
        /// Source: `include/uapi/linux/tcp.h`, Linux 6.18. A kernel that returns a shorter struct
        /// leaves the later fields unknown.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct TcpInfo {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$kind>),*
        }
        mirror!(TcpInfo, TcpInfo { $($field),* });
    };
}

tcp_info! {
    state: u32,
    ca_state: u32,
    /// Exponential back-off of the retransmission timer: above 2, nothing comes back.
    backoff: u32,
    snd_wscale: u32,
    rcv_wscale: u32,
    /// When true, `delivery_rate_bytes_per_s` says what the application offered, not the path.
    delivery_rate_app_limited: bool,
    rto_us: u64,
    snd_mss_bytes: u64,
    rcv_mss_bytes: u64,
    unacked_packets: u64,
    lost_packets: u64,
    path_mtu_bytes: u64,
    rcv_ssthresh_bytes: u64,
    rtt_us: u64,
    rttvar_us: u64,
    snd_ssthresh_packets: u64,
    snd_cwnd_packets: u64,
    advmss_bytes: u64,
    reordering_packets: u64,
    rcv_rtt_us: u64,
    rcv_space_bytes: u64,
    total_retrans_packets: u64,
    pacing_rate_bytes_per_s: u64,
    /// Counts the SYN and the FIN: take the difference from a reading after connect.
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u64,
    segs_in: u64,
    notsent_bytes: u64,
    min_rtt_us: u64,
    delivery_rate_bytes_per_s: u64,
    /// Time with data outstanding.
    busy_time_us: u64,
    /// Of that, held by the peer's receive window.
    rwnd_limited_us: u64,
    /// Of that, held by this end's send buffer.
    sndbuf_limited_us: u64,
    delivered_packets: u64,
    delivered_ce_packets: u64,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u64,
    reord_seen: u64,
    rcv_ooopack: u64,
    snd_wnd_bytes: u64,
}
