//! The tables of keys as Markdown, for the reference in `docs/`.

use std::fmt::Write;
use std::time::Duration;

use super::inventory_keys::{self, INVENTORY};
use super::keys;
use super::table::{Key, Kind, Presence, Table};

/// Every table of keys, runbook first, then inventory.
pub fn docs_tables() -> String {
    let mut text = String::new();
    let mut done: Vec<&str> = Vec::new();
    text += "## Runbook\n\n";
    section(&mut text, &keys::RUNBOOK, &mut done);
    section(&mut text, &keys::STEP, &mut done);
    text += "## Actions\n\n";
    for action in keys::ACTIONS {
        section(&mut text, action, &mut done);
    }
    text += "## Inventory\n\n";
    done.clear();
    section(&mut text, &INVENTORY, &mut done);
    section(&mut text, &inventory_keys::NODE, &mut done);
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn section(text: &mut String, table: &'static Table, done: &mut Vec<&'static str>) {
    if done.contains(&table.name) {
        return;
    }
    done.push(table.name);
    let heading = match table.name {
        name @ ("runbook" | "inventory") => format!("### The {name} file"),
        name => format!("### `{name}`"),
    };
    // Writing to a String cannot fail.
    _ = write!(text, "{heading}\n\n{}\n\n", table.sentence);
    if !table.keys.is_empty() {
        text.push_str(
            "| key | type | default | unit | oratcptest | |\n|---|---|---|---|---|---|\n",
        );
        for key in table.keys.iter().filter(|key| !matches!(key.kind, Kind::Later(_))) {
            text.push_str(&row(key));
        }
        text.push('\n');
    }
    let is_action = |inner: &Table| keys::ACTIONS.iter().any(|action| action.name == inner.name);
    for key in table.keys {
        match &key.kind {
            Kind::Table(inner) | Kind::Either(_, inner) if !is_action(inner) => {
                section(text, inner, done);
            }
            _ => {}
        }
    }
}

fn row(key: &Key) -> String {
    let default = match key.presence {
        Presence::Required => "required".to_owned(),
        Presence::Optional => "–".to_owned(),
        Presence::Default(text) => format!("`{text}`"),
    };
    let oratcptest =
        key.oratcptest.map_or("–".to_owned(), |option| match option.starts_with('-') {
            true => format!("`{}`", option.replace(", ", "`, `")),
            false => option.to_owned(),
        });
    format!(
        "| `{}` | {} | {default} | {} | {oratcptest} | {} |\n",
        key.name,
        type_text(&key.kind),
        unit_text(&key.kind),
        key.sentence.replace('|', "\\|"),
    )
}

/// What a kind is called.
pub fn type_text(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Expression => "expression".to_owned(),
        Kind::Integer { min, max } => format!("whole number, {min} to {max}"),
        Kind::Number => "number".to_owned(),
        Kind::Duration { .. } => "time".to_owned(),
        Kind::Size { .. } => "size".to_owned(),
        Kind::TestTime { .. } => "time, or `auto`".to_owned(),
        Kind::Frequency => "two times: every/for".to_owned(),
        Kind::Rate => "rate".to_owned(),
        Kind::Share { .. } => "share".to_owned(),
        Kind::Choice { now, .. } => format!("`{}`", now.join("`, `")),
        Kind::Buffer => "`auto`, a size, or `N`xBDP".to_owned(),
        Kind::CongestionControl => "name".to_owned(),
        Kind::Dscp => "0 to 63, or a name: `ef`, `af11` … `af43`, `cs0` … `cs7`".to_owned(),
        Kind::Device => "interface".to_owned(),
        Kind::Window => "two times of day".to_owned(),
        Kind::Address => "IP address".to_owned(),
        Kind::Ports => "port or range".to_owned(),
        Kind::Selection => "`all`, `first`, or a list of names".to_owned(),
        Kind::List(item) => format!("list of: {}", type_text(item)),
        Kind::OneOrMore(item) => format!("one or a list of: {}", type_text(item)),
        Kind::Table(table) => format!("mapping, see `{}`", table.name),
        Kind::Either(kind, table) => {
            format!("{}; or a mapping, see below (`{}`)", type_text(kind), table.name)
        }
        Kind::Numbered(item) => format!("mapping from number to {}", type_text(item)),
        Kind::Anything => "any".to_owned(),
        Kind::Steps => "list of steps".to_owned(),
        Kind::Nodes => "list of nodes".to_owned(),
        Kind::Later(_) => "–".to_owned(),
    }
}

fn unit_text(kind: &Kind) -> &'static str {
    match kind {
        Kind::Duration { .. } | Kind::TestTime { .. } | Kind::Frequency => {
            "`us`, `ms`, `s`, `min`, `h`, `d`"
        }
        Kind::Size { .. } | Kind::Buffer => "`B`, `kB`, `MB`, `KiB`, `MiB`, `GiB`, …",
        Kind::Rate => "`Mbit/s`, `Gbit/s`, `MB/s`, `MiB/s`, …",
        Kind::Share { .. } => "`%`",
        Kind::List(item) | Kind::OneOrMore(item) | Kind::Numbered(item) => unit_text(item),
        Kind::Either(kind, _) => unit_text(kind),
        _ => "–",
    }
}

/// A time in the largest unit that fits: `90 s`, `2 min`, `500 ms`.
pub fn time_text(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0 => format!("{} us", time.as_micros()),
        _ if ms.is_multiple_of(86_400_000) => format!("{} d", ms / 86_400_000),
        _ if ms.is_multiple_of(3_600_000) => format!("{} h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
        _ if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        _ if ms < 1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
