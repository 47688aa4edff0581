//! Measures the emulated WAN with ping and iperf3, before anyone relies on it.

use std::{fmt, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{
    iperf::{Protocol, Traffic, received_bps},
    lab::Lab,
    node::{LabNode, Side},
    wan::{Burst, Icmp, WanSpec},
};

/// What was measured. [`CheckReport::problems`] says what is wrong with it.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Every figure, with what it should be.
    pub figures: Vec<Figure>,
}

/// A measured figure beside its expected value.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// In `unit`.
    pub expected: f64,
    /// In `unit`.
    pub measured: f64,
    /// How far off it may be, in `unit`.
    pub tolerance: f64,
    /// `ms` or `Mbit/s`.
    pub unit: &'static str,
}

/// The share by which rates and times may be off.
const TOLERANCE: f64 = 0.02;

/// What ping itself and two routers take: a shorter RTT cannot be emulated to 2 %.
const RTT_SLACK_MS: f64 = 0.3;

/// Long enough that the start and one loss do not matter.
const SECONDS: u32 = 4;

/// A figure that is off is measured again: other programs on the machine may have disturbed it. One
/// that is off this often is wrong.
const ATTEMPTS: u32 = 3;

/// Flows that fill the link together, also where one alone would need long to do so.
const FLOWS: u64 = 8;

/// IP and TCP headers with the timestamp option.
const TCP_HEADER_BYTES: u32 = 52;

/// The timestamp option, which an MSS counts in.
const TCP_OPTION_BYTES: u32 = 12;

/// IP and UDP headers.
const UDP_HEADER_BYTES: u32 = 28;

impl Lab {
    /// Measures the RTT, the rate of one flow where that is limited, and the rate of eight flows, in
    /// both directions.
    ///
    /// Credit for more than a moment is switched off meanwhile, since it would be measured instead
    /// of the rate. Fails if something cannot be measured, or is off by more than 2 % (RTT: and
    /// 0.3 ms).
    pub fn check(&self) -> Result<CheckReport> {
        let wan = self.wan();
        self.set_wan(&WanSpec {
            burst: wan.burst.filter(|burst| is_short(*burst, &wan)),
            per_flow_credit_bytes: short_credit_bytes(&wan),
            ..wan.clone()
        })?;
        let report = self.measure(&wan);
        self.set_wan(&wan)?;
        let report = report?;
        let problems = report.problems();
        ensure!(problems.is_empty(), "the emulated WAN is off: {}", problems.join("; "));
        Ok(report)
    }

    fn measure(&self, wan: &WanSpec) -> Result<CheckReport> {
        let primary = self.nodes().first().context("the lab has no nodes")?;
        let standby = self.nodes().last().context("the lab has no nodes")?;
        let mut figures = vec![settled(|| rtt(primary, standby, wan.rtt))?];
        let directions =
            [(primary, standby, wan.rate_bps), (standby, primary, wan.standby_to_primary_bps())];
        let counts = if wan.per_flow_bps.is_some() { &[1, FLOWS][..] } else { &[FLOWS] };
        for (from, to, link_bps) in directions {
            for flows in counts {
                let flows_bps = wan.per_flow_bps.map(|rate_bps| rate_bps * flows);
                if let Some(rate_bps) = smaller(flows_bps, link_bps) {
                    figures.push(settled(|| self.rate((from, to), rate_bps, *flows))?);
                }
            }
        }
        Ok(CheckReport { figures })
    }

    fn rate(&self, pair: (&LabNode, &LabNode), rate_bps: u64, flows: u64) -> Result<Figure> {
        let wan = self.wan();
        let mtu = wan.mtu_from(pair.0.side());
        let (protocol, payload_bytes, header_bytes, arriving) =
            if tcp_can_fill(&wan, rate_bps / flows) {
                let largest = mtu - TCP_HEADER_BYTES;
                let clamped = wan.mss_clamp.map_or(largest, |mss| mss - TCP_OPTION_BYTES);
                (Protocol::Tcp, largest.min(clamped), TCP_HEADER_BYTES, 1.0)
            } else {
                let arriving = 1.0 - wan.loss_from(pair.0.side());
                (Protocol::Udp, mtu - UDP_HEADER_BYTES, UDP_HEADER_BYTES, arriving)
            };
        let traffic = Traffic {
            protocol,
            streams: flows,
            payload_bytes,
            // More than fits through.
            offered_bps: rate_bps * 12 / 10,
        };
        let log = self.dir().join("check-iperf3.log");
        let measured = received_bps(pair, traffic, SECONDS, &log)? / 1e6;
        let payload = f64::from(payload_bytes) / f64::from(payload_bytes + header_bytes);
        let expected = rate_bps as f64 * payload * arriving / 1e6;
        Ok(Figure {
            name: format!("{} to {}, flows: {flows}", pair.0.name(), pair.1.name()),
            expected,
            measured,
            tolerance: expected * TOLERANCE,
            unit: "Mbit/s",
        })
    }
}

