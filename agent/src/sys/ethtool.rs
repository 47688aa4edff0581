//! What a network interface does for the kernel, as `ethtool -k` shows it.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// The commands of linux/ethtool.h that an ordinary user may send.
const SWITCHES: [(&str, u32); 7] = [
    ("rx-checksumming", 0x14),
    ("tx-checksumming", 0x16),
    ("scatter-gather", 0x18),
    ("tcp-segmentation-offload", 0x1e),
    ("generic-segmentation-offload", 0x23),
    ("generic-receive-offload", 0x2b),
    ("large-receive-offload", GET_FLAGS),
];
/// Answers with several switches at once.
const GET_FLAGS: u32 = 0x25;
const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ifreq` with its union read as a pointer; the union is 24 bytes long.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: *mut Value,
    rest: [u8; 24 - size_of::<*mut Value>()],
}

/// Names as in `ethtool -k`, and whether they are on; those that the driver does not tell are left
/// out.
pub fn offloads(interface: &str) -> io::Result<Vec<(&'static str, bool)>> {
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let mut known = Vec::new();
    for (name, command) in SWITCHES {
        if let Ok(data) = ask(&socket, interface, command) {
            let on = if command == GET_FLAGS { data & FLAG_LRO != 0 } else { data != 0 };
            known.push((name, on));
        }
    }
    Ok(known)
}

/// `struct ethtool_drvinfo`, as far as the driver's name.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// The driver of an interface without a device behind it, such as `veth` or `bonding`.
pub fn driver(interface: &str) -> io::Result<String> {
    const GET_DRIVER_INFO: u32 = 0x03;
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let mut info = DriverInfo { command: GET_DRIVER_INFO, driver: [0; 32], rest: [0; 160] };
    let mut request = Request {
        name: [0; libc::IFNAMSIZ],
        value: (&raw mut info).cast(),
        rest: Default::default(),
    };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: `info` has the size and layout of the kernel's `struct ethtool_drvinfo` (196 bytes),
    // which this command fills, and lives during the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let name: Vec<u8> = info.driver.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

fn ask(socket: &Socket, interface: &str, command: u32) -> io::Result<u32> {
    let mut value = Value { command, data: 0 };
    let mut request =
        Request { name: [0; libc::IFNAMSIZ], value: &raw mut value, rest: Default::default() };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: both structures are laid out as the kernel expects and live during the call; these
    // commands write only `value.data`. The request's type differs between C libraries.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_tells_its_offloads() {
        let known = offloads("lo").unwrap();
        assert!(known.iter().any(|(name, _)| *name == "generic-segmentation-offload"), "{known:?}");
    }

    #[test]
    fn the_driver_s_answer_fits_its_structure() {
        // include/uapi/linux/ethtool.h
        assert_eq!(size_of::<DriverInfo>(), 196);
        assert!(driver("nope0").is_err());
    }

    #[test]
    fn an_unknown_interface_tells_nothing() {
        assert_eq!(offloads("nope0").unwrap(), []);
        assert!(offloads("a-name-that-is-too-long").is_err());
    }
}
