//! `events.jsonl`: moments to lines and back. Pure.

use crate::record::event::{Event, FORMAT, Moment};

/// Why a kept run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableRun {
    #[error(
        "the run was kept by redoline {version}, in a newer format ({format}) than this version \
         reads ({FORMAT})"
    )]
    NewerFormat { format: u64, version: String },
    #[error("line {line} of the events is not an event")]
    Line {
        line: usize,
        #[source]
        cause: serde_json::Error,
    },
    #[error("the events are empty")]
    Empty,
}

pub fn to_line(moment: &Moment) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(moment)?;
    line.push('\n');
    Ok(line)
}

/// Every event of a run. A torn last line, as a killed controller leaves it, is ignored.
pub fn read(text: &str) -> Result<Vec<Moment>, UnreadableRun> {
    refuse_newer(text.lines().next().ok_or(UnreadableRun::Empty)?)?;
    let whole = text.ends_with('\n');
    let lines: Vec<&str> = text.lines().collect();
    let mut moments = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let last = index + 1 == lines.len();
        match serde_json::from_str(line) {
            Ok(moment) => moments.push(moment),
            Err(_) if last && !whole => break,
            Err(cause) => return Err(UnreadableRun::Line { line: index + 1, cause }),
        }
    }
    Ok(moments)
}

/// The first line says the format before anything of it is believed.
fn refuse_newer(first: &str) -> Result<(), UnreadableRun> {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(first) else { return Ok(()) };
    let format = value["event"]["format"].as_u64().unwrap_or(0);
    if format > u64::from(FORMAT) {
        let version = value["event"]["version"].as_str().unwrap_or("unknown").to_owned();
        return Err(UnreadableRun::NewerFormat { format, version });
    }
    Ok(())
}

/// Live rates are for the eye only.
pub fn is_kept(event: &Event) -> bool {
    !matches!(event, Event::Live { .. } | Event::Looked { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::RunOutcome;

    fn two_lines() -> String {
        [
            Event::Warning { node: None, text: "one".to_owned() },
            Event::RunFinished { outcome: RunOutcome::Completed },
        ]
        .into_iter()
        .map(|event| to_line(&Moment { unix_ms: 1, event }).unwrap())
        .collect()
    }

    #[test]
    fn what_was_kept_is_read_again() {
        assert_eq!(read(&two_lines()).unwrap().len(), 2);
    }

    #[test]
    fn a_torn_last_line_is_ignored() {
        let text = two_lines();
        assert_eq!(read(&text[..text.len() - 10]).unwrap().len(), 1);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named() {
        let text = two_lines().replacen('{', "x", 1);
        assert!(matches!(read(&text), Err(UnreadableRun::Line { line: 1, .. })));
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let first = r#"{"unix_ms":1,"event":{"type":"later","format":9,"version":"9.0.0"}}"#;
        let error = read(&format!("{first}\n")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the run was kept by redoline 9.0.0, in a newer format (9) than this version reads (1)"
        );
    }
}
