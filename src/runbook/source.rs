//! The text of a file, and places in it.

use sha2::{Digest, Sha256};

/// Line and column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub fn new(line: usize, column: usize) -> Self {
        Self { line, column }
    }
}

/// A file's name as the user wrote it, and its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Source {
    name: String,
    text: String,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Source {
    pub fn new(name: &str, text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        Self { name: name.to_owned(), text: text.to_owned(), lines }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Without its line break; empty when there is no such line.
    pub fn line(&self, number: usize) -> &str {
        let begin = number.checked_sub(1).and_then(|index| self.lines.get(index));
        let rest = begin.and_then(|begin| self.text.get(*begin..)).unwrap_or_default();
        rest.split('\n').next().unwrap_or_default().trim_end_matches('\r')
    }

    /// Of the text's bytes, in hexadecimal.
    pub fn sha256(&self) -> String {
        Sha256::digest(self.text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
