//! A small process beside the agent that restores an interface's MTU when the agent no longer can.
//!
//! It is the same executable, in a session of its own, deaf to what ends a session, and reads a
//! pipe of which the agent alone has the other end. A word on it sends the guardian home. When the
//! pipe closes without one, or the time is over, it restores the MTU if it is still the agent's.

use std::ffi::OsString;
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

/// Of the agent's own command line, up to its options: `agent`, where the controller's executable
/// serves as one.
static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// What a guardian has to know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Orders {
    /// Of the interface.
    pub index: u32,
    /// What the agent sets.
    pub held: u32,
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
        let Self { index, held, before_bytes, time } = self;
        format!("{index}:{held}:{before_bytes}:{}", time.as_millis())
    }
}

impl FromStr for Orders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
        let orders = numbers.and_then(|numbers| match numbers[..] {
            [index, held, before, milliseconds] => Some(Self {
                index: index.try_into().ok()?,
                held: held.try_into().ok()?,
                before_bytes: before.try_into().ok()?,
                time: Duration::from_millis(milliseconds),
            }),
            _ => None,
        });
        orders.ok_or_else(|| "must be INDEX:HELD:BEFORE:MILLISECONDS".to_owned())
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
    if !is_sent_home(end) {
        restore(orders);
    }
    Ok(())
}

/// False when the agent has gone without a word, or the time is over.
fn is_sent_home(end: Instant) -> bool {
    let mut input = io::stdin().lock();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        if wait_readable(&io::stdin(), left) {
            let mut word = [0];
            return input.read_exact(&mut word).is_ok() && word[0] == DONE;
        }
    }
}

/// Somebody else's change stays.
fn restore(orders: &Orders) {
    for _ in 0..RESTORE_TRIES {
        let restored = netlink::link(orders.index).and_then(|link| match link.mtu_bytes {
            current if current == orders.held => {
                netlink::set_mtu(orders.index, orders.before_bytes)
            }
            _ => Ok(()),
        });
        match restored {
            Ok(()) => return,
            // The interface is gone.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
            Err(_) => thread::sleep(RESTORE_PAUSE),
        }
    }
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
        let orders = Orders {
            index: 3,
            held: 9000,
            before_bytes: 1500,
            time: Duration::from_millis(61_500),
        };
        assert_eq!(orders.to_argument(), "3:9000:1500:61500");
        assert_eq!(orders.to_argument().parse(), Ok(orders));
    }

    #[test]
    fn orders_that_are_none_are_refused() {
        for text in ["", "1:2:3", "1:2:3:4:5", "1:2:3:x", "-1:2:3:4", "4294967296:2:3:4"] {
            let error = Orders::from_str(text).unwrap_err();
            assert_eq!(error, "must be INDEX:HELD:BEFORE:MILLISECONDS", "{text}");
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
        let orders = Orders { index: 3, held: 9000, before_bytes: 1500, time: Duration::ZERO };
        assert!(matches!(Guardian::start(&orders), Err(NoGuardian::NotAnAgent)));
    }
}
