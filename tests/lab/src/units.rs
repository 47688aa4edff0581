//! Reads and writes quantities with units, as the command line and the inventory have them.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Bit/s from text such as `300Mbit/s` or `1.5 Gbit/s` (decimal prefixes).
pub fn parse_rate_bps(text: &str) -> Result<u64> {
    scaled(text, &[("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)])
}

/// Bytes from text such as `256KiB`, `10 MB` or `1500B`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    scaled(
        text,
        &[
            ("GiB", 1_073_741_824.0),
            ("MiB", 1_048_576.0),
            ("KiB", 1024.0),
            ("GB", 1e9),
            ("MB", 1e6),
            ("kB", 1e3),
            ("B", 1.0),
        ],
    )
}

/// A duration from text such as `10ms`, `0.5 s` or `200us`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    scaled(text, &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
        .map(Duration::from_nanos)
}

/// A share from 0 to 1, from text such as `0.1%`.
pub fn parse_share(text: &str) -> Result<f64> {
    let number = text.trim().strip_suffix('%').with_context(|| format!("`{text}` needs a `%`"))?;
    let percent: f64 =
        number.trim().parse().with_context(|| format!("`{text}` does not start with a number"))?;
    if !(0.0..=100.0).contains(&percent) {
        bail!("`{text}` is not between 0% and 100%");
    }
    Ok(percent / 100.0)
}

/// A rate as the inventory has it: `300 Mbit/s`, in the largest unit that keeps it whole.
pub fn format_rate(rate_bps: u64) -> String {
    for (unit, factor) in [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000)] {
        if rate_bps >= factor && rate_bps.is_multiple_of(factor) {
            return format!("{} {unit}", rate_bps / factor);
        }
    }
    format!("{rate_bps} bit/s")
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Result<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 =
        number.parse().with_context(|| format!("`{text}` does not start with a number"))?;
    let known = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let factor = units.iter().find(|(name, _)| *name == unit.trim()).map(|(_, factor)| factor);
    let factor = factor.with_context(|| format!("`{text}` needs a unit, one of {}", known()))?;
    Ok((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(parse_rate_bps("300Mbit/s").unwrap(), 300_000_000);
        assert_eq!(parse_rate_bps("1.5 Gbit/s").unwrap(), 1_500_000_000);
        assert_eq!(parse_bytes("256KiB").unwrap(), 262_144);
        assert_eq!(parse_bytes("10 MB").unwrap(), 10_000_000);
        assert_eq!(parse_duration("10ms").unwrap(), Duration::from_millis(10));
        assert_eq!(parse_duration("0.5 s").unwrap(), Duration::from_millis(500));
        assert!((parse_share("0.1%").unwrap() - 0.001).abs() < 1e-12);
    }

    #[test]
    fn a_number_without_a_unit_is_refused_and_the_units_are_named() {
        let error = parse_rate_bps("300").unwrap_err().to_string();
        assert_eq!(error, "`300` needs a unit, one of Gbit/s, Mbit/s, kbit/s, bit/s");
        parse_duration("ten ms").unwrap_err();
        parse_share("0.1").unwrap_err();
        parse_share("101%").unwrap_err();
    }

    #[test]
    fn rates_are_written_in_the_largest_whole_unit() {
        assert_eq!(format_rate(300_000_000), "300 Mbit/s");
        assert_eq!(format_rate(1_000_000_000), "1 Gbit/s");
        assert_eq!(format_rate(1_500_000), "1500 kbit/s");
    }
}
