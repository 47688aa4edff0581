//! A program that runs on a node: its duplex stream, the end of its stderr, and how it ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};

/// A program started on a node.
///
/// Dropping it, or its stream, is end-of-file for the program; one that does not take the hint is
/// cut off after a while.
#[derive(Debug)]
pub struct Process {
    /// The program's stdin and stdout.
    pub stream: UnixStream,
    pub stderr: StderrTail,
    pub end: End,
}

/// How a program will have ended, and the means to end it; dropping it ends the program.
#[derive(Debug)]
pub struct End {
    exit: oneshot::Receiver<Exit>,
    known: Option<Exit>,
    /// Set to true to cut the program off without waiting for it.
    cut: watch::Sender<bool>,
    /// Wakes whoever serves the program, so that it sees `cut`.
    wake: Waker,
}

type Waker = Arc<dyn WakeUp>;

/// Gets the attention of a thread or task that waits for other things.
pub(super) trait WakeUp: std::fmt::Debug + Send + Sync {
    fn wake_up(&self);
}

/// How a program ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Exit {
    Status(i32),
    /// Name of the signal, without `SIG`, or its number.
    Signal(String),
    /// It was cut off by this side.
    CutOff,
    /// The way to it broke, so how it ended is not known.
    Lost(String),
}

/// What a short program printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    pub stdout: Vec<u8>,
    /// The last 8 KiB.
    pub stderr: String,
    pub exit: Exit,
}

/// The last bytes of a program's stderr; readable while the program runs.
#[derive(Clone, Debug, Default)]
pub struct StderrTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

impl StderrTail {
    pub const CAPACITY_BYTES: usize = 8 * 1024;

    /// The text kept, with what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.lock().iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }

    pub(super) fn append(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(Self::CAPACITY_BYTES);
        kept.drain(..excess);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of an `End` that whoever serves the program holds.
#[derive(Debug)]
pub(super) struct EndReporter {
    exit: oneshot::Sender<Exit>,
    cut: watch::Receiver<bool>,
}

/// Why whoever serves a program should end it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Farewell {
    /// At once.
    CutOff,
    /// Nobody waits for it any more; it has had end-of-file and gets a little time.
    Abandoned,
}

impl End {
    pub(super) fn new(wake: Waker) -> (Self, EndReporter) {
        let (report, exit) = oneshot::channel();
        let (cut, cut_seen) = watch::channel(false);
        (Self { exit, known: None, cut, wake }, EndReporter { exit: report, cut: cut_seen })
    }

    /// Waits until the program has ended; can be asked again.
    pub async fn wait(&mut self) -> Exit {
        if self.known.is_none() {
            let exit = (&mut self.exit).await;
            self.known =
                Some(exit.unwrap_or_else(|_| Exit::Lost("whoever served it stopped".to_owned())));
        }
        self.known.clone().unwrap_or(Exit::CutOff)
    }

    /// Waits for the program to end by itself, then cuts it off; at most twice `deadline` in all.
    pub async fn wait_or_cut(&mut self, deadline: Duration) -> Exit {
        if let Ok(exit) = tokio::time::timeout(deadline, self.wait()).await {
            return exit;
        }
        self.cut_off();
        tokio::time::timeout(deadline, self.wait()).await.unwrap_or(Exit::CutOff)
    }

    fn cut_off(&self) {
        self.cut.send_replace(true);
        self.wake.wake_up();
    }
}

impl EndReporter {
    pub(super) fn report(self, exit: Exit) {
        // Nobody may be waiting any more; that is no error.
        self.exit.send(exit).unwrap_or_default();
    }

    /// Whether the other side wants the program to go.
    pub(super) fn farewell(&self) -> Option<Farewell> {
        if *self.cut.borrow() {
            Some(Farewell::CutOff)
        } else {
            self.exit.is_closed().then_some(Farewell::Abandoned)
        }
    }

    /// Waits until there is a farewell.
    pub(super) async fn wait_for_farewell(&mut self) -> Farewell {
        tokio::select! {
            // An error means that the `End` is gone without having asked for anything.
            asked = self.cut.wait_for(|cut| *cut) => {
                if asked.is_ok() { Farewell::CutOff } else { Farewell::Abandoned }
            }
            () = self.exit.closed() => Farewell::Abandoned,
        }
    }
}

impl Process {
    /// Ends the program: end-of-file first, then by force; at most twice `deadline` in all.
    pub async fn close(self, deadline: Duration) -> Exit {
        let Self { stream, mut end, .. } = self;
        drop(stream);
        end.wait_or_cut(deadline).await
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(formatter, "ended with status {status}"),
            Self::Signal(signal) => write!(formatter, "was killed by signal {signal}"),
            Self::CutOff => formatter.write_str("was cut off"),
            Self::Lost(reason) => write!(formatter, "was lost: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_only_the_last_bytes() {
        let tail = StderrTail::default();
        tail.append(&[b'a'; StderrTail::CAPACITY_BYTES]);
        tail.append(b"the end\n");
        let text = tail.text();
        assert!(text.ends_with("aaathe end"), "{text}");
        assert!(text.len() <= StderrTail::CAPACITY_BYTES);
    }
}
