//! Which host keys are asked for, and whether the one shown is taken.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest as _, Sha256};

use super::known_hosts::{self, Entry, Verdict};
use super::small_file;
use crate::connect::Cause;
use crate::plan::access::{HostKeyPolicy, SshAccess};

/// Reads every known_hosts file; one that does not exist has no entries.
pub(super) fn read_files(access: &SshAccess) -> Result<Vec<Entry>, Cause> {
    let mut entries = Vec::new();
    for path in &access.known_hosts {
        match small_file::read(path) {
            Ok(bytes) => {
                entries.extend(known_hosts::parse(path, &String::from_utf8_lossy(&bytes)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(source) => return Err(Cause::KnownHostsFile { path: path.clone(), source }),
        }
    }
    Ok(entries)
}

/// The host key algorithms to offer: those of stored keys first, certificates never.
///
/// A certificate would be taken by libssh2 without a look at who signed it.
pub(super) fn algorithms(supported: &[&str], stored_types: &[String]) -> String {
    let usable: Vec<&str> =
        supported.iter().copied().filter(|name| !name.contains("-cert-")).collect();
    let preferred = stored_types.iter().flat_map(|stored| {
        usable.iter().copied().filter(move |name| key_type_of_algorithm(name) == stored)
    });
    let mut ordered: Vec<&str> = preferred.collect();
    let others: Vec<&str> = usable.iter().copied().filter(|name| !ordered.contains(name)).collect();
    ordered.extend(others);
    ordered.join(",")
}

/// An RSA key is of one type whatever hash it signs with (RFC 8332).
fn key_type_of_algorithm(algorithm: &str) -> &str {
    match algorithm {
        "rsa-sha2-512" | "rsa-sha2-256" => "ssh-rsa",
        other => other,
    }
}

/// Decides on the key shown; `Some` names one that was unknown and has been stored.
pub(super) fn decide(
    access: &SshAccess,
    entries: &[Entry],
    key_blob: &[u8],
) -> Result<Option<String>, Cause> {
    let host = access.host.clone();
    let key_type = known_hosts::key_type_of(key_blob).unwrap_or("unknown type");
    let shown = format!("{key_type} {}", fingerprint(key_blob));
    match known_hosts::check(entries, &access.host, access.port, key_type, key_blob) {
        Verdict::Known => Ok(None),
        Verdict::Revoked { file, line } => Err(Cause::RevokedHostKey { host, shown, file, line }),
        Verdict::Changed { file, line } => Err(Cause::ChangedHostKey { host, shown, file, line }),
        Verdict::Unknown { stored_types } => {
            let file = access.known_hosts.first().cloned();
            let file = file.unwrap_or_else(|| "~/.ssh/known_hosts".into());
            // A host with stored keys that shows another one is not new.
            let is_new = stored_types.is_empty() && !access.known_hosts.is_empty();
            if is_new && access.host_key_policy == HostKeyPolicy::AcceptNew {
                let line = known_hosts::line_for(&access.host, access.port, key_type, key_blob);
                append(&file, &line)
                    .map_err(|source| Cause::KnownHostsFile { path: file, source })?;
                return Ok(Some(shown));
            }
            Err(Cause::UnknownHostKey { host, port: access.port, shown, stored_types, file })
        }
    }
}

/// As `ssh-keygen -l` prints it.
fn fingerprint(key_blob: &[u8]) -> String {
    format!("SHA256:{}", BASE64.encode(Sha256::digest(key_blob)))
}

/// Appends a whole line in one write under a lock; never rewrites what is there.
fn append(path: &Path, line: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut locked = lock(file)?;
    let text = small_file::read(path)?;
    let on_new_line = text.last().is_none_or(|byte| *byte == b'\n');
    let separator = if on_new_line { "" } else { "\n" };
    locked.write_all(format!("{separator}{line}\n").as_bytes())
}

/// Waits for whoever else appends, but not for one that hangs.
fn lock(mut file: File) -> io::Result<Flock<File>> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(10);
    let until = Instant::now() + PATIENCE;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((unlocked, Errno::EWOULDBLOCK)) if Instant::now() < until => file = unlocked,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process locks it"));
            }
            Err((_, errno)) => return Err(errno.into()),
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn certificates_are_never_offered_and_stored_types_come_first() {
        let supported = [
            "ssh-ed25519-cert-v01@openssh.com",
            "ecdsa-sha2-nistp256",
            "ssh-ed25519",
            "rsa-sha2-512",
            "rsa-sha2-256",
        ];
        let offered = algorithms(&supported, &["ssh-rsa".to_owned()]);
        assert_eq!(offered, "rsa-sha2-512,rsa-sha2-256,ecdsa-sha2-nistp256,ssh-ed25519");
    }

    #[test]
    fn a_line_is_appended_on_a_line_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_hosts");
        append(&path, "a").unwrap();
        append(&path, "b").unwrap();
        fs::write(&path, "unfinished").unwrap();
        append(&path, "c").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "unfinished\nc\n");
    }
}
