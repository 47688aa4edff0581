//! What a server offers in its first packet; asked only after a key exchange has failed, to say why.
//!
//! libssh2 tells no more than "unable to exchange encryption keys". The first packet is in the
//! clear, so a second connection reads it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::key_file::field;

/// The algorithms in a server's first packet, in its order of preference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Offer {
    pub key_exchange: Vec<String>,
    pub host_key: Vec<String>,
}

const SSH_MSG_KEXINIT: u8 = 20;
/// A first packet and the banner before it are far smaller (RFC 4253, section 6.1).
const FIRST_BYTES_MAX: usize = 64 * 1024;

/// Connects once more and reads the server's offer.
pub(super) fn ask(address: SocketAddr, deadline: Duration) -> Option<Offer> {
    let until = Instant::now() + deadline;
    let mut stream = TcpStream::connect_timeout(&address, deadline).ok()?;
    stream.write_all(b"SSH-2.0-redoline\r\n").ok()?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while bytes.len() < FIRST_BYTES_MAX {
        let left = until.checked_duration_since(Instant::now())?;
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
        let length = stream.read(&mut chunk).ok().filter(|length| 0 < *length)?;
        bytes.extend_from_slice(&chunk[..length]);
        if let Some(offer) = parse(&bytes) {
            return Some(offer);
        }
    }
    None
}

/// Reads banner lines and the first packet; `None` while it is not whole, or is something else.
fn parse(bytes: &[u8]) -> Option<Offer> {
    let mut rest = bytes;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if line.starts_with(b"SSH-") {
            break;
        }
    }
    let (packet, _) = field(rest)?;
    let payload = packet.get(1..)?.strip_prefix(&[SSH_MSG_KEXINIT])?;
    let lists = payload.get(16..)?;
    let (key_exchange, lists) = field(lists)?;
    let (host_key, _) = field(lists)?;
    Some(Offer { key_exchange: names(key_exchange), host_key: names(host_key) })
}

fn names(list: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(list).split(',').map(str::to_owned).collect()
}

impl Offer {
    /// True when every host key of the server is signed with SHA-1.
    pub(super) fn is_sha1_only(&self) -> bool {
        let is_sha1 = |name: &String| matches!(name.as_str(), "ssh-rsa" | "ssh-dss");
        !self.host_key.is_empty() && self.host_key.iter().all(is_sha1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_bytes(key_exchange: &str, host_key: &str) -> Vec<u8> {
        let mut payload = vec![0, SSH_MSG_KEXINIT];
        payload.extend([7; 16]);
        for list in [key_exchange, host_key] {
            payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
            payload.extend(list.as_bytes());
        }
        let mut bytes = b"Authorised use only\r\nSSH-2.0-OpenSSH_5.3\r\n".to_vec();
        bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_server_of_the_time_of_sha1_is_recognised() {
        let offer = parse(&first_bytes("diffie-hellman-group14-sha1", "ssh-rsa,ssh-dss")).unwrap();
        assert_eq!(offer.key_exchange, ["diffie-hellman-group14-sha1"]);
        assert!(offer.is_sha1_only());
        let newer = parse(&first_bytes("curve25519-sha256", "ssh-rsa,ssh-ed25519")).unwrap();
        assert!(!newer.is_sha1_only());
    }

    #[test]
    fn half_an_offer_is_none_yet() {
        let bytes = first_bytes("curve25519-sha256", "ssh-ed25519");
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "{length} bytes");
        }
        assert!(parse(&bytes).is_some());
    }
}
