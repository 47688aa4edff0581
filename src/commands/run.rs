//! `redoline run`: plan, connect, execute, record, analyse, report.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::planned::{self, Passwords, Planned};
use super::watch::watch;
use super::{Refusal, complain, say, stdout_is_terminal, terminal_text};
use crate::agents::deploy::AgentOptions;
use crate::agents::executable::Executables;
use crate::agents::session::Greeting;
use crate::cli::RunArgs;
use crate::execute::events::{EventSender, QUEUE};
use crate::execute::{Surroundings, execute};
use crate::exit::Exit;
use crate::history::run_dir::RunDir;
use crate::history::run_id::run_id;
use crate::plan::{AgentAfterRun, Plan, ReportFormat, cost, show};
use crate::progress::Progress;
use crate::record::event::{Event, FORMAT};
use crate::record::run::RunRecord;
use crate::record::setup::Setup;
use crate::report;
use crate::report::model::Report;
use crate::report::text::clean_lines;
use crate::version::{COMMIT, VERSION};

pub(super) async fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let interrupts = Interrupts::listen()?;
    let planned = match planned::plan(&args.plan, Passwords::LookUp)? {
        Ok(planned) => planned,
        Err(exit) => return Ok(exit),
    };
    if !args.yes && !agreed(&planned.plan)? {
        return Err(Refusal("not started".to_owned()).into());
    }
    let id = run_id(jiff::Timestamp::now(), rand::random());
    let folder = RunDir::create(&args.output, &id).map_err(refused)?;
    keep_inputs(&folder, &planned)?;
    log_to(&folder)?;

    let cancel = CancellationToken::new();
    let surroundings = surroundings(&planned.plan, &id, cancel.clone())?;
    let record = tokio::select! {
        record = observe(&planned.plan, &surroundings, &folder) => record?,
        () = interrupts.twice(cancel) => None,
    };
    let Some(record) = record else {
        complain(format_args!(
            "interrupted twice: nothing more is waited for; the agents end by themselves"
        ));
        return Ok(Exit::Interrupted);
    };
    finish(&planned.plan, &record, &folder)
}

/// Runs the plan with its readers; the record is what they saw.
async fn observe(
    plan: &Plan,
    surroundings: &Surroundings,
    folder: &RunDir,
) -> anyhow::Result<Option<RunRecord>> {
    let (queue, events) = mpsc::channel(QUEUE);
    let watching = tokio::spawn(watch(events, folder.event_log()?, progress()));
    let sender = EventSender::new(queue);
    let started = Event::RunStarted {
        format: FORMAT,
        run_id: surroundings.greeting.run_id.clone(),
        version: VERSION.to_owned(),
        commit: COMMIT.to_owned(),
        setup: Box::new(Setup::of(plan)),
    };
    sender.send(started).await;
    execute(plan, surroundings, sender).await;
    watching.await.context("a reader of the run's events failed")
}

/// Bars where a person looks on, else lines.
fn progress() -> Progress {
    match std::io::stderr().is_terminal() {
        true => Progress::bars(indicatif::ProgressDrawTarget::stderr()),
        false => Progress::lines(std::io::stderr()),
    }
}

/// Says the verdict and writes the reports; one that cannot be written takes nothing from the others.
fn finish(plan: &Plan, record: &RunRecord, folder: &RunDir) -> anyhow::Result<Exit> {
    let report = report::build::build(record);
    say(terminal_text(&report));
    let mut exits = vec![Exit::of_code(report.run.exit_code)];
    for format in &plan.formats {
        match write_report(&report, *format, folder) {
            Ok(path) => say(path.display()),
            Err(error) => {
                complain(format_args!("error: {error:#}"));
                exits.push(Exit::Internal);
            }
        }
    }
    say(folder.path().join(crate::history::run_dir::EVENTS).display());
    Ok(Exit::most_severe(&exits))
}

fn write_report(report: &Report, format: ReportFormat, folder: &RunDir) -> anyhow::Result<PathBuf> {
    let (name, text) = match format {
        ReportFormat::Html => ("report.html", report::html::render(report)?),
        ReportFormat::Markdown => ("report.md", report::markdown::render(report)),
        ReportFormat::Json => ("report.json", report::json::render(report)?),
    };
    Ok(folder.write(name, &text)?)
}

/// The files as used. Neither holds a secret: passwords are named by their source only.
fn keep_inputs(folder: &RunDir, planned: &Planned) -> anyhow::Result<()> {
    folder.write("runbook.yaml", &planned.runbook).map_err(refused)?;
    if let Some(inventory) = &planned.inventory {
        folder.write("inventory.yaml", inventory).map_err(refused)?;
    }
    Ok(())
}

fn refused(error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    Refusal(format!("{:#}", anyhow::Error::from(error))).into()
}

/// For developers; users get events.
fn log_to(folder: &RunDir) -> anyhow::Result<()> {
    let path = folder.path().join("controller.log");
    let file = OpenOptions::new().create_new(true).append(true).open(&path);
    let file = file.with_context(|| format!("failed to create `{}`", path.display()))?;
    let filter = tracing_subscriber::EnvFilter::try_from_env("REDOLINE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("redoline=debug,warn"));
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_env_filter(filter).with_writer(file);
    // Only the first run of a process can set it; tests run several.
    subscriber.try_init().unwrap_or_default();
    Ok(())
}

fn surroundings(
    plan: &Plan,
    run_id: &str,
    cancel: CancellationToken,
) -> anyhow::Result<Surroundings> {
    Ok(Surroundings {
        executables: Executables::find(&[])?,
        agent: AgentOptions { keep: plan.agent == AgentAfterRun::Keep, ..AgentOptions::default() },
        greeting: Greeting {
            run_id: run_id.to_owned(),
            owner: owner(),
            version: VERSION,
            commit: COMMIT,
        },
        cancel,
        minute_of_day,
    })
}

fn minute_of_day() -> u16 {
    let now = jiff::ZonedDateTime::now();
    u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs())
}

fn owner() -> String {
    let user = planned::surroundings().user.unwrap_or_else(|| "unknown".to_owned());
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{user}@{}", host.unwrap_or_else(|| "unknown".to_owned()))
}

/// On a terminal, a run against real nodes is confirmed once its cost has been seen.
fn agreed(plan: &Plan) -> anyhow::Result<bool> {
    let terminals = std::io::stdin().is_terminal() && stdout_is_terminal();
    if plan.configuration.demo || !terminals {
        return Ok(true);
    }
    say(clean_lines(&show(plan, &cost(plan))));
    write!(std::io::stdout().lock(), "Go on? [y/N] ")?;
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Ctrl-C, SIGTERM and SIGHUP, from before anything was done. A SIGHUP that was ignored when we were
/// started stays ignored, as `nohup` wants.
struct Interrupts(Vec<Signal>);

impl Interrupts {
    fn listen() -> anyhow::Result<Self> {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        if !is_ignored(SignalKind::hangup()) {
            kinds.push(SignalKind::hangup());
        }
        let signals = kinds.into_iter().map(signal).collect::<Result<_, _>>();
        Ok(Self(signals.context("failed to listen for signals")?))
    }

    /// The first ends the run in good order; returns at the second.
    async fn twice(mut self, cancel: CancellationToken) {
        for _ in 0..2 {
            let waiting = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
            futures_util::future::select_all(waiting).await;
            cancel.cancel();
        }
    }
}

/// By the bit mask `SigIgn` of /proc/self/status; where it cannot be read, nothing is ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}
