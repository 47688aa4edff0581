//! A TUN device: whole IP packets in and out of a network namespace.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
};

use anyhow::{Context, Result};

/// A TUN device of the namespace in which it was opened; it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// Makes a device of this name in the calling thread's network namespace.
    ///
    /// Without a virtio header, so that the kernel hands over packets of at most the MTU, with
    /// checksums done.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .context("failed to open `/dev/net/tun`")?;
        let mut request = Request { name: [0; libc::IFNAMSIZ], flags: 0, padding: [0; 22] };
        let room = libc::IFNAMSIZ - 1;
        for (to, from) in request.name[..room].iter_mut().zip(name.bytes()) {
            *to = from;
        }
        request.flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        // SAFETY: the request has the layout and size of `struct ifreq`, and lives for the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error())
                .with_context(|| format!("failed to make the TUN device `{name}`"));
        }
        Ok(Self { file })
    }

    /// The length of the next packet, or `None` when there is none now.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// `struct ifreq`, as far as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    padding: [u8; 22],
}
