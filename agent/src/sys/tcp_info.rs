//! Reads the kernel's `struct tcp_info`, however long this kernel's is.
//!
//! Offsets: `include/uapi/linux/tcp.h`, Linux 6.18. The struct only ever grows at its end, so a
//! field is there exactly if the returned length reaches over it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use redoline_proto::tcp_info::TcpInfo;

/// More than any kernel returns (6.18: 280), so that none has to cut.
const LONGEST: usize = 1024;

/// `TCP_CLOSE` of `tcpi_state`: the counters of a socket that was disconnected are 0 again.
pub const CLOSED: u32 = 7;

/// `getsockopt(TCP_INFO)` of `socket`.
pub fn read(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut buffer = [0_u8; LONGEST];
    let mut length = LONGEST as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `length`
    // bytes to `buffer`, which has that many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(&buffer[..LONGEST.min(length as usize)]))
}

/// The fields that fit into `bytes`; all others are unknown.
fn parse(bytes: &[u8]) -> TcpInfo {
    let info = Fields(bytes);
    TcpInfo {
        state: info.byte(0),
        ca_state: info.byte(1),
        backoff: info.byte(4),
        snd_wscale: info.byte(6).map(first_nibble),
        rcv_wscale: info.byte(6).map(second_nibble),
        // A bit in what was padding before 4.9, the kernel that also brought `delivery_rate`.
        delivery_rate_app_limited: info.long(160).and(info.byte(7)).map(first_bit),
        rto_us: info.int(8),
        snd_mss_bytes: info.int(16),
        rcv_mss_bytes: info.int(20),
        unacked_packets: info.int(24),
        lost_packets: info.int(32),
        path_mtu_bytes: info.int(60),
        rcv_ssthresh_bytes: info.int(64),
        // 0: not estimated yet.
        rtt_us: info.int(68).filter(|&rtt| rtt > 0),
        rttvar_us: info.int(72),
        snd_ssthresh_packets: info.int(76),
        snd_cwnd_packets: info.int(80),
        advmss_bytes: info.int(84),
        reordering_packets: info.int(88),
        rcv_rtt_us: info.int(92).filter(|&rtt| rtt > 0),
        rcv_space_bytes: info.int(96),
        total_retrans_packets: info.int(100),
        // All ones: not paced.
        pacing_rate_bytes_per_s: info.long(104).filter(|&rate| rate != u64::MAX),
        bytes_acked: info.long(120),
        bytes_received: info.long(128),
        segs_out: info.int(136),
        segs_in: info.int(140),
        notsent_bytes: info.int(144),
        // All ones: no RTT was measured yet.
        min_rtt_us: info.int(148).filter(|&rtt| rtt != u64::from(u32::MAX)),
        delivery_rate_bytes_per_s: info.long(160),
        busy_time_us: info.long(168),
        rwnd_limited_us: info.long(176),
        sndbuf_limited_us: info.long(184),
        delivered_packets: info.int(192),
        delivered_ce_packets: info.int(196),
        bytes_sent: info.long(200),
        bytes_retrans: info.long(208),
        dsack_dups: info.int(216),
        reord_seen: info.int(220),
        rcv_ooopack: info.int(224),
        snd_wnd_bytes: info.int(228),
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn byte(&self, at: usize) -> Option<u32> {
        self.0.get(at).copied().map(u32::from)
    }

    fn int(&self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes).into())
    }

    fn long(&self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

// C lays bit fields out from the low end on little-endian machines, from the high end on others.

fn first_nibble(byte: u32) -> u32 {
    if cfg!(target_endian = "little") { byte & 0xf } else { byte >> 4 }
}

fn second_nibble(byte: u32) -> u32 {
    if cfg!(target_endian = "little") { byte >> 4 } else { byte & 0xf }
}

fn first_bit(byte: u32) -> bool {
    if cfg!(target_endian = "little") { byte & 1 != 0 } else { byte & 0x80 != 0 }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        (near, far)
    }

    #[test]
    fn this_kernel_tells_what_the_analysis_needs() {
        let (near, _far) = connection();
        let info = read(&near).unwrap();
        assert_eq!(info.state, Some(1), "ESTABLISHED");
        assert!(info.min_rtt_us.is_some());
        assert!(info.bytes_acked.is_some());
        assert!(info.busy_time_us.is_some());
        assert!(info.snd_mss_bytes.is_some_and(|mss| mss > 500), "{:?}", info.snd_mss_bytes);
        assert!(info.path_mtu_bytes.is_some_and(|mtu| mtu >= 1280), "{:?}", info.path_mtu_bytes);
    }

    #[test]
    fn counters_follow_the_bytes() {
        use std::io::{Read, Write};
        let (mut near, mut far) = connection();
        let before = read(&near).unwrap();
        near.write_all(&[7; 5000]).unwrap();
        far.read_exact(&mut [0; 5000]).unwrap();
        let after = read(&near).unwrap();
        assert_eq!(after.bytes_sent.unwrap() - before.bytes_sent.unwrap(), 5000);
        assert_eq!(read(&far).unwrap().bytes_received, Some(5000));
    }

    #[test]
    fn an_old_kernel_leaves_later_fields_unknown() {
        // 3.10, as on OL7, ends after `total_retrans`.
        let info = parse(&[1; 104]);
        assert_eq!(info.total_retrans_packets, Some(0x0101_0101));
        assert_eq!(info.bytes_acked, None);
        assert_eq!(info.min_rtt_us, None);
        assert_eq!(info.busy_time_us, None);
        assert_eq!(info.delivery_rate_app_limited, None);
    }

    #[test]
    fn a_struct_cut_within_a_field_does_not_have_it() {
        assert_eq!(parse(&[1; 127]).bytes_acked, None);
        assert!(parse(&[1; 128]).bytes_acked.is_some());
        assert_eq!(parse(&[]), TcpInfo::default());
    }

    #[test]
    fn what_was_not_measured_is_unknown() {
        let info = parse(&[0xff; 280]);
        assert_eq!((info.min_rtt_us, info.pacing_rate_bytes_per_s), (None, None));
        assert_eq!(parse(&[0; 280]).rtt_us, None);
    }
}
