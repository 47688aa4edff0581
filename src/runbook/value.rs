//! Readers of single values: each gives the value, or where and why it is none.

use std::time::Duration;

use redoline_proto::transfer::SOCKET_BUFFER_MAX;
use redoline_proto::units::{Bytes, BytesPerSecond, InvalidQuantity, Share, parse_duration};

pub use super::network_values::{DSCP_NAMES, address, congestion_control, device, dscp, ports};
use super::problem::{Fault, Faults};
use super::tree::{Content, Entry, Node, Scalar};

/// A socket buffer as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    Auto,
    Size(Bytes),
    TimesBdp(f64),
}

/// `all`, `first`, or names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Selection {
    All,
    First,
    /// Each with the place where it is written.
    Named(Vec<(String, super::source::Place)>),
}

/// Any text; a number or a boolean is taken as it is written.
pub fn text(node: &Node) -> Result<String, Faults> {
    let scalar = scalar(node, "a text")?;
    if scalar.text.trim().is_empty() {
        return Err(one(node, "an empty text", "write something"));
    }
    Ok(scalar.text.clone())
}

pub fn integer(node: &Node, min: u64, max: u64) -> Result<u64, Faults> {
    let scalar = scalar(node, "a whole number")?;
    let right = || format!("write a whole number from {min} to {max}");
    let text = scalar.text.as_str();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) || text.is_empty() {
        return Err(one(node, format!("`{text}` is not a whole number"), right()));
    }
    if text.len() > 1 && text.starts_with('0') {
        let found = format!("`{text}` begins with 0, which some read as octal");
        return Err(one(node, found, right()));
    }
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(one(node, format!("{text} is out of range"), right())),
    }
}

/// A whole number that fits 32 bits.
pub fn count(node: &Node, min: u32, max: u32) -> Result<u32, Faults> {
    integer(node, min.into(), max.into()).map(|number| u32::try_from(number).unwrap_or(max))
}

/// A number that needs no unit, above 0.
pub fn number(node: &Node) -> Result<f64, Faults> {
    let scalar = scalar(node, "a number")?;
    match scalar.text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(one(
            node,
            format!("`{}` is not a number above 0", scalar.text),
            "write for example 1.5",
        )),
    }
}

pub fn duration(node: &Node, min: Duration) -> Result<Duration, Faults> {
    let scalar = scalar(node, "a time with its unit")?;
    let time = parse_duration(&scalar.text).map_err(|error| not_a_quantity(node, &error))?;
    if time < min || time > TIME_MAX {
        let found = format!("`{}` is out of range", scalar.text);
        let right = format!("from {} to 30 d", super::docs::time_text(min));
        return Err(one(node, found, right));
    }
    Ok(time)
}

/// How long a test sends; `None` is `auto`.
pub fn test_time(node: &Node, min: Duration) -> Result<Option<Duration>, Faults> {
    let scalar = scalar(node, "a time with its unit, or `auto`")?;
    match scalar.text.trim() {
        "auto" => Ok(None),
        _ => duration(node, min).map(Some),
    }
}

/// Every how long, and for how long: `1 h/24 h`.
pub fn frequency(node: &Node) -> Result<(Duration, Duration), Faults> {
    let scalar = scalar(node, "two times, as in `1 h/24 h`")?;
    let Some((every, during)) = scalar.text.split_once('/') else {
        let found = format!("`{}` is not two times", scalar.text);
        return Err(one(node, found, "write every and for, as in `1 h/24 h`"));
    };
    let time = |text: &str| duration(&Node::plain(node.place, text.trim()), Duration::from_secs(1));
    let mut times = collect([time(every), time(during)].into_iter())?.into_iter();
    match (times.next(), times.next()) {
        (Some(every), Some(during)) if every <= during => Ok((every, during)),
        _ => {
            let found = format!("`{}` repeats less often than it lasts", scalar.text);
            Err(one(node, found, "write the shorter time first, as in `1 h/24 h`"))
        }
    }
}

/// No step, and no instantiation worth planning, takes longer.
const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

pub fn size(node: &Node, min: Bytes, max: Bytes) -> Result<Bytes, Faults> {
    let scalar = scalar(node, "a size with its unit")?;
    let size: Bytes = scalar.text.parse().map_err(|error| not_a_quantity(node, &error))?;
    if size < min || size > max {
        let found = format!("`{}` is out of range", scalar.text);
        return Err(one(node, found, format!("from {min} to {max}")));
    }
    Ok(size)
}

