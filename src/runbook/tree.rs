//! YAML text to a tree whose every part knows its place. Size, depth and aliases are bounded here,
//! before anything else looks at the text.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::problem::{Fault, Faults};
use super::source::Place;

/// Of a file.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Of nested lists and mappings.
pub const DEPTH_MAX: usize = 64;
/// After aliases are expanded.
pub const NODES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub place: Place,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Wrong in a way that was already told; what reads it stays silent.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub place: Place,
    pub value: Node,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scalar {
    pub text: String,
    /// Without quotes: what it means is decided by its look.
    pub plain: bool,
}

impl Node {
    pub fn text(place: Place, text: impl Into<String>) -> Self {
        Self { place, content: Content::Scalar(Scalar { text: text.into(), plain: false }) }
    }

    /// As if written at `place` without quotes.
    pub fn plain(place: Place, text: impl Into<String>) -> Self {
        Self { place, content: Content::Scalar(Scalar { text: text.into(), plain: true }) }
    }

    pub fn unreadable(place: Place) -> Self {
        Self { place, content: Content::Unreadable }
    }

    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// `key:` with nothing behind it, `~` or `null`.
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| {
            scalar.plain && matches!(scalar.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
        })
    }

    fn count(&self) -> usize {
        1 + match &self.content {
            Content::List(items) => items.iter().map(Self::count).sum(),
            Content::Map(entries) => entries.iter().map(|entry| 1 + entry.value.count()).sum(),
            Content::Scalar(_) | Content::Unreadable => 0,
        }
    }

    fn bytes(&self) -> usize {
        match &self.content {
            Content::Scalar(scalar) => scalar.text.len(),
            Content::List(items) => items.iter().map(Self::bytes).sum(),
            Content::Map(entries) => {
                entries.iter().map(|entry| entry.key.len() + entry.value.bytes()).sum()
            }
            Content::Unreadable => 0,
        }
    }

    fn depth(&self) -> usize {
        match &self.content {
            Content::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Content::Map(entries) => {
                1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0)
            }
            Content::Scalar(_) | Content::Unreadable => 0,
        }
    }
}

/// The one document of a text. A tree comes back with faults too, where one can be read.
pub fn read(text: &str) -> (Option<Node>, Faults) {
    let start = Place::new(1, 1);
    if text.len() > TEXT_BYTES_MAX {
        let found = format!("the file has {} bytes", text.len());
        return (None, vec![Fault::new(start, found).right("at most 1 MiB is read")]);
    }
    let tabs = tabs(text);
    if !tabs.is_empty() {
        return (None, tabs);
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let more = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => {
                builder.faults.push(syntax(text, &error));
                false
            }
        };
        if !more {
            return (None, builder.faults);
        }
    }
    if builder.root.is_none() && builder.faults.is_empty() {
        builder.faults.push(Fault::new(start, "the file is empty"));
    }
    (builder.root, builder.faults)
}

/// YAML forbids tabs in indentation, and parsers differ in what they make of them.
fn tabs(text: &str) -> Faults {
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .filter_map(|(index, line)| {
            let tab = line[..indentation(line)].find('\t')?;
            Some(
                Fault::new(Place::new(index + 1, tab + 1), "a tab in the indentation")
                    .right("indent with spaces"),
            )
        })
        .collect()
}

fn syntax(text: &str, error: &ScanError) -> Fault {
    let place = place(*error.marker());
    if error.info().contains("recursion limit") {
        return too_deep(place);
    }
    let fault = Fault::new(place, format!("not YAML: {}", error.info()));
    let line = text.lines().nth(place.line.saturating_sub(1)).unwrap_or_default();
    if has_bare_template(line) {
        return fault.right("a text that begins with `{{` needs quotes: \"{{ … }}\"");
    }
    fault
}

fn too_deep(place: Place) -> Fault {
    let found = format!("more than {DEPTH_MAX} lists and mappings inside each other");
    Fault::new(place, found).right("write it flatter")
}

/// `key: {{ x }}s` or `[{{ x }}]`, without quotes before the braces.
fn has_bare_template(line: &str) -> bool {
    line.match_indices("{{").any(|(at, _)| {
        let before = line[..at].trim_end();
        [":", "-", ",", "["].iter().any(|end| before.ends_with(end))
    })
}

