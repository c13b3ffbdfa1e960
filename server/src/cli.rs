//! The command line of `board`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Fine-tune language models from a web page.
#[derive(Debug, Parser)]
#[command(name = "board", disable_version_flag = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `board`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open the board: pages, REST and the runs in the background.
    Serve(ServeArgs),
    /// Print the version.
    Version,
}

/// The arguments of `board serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on: a loopback address, or `localhost`.
    #[arg(long, default_value = "127.0.0.1", value_parser = parse_host, env = "BOARD_HOST")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 7860, env = "BOARD_PORT")]
    pub port: u16,
    /// Folder of the database, runs, models and datasets [default: `$XDG_DATA_HOME/board`, else `~/.local/share/board`].
    #[arg(long, value_name = "DIR", env = "BOARD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Runs that train at the same time; further ones wait in the queue.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_max_runs, env = "BOARD_MAX_RUNS")]
    pub max_runs: usize,
    /// Further folder whose model folders are offered; repeatable.
    #[arg(long = "models", value_name = "DIR")]
    pub model_roots: Vec<PathBuf>,
    /// The `trainer` program [default: the one beside `board`].
    #[arg(long, value_name = "FILE", env = "BOARD_TRAINER")]
    pub trainer: Option<PathBuf>,
    /// What to log, in the syntax of `RUST_LOG`.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "BOARD_LOG")]
    pub log: String,
    /// Open the board in a browser once it listens.
    #[arg(long)]
    pub open: bool,
}

fn parse_host(text: &str) -> Result<IpAddr, String> {
    let address = if text == "localhost" {
        IpAddr::from([127, 0, 0, 1])
    } else {
        text.parse()
            .map_err(|_| "expected an IP address or `localhost`".to_owned())?
    };
    if address.is_loopback() {
        return Ok(address);
    }
    Err(
        "only loopback addresses are served until the board has a login; \
         forward a port instead: `ssh -L 7860:127.0.0.1:7860 HOST`"
            .into(),
    )
}

fn parse_max_runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".into()),
        Ok(number) => Ok(number),
    }
}
