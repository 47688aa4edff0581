//! A small process beside the agent that restores an interface's MTU when the agent no longer can.
//!
//! It is the same executable, in a session of its own, deaf to what ends a session, and reads a
//! pipe of which the agent alone has the other end. One word on it says what the MTU has become by
//! the agent's change, another sends the guardian home. When the pipe closes without the latter, or
//! the time is over, it restores the MTU if it is still the agent's: before the first word,
//! whatever it is, since a driver may take another value than it was told.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::facts::netlink;
use crate::sys::signals::ignore_requests_to_end;

/// For a guardian to say that it is on guard, and to go home.
const START_DEADLINE: Duration = Duration::from_secs(5);
const END_DEADLINE: Duration = Duration::from_secs(2);
/// Beyond the job's own deadline, at which the agent restores it.
const GRACE: Duration = Duration::from_secs(2);
/// A driver may be busy with the last change.
const RESTORE_TRIES: u32 = 40;
const RESTORE_PAUSE: Duration = Duration::from_millis(250);

const READY: u8 = b'r';
const DONE: u8 = b'd';
/// Followed by the MTU, big endian.
const HELD: u8 = b'h';

/// Of the agent's own command line, up to its options: `agent`, where the controller's executable
/// serves as one.
static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// What a guardian has to know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Orders {
    /// Of the interface.
    pub index: u32,
    /// What the guardian restores.
    pub before_bytes: u32,
    pub time: Duration,
}

/// Why there is no guardian.
#[derive(Debug, thiserror::Error)]
pub enum NoGuardian {
    #[error("this agent is part of another program, which cannot be started as a guardian")]
    NotAnAgent,
    #[error("failed to start the guardian")]
    Start(#[source] io::Error),
    #[error("the guardian did not go on guard within {} s", START_DEADLINE.as_secs())]
    Silent,
}

/// This process is an agent: guardians may be started from its executable.
pub fn enable() {
    let _ = COMMAND.set(command_of(env::args_os()));
}

fn command_of(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    arguments.skip(1).take_while(|argument| !is_option(argument)).collect()
}

impl Orders {
    fn to_argument(&self) -> String {
        let Self { index, before_bytes, time } = self;
        format!("{index}:{before_bytes}:{}", time.as_millis())
    }
}

impl FromStr for Orders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
        let orders = numbers.and_then(|numbers| match numbers[..] {
            [index, before, milliseconds] => Some(Self {
                index: index.try_into().ok()?,
                before_bytes: before.try_into().ok()?,
                time: Duration::from_millis(milliseconds),
            }),
            _ => None,
        });
        orders.ok_or_else(|| "must be INDEX:BEFORE:MILLISECONDS".to_owned())
    }
}

/// A guardian on guard. Dropped without `dismiss`, it restores the MTU.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    /// `None` once the guardian has been left to itself.
    pipe: Option<ChildStdin>,
}

