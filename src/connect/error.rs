//! Why a node could not be reached, in which phase, and the way out.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A node could not be reached, or was lost.
#[derive(Debug)]
pub struct ConnectError {
    pub node: String,
    pub cause: Box<Cause>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node `{}`: {}", self.node, self.cause)
    }
}

impl std::error::Error for ConnectError {
    /// The cause is part of this error's own text, so the chain goes on below it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

/// The part of the way in which it failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    Resolve,
    TcpConnect,
    KeyExchange,
    HostKey,
    Authentication,
    Start,
    Transport,
}

/// What a caller does about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The node did not answer, or the connection to it broke: trying again may help.
    Unreachable,
    /// One side refused the other; trying again changes nothing until somebody acts.
    Refused,
    /// The node was reached and let us in, but could not do what was asked.
    Failed,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("the name `{host}` does not resolve: {reason}")]
    Resolve { host: String, reason: String },
    #[error("no connection to `{host}`: {}", list_attempts(.attempts))]
    Tcp { host: String, attempts: Vec<(SocketAddr, TcpFailure)> },
    #[error("{peer} accepted the connection, but {reason}")]
    KeyExchange { peer: SocketAddr, reason: String },
    #[error(
        "{peer} accepted the connection and hung up {attempts} times ({reason}); it is no SSH \
         server, or has too many logins under way (MaxStartups in its sshd_config)"
    )]
    HungUp { peer: SocketAddr, reason: String, attempts: u32 },
    #[error(
        "the host keys of `{host}` are signed with SHA-1 only (it offers {offered}); \
         give sshd there an ed25519, ECDSA or rsa-sha2 host key"
    )]
    Sha1Only { host: String, offered: String },
    #[error("cannot use the known_hosts file {}", path.display())]
    KnownHostsFile { path: PathBuf, source: io::Error },
    #[error(
        "the host key of `{host}` is unknown: {shown}{}; \
         compare it with the host's own (`ssh-keygen -lf` there), then add it with \
         `ssh-keyscan -p {port} {host} >> {}`{}",
        known_otherwise(.stored_types),
        file.display(),
        if .stored_types.is_empty() { " or pass --accept-new-host-keys" } else { "" }
    )]
    UnknownHostKey {
        host: String,
        port: u16,
        /// Key type and fingerprint.
        shown: String,
        /// Types of other keys that are stored for this host.
        stored_types: Vec<String>,
        file: PathBuf,
    },
    #[error(
        "the host key of `{host}` is not the one stored in {}:{line}: it shows {shown}; either the host was installed anew, or somebody stands between; \
         ask its administrator, and only then replace that line", file.display()
    )]
    ChangedHostKey {
        host: String,
        /// Key type and fingerprint.
        shown: String,
        file: PathBuf,
        line: usize,
    },
    #[error(
        "the host key of `{host}` is revoked in {}:{line}: {shown}; \
         nothing was sent to it", file.display()
    )]
    RevokedHostKey {
        host: String,
        /// Key type and fingerprint.
        shown: String,
        file: PathBuf,
        line: usize,
    },
    #[error("`{user}` was not let in: {}{}", .tried.join("; "), offered_methods(.offered))]
    Authentication {
        user: String,
        /// What was tried or could not be tried, each with its outcome.
        tried: Vec<String>,
        /// Methods the server would take, when it said so.
        offered: Option<String>,
    },
    #[error("the password of `{user}` has expired: change it with an interactive login first")]
    PasswordExpired { user: String },
    #[error("cannot start `{what}`: {reason}")]
    Start { what: String, reason: String },
    #[error("no {what} within {} s", deadline.as_secs_f32())]
    TimedOut { phase: Phase, what: &'static str, deadline: Duration },
    #[error("the connection broke: {reason}")]
    Lost { reason: String },
    #[error("cannot set up the connection in this process")]
    Here(#[source] io::Error),
}

/// How one address refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TcpFailure {
    /// A reset: the host is up, but nothing listens there or a firewall rejects it.
    Refused,
    TimedOut(Duration),
    /// No route, or an administrative rejection on the way.
    NoRoute,
    Other(io::ErrorKind),
}

impl Cause {
    pub(super) fn on(self, node: &str) -> ConnectError {
        ConnectError { node: node.to_owned(), cause: Box::new(self) }
    }
}

impl ConnectError {
    /// The connection to a node broke.
    pub fn lost(node: &str, reason: String) -> Self {
        Cause::Lost { reason }.on(node)
    }

