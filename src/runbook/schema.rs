//! JSON Schemas (draft-07, what YAML language servers read) from the tables of keys.

use serde_json::{Map, Value, json};

use super::inventory_keys::{INVENTORY, NODE};
use super::keys;
use super::table::{Key, Kind, Presence, Table};
use super::value;

/// Of a runbook.
pub fn schema_runbook() -> Value {
    whole(&keys::RUNBOOK, "Redoline runbook", Templates::Allowed)
}

/// Of an inventory.
pub fn schema_inventory() -> Value {
    whole(&INVENTORY, "Redoline inventory", Templates::Refused)
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Templates {
    Allowed,
    Refused,
}

fn whole(table: &'static Table, title: &str, templates: Templates) -> Value {
    let mut schema = object(table, templates);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        fields.insert("title".to_owned(), json!(title));
        // Holders of anchors.
        fields.insert("patternProperties".to_owned(), json!({ "^x-": true }));
    }
    schema
}

fn object(table: &'static Table, templates: Templates) -> Value {
    let mut properties = Map::new();
    for key in table.keys.iter().filter(|key| !matches!(key.kind, Kind::Later(_))) {
        properties.insert(key.name.to_owned(), property(key, templates));
    }
    let required: Vec<&str> = table
        .keys
        .iter()
        .filter(|key| matches!(key.presence, Presence::Required))
        .map(|key| key.name)
        .collect();
    let mut schema = json!({
        "type": "object",
        "description": table.sentence,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let one_of = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({ "required": [name] })).collect()
    };
    match table.name {
        "step" => {
            let names: Vec<&str> = keys::ACTIONS.iter().map(|action| action.name).collect();
            schema["oneOf"] = one_of(&names);
        }
        _ if !table.alternatives().is_empty() => schema["oneOf"] = one_of(&table.alternatives()),
        "repeat" => {}
        _ if table.may_be_empty() => schema["type"] = json!(["object", "null"]),
        _ => {}
    }
    schema
}

fn property(key: &Key, templates: Templates) -> Value {
    let mut schema = of_kind(&key.kind, templates);
    let mut description = key.sentence.to_owned();
    if let Some(option) = key.oratcptest {
        description += &format!(" oratcptest: {option}.");
    }
    if let Presence::Default(text) = key.presence {
        description += &format!(" Default: {text}.");
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("description".to_owned(), json!(description));
    }
    schema
}

const TEMPLATE: &str = r"\{\{|\{%";
const SIZE: &str = r"^\s*[0-9][0-9._]*\s*(B|kB|MB|GB|TB|PB|KiB|MiB|GiB|TiB|PiB)\s*$";
const RATE: &str = r"^\s*[0-9][0-9._]*\s*((k|M|G)?bit/s|B/s|kB/s|MB/s|GB/s|KiB/s|MiB/s|GiB/s)\s*$";
const TIME: &str = r"^\s*[0-9][0-9._]*\s*(us|ms|s|min|m|h|d)\s*$";
const FREQUENCY: &str =
    r"^\s*[0-9][0-9._]*\s*(ms|s|min|m|h|d)\s*/\s*[0-9][0-9._]*\s*(s|min|m|h|d)\s*$";
const SHARE: &str = r"^\s*[0-9][0-9._]*\s*%\s*$";
const BDP: &str = r"^\s*[0-9][0-9.]*\s*[xX*]?\s*[bB][dD][pP]\s*$";

fn of_kind(kind: &Kind, templates: Templates) -> Value {
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let schema = match kind {
        Kind::Text => return json!({ "type": ["string", "number", "boolean"] }),
        Kind::Expression => return json!({ "type": ["string", "boolean"] }),
        Kind::Anything => return json!({}),
        Kind::Steps => {
            let steps = object(&keys::STEP, templates);
            return json!({ "type": "array", "items": steps, "minItems": 1 });
        }
        Kind::Nodes => {
            let nodes = object(&NODE, templates);
            return json!({ "type": "array", "items": nodes, "minItems": 1 });
        }
        Kind::Table(table) => return object(table, templates),
        Kind::Either(scalar, table) => {
            return json!({ "anyOf": [of_kind(scalar, templates), object(table, templates)] });
        }
        Kind::Numbered(item) => {
            return json!({
                "type": "object",
                "patternProperties": { "^[1-9][0-9]*$": of_kind(item, templates) },
                "additionalProperties": false,
            });
        }
        Kind::OneOrMore(item) => {
            let item = of_kind(item, templates);
            return json!({ "anyOf": [item, { "type": "array", "items": item, "minItems": 1 }] });
        }
        Kind::Later(_) => return json!(false),
        Kind::List(item) => {
            json!({ "type": "array", "items": of_kind(item, templates), "minItems": 1 })
        }
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Kind::Duration { .. } => text(TIME),
        Kind::TestTime { .. } => text(&format!("^auto$|{TIME}")),
        Kind::Frequency => text(FREQUENCY),
        Kind::Size { .. } => text(SIZE),
        Kind::Rate => text(RATE),
        Kind::Share { .. } => text(SHARE),
        Kind::Choice { now: ["true"], .. } => json!({ "const": true }),
        Kind::Choice { now, .. } => json!({ "enum": now }),
        Kind::Buffer => text(&format!("^auto$|{SIZE}|{BDP}")),
        Kind::CongestionControl => text("^[A-Za-z0-9_-]{1,15}$"),
        Kind::Dscp => {
            json!({ "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 63 },
                { "enum": value::DSCP_NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>() },
            ] })
        }
        Kind::Device => text("^[^/\\s:]{1,15}$"),
        Kind::Window => text("^[0-9]{1,2}:[0-9]{2}-[0-9]{1,2}:[0-9]{2}$"),
        Kind::Address => text("^[0-9A-Fa-f.:]+$"),
        Kind::Ports => {
            json!({ "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 65535 },
                { "type": "string", "pattern": "^[0-9]+(-[0-9]+)?$" },
            ] })
        }
        Kind::Selection => {
            json!({ "anyOf": [
                { "enum": ["all", "first"] },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ] })
        }
    };
    match templates {
        Templates::Refused => schema,
        Templates::Allowed => {
            json!({ "anyOf": [schema, { "type": "string", "pattern": TEMPLATE }] })
        }
    }
}
