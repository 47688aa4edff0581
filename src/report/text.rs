//! Strings that nodes, runbooks and inventories supplied, made harmless for where they are shown.

/// Without control characters and without those that turn the direction of writing; each becomes
/// one space, so that words stay apart.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { ' ' } else { c }).collect()
}

/// Like `clean`, but lines stay lines: for a document as a whole.
pub fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if c != '\n' && is_unprintable(c) { ' ' } else { c }).collect()
}

/// For text and attribute values in HTML and SVG.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// For prose and table cells in Markdown: shown as it is, whatever it contains.
pub fn markdown(text: &str) -> String {
    let text = clean(text);
    let text = text.trim();
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside_a_word =
            before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '_' if inside_a_word => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            other => escaped.push(other),
        }
        before = c;
    }
    escaped
}

/// A fenced block that its content cannot leave.
pub fn fenced(lines: &[String]) -> String {
    let longest = lines.iter().map(|line| longest_run_of_backticks(line)).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let body: Vec<String> = lines.iter().map(|line| clean(line)).collect();
    format!("{fence}\n{}\n{fence}\n", body.join("\n"))
}

fn longest_run_of_backticks(line: &str) -> usize {
    line.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Control characters, and the embedding, override and isolate characters of Unicode.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_sequence_does_not_reach_a_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\nc\u{9b}"), "a [31mb  c ");
        assert_eq!(clean("user\u{202e}txt"), "user txt");
    }

    #[test]
    fn a_script_is_text_in_html() {
        assert_eq!(html("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
    }

    #[test]
    fn a_cell_cannot_end_its_row() {
        assert_eq!(markdown("a|b\n<b>`x`"), "a\\|b &lt;b&gt;\\`x\\`");
        assert_eq!(markdown("tcp_rmem _x_"), "tcp_rmem \\_x\\_");
    }

    #[test]
    fn a_command_cannot_leave_its_fence() {
        let text = fenced(&["````".to_owned(), "rm x".to_owned()]);
        assert!(text.starts_with("`````\n") && text.ends_with("`````\n"), "{text}");
    }
}
