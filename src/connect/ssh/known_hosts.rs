//! Whether a known_hosts file vouches for a host key, by OpenSSH's rules and nothing looser.
//!
//! libssh2's own matcher is not used: it ignores `@revoked`, wildcards and negation, and falls back
//! from `[host]:port` to the plain name. Here a plain name stands for port 22 only.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

/// One usable line of a known_hosts file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
    marker: Marker,
    names: Names,
    /// As in the key blob: `ssh-ed25519`, `ssh-rsa`, `ecdsa-sha2-nistp256`, …
    pub key_type: String,
    pub key_blob: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Marker {
    None,
    Revoked,
    /// Vouches for certificates, never for a plain key.
    CertAuthority,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Names {
    /// In lower case; a leading `!` excludes.
    Patterns(Vec<String>),
    /// HMAC-SHA1 of the name under a salt.
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

/// What the files say about a key that a host has shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// This very key is stored for this host.
    Known,
    /// No key of this type is stored; keys of the other types named here may be.
    Unknown { stored_types: Vec<String> },
    /// Another key of the same type is stored.
    Changed { file: PathBuf, line: usize },
    /// The key is marked `@revoked` for this host.
    Revoked { file: PathBuf, line: usize },
}

/// Reads the usable lines of a file's text; comments, blank and malformed lines are left out.
pub fn parse(file: &Path, text: &str) -> Vec<Entry> {
    text.lines().enumerate().filter_map(|(index, line)| parse_line(file, index + 1, line)).collect()
}

fn parse_line(file: &Path, number: usize, line: &str) -> Option<Entry> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let mut fields = line.split_ascii_whitespace();
    let first = fields.next()?;
    let (marker, names) = match first {
        "@revoked" => (Marker::Revoked, fields.next()?),
        "@cert-authority" => (Marker::CertAuthority, fields.next()?),
        unknown if unknown.starts_with('@') => return None,
        names => (Marker::None, names),
    };
    let key_type = fields.next()?.to_owned();
    let key_blob = BASE64.decode(fields.next()?).ok()?;
    if key_type_of(&key_blob)? != key_type {
        return None;
    }
    let names = parse_names(names)?;
    Some(Entry { file: file.to_owned(), line: number, marker, names, key_type, key_blob })
}

fn parse_names(field: &str) -> Option<Names> {
    let Some(hashed) = field.strip_prefix("|1|") else {
        let patterns = field.split(',').filter(|pattern| !pattern.is_empty());
        return Some(Names::Patterns(patterns.map(str::to_ascii_lowercase).collect()));
    };
    let (salt, hash) = hashed.split_once('|')?;
    Some(Names::Hashed { salt: BASE64.decode(salt).ok()?, hash: BASE64.decode(hash).ok()? })
}

/// The key type that a key blob names in its first field (RFC 4253, section 6.6).
pub fn key_type_of(blob: &[u8]) -> Option<&str> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    let name = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    str::from_utf8(name).ok()
}

/// What the entries say about the key that `host` on `port` has shown.
pub fn check(entries: &[Entry], host: &str, port: u16, key_type: &str, key_blob: &[u8]) -> Verdict {
    let name = name_in_file(host, port);
    let of_host: Vec<&Entry> = entries.iter().filter(|entry| entry.matches(&name)).collect();
    let place = |entry: &Entry| (entry.file.clone(), entry.line);

    let revoked =
        of_host.iter().find(|entry| entry.marker == Marker::Revoked && entry.key_blob == key_blob);
    if let Some((file, line)) = revoked.map(|entry| place(entry)) {
        return Verdict::Revoked { file, line };
    }
    let plain: Vec<&Entry> =
        of_host.into_iter().filter(|entry| entry.marker == Marker::None).collect();
    if plain.iter().any(|entry| entry.key_blob == key_blob) {
        return Verdict::Known;
    }
    match plain.iter().find(|entry| entry.key_type == key_type).map(|entry| place(entry)) {
        Some((file, line)) => Verdict::Changed { file, line },
        None => Verdict::Unknown { stored_types: distinct_types(&plain) },
    }
}

/// The types of the keys stored for a host, in the order of the files, each once.
///
/// Asked before the key exchange, so that the server shows a key that can be compared.
pub fn key_types_for(entries: &[Entry], host: &str, port: u16) -> Vec<String> {
    let name = name_in_file(host, port);
    let stored: Vec<&Entry> = entries
        .iter()
        .filter(|entry| entry.marker == Marker::None && entry.matches(&name))
        .collect();
    distinct_types(&stored)
}

fn distinct_types(entries: &[&Entry]) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for entry in entries {
        if !types.contains(&entry.key_type) {
            types.push(entry.key_type.clone());
        }
    }
    types
}

/// The name under which a host stands in a file: `host`, or `[host]:port` when not on port 22.
pub fn name_in_file(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// The line that `HostKeyPolicy::AcceptNew` appends, without its end.
pub fn line_for(host: &str, port: u16, key_type: &str, key_blob: &[u8]) -> String {
    format!("{} {key_type} {}", name_in_file(host, port), BASE64.encode(key_blob))
}

impl Entry {
    fn matches(&self, name: &str) -> bool {
        match &self.names {
            Names::Patterns(patterns) => matches_patterns(patterns, name),
            Names::Hashed { salt, hash } => {
                let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(salt) else { return false };
                mac.update(name.as_bytes());
                mac.verify_slice(hash).is_ok()
            }
        }
    }
}

/// A list matches when one pattern does and none that starts with `!` does.
fn matches_patterns(patterns: &[String], name: &str) -> bool {
    let mut matched = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(excluded) if matches_glob(excluded.as_bytes(), name.as_bytes()) => return false,
            Some(_) => (),
            None => matched |= matches_glob(pattern.as_bytes(), name.as_bytes()),
        }
    }
    matched
}

/// `*` stands for any bytes, `?` for one; everything else, brackets too, for itself.
///
/// Goes back to the last `*` only, so the time is at most pattern times name.
fn matches_glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut last_star = None;
    while at_name < name.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                last_star = Some((at_pattern, at_name));
                at_pattern += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[at_name] => {
                at_pattern += 1;
                at_name += 1;
            }
            _ => {
                let Some((star, from)) = last_star else { return false };
                last_star = Some((star, from + 1));
                at_pattern = star + 1;
                at_name = from + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
#[path = "known_hosts_tests.rs"]
mod tests;
