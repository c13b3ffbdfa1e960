//! The `trainer` program: trains from one YAML file, as launcher or as one rank.

mod cli;
mod ending;
mod environment;
mod failure;
mod launch;
mod logging;
mod mirror;
mod prepare;
mod rank;
mod resume;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before any thread starts, so that every one of them leaves the signals to the thread that waits for them.
    if let Err(error) = launch::block_signals() {
        return failure::report(&error);
    }
    logging::start();
    let stage = cli.command.stage();
    let code = match &cli.command {
        Command::Env => environment::show_environment(),
        Command::Version => environment::show_version(),
        Command::Rank(arguments) => return rank::run(arguments),
        Command::Train(arguments)
        | Command::Sft(arguments)
        | Command::Pt(arguments)
        | Command::Rm(arguments)
        | Command::Dpo(arguments)
        | Command::Kto(arguments)
        | Command::Ppo(arguments) => prepare::train(arguments, stage),
    };
    code.unwrap_or_else(|error| failure::report(&error))
}