fn place(marker: Marker) -> Place {
    Place::new(marker.line().max(1), marker.col() + 1)
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    alias_bytes: usize,
    documents: usize,
    root: Option<Node>,
    faults: Faults,
}

/// A list or mapping whose end has not come yet.
struct Open {
    place: Place,
    anchor: usize,
    items: Items,
    /// Holds a key that is not a text.
    broken: bool,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<Node> },
}

impl Builder {
    /// False when nothing more is worth reading.
    fn take(&mut self, event: Event<'_>, span: Span) -> bool {
        let at = place(span.start);
        match event {
            Event::DocumentStart(_) => return self.document(at),
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && !self.is_string(at, tag.as_deref());
                let scalar = Scalar { text: text.into_owned(), plain };
                return self.add(Node { place: at, content: Content::Scalar(scalar) }, anchor);
            }
            Event::SequenceStart(anchor, tag) => {
                self.is_string(at, tag.as_deref());
                return self.open(at, anchor, Items::List(Vec::new()));
            }
            Event::MappingStart(anchor, tag) => {
                self.is_string(at, tag.as_deref());
                return self.open(at, anchor, Items::Map { entries: Vec::new(), key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => return self.close(),
            Event::Alias(anchor) => return self.alias(at, anchor),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        true
    }

    fn document(&mut self, at: Place) -> bool {
        self.documents += 1;
        if self.documents > 1 {
            let fault = Fault::new(at, "a second document begins here");
            self.faults.push(fault.right("write one document per file"));
        }
        self.documents == 1
    }

    /// Whether a tag makes a plain scalar a text; any other tag is a fault.
    fn is_string(&mut self, at: Place, tag: Option<&Tag>) -> bool {
        match tag {
            None => false,
            Some(tag) if tag.is_yaml_core_schema() => tag.suffix == "str",
            Some(tag) => {
                let found = format!("the tag `{}{}` means nothing here", tag.handle, tag.suffix);
                self.faults.push(Fault::new(at, found).right("write the value without a tag"));
                false
            }
        }
    }

    fn open(&mut self, at: Place, anchor: usize, items: Items) -> bool {
        self.open.push(Open { place: at, anchor, items, broken: false });
        self.within_depth(at, self.open.len())
    }

    fn within_depth(&mut self, at: Place, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            self.faults.push(too_deep(at));
        }
        depth <= DEPTH_MAX
    }

    fn close(&mut self) -> bool {
        let Some(open) = self.open.pop() else { return false };
        let content = match open.items {
            Items::List(items) => Content::List(items),
            Items::Map { .. } if open.broken => Content::Unreadable,
            Items::Map { entries, .. } => Content::Map(self.merged(entries)),
        };
        self.add(Node { place: open.place, content }, open.anchor)
    }

    fn alias(&mut self, at: Place, anchor: usize) -> bool {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            self.faults.push(Fault::new(at, "an alias of something that is not complete here"));
            return false;
        };
        self.nodes += node.count();
        self.alias_bytes += node.bytes();
        if self.alias_bytes > TEXT_BYTES_MAX {
            let fault = Fault::new(at, "aliases repeat more than 1 MiB of text");
            self.faults.push(fault.right("write a smaller file"));
            return false;
        }
        self.within_depth(at, self.open.len() + node.depth()) && self.add(node, 0)
    }

    fn add(&mut self, node: Node, anchor: usize) -> bool {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let found = format!("more than {NODES_MAX} values, aliases expanded");
            self.faults.push(Fault::new(node.place, found).right("write a smaller file"));
            return false;
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return true;
        };
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map { key: key @ None, .. } => *key = Some(node),
            Items::Map { key, entries } => {
                if let Some(key) = key.take()
                    && let Err(fault) = enter(open.place, entries, key, node)
                {
                    open.broken |= fault.is_key;
                    self.faults.push(fault.fault);
                }
            }
        }
        true
    }

    /// `<<: *defaults` adds the keys that the mapping does not have itself.
    fn merged(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let (merges, mut own): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| entry.key == "<<");
        for merge in merges {
            let maps = match merge.value.content {
                Content::List(maps) => maps,
                content => vec![Node { place: merge.value.place, content }],
            };
            for map in maps {
                match map.content {
                    Content::Map(entries) => {
                        for entry in entries {
                            if own.iter().all(|known| known.key != entry.key) {
                                own.push(entry);
                            }
                        }
                    }
                    _ => self.faults.push(
                        Fault::new(merge.place, "`<<` is given something that is not a mapping")
                            .right("write for example `<<: *defaults`"),
                    ),
                }
            }
        }
        own
    }
}

