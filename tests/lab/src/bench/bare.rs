//! The limit: two processes with nothing but `send` and `recv` in a loop, and what one run gives.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    path::Path,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

use super::outcome::{GIB, Load, Outcome, WARM_UP_S};
use super::place::{Place, children_cpu_s, output_of};

const PORT: u16 = 5202;

/// One of the two processes.
#[derive(Args, Clone, Debug)]
pub struct BareEnd {
    end: End,
    /// Where the receiver listens
    address: Ipv4Addr,
    /// Connections
    streams: u32,
    /// Bytes of each `send` and at most of each `recv`
    message_bytes: usize,
    /// For which the sender sends
    seconds: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum End {
    Receive,
    Send,
}

/// What one stream received.
struct Received {
    bytes: u64,
    bytes_per_second: f64,
}

/// Bytes that may lie in huge pages, as the agent's do.
struct Buffer {
    memory: Vec<u8>,
    range: Range<usize>,
}

const HUGE_PAGE_BYTES: usize = 2 << 20;

impl Buffer {
    fn new(bytes: usize) -> Self {
        let whole = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mut memory = vec![0; whole + HUGE_PAGE_BYTES];
        let address = memory.as_ptr() as usize;
        let start = address.next_multiple_of(HUGE_PAGE_BYTES) - address;
        // SAFETY: the range lies within the vector; the advice changes no byte of it.
        unsafe {
            libc::madvise(memory[start..].as_mut_ptr().cast(), whole, libc::MADV_HUGEPAGE);
        }
        Self { memory, range: start..start + bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }
}

/// Runs one end to its end; the receiver's result is the text: bytes, and bytes per second after the
/// warm-up.
pub fn bare(end: &BareEnd) -> Result<String> {
    match end.end {
        End::Receive => receive(end),
        End::Send => send(end).map(|()| String::new()),
    }
}

/// `program` is one whose command `bare-end` is [`bare`].
pub(super) fn run(place: &Place, load: Load, program: &Path, folder: &Path) -> Result<Outcome> {
    let logs = [folder.join("bare-receive"), folder.join("bare-send")];
    for log in &logs {
        fs::write(log, "").with_context(|| format!("failed to write `{}`", log.display()))?;
    }
    let program = program.to_string_lossy();
    let numbers = [load.streams.into(), load.message_bytes, load.whole_seconds().into()];
    let [streams, message, seconds] = numbers.map(|number| number.to_string());
    let address = place.receiver_address()?.to_string();
    let argv = |end| [&program, "bare-end", end, &address, &streams, &message, &seconds];

    let cpu_before_s = children_cpu_s()?;
    let mut receiver = place.start_receiver(&argv("receive"), PORT, &logs[0])?;
    let mut sender = place.start_sender(&argv("send"), &logs[1])?;
    let sent = sender.wait(Duration::from_secs(u64::from(load.whole_seconds()) + 20))?;
    let received = receiver.wait(Duration::from_secs(10))?;
    let cpu_s = children_cpu_s()? - cpu_before_s;
    ensure!(sent.success() && received.success(), "the bare loop failed: {sent}, {received}");
    let text = output_of(&logs[0])?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<f64>);
    let mut number =
        || numbers.next().context("the bare loop tells no result")?.context("no number");
    let (bytes, bytes_per_second) = (number()?, number()?);
    Ok(Outcome {
        bytes_per_second,
        cpu_s_per_gib: cpu_s / (bytes / GIB),
        steady_bytes_per_second: None,
    })
}

fn receive(end: &BareEnd) -> Result<String> {
    let listener = TcpListener::bind((end.address, PORT)).context("failed to listen")?;
    let threads: Vec<_> = (0..end.streams)
        .map(|_| {
            let (mut socket, _) = listener.accept()?;
            let mut buffer = Buffer::new(end.message_bytes);
            Ok(thread::spawn(move || receive_all(&mut socket, buffer.bytes())))
        })
        .collect::<Result<_>>()?;
    let all = joined(threads)?;
    let bytes: u64 = all.iter().map(|stream| stream.bytes).sum();
    let bytes_per_second: f64 = all.iter().map(|stream| stream.bytes_per_second).sum();
    Ok(format!("{bytes} {bytes_per_second}"))
}

fn receive_all(socket: &mut TcpStream, buffer: &mut [u8]) -> Result<Received> {
    let warm_up = Duration::from_secs(WARM_UP_S.into());
    let began = Instant::now();
    let (mut bytes, mut counted_from, mut last) = (0, None, began);
    loop {
        match socket.read(buffer) {
            Ok(0) => break,
            Ok(more) => bytes += more as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("failed to receive"),
        }
        last = Instant::now();
        if counted_from.is_none() && last - began >= warm_up {
            counted_from = Some((bytes, last));
        }
    }
    let (omitted, from) = counted_from.context("ended within the warm-up")?;
    Ok(Received { bytes, bytes_per_second: (bytes - omitted) as f64 / (last - from).as_secs_f64() })
}

fn send(end: &BareEnd) -> Result<()> {
    let target = SocketAddr::from((end.address, PORT));
    let threads: Vec<_> = (0..end.streams)
        .map(|_| {
            let mut message = Buffer::new(end.message_bytes);
            File::open("/dev/urandom")?.read_exact(message.bytes())?;
            let mut socket = TcpStream::connect(target).context("failed to connect")?;
            socket.set_nodelay(true)?;
            setsockopt(&socket, TcpCongestion, &OsStr::new("cubic").to_owned())?;
            let time = Duration::from_secs(end.seconds);
            Ok(thread::spawn(move || send_for(&mut socket, message.bytes(), time)))
        })
        .collect::<Result<_>>()?;
    joined(threads).map(drop)
}

fn send_for(socket: &mut TcpStream, message: &[u8], time: Duration) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        socket.write_all(message).context("failed to send")?;
    }
    Ok(())
}

fn joined<T>(threads: Vec<JoinHandle<Result<T>>>) -> Result<Vec<T>> {
    threads
        .into_iter()
        .map(|thread| thread.join().map_err(|_| anyhow!("a stream's thread panicked")).flatten())
        .collect()
}
