//! Text that grows line by line: titles, prose broken between words, columns.

use super::Style;
use crate::report::text::clean;

pub(super) type Cell = (String, Colour);

pub(super) fn plain(text: String) -> Cell {
    (text, Colour::None)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Colour {
    None,
    Red,
    Yellow,
    Green,
    Bold,
}

/// Text that grows line by line.
pub(super) struct Page {
    pub style: Style,
    pub width: usize,
    pub text: String,
}

impl Page {
    pub fn paint(&self, text: &str, colour: Colour) -> String {
        let code = match colour {
            Colour::None => return text.to_owned(),
            _ if self.style == Style::Plain => return text.to_owned(),
            Colour::Red => "1;31",
            Colour::Yellow => "1;33",
            Colour::Green => "1;32",
            Colour::Bold => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    pub fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    pub fn title(&mut self, text: &str) {
        self.line("");
        self.line(&self.paint(text, Colour::Bold));
    }

    /// A paragraph, broken between words; `text` may come from anywhere.
    pub fn prose(&mut self, indent: &str, text: &str) {
        for line in wrapped(&clean(text), self.width - indent.len()) {
            self.line(&format!("{indent}{line}"));
        }
    }

    /// A paragraph with a hanging label.
    pub fn item(&mut self, label: &str, colour: Colour, text: &str) {
        let indent = label.chars().count() + 3;
        let lines = wrapped(&clean(text), self.width.saturating_sub(indent).max(20));
        for (index, line) in lines.iter().enumerate() {
            if index == 0 {
                self.line(&format!("  {} {line}", self.paint(label, colour)));
            } else {
                self.line(&format!("{}{line}", " ".repeat(indent)));
            }
        }
    }

    /// Columns as wide as their widest cell; nothing without rows.
    pub fn table(&mut self, title: &str, rows: &[Vec<Cell>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns == 0 {
            return;
        }
        let width = |column: usize| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.0.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.title(title);
        for row in rows {
            let mut line = String::new();
            for ((text, colour), width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width - text.chars().count());
                line.push_str(&format!("  {}{padding}", self.paint(text, *colour)));
            }
            self.line(&line);
        }
    }
}

/// Lines of at most `width` characters; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_keeps_to_the_width() {
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrapped("incomprehensible b", 4), ["incomprehensible", "b"]);
    }
}
