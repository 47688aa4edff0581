//! Numbers as findings and advice say them.

use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::steady::Steady;

/// `57.9 Mbit/s (6.9 MiB/s)`: for the network team and for the DBA.
pub fn rate(rate: BytesPerSecond) -> String {
    format!("{rate} ({}/s)", Bytes(rate.0.round() as u64))
}

/// `2.41 GiB/s`: storage is spoken of in bytes.
pub fn bytes_rate(rate: BytesPerSecond) -> String {
    format!("{}/s", Bytes(rate.0.round() as u64))
}

/// `57.9 Mbit/s (6.9 MiB/s) ± 0.3 Mbit/s`.
pub fn steady(steady: &Steady) -> String {
    match steady.half_width {
        Some(half) => format!("{} ± {half}", rate(steady.rate)),
        None => format!("{} (too few samples for an interval)", rate(steady.rate)),
    }
}

/// `34.2 %`.
pub fn percent(share: f64) -> String {
    Share(share).to_string()
}

/// `10.2 ms`.
pub fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        ms if ms >= 9.95 => format!("{ms:.1} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

/// `3.4 h`, `12 min`, `40 s`.
pub fn long_time(seconds: f64) -> String {
    match seconds {
        s if s >= 5400.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 90.0 => format!("{:.0} min", s / 60.0),
        s => format!("{s:.0} s"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [head @ .., last] => {
            let head: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", head.join(", "), last.as_ref())
        }
    }
}

/// `1 connection`, `6 connections`.
pub fn count(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