pub fn rate(node: &Node) -> Result<BytesPerSecond, Faults> {
    let scalar = scalar(node, "a rate with its unit")?;
    let rate: BytesPerSecond = scalar.text.parse().map_err(|error| not_a_quantity(node, &error))?;
    if rate.0 <= 0.0 {
        return Err(one(node, format!("`{}` is no rate", scalar.text), "it must be above 0"));
    }
    Ok(rate)
}

/// `max` is a share as well: 1.0 is 100 %.
pub fn share(node: &Node, max: f64) -> Result<Share, Faults> {
    let scalar = scalar(node, "a share in %")?;
    let share: Share = scalar.text.parse().map_err(|error| not_a_quantity(node, &error))?;
    if share.0 > max {
        let found = format!("`{}` is out of range", scalar.text);
        return Err(one(node, found, format!("from 0 % to {}", Share(max))));
    }
    Ok(share)
}

/// One of a closed set of words.
pub fn choice(node: &Node, now: &[&'static str], later: &[&str]) -> Result<&'static str, Faults> {
    let scalar = scalar(node, "a word")?;
    let text = scalar.text.as_str();
    if let Some(word) = now.iter().find(|word| **word == text) {
        return Ok(word);
    }
    if later.contains(&text) {
        return Err(vec![comes_later(node, text, &now.join(", "))]);
    }
    Err(vec![Fault::unknown(node.place, "word", text, now.iter().copied())])
}

/// Something that is designed but not built.
pub fn comes_later(node: &Node, what: &str, instead: &str) -> Fault {
    let fault = Fault::new(node.place, format!("`{what}` comes with a later version"));
    if instead.is_empty() {
        fault.right("leave it out")
    } else {
        fault.right(format!("now: {instead}"))
    }
}

pub fn buffer(node: &Node) -> Result<Buffer, Faults> {
    let scalar = scalar(node, "`auto`, a size, or a multiple such as `3xBDP`")?;
    let text = scalar.text.trim();
    if text == "auto" {
        return Ok(Buffer::Auto);
    }
    if let Some(factor) = text.to_ascii_lowercase().strip_suffix("bdp") {
        let factor = factor.trim_end_matches(['x', '*', '×', ' ']).trim();
        return match factor.parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor <= 64.0 => Ok(Buffer::TimesBdp(factor)),
            _ => Err(one(
                node,
                format!("`{text}` is not a multiple of the BDP"),
                "write for example `3xBDP`",
            )),
        };
    }
    if text.contains(['x', '*']) {
        let found = format!("`{text}` is neither a size nor a multiple of the BDP");
        return Err(one(node, found, "write for example `4 MiB` or `3xBDP`"));
    }
    size(node, Bytes(1024), SOCKET_BUFFER_MAX).map(Buffer::Size)
}

/// From and to in minutes after midnight, as in `22:00-05:00`.
pub fn window(node: &Node) -> Result<(u16, u16), Faults> {
    let scalar = scalar(node, "two times of day")?;
    let minute = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let both =
        scalar.text.split_once('-').and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
    both.filter(|(from, to)| from != to).ok_or_else(|| {
        one(
            node,
            format!("`{}` is not a window of the day", scalar.text),
            "write for example \"22:00-05:00\"",
        )
    })
}

pub fn selection(node: &Node) -> Result<Selection, Faults> {
    match &node.content {
        Content::Scalar(scalar) if scalar.text == "all" => Ok(Selection::All),
        Content::Scalar(scalar) if scalar.text == "first" => Ok(Selection::First),
        Content::Scalar(scalar) => Err(vec![
            Fault::unknown(node.place, "selection", &scalar.text, ["all", "first"])
                .right("write all, first, or a list of names"),
        ]),
        _ => list(node, |item| text(item).map(|name| (name, item.place))).map(Selection::Named),
    }
}

/// At least one item; every wrong item is told.
pub fn list<T>(node: &Node, read: impl Fn(&Node) -> Result<T, Faults>) -> Result<Vec<T>, Faults> {
    let items = match &node.content {
        Content::List(items) if items.is_empty() => {
            return Err(one(node, "an empty list", "give at least one item"));
        }
        Content::List(items) => items,
        _ => return Err(wrong_type(node, "a list")),
    };
    collect(items.iter().map(read))
}

/// A single item, or a list of them.
pub fn one_or_more<T>(
    node: &Node,
    read: impl Fn(&Node) -> Result<T, Faults>,
) -> Result<Vec<T>, Faults> {
    match node.content {
        Content::Scalar(_) => read(node).map(|item| vec![item]),
        _ => list(node, read),
    }
}

pub fn map<'a>(node: &'a Node, what: &str) -> Result<&'a [Entry], Faults> {
    node.entries().ok_or_else(|| wrong_type(node, what))
}