/// Why an entry cannot be kept; without its key the whole mapping is unreadable.
struct Refused {
    fault: Fault,
    is_key: bool,
}

fn enter(map: Place, entries: &mut Vec<Entry>, key: Node, value: Node) -> Result<(), Refused> {
    let text = match key.content {
        Content::Scalar(scalar) => scalar.text,
        Content::Map(inner) => return Err(Refused { fault: no_key(map, &inner), is_key: true }),
        Content::List(_) | Content::Unreadable => {
            return Err(Refused { fault: no_key(key.place, &[]), is_key: true });
        }
    };
    match entries.iter().find(|entry| entry.key == text) {
        Some(first) => {
            let fault = Fault::new(key.place, format!("the key `{text}` is here a second time"))
                .right(format!("the first is at line {}; keep one", first.place.line));
            Err(Refused { fault, is_key: false })
        }
        None => {
            entries.push(Entry { key: text, place: key.place, value });
            Ok(())
        }
    }
}

/// `duration: {{ probe }}` reads as a mapping whose key is the mapping `{ probe: null }`.
fn no_key(place: Place, inner: &[Entry]) -> Fault {
    match inner {
        [entry] if entry.value.is_null() => {
            let name = &entry.key;
            Fault::new(place, format!("`{{{{ {name} }}}}` without quotes is a mapping in YAML"))
                .right(format!("write \"{{{{ {name} }}}}\""))
        }
        _ => Fault::new(place, "a key that is not a text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn faults(text: &str) -> Vec<String> {
        let describe =
            |fault: Fault| format!("{}:{} {}", fault.place.line, fault.place.column, fault.found);
        read(text).1.into_iter().map(describe).collect()
    }

    #[test]
    fn every_part_knows_its_place() {
        let (root, faults) = read("a: 1\nlist:\n  - { b: \"x\" }\n");
        assert!(faults.is_empty(), "{faults:?}");
        let root = root.unwrap();
        let Content::List(items) = &root.get("list").unwrap().content else { panic!("{root:?}") };
        assert_eq!(items[0].get("b").unwrap().place, Place::new(3, 10));
    }

    #[test]
    fn a_merge_adds_what_is_not_there() {
        let (root, _) = read("x-d: &d { a: 1, b: 2 }\nm: { <<: *d, b: 3 }\n");
        let root = root.unwrap();
        let map = root.get("m").unwrap();
        assert_eq!(map.get("a").unwrap().scalar().unwrap().text, "1");
        assert_eq!(map.get("b").unwrap().scalar().unwrap().text, "3");
    }

    #[test]
    fn a_key_given_twice_names_both_lines() {
        let (_, faults) = read("a: 1\nb: 2\na: 3\n");
        assert_eq!(faults[0].place, Place::new(3, 1));
        assert!(faults[0].right.as_ref().unwrap().contains("line 1"));
    }

    #[test]
    fn braces_without_quotes_are_named_as_what_they_are() {
        let found = faults("duration: {{ probe }}\n");
        assert_eq!(found, ["1:11 `{{ probe }}` without quotes is a mapping in YAML"]);
    }

    #[test]
    fn a_billion_laughs_end_early() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let alias = format!("*a{},", level - 1).repeat(10);
            text += &format!("a{level}: &a{level} [{alias}]\n");
        }
        let found = faults(&text);
        assert!(found[0].ends_with("more than 20000 values, aliases expanded"), "{found:?}");
    }

    #[test]
    fn aliases_of_a_long_text_end_early() {
        let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), "*a, ".repeat(5_000));
        assert_eq!(faults(&text).len(), 1);
    }

    #[test]
    fn five_thousand_nested_lists_end_early() {
        for count in [100, 5_000] {
            let found = faults(&"[".repeat(count));
            assert!(found[0].contains("more than 64 lists and mappings"), "{found:?}");
        }
    }

    #[test]
    fn an_alias_inside_what_it_names_is_refused() {
        assert!(!faults("a: &a [ *a ]\n").is_empty());
    }
}
