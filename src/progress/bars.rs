//! One bar for the test that runs, below the lines of what is done.

use std::io;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::narration::RunningTest;

const TEMPLATE: &str = "{prefix} {bar:24} {msg}";

pub(super) struct Bars {
    all: MultiProgress,
    bar: Option<ProgressBar>,
}

impl Bars {
    pub(super) fn new(target: ProgressDrawTarget) -> Self {
        Self { all: MultiProgress::with_draw_target(target), bar: None }
    }

    pub(super) fn show(&mut self, lines: &[String], test: Option<&RunningTest>) -> io::Result<()> {
        for line in lines {
            self.all.println(line)?;
        }
        match test {
            Some(test) => self.update(test),
            None => self.clear_bar(),
        }
        Ok(())
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn update(&mut self, test: &RunningTest) {
        let all = &self.all;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = all.add(ProgressBar::new(1));
            // An own template that is wrong would be a mistake here; the default serves as well.
            if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        bar.set_length(test.expected_ms().max(1));
        bar.set_position(test.elapsed_ms().min(test.expected_ms().max(1)));
        bar.set_prefix(test.place());
        bar.set_message(test.text());
        bar.tick();
    }

    fn clear_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }
}