/// All results, or all faults.
pub fn collect<T>(results: impl Iterator<Item = Result<T, Faults>>) -> Result<Vec<T>, Faults> {
    let (mut values, mut faults) = (Vec::new(), Faults::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(more) => faults.extend(more),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

pub fn scalar<'a>(node: &'a Node, what: &str) -> Result<&'a Scalar, Faults> {
    match &node.content {
        Content::Scalar(scalar) if !node.is_null() => Ok(scalar),
        _ => Err(wrong_type(node, what)),
    }
}

/// What stands there is of another kind; silent where that was already told.
pub fn wrong_type(node: &Node, expected: &str) -> Faults {
    let found = match &node.content {
        Content::Unreadable => return Faults::new(),
        _ if node.is_null() => "no value".to_owned(),
        Content::Scalar(scalar) => format!("`{}`", scalar.text),
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a mapping".to_owned(),
    };
    vec![Fault::new(node.place, format!("{found} where {expected} is expected"))]
}

/// What a plain scalar in a place without a type would be to YAML, if it is none of the traps.
///
/// YAML 1.1 and 1.2 read some texts differently, so these are refused where their type is decided
/// by their look: booleans other than `true` and `false`, octal, base 60, underscores.
pub fn untyped(node: &Node) -> Result<serde_yaml::Value, Faults> {
    match &node.content {
        Content::Unreadable => Err(Faults::new()),
        Content::List(items) => collect(items.iter().map(untyped)).map(serde_yaml::Value::Sequence),
        Content::Map(entries) => {
            let pairs = entries.iter().map(|entry| {
                untyped(&entry.value).map(|value| (serde_yaml::Value::from(&*entry.key), value))
            });
            collect(pairs).map(|pairs| serde_yaml::Value::Mapping(pairs.into_iter().collect()))
        }
        Content::Scalar(scalar) if !scalar.plain => Ok(scalar.text.as_str().into()),
        Content::Scalar(scalar) => match trap(&scalar.text) {
            Some((found, right)) => Err(one(node, found, right)),
            None => Ok(match serde_yaml::from_str(&scalar.text) {
                Ok(value @ (serde_yaml::Value::Bool(_) | serde_yaml::Value::Number(_))) => value,
                Ok(serde_yaml::Value::Null) => serde_yaml::Value::Null,
                _ => scalar.text.as_str().into(),
            }),
        },
    }
}

/// A text that YAML 1.1 and YAML 1.2 read differently.
fn trap(text: &str) -> Option<(String, String)> {
    let quoted = format!("\"{text}\" if it is a text");
    let lower = text.to_ascii_lowercase();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match lower.as_str() {
        "yes" | "on" | "y" => {
            return Some((
                format!("`{text}` is a boolean to some YAML readers and a text to others"),
                format!("write true, or {quoted}"),
            ));
        }
        "no" | "off" | "n" => {
            return Some((
                format!("`{text}` is a boolean to some YAML readers and a text to others"),
                format!("write false, or {quoted}"),
            ));
        }
        _ => {}
    }
    let unsigned = text.trim_start_matches(['-', '+']);
    let sexagesimal = unsigned.contains(':') && unsigned.split(':').all(digits);
    let octal = unsigned.len() > 1 && unsigned.starts_with('0') && digits(unsigned);
    let based = ["0x", "0o", "0b"].iter().any(|prefix| unsigned.to_lowercase().starts_with(prefix));
    let underscored = unsigned.contains('_')
        && unsigned.starts_with(|c: char| c.is_ascii_digit())
        && digits(&unsigned.replace(['_', '.'], ""));
    (sexagesimal || octal || based || underscored).then(|| {
        (
            format!("`{text}` is read as different numbers by different YAML readers"),
            format!("write a decimal number, or {quoted}"),
        )
    })
}

