//! Quantities that cannot be mixed up, and their texts with units.
//!
//! Sizes: `B`, `kB`, `MB`, `GB`, `TB` (powers of 10), `KiB`, `MiB`, `GiB`, `TiB` (powers of 2).
//! Rates: `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s` (powers of 10), and every size with `/s`.
//! Times: `us`, `ms`, `s`, `min`, `h`, `d`. Shares: `%`. A number without its unit is an error.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A rate in bytes per second; never negative, never NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(pub f64);

/// A share of a whole: 0.3 is 30 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl Bytes {
    pub const KIB: u64 = 1 << 10;
    pub const MIB: u64 = 1 << 20;
    pub const GIB: u64 = 1 << 30;

    /// The mean rate when this many bytes moved in `elapsed`.
    ///
    /// `None` when no time passed: a rate over zero seconds is not zero, it is unknown.
    pub fn over(self, elapsed: Duration) -> Option<BytesPerSecond> {
        (!elapsed.is_zero()).then(|| BytesPerSecond(self.0 as f64 / elapsed.as_secs_f64()))
    }
}

impl BytesPerSecond {
    pub fn from_bits_per_second(bits_per_second: f64) -> Self {
        Self(bits_per_second / 8.0)
    }

    pub fn bits_per_second(self) -> f64 {
        self.0 * 8.0
    }

    /// Bytes that move in `elapsed` at this rate, rounded up.
    pub fn bytes_in(self, elapsed: Duration) -> Bytes {
        Bytes((self.0 * elapsed.as_secs_f64()).ceil() as u64)
    }
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidQuantity {
    #[error("`{text}` has no unit; write for example `{example}`")]
    NoUnit { text: String, example: &'static str },
    #[error("`{text}` has the unknown unit `{unit}`; known are {known}")]
    UnknownUnit { text: String, unit: String, known: String },
    #[error("`{text}` is not a number with a unit; write for example `{example}`")]
    NotANumber { text: String, example: &'static str },
    #[error("`{text}` is out of range")]
    OutOfRange { text: String },
}

const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("PiB", 1_125_899_906_842_624.0),
];

/// In bytes per second.
const RATES: &[(&str, f64)] = &[
    ("bit/s", 1.0 / 8.0),
    ("kbit/s", 1e3 / 8.0),
    ("Mbit/s", 1e6 / 8.0),
    ("Gbit/s", 1e9 / 8.0),
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("KiB/s", 1024.0),
    ("MiB/s", 1_048_576.0),
    ("GiB/s", 1_073_741_824.0),
];

/// In seconds.
const TIMES: &[(&str, f64)] = &[
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

const SHARES: &[(&str, f64)] = &[("%", 0.01)];

impl FromStr for Bytes {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let bytes = quantity(text, SIZES, "4 MiB")?;
        // 2^53: above it an f64 no longer holds every integer.
        if bytes > 9_007_199_254_740_992.0 {
            return Err(InvalidQuantity::OutOfRange { text: text.to_owned() });
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl FromStr for BytesPerSecond {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        quantity(text, RATES, "10 Gbit/s").map(Self)
    }
}

impl FromStr for Share {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        quantity(text, SHARES, "30 %").map(Self)
    }
}

/// Reads a time such as `120 s`, `8h` or `10 ms`.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidQuantity> {
    let seconds = quantity(text, TIMES, "60 s")?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| InvalidQuantity::OutOfRange { text: text.to_owned() })
}

/// Whole milliseconds, as the wire and the record have them.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn quantity(
    text: &str,
    units: &[(&str, f64)],
    example: &'static str,
) -> Result<f64, InvalidQuantity> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(trimmed.len());
    let number: f64 = trimmed[..end]
        .replace('_', "")
        .parse()
        .map_err(|_| InvalidQuantity::NotANumber { text: text.to_owned(), example })?;
    let unit = trimmed[end..].trim_start();
    if unit.is_empty() {
        return Err(InvalidQuantity::NoUnit { text: text.to_owned(), example });
    }
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(number * factor),
        None => Err(InvalidQuantity::UnknownUnit {
            text: text.to_owned(),
            unit: unit.to_owned(),
            known: units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// `16 MiB`, `1448 B`: three significant digits, powers of 2.
impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        scaled(formatter, self.0 as f64, 1024.0, &STEPS)
    }
}

/// `57.9 Mbit/s`: network rates are spoken of in bits.
impl fmt::Display for BytesPerSecond {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
        scaled(formatter, self.bits_per_second(), 1000.0, &STEPS)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} %", significant(self.0 * 100.0))
    }
}

fn scaled(
    formatter: &mut fmt::Formatter<'_>,
    value: f64,
    base: f64,
    steps: &[&str],
) -> fmt::Result {
    let mut value = value;
    let mut step = 0;
    while value >= base * 0.9995 && step + 1 < steps.len() {
        value /= base;
        step += 1;
    }
    write!(formatter, "{} {}", significant(value), steps[step])
}

/// Three significant digits, without trailing zeros after the point.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_their_unit() {
        assert_eq!("20 KiB".parse(), Ok(Bytes(20_480)));
        assert_eq!("1MB".parse(), Ok(Bytes(1_000_000)));
        assert_eq!("12 TiB".parse::<Bytes>().unwrap().to_string(), "12 TiB");
    }

    #[test]
    fn a_bare_number_is_not_a_quantity() {
        let error = "60".parse::<Bytes>().unwrap_err();
        assert_eq!(error.to_string(), "`60` has no unit; write for example `4 MiB`");
    }

    #[test]
    fn rates_in_bits_and_bytes_meet_in_one_type() {
        let bits: BytesPerSecond = "80 Mbit/s".parse().unwrap();
        let bytes: BytesPerSecond = "10 MB/s".parse().unwrap();
        assert_eq!(bits, bytes);
        assert_eq!(bits.to_string(), "80 Mbit/s");
    }

    #[test]
    fn a_wrong_unit_names_the_known_ones() {
        let error = "10 Mb".parse::<BytesPerSecond>().unwrap_err().to_string();
        assert!(error.contains("unknown unit `Mb`") && error.contains("Mbit/s"), "{error}");
    }

    #[test]
    fn times_may_be_written_with_or_without_a_space() {
        assert_eq!(parse_duration("8h"), Ok(Duration::from_secs(28_800)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1_500)));
    }

    #[test]
    fn display_rounds_to_three_digits() {
        assert_eq!(BytesPerSecond(7_240_000.0).to_string(), "57.9 Mbit/s");
        assert_eq!(Bytes(1_048_576).to_string(), "1 MiB");
        assert_eq!(Share(0.3).to_string(), "30 %");
    }
}