impl Guardian {
    pub fn start(orders: &Orders) -> Result<Self, NoGuardian> {
        let command = COMMAND.get().ok_or(NoGuardian::NotAnAgent)?;
        // The executable may have been removed from its folder.
        let mut child = Command::new("/proc/self/exe")
            // For who looks at the processes of the node.
            .arg0(env::args_os().next().unwrap_or_default())
            .args(command)
            // Every agent has a marker; this one never writes it.
            .args(["--marker", "00000000", "--restore-mtu", &orders.to_argument()])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(NoGuardian::Start)?;
        let pipe = child.stdin.take();
        let mut guardian = Self { child, pipe };
        match guardian.is_ready() {
            true => Ok(guardian),
            false => {
                let _ = guardian.child.kill();
                Err(NoGuardian::Silent)
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        let Some(mut output) = self.child.stdout.take() else { return false };
        let mut word = [0];
        wait_readable(&output, START_DEADLINE)
            && output.read_exact(&mut word).is_ok()
            && word[0] == READY
    }

    /// Ended, though nobody sent it home.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The MTU became this by the agent's change; from now on another is somebody else's. Nothing
    /// is lost when the word does not arrive: one that is gone is noticed by whoever waits.
    pub fn tell_held(&mut self, mtu_bytes: u32) {
        if let Some(pipe) = &mut self.pipe {
            let [a, b, c, d] = mtu_bytes.to_be_bytes();
            let _ = pipe.write_all(&[HELD, a, b, c, d]);
        }
    }

    /// Sends it home: there is nothing to restore.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(&[DONE]);
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe = None;
        let end = Instant::now() + END_DEADLINE;
        while !self.is_gone() && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The guardian's whole life.
pub fn guard(orders: &Orders) -> io::Result<()> {
    ignore_requests_to_end()?;
    // Fails for the leader of a group, which nobody who is started this way is.
    let _ = nix::unistd::setsid();
    let end = Instant::now() + orders.time + GRACE;
    {
        let mut output = io::stdout().lock();
        output.write_all(&[READY])?;
        output.flush()?;
    }
    // Not by the buffer of the standard library, which hides from `poll` what it has read.
    let mut words = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut held = None;
    if !is_sent_home(&mut words, end, &mut held) {
        restore(orders, held);
    }
    Ok(())
}

/// False when the agent has gone without a word, or the time is over. `held` is what it said that
/// the MTU became.
fn is_sent_home(words: &mut (impl Read + AsFd), end: Instant, held: &mut Option<u32>) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        if !wait_readable(words, left) {
            continue;
        }
        let (mut word, mut mtu) = ([0], [0; 4]);
        match words.read_exact(&mut word).map(|()| word[0]) {
            Ok(HELD) if words.read_exact(&mut mtu).is_ok() => {
                *held = Some(u32::from_be_bytes(mtu));
            }
            Ok(word) => return word == DONE,
            Err(_) => return false,
        }
    }
}

/// Somebody else's change stays.
fn restore(orders: &Orders, held: Option<u32>) {
    for _ in 0..RESTORE_TRIES {
        let restored =
            netlink::link(orders.index).and_then(|link| match is_ours(link.mtu_bytes, held) {
                true => netlink::set_mtu(orders.index, orders.before_bytes),
                false => Ok(()),
            });
        match restored {
            Ok(()) => return,
            // The interface is gone.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
            Err(_) => thread::sleep(RESTORE_PAUSE),
        }
    }
}

/// An agent that died before it could say what its change came to may have left anything.
fn is_ours(current: u32, held: Option<u32>) -> bool {
    held.is_none_or(|held| current == held)
}

/// Or at its end; false when nothing came within `time`.
fn wait_readable(descriptor: &impl AsFd, time: Duration) -> bool {
    let mut polled = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    let timeout = u16::try_from(time.as_millis()).unwrap_or(u16::MAX).max(1);
    poll(&mut polled, PollTimeout::from(timeout)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_command_line() {
        let orders = Orders { index: 3, before_bytes: 1500, time: Duration::from_millis(61_500) };
        assert_eq!(orders.to_argument(), "3:1500:61500");
        assert_eq!(orders.to_argument().parse(), Ok(orders));
    }

    #[test]
    fn orders_that_are_none_are_refused() {
        for text in ["", "1:2", "1:2:3:4", "1:2:x", "-1:2:3", "4294967296:2:3"] {
            let error = Orders::from_str(text).unwrap_err();
            assert_eq!(error, "must be INDEX:BEFORE:MILLISECONDS", "{text}");
        }
    }

    #[test]
    fn a_guardian_is_called_as_its_agent_was() {
        let command = |line: &str| command_of(line.split(' ').map(OsString::from));
        assert!(command("./redoline-agent --marker ab12 --remove").is_empty());
        assert_eq!(command("/usr/bin/redoline agent --marker ab12"), ["agent"]);
    }

    #[test]
    fn an_agent_within_another_program_has_no_guardian() {
        let orders = Orders { index: 3, before_bytes: 1500, time: Duration::ZERO };
        assert!(matches!(Guardian::start(&orders), Err(NoGuardian::NotAnAgent)));
    }

    /// What a guardian made of these words, after which its agent was gone.
    fn heard(words: &[u8]) -> (bool, Option<u32>) {
        let (mut agent, mut guardian) = std::os::unix::net::UnixStream::pair().unwrap();
        agent.write_all(words).unwrap();
        drop(agent);
        let mut held = None;
        let end = Instant::now() + Duration::from_secs(60);
        (is_sent_home(&mut guardian, end, &mut held), held)
    }

    #[test]
    fn a_guardian_knows_what_was_held_when_its_agent_dies() {
        assert_eq!(heard(b""), (false, None));
        assert_eq!(heard(b"h\0\0\x23\x28"), (false, Some(9000)));
        assert_eq!(heard(b"h\0\0\x23\x28d"), (true, Some(9000)));
        assert_eq!(heard(b"d"), (true, None));
        assert_eq!(heard(b"h\0"), (false, None), "cut short");
    }

    #[test]
    fn what_a_driver_made_of_a_change_is_not_somebody_elses() {
        // 4092 was asked for, and the agent died before it could read 2044.
        assert!(is_ours(2044, None));
        assert!(is_ours(9000, Some(9000)) && !is_ours(1500, Some(9000)));
    }
}
