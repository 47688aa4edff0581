//! A set of namespaces (network, mount, UTS, PID) with an init process that dies with its owner.

use std::{
    fs,
    io::{self, Write},
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::{
        prctl,
        signal::{SigHandler, Signal, kill, signal},
    },
    unistd::{Pid, sethostname, setsid},
};

/// How long a command in a namespace may take before it is ended.
pub const EXEC_DEADLINE: Duration = Duration::from_secs(60);

/// Namespaces of their own. All processes in them end when this is dropped, or when the process
/// that made it dies.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    init: Pid,
    init_fd: OwnedFd,
    // Dropping the sender ends the keeper, which ends init.
    keeper: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// A process as its own PID namespace sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Process {
    /// The process ID inside the namespace.
    pub pid: i32,
    /// The real user ID.
    pub uid: u32,
    /// The kernel's letter: `R`, `S`, `T` (stopped), `Z` (zombie) and so on.
    pub state: char,
    /// The arguments, joined by blanks; in brackets the short name where there are none.
    pub command: String,
}

/// A process that was started in a namespace. It is killed when this is dropped.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    what: String,
}

const KINDS: CloneFlags = CloneFlags::CLONE_NEWNET
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWPID);

impl Namespace {
    /// Makes namespaces with this host name. `prepare` runs in the new mount namespace before any
    /// process is in it.
    pub(crate) fn create<T: Send + 'static>(
        name: &str,
        prepare: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<(Self, T)> {
        let (report, made) = mpsc::sync_channel(1);
        let (stop, stopped) = mpsc::channel::<()>();
        let host_name = name.to_owned();
        // The kernel ends init when the thread that started it ends: so a thread is kept for it.
        let keeper = thread::Builder::new()
            .name(format!("keeper-{name}"))
            .spawn(move || match make(&host_name, prepare) {
                Ok((mut init, prepared)) => {
                    let sent = report.send(Ok((init.id(), prepared)));
                    // Nothing is ever sent; it returns when the owner is gone.
                    if sent.is_ok() {
                        let _ = stopped.recv();
                    }
                    let _ = init.kill();
                    let _ = init.wait();
                }
                Err(error) => drop(report.send(Err(error))),
            })
            .context("failed to start a keeper thread")?;
        let (pid, prepared) = made
            .recv()
            .map_err(|_| anyhow!("the keeper thread panicked"))
            .flatten()
            .with_context(|| format!("failed to make the namespaces of `{name}`"))?;
        let init = Pid::from_raw(pid as i32);
        let init_fd = pidfd(init).with_context(|| format!("failed to watch init of `{name}`"))?;
        let keeper = Some((stop, keeper));
        Ok((Self { name: name.to_owned(), init, init_fd, keeper }, prepared))
    }

    /// The host name inside, by which the lab calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The init process, as this process's PID namespace numbers it: `nsenter --target PID --all`.
    pub fn init(&self) -> Pid {
        self.init
    }

