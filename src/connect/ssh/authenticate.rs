//! Logging in: key file, SSH agent, password, keyboard-interactive; what was tried is told.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ssh2::{KeyboardInteractivePrompt, Prompt, PublicKey};

use super::key_file::{self, KeyFile};
use super::link::{Link, Stop};
use super::small_file;
use crate::connect::{Cause, Phase};
use crate::plan::access::{Secret, SshAccess};

/// sshd hangs up after `MaxAuthTries`, 6 by default; this leaves room for the password.
const AGENT_KEYS_MAX: usize = 4;

/// Logs in within `deadline`; `agent_socket` is where the SSH agent listens, if there is one.
pub(super) fn authenticate(
    link: &mut Link,
    access: &SshAccess,
    agent_socket: Option<&Path>,
    deadline: Duration,
) -> Result<(), Cause> {
    let until = Instant::now() + deadline;
    let mut attempt = Attempt { link, user: &access.user, until, deadline, tried: Vec::new() };
    let is_in = match &access.key {
        Some(path) => attempt.with_key_file(path, agent_socket)?,
        None => attempt.with_agent(agent_socket, None)?,
    };
    if is_in {
        return Ok(());
    }
    if let Some(password) = &access.password
        && (attempt.with_password(password)? || attempt.with_keyboard_interactive(password)?)
    {
        return Ok(());
    }
    let offered = attempt.offered_methods()?;
    Err(Cause::Authentication { user: access.user.clone(), tried: attempt.tried, offered })
}

struct Attempt<'a> {
    link: &'a mut Link,
    user: &'a str,
    until: Instant,
    deadline: Duration,
    tried: Vec<String>,
}

impl Attempt<'_> {
    fn with_key_file(&mut self, path: &Path, agent_socket: Option<&Path>) -> Result<bool, Cause> {
        let text = match small_file::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.tried.push(format!("key file {}: {error}", path.display()));
                return Ok(false);
            }
        };
        match key_file::inspect(&text) {
            KeyFile::Unusable(reason) => {
                self.tried.push(format!("key file {}: {reason}", path.display()));
                Ok(false)
            }
            KeyFile::Encrypted { public_blob } => {
                let public_blob = public_blob.or_else(|| public_half(path));
                self.with_encrypted_key(path, public_blob, agent_socket)
            }
            KeyFile::Usable => {
                let user = self.user;
                let outcome = self.link.until(self.until, |session| {
                    session.userauth_pubkey_memory(user, None, &text, None)
                });
                self.outcome(outcome, || format!("key {}", path.display()))
            }
        }
    }

    /// A key with a passphrase is of use only when the agent has it unlocked.
    fn with_encrypted_key(
        &mut self,
        path: &Path,
        public_blob: Option<Vec<u8>>,
        agent_socket: Option<&Path>,
    ) -> Result<bool, Cause> {
        if let (Some(blob), Some(socket)) = (public_blob, agent_socket)
            && self.with_agent(Some(socket), Some(&blob))?
        {
            return Ok(true);
        }
        self.tried.push(format!(
            "key {} is encrypted; unlock it in the SSH agent with `ssh-add {0}`",
            path.display()
        ));
        Ok(false)
    }

    /// Tries the agent's keys, or only the one with the public half `only`.
    fn with_agent(
        &mut self,
        agent_socket: Option<&Path>,
        only: Option<&[u8]>,
    ) -> Result<bool, Cause> {
        let Some(socket) = agent_socket else {
            self.tried.push("no SSH agent (SSH_AUTH_SOCK is not set)".to_owned());
            return Ok(false);
        };
        let (agent, keys) = match self.agent_keys(socket) {
            Ok(found) => found,
            Err(error) => {
                self.tried.push(format!("SSH agent: {}", error.message()));
                return Ok(false);
            }
        };
        let wanted: Vec<&PublicKey> =
            keys.iter().filter(|key| only.is_none_or(|blob| blob == key.blob())).collect();
        if wanted.is_empty() {
            self.tried.push("the SSH agent has no such key".to_owned());
        }
        for key in wanted.iter().take(AGENT_KEYS_MAX) {
            let user = self.user;
            let outcome = self.link.until(self.until, |_| agent.userauth(user, key));
            if self.outcome(outcome, || format!("the SSH agent's key `{}`", key.comment()))? {
                return Ok(true);
            }
        }
        if wanted.len() > AGENT_KEYS_MAX {
            self.tried.push(format!(
                "{} more keys in the SSH agent were not tried, as the server would hang up; \
                 name one with `key:`",
                wanted.len() - AGENT_KEYS_MAX
            ));
        }
        Ok(false)
    }

    fn agent_keys(&mut self, socket: &Path) -> Result<(ssh2::Agent, Vec<PublicKey>), ssh2::Error> {
        let mut agent = self.link.session.agent()?;
        agent.set_identity_path(socket)?;
        agent.connect()?;
        agent.list_identities()?;
        let keys = agent.identities()?;
        Ok((agent, keys))
    }

    fn with_password(&mut self, password: &Secret) -> Result<bool, Cause> {
        let user = self.user;
        let outcome = self
            .link
            .until(self.until, |session| session.userauth_password(user, password.reveal()));
        if matches!(&outcome, Err(Stop::Failed(error)) if error.code() == PASSWORD_EXPIRED) {
            return Err(Cause::PasswordExpired { user: self.user.to_owned() });
        }
        self.outcome(outcome, || "password".to_owned())
    }

    fn with_keyboard_interactive(&mut self, password: &Secret) -> Result<bool, Cause> {
        let user = self.user;
        let mut answers = PasswordAnswers { password, questions: 0 };
        let outcome = self
            .link
            .until(self.until, |session| session.userauth_keyboard_interactive(user, &mut answers));
        self.outcome(outcome, || "keyboard-interactive with the password".to_owned())
    }

    /// True when let in; a refusal is noted, and anything else ends the attempt.
    fn outcome(
        &mut self,
        outcome: Result<(), Stop>,
        what: impl FnOnce() -> String,
    ) -> Result<bool, Cause> {
        match outcome {
            Ok(()) if self.link.session.authenticated() => Ok(true),
            Ok(()) => {
                self.tried.push(format!("{}: the server wants one more factor", what()));
                Ok(false)
            }
            Err(Stop::Failed(error)) if is_lost(&error) => Err(Cause::Lost {
                reason: format!(
                    "the server hung up during authentication ({}; tried: {}, then {})",
                    error.message(),
                    self.tried.join("; "),
                    what()
                ),
            }),
            Err(Stop::Failed(error)) => {
                let refused = error.code() == REFUSED || error.code() == UNVERIFIED;
                let reason = if refused { "refused" } else { error.message() };
                self.tried.push(format!("{}: {reason}", what()));
                Ok(false)
            }
            Err(Stop::Deadline | Stop::Told) => Err(Cause::TimedOut {
                phase: Phase::Authentication,
                what: "answer to the login",
                deadline: self.deadline,
            }),
        }
    }

    fn offered_methods(&mut self) -> Result<Option<String>, Cause> {
        let user = self.user;
        let methods =
            self.link.until(self.until, |session| session.auth_methods(user).map(str::to_owned));
        match methods {
            Ok(methods) if !methods.is_empty() => Ok(Some(methods)),
            // The login has failed in any case; this was to say more about it.
            _ => Ok(None),
        }
    }
}

