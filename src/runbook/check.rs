//! Walks a tree by its table, key by key, so that every mistake is found.

use redoline_proto::units::Bytes;

use super::inventory_keys;
use super::keys;
use super::problem::{self, Fault, Faults};
use super::table::{Key, Kind, Presence, Table};
use super::template;
use super::tree::{Content, Entry, Node};
use super::value::{self, comes_later, wrong_type};

/// Whether texts may hold `{{ … }}`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Templates {
    Allowed,
    Refused,
}

/// A mapping against its table: unknown keys, missing keys, and every value.
pub fn mapping(node: &Node, table: &'static Table, templates: Templates) -> Faults {
    let entries = match mapping_entries(node, table) {
        Ok(entries) => entries,
        Err(faults) => return faults,
    };
    let mut faults = Faults::new();
    for entry in entries {
        match table.key(&entry.key) {
            Some(key) => faults.extend(value_of(entry, key, templates)),
            None if table.is_whole_file() && entry.key.starts_with("x-") => {}
            None => faults.push(unknown_key(entry, table)),
        }
    }
    for key in table.keys.iter().filter(|key| matches!(key.presence, Presence::Required)) {
        if node.get(key.name).is_none() {
            let found = format!("`{}` is missing in {}", key.name, table.name);
            faults.push(Fault::new(node.place, found).right(example(key)));
        }
    }
    faults.extend(one_of(node, table));
    faults
}

/// An action without keys may stand with nothing behind it: `topology:`.
fn mapping_entries<'a>(node: &'a Node, table: &Table) -> Result<&'a [Entry], Faults> {
    if node.is_null() && table.may_be_empty() {
        return Ok(&[]);
    }
    value::map(node, &format!("a mapping ({})", table.name))
}

fn example(key: &Key) -> String {
    format!("write `{}:` – {}", key.name, key.sentence)
}

fn unknown_key(entry: &Entry, table: &'static Table) -> Fault {
    match entry.key.as_str() {
        "password" | "become_password" => {
            Fault::new(entry.place, "a password is not written into a file")
                .right("use `password_from: { env: NAME }`, `{ file: PATH }` or `{ prompt: true }`")
        }
        name => {
            let mut fault = Fault::unknown(entry.place, "key", name, table.names());
            fault.found = format!("{} in {}", fault.found, table.name);
            if let Some(key) = of_oratcptest(name, table) {
                fault.nearest = Some(key.to_owned());
            }
            fault
        }
    }
}