    /// Runs a function on a thread that is inside: files, `/proc/sys/net`, sockets and started
    /// processes are the namespace's own. The function must not start threads.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let inside = || {
            // A mount namespace can only be entered with a working directory of one's own.
            unshare(CloneFlags::CLONE_FS).context("failed to leave the shared directory")?;
            setns(&self.init_fd, KINDS)
                .with_context(|| format!("failed to enter the namespaces of `{}`", self.name))?;
            inside()
        };
        thread::scope(|scope| {
            scope.spawn(inside).join().map_err(|_| anyhow!("a function inside panicked"))
        })
        .flatten()
    }

    /// Runs a command inside, as root and with an environment of its own, and waits for it.
    ///
    /// It fails if the command cannot be run or takes longer than [`EXEC_DEADLINE`]; the command's
    /// own failure is in the status.
    pub fn exec(&self, argv: &[&str]) -> Result<Output> {
        self.exec_with(argv, "", EXEC_DEADLINE)
    }

    /// As [`Namespace::exec`], with standard input (at most what a pipe holds) and a deadline.
    pub fn exec_with(&self, argv: &[&str], input: &str, deadline: Duration) -> Result<Output> {
        let what = || format!("`{}` on `{}`", argv.join(" "), self.name);
        let seconds = deadline.as_secs_f64().to_string();
        let output = self
            .enter(|| {
                let mut command = command(&["timeout", "-k", "2", &seconds]);
                command.args(argv);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn()?;
                if let Some(mut stdin) = child.stdin.take() {
                    // A command that does not read its input may have closed it.
                    let _ = stdin.write_all(input.as_bytes());
                }
                Ok(child.wait_with_output()?)
            })
            .with_context(|| format!("failed to run {}", what()))?;
        // What `timeout` itself reports: 124 for time out, 125 to 127 for a command it cannot run.
        match output.status.code() {
            Some(124) => bail!("{} did not end within {seconds} s", what()),
            Some(125..=127) => {
                bail!(
                    "failed to run {}: {}",
                    what(),
                    String::from_utf8_lossy(&output.stderr).trim()
                )
            }
            _ => Ok(output),
        }
    }

    /// Runs a command inside that must succeed; gives its standard output.
    pub fn run(&self, argv: &[&str]) -> Result<String> {
        self.run_with(argv, "")
    }

    /// As [`Namespace::run`], with standard input.
    pub fn run_with(&self, argv: &[&str], input: &str) -> Result<String> {
        let output = self.exec_with(argv, input, EXEC_DEADLINE)?;
        ensure!(
            output.status.success(),
            "`{}` on `{}` failed ({}): {}",
            argv.join(" "),
            self.name,
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a command inside and leaves it running, its output going to a file outside.
    pub fn spawn(&self, argv: &[&str], log: &Path) -> Result<Spawned> {
        self.start(command(argv), argv, log)
    }

    /// As [`Namespace::spawn`], but in the session of this process. The kernel shares processor time
    /// among sessions first, and only then among the processes of one (sched(7), autogroup).
    pub(crate) fn spawn_in_this_session(&self, argv: &[&str], log: &Path) -> Result<Spawned> {
        self.start(command_in_this_session(argv), argv, log)
    }

    fn start(&self, mut command: Command, argv: &[&str], log: &Path) -> Result<Spawned> {
        let what = format!("`{}` on `{}`", argv.join(" "), self.name);
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("failed to open the log `{}`", log.display()))?;
        let child = self
            .enter(|| {
                command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
                Ok(command.spawn()?)
            })
            .with_context(|| format!("failed to start {what}"))?;
        Ok(Spawned { child, what })
    }

    /// Sets a `net.` sysctl of this network namespace, for example `net.ipv4.tcp_wmem`.
    ///
    /// Others are refused, since they would change the whole machine.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        ensure!(key.starts_with("net."), "`{key}` is not a setting of a network namespace");
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.enter(|| Ok(fs::write(&path, value)?))
            .with_context(|| format!("failed to set `{key}` to `{value}` on `{}`", self.name))
    }

    /// Reads a sysctl as it is inside.
    pub fn read_sysctl(&self, key: &str) -> Result<String> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.enter(|| Ok(fs::read_to_string(&path)?.trim().to_owned()))
            .with_context(|| format!("failed to read `{key}` on `{}`", self.name))
    }

    /// Feeds rules to `nft -f`.
    pub fn nft(&self, rules: &str) -> Result<()> {
        self.run_with(&["nft", "-f", "-"], rules).map(drop)
    }

    /// The processes inside, without init.
    pub fn processes(&self) -> Result<Vec<Process>> {
        self.enter(|| {
            let mut processes = Vec::new();
            for entry in fs::read_dir("/proc")? {
                let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
                // One that ended meanwhile is no longer there to be read.
                processes.extend(pid.filter(|pid| *pid != 1).and_then(process));
            }
            processes.sort_by_key(|process: &Process| process.pid);
            Ok(processes)
        })
        .with_context(|| format!("failed to list the processes of `{}`", self.name))
    }

    /// Sends a signal to a process, by its ID inside.
    pub fn signal(&self, pid: i32, signal: Signal) -> Result<()> {
        let number = signal as i32;
        self.run(&["sh", "-c", &format!("kill -{number} {pid}")]).map(drop)
    }

    /// Whether something listens on this TCP port.
    pub fn listens(&self, port: u16) -> Result<bool> {
        let mut table = String::new();
        for file in ["tcp", "tcp6"] {
            let path = format!("/proc/{}/net/{file}", self.init);
            table +=
                &fs::read_to_string(&path).with_context(|| format!("failed to read `{path}`"))?;
        }
        let local = format!(":{port:04X}");
        Ok(table.lines().any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let is_local = fields.next().is_some_and(|address| address.ends_with(&local));
            is_local && fields.nth(1) == Some("0A")
        }))
    }

    /// Waits until something listens on this TCP port.
    pub fn wait_for_listener(&self, port: u16, deadline: Duration) -> Result<()> {
        let end = Instant::now() + deadline;
        while !self.listens(port)? {
            ensure!(Instant::now() < end, "nothing listens on port {port} of `{}`", self.name);
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some((stop, keeper)) = self.keeper.take() {
            drop(stop);
            // If it panicked, its end has ended init as well.
            let _ = keeper.join();
        }
    }
}

