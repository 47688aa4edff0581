//! One mistake in a file or an argument: where it is, what was found, what would be right.

use std::collections::HashSet;
use std::fmt;

use super::source::{Place, Source};

/// A mistake, with its place but not yet with its file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    pub place: Place,
    /// A sentence without a full stop: "unknown key `durration`".
    pub found: String,
    /// What would be right.
    pub right: Option<String>,
    /// The nearest name that would have been known.
    pub nearest: Option<String>,
}

/// Faults of one reading; a file's mistakes are all collected before any is told.
pub type Faults = Vec<Fault>;

impl Fault {
    pub fn new(place: Place, found: impl Into<String>) -> Self {
        Self { place, found: shortened(found.into()), right: None, nearest: None }
    }

    #[must_use]
    pub fn right(mut self, right: impl Into<String>) -> Self {
        self.right = Some(right.into());
        self
    }

    /// Something named that is not there: tells the nearest of what is, and all of it.
    pub fn unknown<'a>(
        place: Place,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let right = match known.as_slice() {
            [] => "there is none here".to_owned(),
            names => format!("known here: {}", names.join(", ")),
        };
        Self {
            nearest: nearest(name, &known).map(str::to_owned),
            ..Self::new(place, format!("unknown {what} `{name}`")).right(right)
        }
    }
}

/// A mistake as its author is told it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// A file's name, or an argument such as `--only`.
    pub file: String,
    /// `None` for arguments.
    pub place: Option<Place>,
    /// The line itself, a long one cut around the place; empty for arguments.
    pub source_line: String,
    /// Where the place is in `source_line`, from 1.
    pub caret: usize,
    pub found: String,
    pub right: Option<String>,
    pub nearest: Option<String>,
}

impl Problem {
    /// All faults of a file in the order of their places; of very many, the first.
    pub fn all_of_file(source: &Source, mut faults: Faults) -> Vec<Self> {
        faults.sort_by_key(|fault| fault.place);
        let more = faults.len().saturating_sub(PROBLEMS_MAX);
        if let Some(first_left_out) = faults.get(PROBLEMS_MAX).map(|fault| fault.place) {
            faults.truncate(PROBLEMS_MAX);
            faults.push(Fault::new(first_left_out, format!("{more} more mistakes from here on")));
        }
        faults.into_iter().map(|fault| Self::of_file(source, fault)).collect()
    }

    fn of_file(source: &Source, fault: Fault) -> Self {
        let (line, caret) = excerpt(source.line(fault.place.line), fault.place.column);
        Self {
            file: source.name().to_owned(),
            place: Some(fault.place),
            source_line: without_secret(&line),
            caret,
            found: fault.found,
            right: fault.right,
            nearest: fault.nearest,
        }
    }

    /// Of something that was said on the command line.
    pub fn of_argument(argument: &str, fault: Fault) -> Self {
        Self {
            file: argument.to_owned(),
            place: None,
            source_line: String::new(),
            caret: 1,
            found: fault.found,
            right: fault.right,
            nearest: fault.nearest,
        }
    }
}

/// A password in a file is refused; the message about it must not spread it.
fn without_secret(line: &str) -> String {
    match line.find("password:").or_else(|| line.find("become_password:")) {
        Some(at) => format!("{}password: ***", &line[..at]),
        None => line.to_owned(),
    }
}

/// More mistakes than a person mends before the next try.
const PROBLEMS_MAX: usize = 100;

/// What is quoted of a file in a message.
const FOUND_CHARS_MAX: usize = 300;