const REFUSED: ssh2::ErrorCode =
    ssh2::ErrorCode::Session(libssh2_sys::LIBSSH2_ERROR_AUTHENTICATION_FAILED);
const UNVERIFIED: ssh2::ErrorCode =
    ssh2::ErrorCode::Session(libssh2_sys::LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED);
const PASSWORD_EXPIRED: ssh2::ErrorCode =
    ssh2::ErrorCode::Session(libssh2_sys::LIBSSH2_ERROR_PASSWORD_EXPIRED);

fn is_lost(error: &ssh2::Error) -> bool {
    use libssh2_sys::{
        LIBSSH2_ERROR_SOCKET_DISCONNECT, LIBSSH2_ERROR_SOCKET_RECV, LIBSSH2_ERROR_SOCKET_SEND,
    };
    matches!(
        error.code(),
        ssh2::ErrorCode::Session(
            LIBSSH2_ERROR_SOCKET_DISCONNECT | LIBSSH2_ERROR_SOCKET_RECV | LIBSSH2_ERROR_SOCKET_SEND
        )
    )
}

/// The public key beside a private key file, from which its blob can be read.
fn public_half(path: &Path) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    let text = small_file::read_to_string(&PathBuf::from(name)).ok()?;
    let encoded = text.split_ascii_whitespace().nth(1)?;
    base64::engine::general_purpose::STANDARD.decode(encoded).ok()
}

/// Answers hidden questions with the password, a few times; shown ones with nothing.
struct PasswordAnswers<'a> {
    password: &'a Secret,
    questions: usize,
}

impl KeyboardInteractivePrompt for PasswordAnswers<'_> {
    fn prompt(&mut self, _user: &str, _instructions: &str, prompts: &[Prompt<'_>]) -> Vec<String> {
        /// A server that goes on asking does not want a password.
        const QUESTIONS_MAX: usize = 3;
        let answer = |prompt: &Prompt<'_>| {
            self.questions += 1;
            let is_password = !prompt.echo && self.questions <= QUESTIONS_MAX;
            if is_password { self.password.reveal().to_owned() } else { String::new() }
        };
        prompts.iter().map(answer).collect()
    }
}
