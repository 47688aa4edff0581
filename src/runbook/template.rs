//! Texts with `{{ … }}`: which they are, and whether they can be read at all. Names are resolved
//! later, when the plan is made.

use minijinja::Environment;

/// A text as a template.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Template<'a> {
    /// No braces: the text is what it is.
    Literal,
    /// One expression and nothing else: its value keeps its type.
    Expression(&'a str),
    /// Text around expressions: gives a text.
    Mixed,
}

pub fn classify(text: &str) -> Template<'_> {
    if !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
        return Template::Literal;
    }
    let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    match inner {
        Some(inner) if !inner.contains("{{") && !inner.contains("}}") => {
            Template::Expression(inner.trim())
        }
        _ => Template::Mixed,
    }
}

/// An expression's text, with or without its braces.
pub fn bare(text: &str) -> &str {
    match classify(text) {
        Template::Expression(inner) => inner,
        _ => text.trim(),
    }
}

/// Longer than any that a person writes; the engine's parser calls itself, and a stack is finite.
pub const LENGTH_MAX: usize = 1000;

fn too_long(text: &str) -> Option<String> {
    let is_too_long = text.len() > LENGTH_MAX;
    is_too_long.then(|| format!("it is longer than {LENGTH_MAX} characters"))
}

/// Why an expression, without braces, cannot be read.
pub fn expression_error(text: &str) -> Option<String> {
    if let Some(why) = too_long(text) {
        return Some(why);
    }
    let environment = Environment::new();
    environment.compile_expression(text).err().map(|error| why(&error))
}

/// Why a template cannot be read.
pub fn template_error(text: &str) -> Option<String> {
    match classify(text) {
        Template::Literal => None,
        Template::Expression(inner) => expression_error(inner),
        Template::Mixed if too_long(text).is_some() => too_long(text),
        Template::Mixed if text.contains("{%") => {
            Some("only `{{ … }}` is understood, no statements".to_owned())
        }
        Template::Mixed => {
            Environment::new().template_from_str(text).err().map(|error| why(&error))
        }
    }
}

/// Never minijinja's long text: it prints the values of variables.
pub fn why(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_expression_keeps_its_type() {
        assert_eq!(classify("10 s"), Template::Literal);
        assert_eq!(classify("{{ probe }}"), Template::Expression("probe"));
        assert_eq!(classify("{{ a }} and {{ b }}"), Template::Mixed);
        assert_eq!(bare("{{ a > 1 }}"), "a > 1");
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert!(template_error("{{ a + }}").is_some());
        assert!(template_error("x {{ a }").is_some());
        assert!(template_error("{{ a }} s").is_none());
        assert!(template_error(&format!("{{{{ {} a }}}}", "not ".repeat(20_000))).is_some());
        assert!(template_error("{% if a %}1 s{% endif %}").is_some());
    }
}
