//! Quantities to text; the only place that rounds.
//!
//! Network people think in Mbit/s and database people in MiB/s, so a rate is given in both.

use redoline_proto::units::{Bytes, BytesPerSecond, Share};

/// Not measured, or not told by the node.
pub const UNKNOWN: &str = "unknown";
/// Nothing belongs here.
pub const NONE: &str = "–";

const MIB: f64 = 1_048_576.0;
const RATE_STEPS: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

/// `57.9 Mbit/s (6.9 MiB/s)`.
pub fn rate(bytes_per_second: Option<f64>) -> String {
    rate_with_half_width(bytes_per_second, None)
}

/// `57.9 ± 0.4 Mbit/s (6.9 MiB/s)`: the half-width has the unit and the decimals of the mean.
pub fn rate_with_half_width(bytes_per_second: Option<f64>, half_width: Option<f64>) -> String {
    match finite(bytes_per_second) {
        None => UNKNOWN.to_owned(),
        Some(rate) => {
            format!("{} ({})", network_rate(Some(rate), half_width), mib_rate(Some(rate)))
        }
    }
}

/// `57.9 ± 0.4 Mbit/s`, or `57.9 Mbit/s` where the half-width is unknown.
pub fn network_rate(bytes_per_second: Option<f64>, half_width: Option<f64>) -> String {
    let Some(rate) = finite(bytes_per_second) else {
        return UNKNOWN.to_owned();
    };
    let Some(half_width) = finite(half_width) else {
        return BytesPerSecond(rate).to_string();
    };
    if half_width > rate {
        return format!("{}, no interval", BytesPerSecond(rate));
    }
    let (divisor, step) = rate_scale(rate);
    format!("{} {step}", with_half_width(rate * 8.0 / divisor, half_width * 8.0 / divisor))
}

/// `6.9 MiB/s`: one decimal below 100, since more is never known of a rate.
pub fn mib_rate(bytes_per_second: Option<f64>) -> String {
    match finite(bytes_per_second).map(|rate| rate / MIB) {
        None => UNKNOWN.to_owned(),
        Some(rate) if rate >= 99.95 => format!("{} MiB/s", grouped(rate.round() as u64)),
        Some(rate) if rate >= 0.095 => format!("{rate:.1} MiB/s"),
        Some(rate) => format!("{rate:.3} MiB/s"),
    }
}

/// `6.9 ± 0.1 MiB/s`.
pub fn mib_rate_with_half_width(bytes_per_second: Option<f64>, half_width: Option<f64>) -> String {
    match (finite(bytes_per_second), finite(half_width)) {
        (Some(rate), Some(half_width)) if half_width > rate => {
            format!("{}, no interval", mib_rate(Some(rate)))
        }
        (Some(rate), Some(half_width)) => {
            format!("{} MiB/s", with_half_width(rate / MIB, half_width / MIB))
        }
        _ => mib_rate(bytes_per_second),
    }
}

/// Divisor and name of the unit in which a rate is written; a chart's axis has one for all.
pub fn rate_scale(bytes_per_second: f64) -> (f64, &'static str) {
    let mut divisor = 1.0;
    let mut step = 0;
    while bytes_per_second * 8.0 / divisor >= 999.5 && step + 1 < RATE_STEPS.len() {
        divisor *= 1000.0;
        step += 1;
    }
    (divisor, RATE_STEPS[step])
}

/// `16 MiB`.
pub fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string())
}

/// `20.1 ms`, `450 µs`, `2.5 s`.
pub fn microseconds(us: Option<f64>) -> String {
    match finite(us) {
        None => UNKNOWN.to_owned(),
        Some(0.0) => "0 s".to_owned(),
        Some(us) if us.abs() < 999.5 => format!("{} µs", three_digits(us)),
        Some(us) if us.abs() < 999_500.0 => format!("{} ms", three_digits(us / 1e3)),
        Some(us) => seconds(Some(us / 1e6)),
    }
}

pub fn milliseconds(ms: Option<f64>) -> String {
    microseconds(ms.map(|ms| ms * 1e3))
}

/// `12.5 s`, `3 min 20 s`, `8 h`, `1 d 2 h`: the two largest units.
pub fn seconds(seconds: Option<f64>) -> String {
    let Some(seconds) = finite(seconds) else {
        return UNKNOWN.to_owned();
    };
    if seconds < 59.95 {
        return format!("{} s", three_digits(seconds));
    }
    let whole = seconds.round() as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    let (large, small) = if days > 0 {
        (format!("{days} d"), (whole % 86_400 / 3600, "h"))
    } else if hours > 0 {
        (format!("{hours} h"), (minutes % 60, "min"))
    } else {
        (format!("{minutes} min"), (whole % 60, "s"))
    };
    if small.0 == 0 { large } else { format!("{large} {} {}", small.0, small.1) }
}

/// `30 %`.
pub fn percent(share: Option<f64>) -> String {
    finite(share).map_or_else(|| UNKNOWN.to_owned(), |share| Share(share).to_string())
}

/// `12 345`: groups of three, apart from each other by a thin space.
pub fn count(count: Option<u64>) -> String {
    count.map_or_else(|| UNKNOWN.to_owned(), grouped)
}