impl Spawned {
    /// The process ID as this process's PID namespace has it.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends a signal to it.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid(), signal).with_context(|| format!("failed to signal {}", self.what))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("failed to wait for {}", self.what))
    }

    /// Waits for its end.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + deadline;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            ensure!(Instant::now() < end, "{} did not end within {deadline:?}", self.what);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn make<T>(host_name: &str, prepare: impl FnOnce() -> Result<T>) -> Result<(Child, T)> {
    unshare(KINDS).context("failed to unshare")?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .context("failed to make mounts private")?;
    sethostname(host_name).context("failed to set the host name")?;
    let prepared = prepare()?;
    let mut init = init(host_name).context("failed to start init")?;
    let mounted = command(&["mount", "-t", "proc", "proc", "/proc"]).status();
    if !mounted.as_ref().is_ok_and(ExitStatus::success) {
        let _ = init.kill();
        let _ = init.wait();
        bail!("failed to mount `/proc`: {mounted:?}");
    }
    Ok((init, prepared))
}

/// The first process inside. All others die with it, and it dies with the calling thread.
fn init(host_name: &str) -> io::Result<Child> {
    let mut command = command(&["sleep", "infinity"]);
    command.arg0(format!("redoline-lab-init-{host_name}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let prepare = || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The kernel buries the orphans of an init that ignores their death.
        // SAFETY: `SIG_IGN` runs no code.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
        Ok(())
    };
    // SAFETY: the function makes system calls only; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// A command with a clean environment and a session of its own, so that Ctrl-C does not reach it.
fn command(argv: &[&str]) -> Command {
    let mut command = command_in_this_session(argv);
    // SAFETY: the function makes one system call; it neither allocates nor locks.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
    command
}

fn command_in_this_session(argv: &[&str]) -> Command {
    let (program, arguments) = argv.split_first().unwrap_or((&"true", &[]));
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("HOME", "/root").env("LANG", "C.UTF-8");
    command
}

fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call gave a new descriptor (close-on-exec), which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn process(pid: i32) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()
    };
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
    let command = match arguments.trim() {
        "" => format!("[{}]", field("Name")?),
        arguments => arguments.to_owned(),
    };
    Some(Process {
        pid,
        uid: field("Uid")?.parse().ok()?,
        state: field("State")?.chars().next()?,
        command,
    })
}