    pub fn phase(&self) -> Phase {
        match &*self.cause {
            Cause::Resolve { .. } => Phase::Resolve,
            Cause::Tcp { .. } => Phase::TcpConnect,
            Cause::KeyExchange { .. } | Cause::HungUp { .. } | Cause::Sha1Only { .. } => {
                Phase::KeyExchange
            }
            Cause::KnownHostsFile { .. }
            | Cause::UnknownHostKey { .. }
            | Cause::ChangedHostKey { .. }
            | Cause::RevokedHostKey { .. } => Phase::HostKey,
            Cause::Authentication { .. } | Cause::PasswordExpired { .. } => Phase::Authentication,
            Cause::Start { .. } => Phase::Start,
            Cause::TimedOut { phase, .. } => *phase,
            Cause::Lost { .. } | Cause::Here(_) => Phase::Transport,
        }
    }

    pub fn kind(&self) -> Kind {
        match (&*self.cause, self.phase()) {
            (Cause::Sha1Only { .. }, _) => Kind::Refused,
            (Cause::Here(_), _) => Kind::Failed,
            (Cause::TimedOut { .. }, Phase::Start) => Kind::Failed,
            (Cause::TimedOut { .. }, _) => Kind::Unreachable,
            (_, Phase::Resolve | Phase::TcpConnect | Phase::KeyExchange | Phase::Transport) => {
                Kind::Unreachable
            }
            (_, Phase::HostKey | Phase::Authentication) => Kind::Refused,
            (_, Phase::Start) => Kind::Failed,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Resolve => "resolve",
            Self::TcpConnect => "tcp connect",
            Self::KeyExchange => "key exchange",
            Self::HostKey => "host key",
            Self::Authentication => "authentication",
            Self::Start => "start",
            Self::Transport => "transport",
        })
    }
}

impl TcpFailure {
    pub(super) fn from_error(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::NoRoute,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for TcpFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => {
                formatter.write_str("refused (nothing listens, or a firewall rejects)")
            }
            Self::TimedOut(after) => {
                write!(
                    formatter,
                    "no answer within {} s (a firewall drops, or the host is down)",
                    after.as_secs_f32()
                )
            }
            Self::NoRoute => formatter.write_str("no route to it"),
            Self::Other(kind) => write!(formatter, "{kind}"),
        }
    }
}

fn list_attempts(attempts: &[(SocketAddr, TcpFailure)]) -> String {
    let each = attempts.iter().map(|(address, failure)| format!("{address}: {failure}"));
    each.collect::<Vec<_>>().join(", ")
}

fn known_otherwise(stored_types: &[String]) -> String {
    if stored_types.is_empty() {
        return String::new();
    }
    format!(" (known_hosts has only its {}, which it did not show)", stored_types.join(", "))
}

fn offered_methods(offered: &Option<String>) -> String {
    offered.as_ref().map_or_else(String::new, |methods| format!(" (the server takes {methods})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_key(stored_types: &[&str]) -> Cause {
        Cause::UnknownHostKey {
            host: "db1".to_owned(),
            port: 22,
            shown: "ssh-ed25519 SHA256:abc".to_owned(),
            stored_types: stored_types.iter().map(|&stored| stored.to_owned()).collect(),
            file: "/home/o/.ssh/known_hosts".into(),
        }
    }

    #[test]
    fn errors_name_the_node_the_phase_and_the_way_out() {
        let attempts = vec![
            ("10.0.0.1:22".parse().unwrap(), TcpFailure::Refused),
            ("[fd00::1]:22".parse().unwrap(), TcpFailure::TimedOut(Duration::from_secs(10))),
            ("10.0.0.2:22".parse().unwrap(), TcpFailure::NoRoute),
        ];
        let causes = [
            Cause::Tcp { host: "db1".to_owned(), attempts },
            unknown_key(&[]),
            unknown_key(&["ssh-rsa"]),
            Cause::ChangedHostKey {
                host: "db1".to_owned(),
                shown: "ssh-ed25519 SHA256:abc".to_owned(),
                file: "known_hosts".into(),
                line: 7,
            },
            Cause::Authentication {
                user: "oracle".to_owned(),
                tried: vec!["key id: refused".to_owned(), "password: refused".to_owned()],
                offered: Some("publickey,password".to_owned()),
            },
            Cause::Sha1Only { host: "db1".to_owned(), offered: "ssh-rsa, ssh-dss".to_owned() },
        ];
        let texts = causes.map(|cause| {
            let error = cause.on("db1");
            format!("{} ({:?}): {error}", error.phase(), error.kind())
        });
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn the_chain_below_an_error_does_not_repeat_its_text() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Cause::KnownHostsFile { path: "known_hosts".into(), source }.on("db1");
        assert_eq!(error.to_string(), "node `db1`: cannot use the known_hosts file known_hosts");
        let below = std::error::Error::source(&error).unwrap();
        assert_eq!(below.to_string(), "permission denied");
    }
}
