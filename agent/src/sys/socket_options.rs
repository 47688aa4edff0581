//! Options of sockets that no library has, or not for every kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The path MTU that the kernel knows for a connected socket (IP_MTU of ip(7), IPV6_MTU).
pub fn path_mtu_bytes(socket: impl AsFd, is_ipv6: bool) -> io::Result<u64> {
    let (level, option) = match is_ipv6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        false => (libc::IPPROTO_IP, libc::IP_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most one int.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut mtu).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => u64::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// SO_MAX_PACING_RATE (socket(7)): the kernel spreads packets out to this rate.
///
/// # Errors
///
/// Also when another rate is read back: kernels before 4.20 take the low 32 bits only, so that the
/// most is 4 GB/s there.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    let rate = libc::c_ulong::try_from(bytes_per_second).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads one long.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of_val(&rate) as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    check_pacing_rate(bytes_per_second, max_pacing_rate(&socket)?)
}

/// 64 bits of it, or the 32 that kernels before 4.20 have.
fn max_pacing_rate(socket: impl AsFd) -> io::Result<u64> {
    let mut rate = [0; size_of::<u64>()];
    let mut length = size_of_val(&rate) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `length`
    // bytes to `rate`, which has that many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            rate.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let [a, b, c, d, ..] = rate;
    match (result, length) {
        (0, 4) => Ok(u32::from_ne_bytes([a, b, c, d]).into()),
        (0, _) => Ok(u64::from_ne_bytes(rate)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn check_pacing_rate(asked: u64, now: u64) -> io::Result<()> {
    if now == asked {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "this kernel paces at {now} bytes/s instead: before Linux 4.20 the most is {}",
        u32::MAX
    )))
}

/// IP_BIND_ADDRESS_NO_PORT (ip(7), Linux 4.2): `bind` takes the address, `connect` the port.
pub fn bind_without_port(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads one int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::sys::tcp_info;

    #[test]
    fn a_connection_knows_its_path_mtu() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mtu = path_mtu_bytes(&near, address.starts_with('[')).unwrap();
            assert!(mtu >= 1280, "{address}: {mtu}");
        }
    }

    #[test]
    fn a_paced_connection_says_at_what_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_max_pacing_rate(&near, 1_000_000).unwrap();
        let rate = tcp_info::read(&near).unwrap().pacing_rate_bytes_per_s;
        assert_eq!(rate, Some(1_000_000));
        assert_eq!(max_pacing_rate(&near).unwrap(), 1_000_000);
        // This kernel has all 64 bits.
        set_max_pacing_rate(&near, 5_000_000_000).unwrap();
    }

    #[test]
    fn a_rate_of_which_a_kernel_keeps_the_low_bits_is_refused() {
        let error = check_pacing_rate(5_000_000_000, 705_032_704).unwrap_err().to_string();
        assert_eq!(
            error,
            "this kernel paces at 705032704 bytes/s instead: before Linux 4.20 the most is \
             4294967295"
        );
    }
}