impl CheckReport {
    /// What is off by more than it may be.
    pub fn problems(&self) -> Vec<String> {
        self.figures.iter().filter(|figure| !figure.is_right()).map(ToString::to_string).collect()
    }
}

impl Figure {
    /// Whether it is near enough to what was expected.
    pub fn is_right(&self) -> bool {
        (self.measured - self.expected).abs() <= self.tolerance
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, expected, measured, unit, .. } = self;
        let off_percent = (measured / expected - 1.0) * 100.0;
        write!(f, "{name}: {measured:.2} {unit}, expected {expected:.2} ({off_percent:+.1} %)")
    }
}

fn settled(measure: impl Fn() -> Result<Figure>) -> Result<Figure> {
    let mut figure = measure()?;
    for _ in 1..ATTEMPTS {
        if figure.is_right() {
            break;
        }
        figure = measure()?;
    }
    Ok(figure)
}

fn rtt(from: &LabNode, to: &LabNode, rtt: Duration) -> Result<Figure> {
    let target = to.redo().to_string();
    let output = from.run(&["ping", "-n", "-c", "31", "-i", "0.05", &target])?;
    let mut times = ping_times_ms(&output);
    times.sort_by(f64::total_cmp);
    let measured = *times.get(times.len() / 2).context("no ping came back")?;
    let expected = rtt.as_secs_f64() * 1e3;
    let tolerance = expected * TOLERANCE + RTT_SLACK_MS;
    Ok(Figure { name: "RTT".to_owned(), expected, measured, tolerance, unit: "ms" })
}

pub(crate) fn ping_times_ms(output: &str) -> Vec<f64> {
    let times = output.lines().filter_map(|line| line.split_once("time=")?.1.split_once(" ms"));
    times.filter_map(|(time, _)| time.parse().ok()).collect()
}

fn smaller(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// Whether credit is used up well before iperf3 begins to count.
fn is_short(burst: Burst, wan: &WanSpec) -> bool {
    let slower_bps = smaller(wan.rate_bps, wan.standby_to_primary_bps());
    slower_bps.is_some_and(|rate_bps| burst.credit_bytes * 8 <= rate_bps / 10)
}

/// Of a flow's credit, what is used up well before iperf3 begins to count.
fn short_credit_bytes(wan: &WanSpec) -> u64 {
    wan.per_flow_bps.map_or(0, |rate_bps| wan.per_flow_credit_bytes.min(rate_bps / 80))
}

/// Whether CUBIC keeps a path of this rate busy: it needs default queues, no loss, packets in order, no
/// black hole, and a window that the kernel's default buffers allow.
fn tcp_can_fill(wan: &WanSpec, flow_bps: u64) -> bool {
    let has_default_queues = wan.queue_bytes.is_none() && wan.per_flow_queue_bytes.is_none();
    let window_bytes = flow_bps as f64 * wan.rtt.as_secs_f64() / 8.0;
    let is_clean = [Side::Primary, Side::Standby]
        .iter()
        .all(|side| wan.loss_from(*side) == 0.0 && wan.icmp_to(*side) == Icmp::Allowed);
    has_default_queues && is_clean && wan.reorder.is_none() && window_bytes < 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_pings_that_came_back() {
        let output = "PING 203.0.113.11 56(84) bytes of data.\n\
            64 bytes from 203.0.113.11: icmp_seq=1 ttl=62 time=10.2 ms\n\
            64 bytes from 203.0.113.11: icmp_seq=3 ttl=62 time=10.1 ms\n";
        assert_eq!(ping_times_ms(output), [10.2, 10.1]);
    }

    #[test]
    fn a_figure_outside_its_tolerance_is_a_problem_in_words() {
        let figure = Figure {
            name: "one flow".to_owned(),
            expected: 57.92,
            measured: 50.0,
            tolerance: 1.16,
            unit: "Mbit/s",
        };
        let report = CheckReport { figures: vec![figure] };
        assert_eq!(report.problems(), ["one flow: 50.00 Mbit/s, expected 57.92 (-13.7 %)"]);
    }
}