/// A number without a unit, to three digits.
pub fn number(number: Option<f64>) -> String {
    finite(number).map_or_else(|| UNKNOWN.to_owned(), three_digits)
}

/// A text, or that it is unknown.
pub fn text(text: Option<&str>) -> String {
    text.unwrap_or(UNKNOWN).to_owned()
}

/// The value of a finding in its unit; units that are not known here are written as they are.
pub fn value(value: Option<f64>, unit: Option<&str>) -> String {
    let Some(number) = finite(value) else {
        return NONE.to_owned();
    };
    match unit.unwrap_or_default() {
        "bytes_per_second" => rate(Some(number)),
        // An MTU or a block is known by its number.
        "bytes" if (0.0..10_000.0).contains(&number) => format!("{number:.0} bytes"),
        "bytes" if number >= 0.0 => bytes(Some(number.round() as u64)),
        "seconds" => seconds(Some(number)),
        "milliseconds" | "ms" => milliseconds(Some(number)),
        "microseconds" | "us" => microseconds(Some(number)),
        "share" | "ratio" => percent(Some(number)),
        other => format!("{} {other}", three_digits(number)).trim_end().replace('_', " "),
    }
}

/// `2026-11-30 18:30:05 UTC` from RFC 3339; what does not look like it is left alone.
pub fn moment(rfc3339: &str) -> String {
    let (Some(date), Some(time), Some("T")) =
        (rfc3339.get(..10), rfc3339.get(11..19), rfc3339.get(10..11))
    else {
        return rfc3339.to_owned();
    };
    if rfc3339.ends_with('Z') { format!("{date} {time} UTC") } else { rfc3339.to_owned() }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Both with the same decimals: those of the mean, or more where the half-width would be zero.
fn with_half_width(mean: f64, half_width: f64) -> String {
    let enough = match half_width.abs() {
        0.0 => 0,
        h if h >= 0.95 => 0,
        h if h >= 0.095 => 1,
        h if h >= 0.0095 => 2,
        _ => 3,
    };
    let decimals = decimals(mean).max(enough);
    format!("{mean:.decimals$} ± {half_width:.decimals$}")
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    }
}

/// Three significant digits, without trailing zeros after the point.
fn three_digits(value: f64) -> String {
    if value.abs() >= 999.5 && value.abs() < 1e15 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(value.abs().round() as u64));
    }
    let decimals = decimals(value);
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_given_in_bits_and_in_bytes() {
        assert_eq!(rate(Some(7_240_000.0)), "57.9 Mbit/s (6.9 MiB/s)");
        assert_eq!(
            rate_with_half_width(Some(7_240_000.0), Some(50_000.0)),
            "57.9 ± 0.4 Mbit/s (6.9 MiB/s)"
        );
        assert_eq!(rate(Some(1.25e9)), "10 Gbit/s (1192 MiB/s)");
    }

    #[test]
    fn a_half_width_above_the_mean_is_no_interval() {
        let (rate, half_width) = (Some(2.8e9), Some(3.4e9));
        assert_eq!(network_rate(rate, half_width), "22.4 Gbit/s, no interval");
        assert_eq!(mib_rate_with_half_width(rate, half_width), "2670 MiB/s, no interval");
    }

    #[test]
    fn a_half_width_is_not_rounded_away() {
        let (rate, half_width) = (Some(5.888e9), Some(2_097_152.0));
        assert_eq!(network_rate(rate, half_width), "47.10 ± 0.02 Gbit/s");
        assert_eq!(mib_rate_with_half_width(rate, half_width), "5615 ± 2 MiB/s");
    }

    #[test]
    fn what_was_not_measured_is_unknown_and_never_zero() {
        for text in [
            rate(None),
            rate(Some(f64::NAN)),
            bytes(None),
            percent(Some(f64::INFINITY)),
            microseconds(None),
            count(None),
        ] {
            assert_eq!(text, UNKNOWN);
        }
    }

    #[test]
    fn times_have_the_unit_of_their_size() {
        assert_eq!(microseconds(Some(450.0)), "450 µs");
        assert_eq!(microseconds(Some(20_140.0)), "20.1 ms");
        assert_eq!(milliseconds(Some(-3.0)), "-3 ms");
        assert_eq!(seconds(Some(200.0)), "3 min 20 s");
        assert_eq!(seconds(Some(28_800.0)), "8 h");
        assert_eq!(seconds(Some(93_600.0)), "1 d 2 h");
    }

    #[test]
    fn a_finding_has_its_value_in_words() {
        assert_eq!(value(Some(0.02), Some("share")), "2 %");
        assert_eq!(value(Some(4_194_304.0), Some("bytes")), "4 MiB");
        assert_eq!(value(Some(1500.0), Some("bytes")), "1500 bytes");
        assert_eq!(value(Some(8.0), Some("connections")), "8 connections");
        assert_eq!(value(None, Some("bytes")), NONE);
    }

    #[test]
    fn a_moment_is_shown_in_utc() {
        assert_eq!(moment("2026-11-30T18:30:05.123Z"), "2026-11-30 18:30:05 UTC");
        assert_eq!(moment("yesterday"), "yesterday");
    }
}
