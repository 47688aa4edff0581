//! How a run goes, for the people who wait for it: bars on a terminal, plain lines in a log.
//!
//! A reader of the run's moments like history and report; it looks at no clock of its own. What it
//! writes is for the eye: results are in the report.

mod bars;
mod measured;
mod narration;
mod test;

use std::io::{self, Write};

use indicatif::ProgressDrawTarget;

use self::bars::Bars;
use self::narration::{LiveLines, Narrator};
use crate::record::event::Moment;

/// Shows moments as they come.
#[derive(Debug)]
pub struct Progress {
    narrator: Narrator,
    output: Output,
}

enum Output {
    Bars(Bars),
    Lines(Box<dyn Write + Send>),
    Nothing,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Bars(_) => "Bars",
            Self::Lines(_) => "Lines",
            Self::Nothing => "Nothing",
        })
    }
}

impl Progress {
    /// One line per beginning and end of a step and per result; for logs.
    pub fn lines(writer: impl Write + Send + 'static) -> Self {
        Self { narrator: Narrator::new(LiveLines::Some), output: Output::Lines(Box::new(writer)) }
    }

    /// The same lines above a bar with the test that runs, its rate and its time.
    pub fn bars(target: ProgressDrawTarget) -> Self {
        Self { narrator: Narrator::new(LiveLines::None), output: Output::Bars(Bars::new(target)) }
    }

    /// Shows nothing: `--quiet`.
    pub fn silent() -> Self {
        Self { narrator: Narrator::new(LiveLines::None), output: Output::Nothing }
    }

    /// Shows one moment.
    ///
    /// # Errors
    /// When the writer or the terminal cannot be written to; the run goes on all the same.
    pub fn show(&mut self, moment: &Moment) -> io::Result<()> {
        let lines = self.narrator.tell(moment);
        match &mut self.output {
            Output::Lines(writer) => {
                for line in lines {
                    writeln!(writer, "{line}")?;
                }
                writer.flush()
            }
            Output::Bars(bars) => bars.show(&lines, self.narrator.test()),
            Output::Nothing => Ok(()),
        }
    }
}

impl Drop for Progress {
    /// The terminal is left without a bar, however the run ended.
    fn drop(&mut self) {
        if let Output::Bars(bars) = &self.output {
            bars.clear();
        }
    }
}

#[cfg(test)]
mod tests;
