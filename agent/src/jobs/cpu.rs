//! Processor time between two moments: of the whole host from /proc/stat, of a thread from its clock.

use std::fs;
use std::time::Duration;

use crate::sys::clock::thread_cpu;

/// Counters of /proc/stat at one moment, in ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuTicks {
    all: Ticks,
    cores: Vec<Ticks>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    /// Everything but idle, waiting for I/O and stolen.
    busy: u64,
    softirq: u64,
    /// Wanted by this virtual machine and given to another.
    steal: u64,
    total: u64,
}

/// What the host's processors did between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLoad {
    /// Numbers of cores.
    pub busy_cores: f64,
    pub softirq_cores: f64,
    pub steal_cores: f64,
    /// Busy or stolen, of the whole host, 0 to 1.
    pub share: f64,
    /// 0 to 1.
    pub busiest_core_share: f64,
    /// Of the time of that core, 0 to 1.
    pub busiest_core_softirq_share: f64,
}

/// What a thread had of the processors up to a moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadUse {
    pub cpu: Duration,
    /// It could have run, and others did; `None` where the kernel does not count it.
    pub wait: Option<Duration>,
}

impl ThreadUse {
    /// Of the calling thread.
    pub fn now() -> Self {
        // Not /proc/thread-self, which came with Linux 3.17.
        let path = format!("/proc/self/task/{}/schedstat", nix::unistd::gettid());
        let wait = fs::read_to_string(path).ok().and_then(|text| parse_run_delay(&text));
        Self { cpu: thread_cpu(), wait }
    }

    /// From `before` on.
    pub fn since(self, before: Self) -> Self {
        let wait = self.wait.zip(before.wait);
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            wait: wait.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// "run wait slices" in nanoseconds (sched-stats); all 0 where the kernel was told not to count.
fn parse_run_delay(text: &str) -> Option<Duration> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (run, wait, slices) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    (run > 0 || wait > 0 || slices > 0).then(|| Duration::from_nanos(wait))
}

impl CpuTicks {
    /// `None` where /proc/stat is hidden.
    pub fn now() -> Option<Self> {
        parse_stat(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// `None` when less than a tick passed.
    pub fn until(&self, later: &Self) -> Option<HostLoad> {
        let all = self.all.until(later.all);
        if all.total == 0 || later.cores.is_empty() {
            return None;
        }
        let cores = later.cores.len() as f64;
        let of_total = |ticks: u64| ticks as f64 / all.total as f64;
        let cores_each = self.cores.iter().zip(&later.cores).map(|(a, b)| a.until(*b));
        let busiest = cores_each.max_by(|a, b| a.busy_share().total_cmp(&b.busy_share()))?;
        Some(HostLoad {
            busy_cores: of_total(all.busy) * cores,
            softirq_cores: of_total(all.softirq) * cores,
            steal_cores: of_total(all.steal) * cores,
            share: of_total(all.busy + all.steal),
            busiest_core_share: busiest.busy_share(),
            busiest_core_softirq_share: busiest.softirq_share(),
        })
    }
}

impl Ticks {
    fn until(self, later: Self) -> Self {
        // Idle time may step back by a tick when a core comes back from sleep (proc(5)).
        Self {
            busy: later.busy.saturating_sub(self.busy),
            softirq: later.softirq.saturating_sub(self.softirq),
            steal: later.steal.saturating_sub(self.steal),
            total: later.total.saturating_sub(self.total),
        }
    }

    fn busy_share(self) -> f64 {
        self.of_total(self.busy)
    }

    fn softirq_share(self) -> f64 {
        self.of_total(self.softirq)
    }

    fn of_total(self, ticks: u64) -> f64 {
        if self.total == 0 { 0.0 } else { ticks as f64 / self.total as f64 }
    }
}

/// The 1-minute load average per processor; `None` where it cannot be read.
pub fn load_per_cpu() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    let cpus = CpuTicks::now()?.cores.len();
    (cpus > 0).then(|| load / cpus as f64)
}

fn parse_stat(text: &str) -> Option<CpuTicks> {
    let mut ticks = CpuTicks::default();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { break };
        let (name, numbers) = rest.split_once(' ')?;
        match name {
            "" => ticks.all = parse_ticks(numbers)?,
            _ => ticks.cores.push(parse_ticks(numbers)?),
        }
    }
    (ticks.all.total > 0).then_some(ticks)
}

/// user nice system idle iowait irq softirq steal guest guest_nice; guests are part of user.
fn parse_ticks(numbers: &str) -> Option<Ticks> {
    let mut of = [0_u64; 8];
    let mut given = numbers.split_ascii_whitespace();
    for slot in &mut of {
        // Kernels before 2.6.11 have no steal.
        *slot = given.next().map_or(Ok(0), str::parse).ok()?;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = of;
    let busy = user + nice + system + irq + softirq;
    Some(Ticks { busy, softirq, steal, total: busy + idle + iowait + steal })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\n\
                          cpu1 50 0 50 400 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str = "cpu  160 0 120 880 10 0 20 10 0 0\ncpu0 100 0 60 400 0 0 20 20 0 0\n\
                         cpu1 60 0 60 480 0 0 0 0 0 0\nintr 9\n";

    #[test]
    fn the_difference_of_two_moments_is_a_number_of_cores() {
        let load = parse_stat(BEFORE).unwrap().until(&parse_stat(AFTER).unwrap()).unwrap();
        // 200 ticks passed on both together: 100 busy, 20 of these softirq, 10 stolen.
        assert_eq!(load.busy_cores, 1.0);
        assert_eq!(load.softirq_cores, 0.2);
        assert_eq!(load.steal_cores, 0.1);
        assert_eq!(load.share, 0.55);
        assert_eq!(load.busiest_core_share, 0.8);
        assert_eq!(load.busiest_core_softirq_share, 0.2);
    }

    #[test]
    fn a_thread_s_wait_is_known_only_where_it_is_counted() {
        assert_eq!(parse_run_delay("0 47340 1\n"), Some(Duration::from_nanos(47_340)));
        assert_eq!(parse_run_delay("0 0 0\n"), None, "sched_schedstats is off");
        assert_eq!(parse_run_delay(""), None);
        let (unknown, known) = (ThreadUse::default(), ThreadUse::now());
        assert_eq!(known.since(unknown).wait, None);
        assert_eq!(known.since(unknown).cpu, known.cpu);
    }

    #[test]
    fn no_time_is_not_no_load() {
        let ticks = parse_stat(BEFORE).unwrap();
        assert_eq!(ticks.until(&ticks), None);
    }

    #[test]
    fn a_hidden_file_is_unknown() {
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_host_tells() {
        assert!(CpuTicks::now().is_some_and(|ticks| !ticks.cores.is_empty()));
        assert!(load_per_cpu().is_some_and(|load| load >= 0.0));
    }
}
