//! What kind of file a private key is in, told before libssh2 sees it: libssh2 has one error for a
//! wrong passphrase, a malformed key and a key of another program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// What a private key file turned out to hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum KeyFile {
    Usable,
    /// Needs a passphrase; the public half is readable in OpenSSH's own format.
    Encrypted {
        public_blob: Option<Vec<u8>>,
    },
    /// Not a private key that can be used; why.
    Unusable(&'static str),
}

const OPENSSH_MAGIC: &[u8] = b"openssh-key-v1\0";

/// Looks at the text of a private key file.
pub(super) fn inspect(text: &str) -> KeyFile {
    let text = text.trim();
    if text.starts_with("PuTTY-User-Key-File") {
        return KeyFile::Unusable("it is a PuTTY key; export it as an OpenSSH key");
    }
    if text.starts_with("ssh-") || text.starts_with("ecdsa-") {
        return KeyFile::Unusable("it is a public key; name the private key, without `.pub`");
    }
    let Some(label) = text
        .lines()
        .next()
        .and_then(|first| first.strip_prefix("-----BEGIN ")?.strip_suffix("PRIVATE KEY-----"))
    else {
        return KeyFile::Unusable("it is not a private key in PEM form");
    };
    match label.trim() {
        "OPENSSH" => inspect_openssh(text),
        "ENCRYPTED" => KeyFile::Encrypted { public_blob: None },
        _ if text.contains("Proc-Type: 4,ENCRYPTED") => KeyFile::Encrypted { public_blob: None },
        _ => KeyFile::Usable,
    }
}

fn inspect_openssh(text: &str) -> KeyFile {
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    let Ok(bytes) = BASE64.decode(body.trim()) else {
        return KeyFile::Unusable("it is malformed (not base64)");
    };
    match openssh_header(&bytes) {
        None => KeyFile::Unusable("it is malformed (cut short?)"),
        Some((b"none", _)) => KeyFile::Usable,
        Some((_, public)) => KeyFile::Encrypted { public_blob: Some(public.to_vec()) },
    }
}

/// Cipher name and public key (OpenSSH's PROTOCOL.key).
fn openssh_header(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(OPENSSH_MAGIC)?;
    let (cipher, rest) = field(rest)?;
    let (_kdf, rest) = field(rest)?;
    let (_kdf_options, rest) = field(rest)?;
    let (_key_count, rest) = rest.split_first_chunk::<4>()?;
    let (public, _private) = field(rest)?;
    Some((cipher, public))
}

/// A field that starts with its length in four bytes, and what follows it.
pub(super) fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_private_key_is_named() {
        for (text, expected) in [
            ("PuTTY-User-Key-File-3: ssh-ed25519", "PuTTY"),
            ("ssh-ed25519 AAAA me@here", "public key"),
            ("hello", "not a private key"),
            ("", "not a private key"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END", "cut short"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\n%%%\n-----END", "not base64"),
        ] {
            let KeyFile::Unusable(reason) = inspect(text) else { panic!("{text:?} was taken") };
            assert!(reason.contains(expected), "{text:?}: {reason}");
        }
    }

    #[test]
    fn an_old_pem_key_says_whether_it_is_encrypted() {
        let plain = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n";
        assert_eq!(inspect(plain), KeyFile::Usable);
        let encrypted = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
        assert_eq!(inspect(encrypted), KeyFile::Encrypted { public_blob: None });
        let pkcs8 = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n";
        assert_eq!(inspect(pkcs8), KeyFile::Encrypted { public_blob: None });
    }
}
