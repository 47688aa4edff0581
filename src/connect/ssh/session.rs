//! The life of an SSH session on its own thread: key exchange, host key, login, then programs.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ssh2::{ErrorCode, MethodType, Session};
use tokio::sync::oneshot;

use super::link::{Bell, Link, Stop};
use super::pump::Pump;
use super::{authenticate, host_key, known_hosts, offer};
use crate::connect::process::{EndReporter, StderrTail};
use crate::connect::{Cause, Deadlines, Phase};
use crate::plan::access::SshAccess;

/// What a session's thread starts from.
pub(super) struct Setup {
    pub access: SshAccess,
    pub agent_socket: Option<PathBuf>,
    pub deadlines: Deadlines,
    pub tcp: TcpStream,
    pub peer: SocketAddr,
    pub bell: Arc<Bell>,
}

/// A program to start, and where its bytes go.
pub(super) struct Request {
    pub command: String,
    pub local: UnixStream,
    pub stderr: StderrTail,
    pub reporter: EndReporter,
    pub started: oneshot::Sender<Result<(), Cause>>,
    pub start_deadline: Duration,
    pub close_deadline: Duration,
}

/// Type and fingerprint of a host key that was accepted as new.
type AcceptedHostKey = Option<String>;

/// Sets a session up, says so, and serves requests until nobody can send any more.
pub(super) fn own(
    setup: Setup,
    inbox: &mpsc::Receiver<Request>,
    ready: oneshot::Sender<Result<AcceptedHostKey, Cause>>,
) {
    let (mut link, accepted) = match set_up(&setup) {
        Ok(done) => done,
        Err(cause) => return ready.send(Err(cause)).unwrap_or_default(),
    };
    if ready.send(Ok(accepted)).is_ok() {
        while let Ok(request) = inbox.recv() {
            serve(&mut link, request);
        }
    }
    say_goodbye(link, setup.deadlines.close);
}

fn set_up(setup: &Setup) -> Result<(Link, AcceptedHostKey), Cause> {
    let entries = host_key::read_files(&setup.access)?;
    let stored = known_hosts::key_types_for(&entries, &setup.access.host, setup.access.port);
    let mut link = exchange_keys(setup, &stored)?;
    let accepted = {
        let (key_blob, _) = link.session.host_key().ok_or_else(|| Cause::KeyExchange {
            peer: setup.peer,
            reason: "it showed no host key".to_owned(),
        })?;
        host_key::decide(&setup.access, &entries, key_blob)?
    };
    let agent_socket = setup.agent_socket.as_deref();
    let deadline = setup.deadlines.authentication;
    authenticate::authenticate(&mut link, &setup.access, agent_socket, deadline)?;
    Ok((link, accepted))
}

fn exchange_keys(setup: &Setup, stored_types: &[String]) -> Result<Link, Cause> {
    let mut session = Session::new().map_err(in_this_process)?;
    let tcp = setup.tcp.try_clone().map_err(Cause::Here)?;
    session.set_tcp_stream(setup.tcp.try_clone().map_err(Cause::Here)?);
    session.set_compress(false);
    session.set_blocking(false);
    let supported = session.supported_algs(MethodType::HostKey).map_err(in_this_process)?;
    let offered = host_key::algorithms(&supported, stored_types);
    session.method_pref(MethodType::HostKey, &offered).map_err(in_this_process)?;

    let mut link = Link { session, tcp, bell: Arc::clone(&setup.bell) };
    let deadline = setup.deadlines.key_exchange;
    match link.until(Instant::now() + deadline, Session::handshake) {
        Ok(()) => Ok(link),
        Err(Stop::Failed(error)) => Err(why_no_keys(setup, &error)),
        Err(Stop::Deadline | Stop::Told) => {
            Err(Cause::TimedOut { phase: Phase::KeyExchange, what: "SSH key exchange", deadline })
        }
    }
}

fn in_this_process(error: ssh2::Error) -> Cause {
    Cause::Here(std::io::Error::other(error))
}

