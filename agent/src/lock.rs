//! One run at a time per redo address: a lock that vanishes with its process.
//!
//! The lock is an abstract Unix socket, which exists once per network namespace, leaves no file and
//! needs no privilege. Its holder answers every connection with a line that says who it is.

use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::task::AbortHandle;

/// For the holder to say who it is.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// Of the holder's line; a stranger may hold the name.
const ANSWER_BYTES_MAX: usize = 512;

/// Who holds a node, as another run is told.
#[derive(Clone, Debug)]
pub struct Holder {
    pub run_id: String,
    pub owner: String,
    pub process_id: u32,
}

/// Why a node's lock is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{address} is busy: {holder}")]
    Busy { address: String, holder: String },
    #[error("failed to take the lock of {address}")]
    System {
        address: String,
        #[source]
        cause: io::Error,
    },
}

/// Held until it is dropped.
#[derive(Debug)]
pub struct NodeLock {
    answering: AbortHandle,
}

impl NodeLock {
    /// Takes the lock of `address`, or tells who has it.
    pub async fn take(address: &str, holder: Holder) -> Result<Self, LockError> {
        let failed = |cause| LockError::System { address: address.to_owned(), cause };
        let name = name_of(address).map_err(failed)?;
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Self::answer(listener, holder).map_err(failed),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let asked = tokio::task::spawn_blocking(move || ask(&name));
                // A stranger that does not accept holds up even the connection.
                let asked = tokio::time::timeout(2 * ANSWER_DEADLINE, asked).await;
                let holder = asked.ok().and_then(Result::ok).and_then(Result::ok);
                let holder = holder.filter(|line| !line.is_empty());
                let holder = holder.unwrap_or_else(|| "its holder does not answer".to_owned());
                Err(LockError::Busy { address: address.to_owned(), holder })
            }
            Err(cause) => Err(failed(cause)),
        }
    }

    fn answer(listener: UnixListener, holder: Holder) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let since = Instant::now();
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    // A line fits into the socket's buffer; who has none does not hold up others.
                    Ok((mut other, _)) => {
                        let line = holder.line(since.elapsed());
                        let telling = other.write_all(line.as_bytes());
                        _ = tokio::time::timeout(ANSWER_DEADLINE, telling).await;
                    }
                    // Out of descriptors, say: the lock is held all the same.
                    Err(_) => tokio::time::sleep(ANSWER_DEADLINE).await,
                }
            }
        });
        Ok(Self { answering: task.abort_handle() })
    }
}

impl Drop for NodeLock {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Holder {
    fn line(&self, held: Duration) -> String {
        let Self { run_id, owner, process_id } = self;
        let seconds = held.as_secs();
        let line = format!("run {run_id} of {owner} (process {process_id}, for {seconds} s)");
        cut(printable(&line), ANSWER_BYTES_MAX - 1) + "\n"
    }
}

fn name_of(address: &str) -> io::Result<SocketAddr> {
    // The same address may be written in several ways, above all in IPv6.
    let address = address
        .parse()
        .map_or_else(|_| address.to_owned(), |address: std::net::IpAddr| address.to_string());
    SocketAddr::from_abstract_name(format!("redoline:{address}"))
}

/// The first line that the holder says, or what of it comes within the deadline.
fn ask(name: &SocketAddr) -> io::Result<String> {
    let mut holder = UnixStream::connect_addr(name)?;
    let deadline = Instant::now() + ANSWER_DEADLINE;
    let (mut answer, mut filled) = ([0; ANSWER_BYTES_MAX], 0);
    while filled < answer.len() && !answer[..filled].contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        holder.set_read_timeout(Some(left))?;
        match holder.read(&mut answer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let answer = String::from_utf8_lossy(&answer[..filled]);
    Ok(printable(answer.lines().next().unwrap_or_default()))
}

/// At most `bytes` of a text, in whole characters.
fn cut(mut text: String, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    text
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn holder(owner: &str) -> Holder {
        Holder { run_id: "r1".to_owned(), owner: owner.to_owned(), process_id: 7 }
    }

    #[tokio::test]
    async fn the_second_is_told_who_came_first() {
        let address = "192.0.2.101";
        let lock = NodeLock::take(address, holder("ann@jump")).await.unwrap();
        let error = NodeLock::take(address, holder("bob@jump")).await.unwrap_err().to_string();
        let start = "192.0.2.101 is busy: run r1 of ann@jump (process 7, for ";
        assert!(error.starts_with(start), "{error}");
        drop(lock);
    }

    #[tokio::test]
    async fn a_lock_goes_with_its_holder() {
        let address = "192.0.2.102";
        drop(NodeLock::take(address, holder("ann")).await.unwrap());
        // The answering task drops the socket when it is next polled.
        tokio::task::yield_now().await;
        NodeLock::take(address, holder("bob")).await.unwrap();
    }

    #[tokio::test]
    async fn one_address_has_one_lock_however_it_is_written() {
        let _lock = NodeLock::take("2001:db8::66", holder("ann")).await.unwrap();
        let same = NodeLock::take("2001:DB8:0:0::66", holder("bob")).await;
        assert!(matches!(same, Err(LockError::Busy { .. })));
    }

    #[tokio::test]
    async fn a_long_name_is_cut_to_one_line() {
        let address = "192.0.2.104";
        let _lock = NodeLock::take(address, holder(&"ä".repeat(1000))).await.unwrap();
        let error = NodeLock::take(address, holder("bob")).await.unwrap_err().to_string();
        assert!(error.starts_with("192.0.2.104 is busy: run r1 of ää"), "{error}");
        assert!(error.ends_with("ä") && error.len() < 600, "{error}");
    }

    #[tokio::test]
    async fn a_stranger_that_drips_is_not_heard_out() {
        let address = "192.0.2.105";
        let stranger = UnixListener::bind_addr(&name_of(address).unwrap()).unwrap();
        let dripping = std::thread::spawn(move || {
            let mut other = stranger.accept().unwrap().0;
            // Ends when nobody listens any more.
            while other.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let error = NodeLock::take(address, holder("bob")).await.unwrap_err().to_string();
        assert!(error.starts_with("192.0.2.105 is busy: "), "{error}");
        assert!(error.len() < 200, "{error}");
        dripping.join().unwrap();
    }

    #[tokio::test]
    async fn a_holder_cannot_write_on_the_terminal_of_another() {
        let address = "192.0.2.103";
        let _lock = NodeLock::take(address, holder("\u{1b}[2Jann")).await.unwrap();
        let error = NodeLock::take(address, holder("bob")).await.unwrap_err().to_string();
        assert!(error.contains("of ?[2Jann"), "{error}");
    }
}
