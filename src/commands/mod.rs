//! Glue: reads files, calls the modules, writes files. The only module that knows all others.

mod check;
mod clean;
mod files;
mod init;
mod passwords;
mod planned;
mod report;
mod run;
mod schema;
mod watch;

use std::io::{IsTerminal, Write as _};

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::report::model::Report;
use crate::report::terminal;

/// Runs a command to its exit code; an error is the controller's own.
pub fn run(cli: Cli) -> Exit {
    let result = match cli.command {
        Command::Run(args) => on_runtime(run::run(args)),
        Command::Check(args) => check::check(&args),
        Command::Report(args) => report::report(&args),
        Command::Clean(args) => on_runtime(clean::clean(args)),
        Command::Init(args) => init::init(&args),
        Command::Schema(args) => schema::print(args.of),
        Command::Completions(args) => {
            completions(args.shell, &mut std::io::stdout().lock());
            Ok(Exit::Success)
        }
        Command::Agent(args) => return agent(&args),
    };
    result.unwrap_or_else(|error| {
        complain(format_args!("error: {error:#}"));
        match error.downcast_ref::<Refusal>() {
            Some(_) => Exit::Usage,
            None => Exit::Internal,
        }
    })
}

/// The user's mistake or the file system's: nothing was contacted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn agent(args: &redoline_agent::AgentArgs) -> Exit {
    match redoline_agent::run(args) {
        Ok(_ended) => Exit::Success,
        Err(error) => {
            complain(format_args!("redoline agent: {}", redoline_agent::chain(&error)));
            Exit::Internal
        }
    }
}

fn on_runtime(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("failed to start the asynchronous runtime")?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

/// Generated in memory first: the generator panics where its writer fails.
fn completions(shell: clap_complete::Shell, out: &mut impl std::io::Write) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "redoline", &mut script);
    let _ = out.write_all(&script);
}

/// Writes a line to standard output. A reader that has had enough (`| head`) is no failure of ours.
fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The same on standard error.
fn complain(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether colours and bars make sense on standard output.
fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The summary of a report, for standard output.
fn terminal_text(report: &Report) -> String {
    let style = match stdout_is_terminal() {
        true => terminal::Style::Ansi,
        false => terminal::Style::Plain,
    };
    let (_, columns) = console::Term::stdout().size();
    terminal::render(report, style, usize::from(columns))
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind, Result, Write};

    use super::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            Err(Error::from(ErrorKind::BrokenPipe))
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_of_completions_that_has_had_enough_is_no_failure() {
        completions(clap_complete::Shell::Bash, &mut Gone);
    }

    #[test]
    fn completions_are_written_whole() {
        let mut script = Vec::new();
        completions(clap_complete::Shell::Bash, &mut script);
        assert!(String::from_utf8(script).unwrap().contains("complete -F _redoline"));
    }
}
