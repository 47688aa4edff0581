//! What a TCP socket still has to deliver, and how it is cut off.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes that the peer's TCP has not acknowledged, sent or not (SIOCOUTQ, tcp(7)); 0 after
/// `shutdown` means that everything arrived.
pub fn unacked_bytes(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and SIOCOUTQ (the same number as
    // TIOCOUTQ) writes one int.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Ends the connection with a reset at once, though others still hold the socket (`connect` to
/// AF_UNSPEC, connect(2)); what is under way is thrown away.
pub fn reset(socket: impl AsFd) -> io::Result<()> {
    // SAFETY: all zeros are a valid address; its family is AF_UNSPEC.
    let nowhere: libc::sockaddr = unsafe { mem::zeroed() };
    let length = size_of_val(&nowhere) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and `nowhere` is `length` bytes long.
    let result = unsafe { libc::connect(socket.as_fd().as_raw_fd(), &raw const nowhere, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_the_peer_confirmed_is_no_longer_outstanding() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.write_all(&[0; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(&[0]).unwrap();
        // The answer carries the acknowledgement.
        near.read_exact(&mut [0]).unwrap();
        assert_eq!(unacked_bytes(&near).unwrap(), 0);
    }

    #[test]
    fn a_reset_reaches_the_peer_while_the_socket_is_still_held() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        reset(&near).unwrap();
        let error = far.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        drop(near);
    }
}