fn not_a_quantity(node: &Node, error: &InvalidQuantity) -> Faults {
    let text = error.to_string();
    let fault = match text.split_once("; ") {
        Some((found, right)) => Fault::new(node.place, found).right(right),
        None => Fault::new(node.place, text),
    };
    vec![Fault { nearest: nearest_unit(error), ..fault }]
}

/// `10 Mb` may have meant `MB` or `Mbit/s`: told only when one is clearly nearer.
fn nearest_unit(error: &InvalidQuantity) -> Option<String> {
    let InvalidQuantity::UnknownUnit { unit, known, .. } = error else { return None };
    let known: Vec<&str> = known.split(", ").collect();
    let lower = unit.to_lowercase();
    let mut same = known.iter().filter(|name| name.to_lowercase() == lower);
    match (same.next(), same.next()) {
        (Some(name), None) => Some((*name).to_owned()),
        _ => match lower.as_str() {
            "sec" | "secs" | "second" | "seconds" => Some("s".to_owned()),
            "mins" | "minute" | "minutes" => Some("min".to_owned()),
            "hour" | "hours" => Some("h".to_owned()),
            "day" | "days" => Some("d".to_owned()),
            "kbps" => Some("kbit/s".to_owned()),
            "mbps" => Some("Mbit/s".to_owned()),
            "gbps" => Some("Gbit/s".to_owned()),
            // `Gb` is a gigabit and `GB` a gigabyte, to those who write either.
            _ if unit.ends_with('b') => Some(format!("{unit}it/s")),
            _ => Some(format!("{unit}/s")),
        }
        .filter(|unit| known.contains(&unit.as_str())),
    }
}

pub fn one(node: &Node, found: impl Into<String>, right: impl Into<String>) -> Faults {
    vec![Fault::new(node.place, found).right(right)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runbook::source::Place;

    fn plain(text: &str) -> Node {
        Node::plain(Place::new(1, 1), text)
    }

    #[test]
    fn words_that_yaml_versions_read_differently_are_refused() {
        for text in ["no", "Yes", "on", "0644", "12:30:45", "1_000", "0x1F", "0o17"] {
            assert!(untyped(&plain(text)).is_err(), "{text}");
        }
        for text in ["true", "10s", "1.10", "22:00-05:00", "phx1", "-3", "1e3"] {
            assert!(untyped(&plain(text)).is_ok(), "{text}");
        }
    }

    #[test]
    fn buffers_are_auto_a_size_or_a_multiple() {
        assert_eq!(buffer(&plain("auto")), Ok(Buffer::Auto));
        assert_eq!(buffer(&plain("4 MiB")), Ok(Buffer::Size(Bytes(4 << 20))));
        assert_eq!(buffer(&plain("3xBDP")), Ok(Buffer::TimesBdp(3.0)));
        assert!(buffer(&plain("4")).is_err());
    }

    #[test]
    fn a_window_is_two_times_of_day() {
        assert_eq!(window(&plain("22:00-05:00")), Ok((1320, 300)));
        assert!(window(&plain("22-05")).is_err());
        assert!(window(&plain("24:00-05:00")).is_err());
    }

    #[test]
    fn a_unit_of_another_spelling_is_recognised() {
        let faults = rate(&plain("10 mbps")).unwrap_err();
        assert_eq!(faults[0].nearest.as_deref(), Some("Mbit/s"));
    }

    #[test]
    fn a_frequency_is_every_and_for() {
        let hour = Duration::from_secs(3600);
        assert_eq!(frequency(&plain("1h/24h")), Ok((hour, 24 * hour)));
        assert_eq!(frequency(&plain("1 h / 1 h")), Ok((hour, hour)));
        for text in ["1 h", "24 h/1 h", "1/24 h", "1 h/", "0 s/1 h"] {
            assert!(frequency(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_test_lasts_a_time_or_as_long_as_it_takes() {
        let least = Duration::from_millis(100);
        assert_eq!(test_time(&plain("auto"), least), Ok(None));
        assert_eq!(test_time(&plain("2 s"), least), Ok(Some(Duration::from_secs(2))));
        assert!(test_time(&plain("1 ms"), least).is_err());
    }
}
