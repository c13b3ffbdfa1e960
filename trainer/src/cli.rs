//! Arguments of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use run_protocol::Stage;

/// Trains language models from one YAML file.
#[derive(Debug, Parser)]
#[command(name = "trainer", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands: one a stage, and a few about the program itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the stage that the file names.
    Train(RunArgs),
    /// Teaches a model by example conversations.
    Sft(RunArgs),
    /// Continues pre-training on plain text.
    Pt(RunArgs),
    /// Trains a reward model.
    Rm(RunArgs),
    /// Trains on preference pairs.
    Dpo(RunArgs),
    /// Trains on single labelled answers.
    Kto(RunArgs),
    /// Trains against a reward model.
    Ppo(RunArgs),
    /// Shows versions, devices and threads.
    Env,
    /// Shows the version.
    Version,
    /// Runs one rank; the launcher calls it.
    #[command(hide = true)]
    Rank(RankArgs),
}

impl Command {
    /// Returns the stage that the command itself names.
    pub(crate) fn stage(&self) -> Option<Stage> {
        match self {
            Self::Sft(_) => Some(Stage::Sft),
            Self::Pt(_) => Some(Stage::Pt),
            Self::Rm(_) => Some(Stage::Rm),
            Self::Dpo(_) => Some(Stage::Dpo),
            Self::Kto(_) => Some(Stage::Kto),
            Self::Ppo(_) => Some(Stage::Ppo),
            Self::Train(_) | Self::Env | Self::Version | Self::Rank(_) => None,
        }
    }
}

/// What a run needs.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The configuration file.
    pub(crate) config: PathBuf,
    /// Settings that take the place of the file's, nested keys with dots.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Folder for everything that the run writes; `output_dir` where it is not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Checkpoint folder to go on from, or `auto` for the newest complete one.
    #[arg(long, value_name = "auto|DIR")]
    pub(crate) resume: Option<String>,
}

/// What the launcher tells a rank; the rest is in the run directory and in torchrun's variables.
#[derive(Debug, Args)]
pub(crate) struct RankArgs {
    /// The run directory with `config.yaml`.
    pub(crate) run_dir: PathBuf,
    /// Checkpoint folder to go on from.
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Which attempt this is.
    #[arg(long, default_value_t = 1)]
    pub(crate) attempt: u32,
    /// The launcher's process, without which the rank ends.
    #[arg(long, value_name = "PID")]
    pub(crate) launcher: Option<u32>,
    /// Keys without effect, as JSON.
    #[arg(long)]
    pub(crate) accepted: Option<String>,
}