/// Our key for an option of oratcptest: `length`, `sockbuf`.
fn of_oratcptest(name: &str, table: &'static Table) -> Option<&'static str> {
    let option = format!("-{name}");
    let is_it =
        |key: &&Key| key.oratcptest.is_some_and(|all| all.split(", ").any(|one| one == option));
    table.keys.iter().find(is_it).map(|key| key.name)
}

/// The tables of which exactly one key may be given.
fn one_of(node: &Node, table: &Table) -> Faults {
    let keys = table.alternatives();
    let given: Vec<&str> = keys.iter().copied().filter(|key| node.get(key).is_some()).collect();
    if keys.is_empty() || given.len() == 1 {
        return Faults::new();
    }
    let found = match given.as_slice() {
        [] => format!("{} has none of {}", table.name, keys.join(", ")),
        given => format!("{} has {} at once", table.name, given.join(" and ")),
    };
    vec![Fault::new(node.place, found).right(format!("give exactly one of {}", keys.join(", ")))]
}

fn value_of(entry: &Entry, key: &Key, templates: Templates) -> Faults {
    if let Kind::Later(instead) = key.kind {
        let at = Node { place: entry.place, ..entry.value.clone() };
        return vec![comes_later(&at, &entry.key, "").right(instead)];
    }
    kind(&entry.value, &key.kind, templates)
}

/// A value against its kind; a template is only read, not resolved.
pub fn kind(node: &Node, kind: &Kind, templates: Templates) -> Faults {
    match kind {
        Kind::Steps => return steps(node, templates),
        Kind::Nodes => return nodes(node),
        Kind::Anything => return value::untyped(node).err().unwrap_or_default(),
        Kind::Expression => return expression(node),
        Kind::Table(table) => return mapping(node, table, templates),
        Kind::Either(_, table) if node.entries().is_some() => {
            return mapping(node, table, templates);
        }
        Kind::Either(scalar, _) => return self::kind(node, scalar, templates),
        Kind::List(item) => return list(node, item, templates),
        Kind::OneOrMore(item) => {
            return match node.content {
                Content::Scalar(_) => self::kind(node, item, templates),
                _ => list(node, item, templates),
            };
        }
        Kind::Numbered(item) => return numbered(node, item, templates),
        Kind::Selection if matches!(node.content, Content::List(_)) => {
            return list(node, &Kind::Text, templates);
        }
        _ => {}
    }
    if let Some(faults) = template_faults(node, templates) {
        return faults;
    }
    scalar(node, kind).err().unwrap_or_default()
}

/// `Some` when the value is a template: nothing more can be said before it is rendered.
fn template_faults(node: &Node, templates: Templates) -> Option<Faults> {
    let scalar = node.scalar()?;
    if templates == Templates::Refused
        || template::classify(&scalar.text) == template::Template::Literal
    {
        return None;
    }
    let error = template::template_error(&scalar.text);
    Some(
        error
            .map(|why| not_readable(node, template::bare(&scalar.text), &why))
            .into_iter()
            .collect(),
    )
}

fn not_readable(node: &Node, text: &str, why: &str) -> Fault {
    Fault::new(node.place, format!("`{text}` cannot be read: {why}"))
}

fn expression(node: &Node) -> Faults {
    match value::scalar(node, "an expression") {
        Err(faults) => faults,
        Ok(scalar) => {
            let text = template::bare(&scalar.text);
            let error = template::expression_error(text);
            error.map(|why| not_readable(node, text, &why)).into_iter().collect()
        }
    }
}

fn list(node: &Node, item: &Kind, templates: Templates) -> Faults {
    if let Some(faults) = template_faults(node, templates) {
        return faults;
    }
    match &node.content {
        Content::List(items) if !items.is_empty() => {
            items.iter().flat_map(|node| kind(node, item, templates)).collect()
        }
        _ => value::list(node, |_| Ok(())).err().unwrap_or_default(),
    }
}

fn numbered(node: &Node, item: &Kind, templates: Templates) -> Faults {
    let entries = match value::map(node, "a mapping of numbers") {
        Ok(entries) => entries,
        Err(faults) => return faults,
    };
    let mut faults = Faults::new();
    for entry in entries {
        let key = Node::plain(entry.place, entry.key.clone());
        faults.extend(value::count(&key, 1, 1023).err().unwrap_or_default());
        faults.extend(kind(&entry.value, item, templates));
    }
    faults
}

/// The kinds that are one scalar.
fn scalar(node: &Node, kind: &Kind) -> Result<(), Faults> {
    match kind {
        Kind::Text => value::text(node).map(drop),
        Kind::Integer { min, max } => value::count(node, *min, *max).map(drop),
        Kind::Number => value::number(node).map(drop),
        Kind::Duration { min } => value::duration(node, *min).map(drop),
        Kind::TestTime { min } => value::test_time(node, *min).map(drop),
        Kind::Frequency => value::frequency(node).map(drop),
        Kind::Size { min, max } => value::size(node, Bytes(*min), Bytes(*max)).map(drop),
        Kind::Rate => value::rate(node).map(drop),
        Kind::Share { max } => value::share(node, *max).map(drop),
        Kind::Choice { now, later } => value::choice(node, now, later).map(drop),
        Kind::Buffer => value::buffer(node).map(drop),
        Kind::CongestionControl => value::congestion_control(node).map(drop),
        Kind::Dscp => value::dscp(node).map(drop),
        Kind::Device => value::device(node).map(drop),
        Kind::Window => value::window(node).map(drop),
        Kind::Address => value::address(node).map(drop),
        Kind::Ports => value::ports(node).map(drop),
        Kind::Selection => value::selection(node).map(drop),
        Kind::Expression
        | Kind::List(_)
        | Kind::OneOrMore(_)
        | Kind::Table(_)
        | Kind::Either(..)
        | Kind::Numbered(_)
        | Kind::Anything
        | Kind::Steps
        | Kind::Nodes
        | Kind::Later(_) => Ok(()),
    }
}

fn steps(node: &Node, templates: Templates) -> Faults {
    match &node.content {
        Content::List(items) if !items.is_empty() => {
            items.iter().flat_map(|item| step(item, templates)).collect()
        }
        Content::List(_) => value::one(node, "no steps", "give at least one"),
        _ => wrong_type(node, "a list of steps"),
    }
}

fn step(node: &Node, templates: Templates) -> Faults {
    let mut faults = mapping(node, &keys::STEP, templates);
    let Some(entries) = node.entries() else { return faults };
    let is_action = |name: &str| keys::ACTIONS.iter().any(|action| action.name == name);
    let actions: Vec<&Entry> = entries.iter().filter(|entry| is_action(&entry.key)).collect();
    match actions.as_slice() {
        [action] => faults.extend(not_with(&action.key, entries)),
        [] => faults.extend(no_action(node, entries)),
        [_, second, ..] => {
            let names: Vec<&str> = actions.iter().map(|entry| entry.key.as_str()).collect();
            let found = format!("the step has {} actions: {}", names.len(), names.join(", "));
            faults.push(Fault::new(second.place, found).right("make a step of each"));
        }
    }
    faults
}

/// A misspelt action was told as an unknown key: what the step lacks is then known.
fn no_action(node: &Node, entries: &[Entry]) -> Option<Fault> {
    let all: Vec<&str> = keys::ACTIONS.iter().map(|action| action.name).collect();
    let is_misspelt = |entry: &Entry| {
        keys::STEP.key(&entry.key).is_none() && problem::nearest(&entry.key, &all).is_some()
    };
    let fault = Fault::new(node.place, "the step has no action");
    let fault = fault.right(format!("give exactly one of {}", all.join(", ")));
    (!entries.iter().any(is_misspelt)).then_some(fault)
}

/// Keys of a step that make no sense with its action.
fn not_with(action: &str, entries: &[Entry]) -> Faults {
    let given = |key: &str| entries.iter().find(|entry| entry.key == key);
    let mut faults = Faults::new();
    if action == "swap_roles"
        && let Some(when) = given("when")
    {
        let fault = Fault::new(when.place, "swap_roles cannot depend on `when`");
        faults.push(fault.right("leave it out: directions are fixed when the plan is made"));
    }
    if matches!(action, "swap_roles" | "assert" | "repeat")
        && let Some(register) = given("register")
    {
        let fault = Fault::new(register.place, format!("{action} has no results to register"));
        faults.push(fault.right(match action {
            "repeat" => "leave it out: results are added to those of the repeated steps",
            _ => "leave it out",
        }));
    }
    faults
}

fn nodes(node: &Node) -> Faults {
    match &node.content {
        Content::List(items) if !items.is_empty() => items
            .iter()
            .flat_map(|item| mapping(item, &inventory_keys::NODE, Templates::Refused))
            .collect(),
        Content::List(_) => value::one(node, "no nodes", "give at least one"),
        _ => wrong_type(node, "a list of nodes"),
    }
}