/// Says why a key exchange failed; where no algorithm was in common, by asking what is offered.
fn why_no_keys(setup: &Setup, error: &ssh2::Error) -> Cause {
    use libssh2_sys::{LIBSSH2_ERROR_KEX_FAILURE, LIBSSH2_ERROR_KEY_EXCHANGE_FAILURE};
    let peer = setup.peer;
    let nothing_in_common = matches!(
        error.code(),
        ErrorCode::Session(LIBSSH2_ERROR_KEX_FAILURE | LIBSSH2_ERROR_KEY_EXCHANGE_FAILURE)
    );
    if !nothing_in_common {
        return Cause::HungUp { peer, reason: error.message().to_owned(), attempts: 1 };
    }
    match offer::ask(peer, setup.deadlines.key_exchange) {
        Some(offer) if offer.is_sha1_only() => {
            Cause::Sha1Only { host: setup.access.host.clone(), offered: offer.host_key.join(", ") }
        }
        Some(offer) => Cause::KeyExchange {
            peer,
            reason: format!(
                "no algorithm is in common ({}): it offers host keys {} and key exchanges {}",
                error.message(),
                offer.host_key.join(", "),
                offer.key_exchange.join(", ")
            ),
        },
        None => Cause::KeyExchange { peer, reason: error.message().to_owned() },
    }
}

fn serve(link: &mut Link, request: Request) {
    let Request { command, local, stderr, reporter, started, start_deadline, close_deadline } =
        request;
    let channel = match start(link, &command, start_deadline) {
        Ok(channel) => channel,
        Err(cause) => return started.send(Err(cause)).unwrap_or_default(),
    };
    // A receiver that is gone has dropped the stream as well, which ends the program.
    started.send(Ok(())).unwrap_or_default();
    let exit = Pump::new(link, channel, local, stderr, &reporter).run(close_deadline);
    reporter.report(exit);
}

fn start(link: &mut Link, command: &str, deadline: Duration) -> Result<ssh2::Channel, Cause> {
    let until = Instant::now() + deadline;
    let failed = |stop: Stop| match stop {
        Stop::Failed(error) if is_refusal(&error) => Cause::Start {
            what: "/bin/sh".to_owned(),
            reason: format!("the server refuses to run commands: {}", error.message()),
        },
        Stop::Failed(error) => Cause::Lost { reason: error.message().to_owned() },
        Stop::Deadline | Stop::Told => {
            Cause::TimedOut { phase: Phase::Start, what: "start of a program", deadline }
        }
    };
    let mut channel = open_channel(link, until).map_err(failed)?;
    link.until(until, |_| channel.exec(command)).map_err(failed)?;
    Ok(channel)
}

/// A server that allows one session at a time (`MaxSessions 1`) counts the one before until it has
/// reaped its program, a moment after it told of its end.
fn open_channel(link: &mut Link, until: Instant) -> Result<ssh2::Channel, Stop> {
    let patience = until.min(Instant::now() + REAPED_WITHIN);
    loop {
        match link.until(until, |session| session.channel_session()) {
            Err(Stop::Failed(error)) if is_refusal(&error) && Instant::now() < patience => {
                std::thread::sleep(BETWEEN_ATTEMPTS);
            }
            outcome => return outcome,
        }
    }
}

const REAPED_WITHIN: Duration = Duration::from_secs(3);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(25);

fn is_refusal(error: &ssh2::Error) -> bool {
    use libssh2_sys::{LIBSSH2_ERROR_CHANNEL_FAILURE, LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED};
    matches!(
        error.code(),
        ErrorCode::Session(LIBSSH2_ERROR_CHANNEL_FAILURE | LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED)
    )
}

/// Takes leave of the server and frees the session, which a dead peer must not delay.
fn say_goodbye(mut link: Link, deadline: Duration) {
    let until = Instant::now() + deadline;
    // A server that is gone needs no farewell.
    let _gone = link.until(until, |session| session.disconnect(None, "done", None));
    link.tcp.shutdown(std::net::Shutdown::Both).unwrap_or_default();
}