fn shortened(text: String) -> String {
    match text.char_indices().nth(FOUND_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Longer lines are cut around the place.
const LINE_CHARS_MAX: usize = 120;

/// `runbook.yaml:12:5: unknown key …; did you mean …?`, then the line with a caret under the place.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:", self.file)?;
        if let Some(place) = self.place {
            write!(formatter, "{}:{}:", place.line, place.column)?;
        }
        write!(formatter, " {}", self.found)?;
        if let Some(nearest) = &self.nearest {
            write!(formatter, "; did you mean `{nearest}`?")?;
        }
        if let Some(right) = &self.right {
            let separator = if self.nearest.is_some() { " (" } else { "; " };
            let end = if self.nearest.is_some() { ")" } else { "" };
            write!(formatter, "{separator}{right}{end}")?;
        }
        match self.place {
            Some(place) if !self.source_line.trim().is_empty() => {
                let line = &self.source_line;
                let margin = " ".repeat(place.line.to_string().len());
                let indent: String = line
                    .chars()
                    .take(self.caret.saturating_sub(1))
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                write!(formatter, "\n {} | {line}\n {margin} | {indent}^", place.line)
            }
            _ => Ok(()),
        }
    }
}

/// At most `LINE_CHARS_MAX` of a line, and the place's column in them.
fn excerpt(line: &str, column: usize) -> (String, usize) {
    let line = line.trim_end();
    let count = line.chars().count();
    let column = column.clamp(1, count + 1);
    if count <= LINE_CHARS_MAX {
        return (line.to_owned(), column);
    }
    let from = (column - 1).saturating_sub(LINE_CHARS_MAX / 2);
    let cut = line.chars().skip(from).take(LINE_CHARS_MAX).collect();
    (cut, column - from)
}

/// All problems as one text, a blank line between two.
pub fn render(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    texts.join("\n\n")
}

/// In the order of the files as given, then by place; each only once.
pub fn sort(problems: &mut Vec<Problem>) {
    let mut files: Vec<String> = Vec::new();
    for problem in problems.iter() {
        if !files.contains(&problem.file) {
            files.push(problem.file.clone());
        }
    }
    problems.sort_by_key(|problem| {
        let file = files.iter().position(|file| *file == problem.file);
        (file, problem.place.map(|place| (place.line, place.column)))
    });
    let mut seen = HashSet::new();
    problems.retain(|problem| {
        seen.insert((problem.file.clone(), problem.place, problem.found.clone()))
    });
}

/// The known name that the author most probably meant.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|candidate| {
            (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), *candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count().min(12) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
        .or_else(|| {
            // `buffer` for `socket_buffer`: a part of exactly one known name.
            let mut holding = known.iter().filter(|name| lower.len() >= 4 && name.contains(&lower));
            holding.next().filter(|_| holding.next().is_none()).copied()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near_or_none() {
        let known = ["duration", "interval", "socket_buffer", "nodes"];
        assert_eq!(nearest("durration", &known), Some("duration"));
        assert_eq!(nearest("socket-buffer", &known), Some("socket_buffer"));
        assert_eq!(nearest("buffer", &known), Some("socket_buffer"));
        assert_eq!(nearest("colour", &known), None);
    }

    #[test]
    fn a_problem_shows_the_line_and_points_at_the_place() {
        let source = Source::new("r.yaml", "a: 1\nsteps:\n  - durration: 5 s\n");
        let fault = Fault::unknown(Place::new(3, 5), "key", "durration", ["duration", "name"]);
        assert_eq!(
            Problem::of_file(&source, fault).to_string(),
            "r.yaml:3:5: unknown key `durration`; did you mean `duration`? \
             (known here: duration, name)\n 3 |   - durration: 5 s\n   |     ^"
        );
    }

    #[test]
    fn a_very_long_line_is_cut_around_the_place() {
        let source = Source::new("r.yaml", &"x".repeat(100_000));
        let text = Problem::of_file(&source, Fault::new(Place::new(1, 50_000), "no")).to_string();
        assert!(text.len() < 300, "{}", text.len());
    }

    #[test]
    fn a_password_in_a_file_is_not_repeated_in_the_message() {
        let source = Source::new("i.yaml", "ssh: { password: s3cr3t }");
        let text = Problem::of_file(&source, Fault::new(Place::new(1, 8), "no")).to_string();
        assert!(!text.contains("s3cr3t"), "{text}");
    }
}
