//! What can be typed: clap structs, no logic.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Tells whether a network and a storage system will carry Oracle Data Guard's redo, why not, and
/// what exactly to change.
#[derive(Debug, Parser)]
#[command(name = "redoline", version = crate::version::LONG, propagate_version = true)]
#[command(after_help = "Start with: redoline run runbooks/demo.yaml")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a runbook and write its report
    Run(RunArgs),
    /// Show the plan and its cost; contacts nothing
    Check(CheckArgs),
    /// Show a kept run again
    Report(ReportArgs),
    /// Remove what any run left on the nodes of an inventory
    Clean(CleanArgs),
    /// Write a starting inventory and runbook
    Init(InitArgs),
    /// Print a JSON Schema
    Schema(SchemaArgs),
    /// Print a shell's completion script
    Completions(CompletionsArgs),
    /// Serve as the agent on a node; started by the controller
    #[command(hide = true)]
    Agent(redoline_agent::AgentArgs),
}

/// The files and choices that decide a plan.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The runbook, a YAML file
    pub runbook: PathBuf,
    /// The inventory, a YAML file; without it four agents on this machine's loopback are used
    #[arg(short, long)]
    pub inventory: Option<PathBuf>,
    /// Set a variable of the runbook
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Run only steps of this name or tag; may be given several times
    #[arg(long, value_name = "STEP|TAG")]
    pub only: Vec<String>,
    /// Run from this step on
    #[arg(long, value_name = "STEP")]
    pub from: Option<String>,
    /// Use only this node; may be given several times. A pair is kept if both its ends are
    #[arg(long, value_name = "NODE")]
    pub limit: Vec<String>,
    /// Take the host keys of nodes that no known_hosts file has, and say so in the report
    #[arg(long)]
    pub accept_new_host_keys: bool,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Where the folder of the run is made
    #[arg(short, long, default_value = "runs", value_name = "DIR")]
    pub output: PathBuf,
    /// Do not ask before a run that sends much
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
}

#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The run's folder
    pub run: PathBuf,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    Html,
    Markdown,
    Json,
    Text,
    /// Measurements, one a line, for spreadsheets
    Csv,
}

#[derive(Args, Debug)]
pub struct CleanArgs {
    /// The inventory, a YAML file
    #[arg(short, long)]
    pub inventory: PathBuf,
    /// Take the host keys of nodes that no known_hosts file has
    #[arg(long)]
    pub accept_new_host_keys: bool,
}

#[derive(Args, Debug)]
pub struct InitArgs {
    /// Where the files are written
    #[arg(default_value = ".")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct SchemaArgs {
    #[arg(value_enum)]
    pub of: SchemaOf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchemaOf {
    Runbook,
    Inventory,
    Report,
}

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
