//! The `board` program.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command as Program, ExitCode, Stdio};

use anyhow::Context as _;
use board::cli::{Cli, Command, ServeArgs};
use board::startup::{Server, StartError};
use board::{ServerConfig, telemetry};
use clap::Parser as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Version => say(&format!("board {}", env!("CARGO_PKG_VERSION"))),
        Command::Serve(args) => serve(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = error
                .downcast_ref::<StartError>()
                .and_then(StartError::hint);
            let mut stderr = std::io::stderr();
            let told = match hint {
                Some(hint) => writeln!(stderr, "error: {error:#}\n hint: {hint}"),
                None => writeln!(stderr, "error: {error:#}"),
            };
            drop(told); // nobody is left to tell
            ExitCode::FAILURE
        }
    }
}

fn serve(args: ServeArgs) -> anyhow::Result<()> {
    telemetry::init(&args.log);
    let config = into_config(args)?;
    umask(Mode::from_bits_truncate(0o077)); // what the board writes is its owner's alone
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let open_browser = config.open_browser;
        let server = Server::start(config).await?;
        say(&format!("board is open on {}", server.url()))?;
        if open_browser {
            open(&server.url());
        }
        server
            .run(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            })
            .await;
        Ok(())
    });
    runtime.shutdown_background(); // a blocked read must not keep the program
    done
}

fn into_config(args: ServeArgs) -> anyhow::Result<ServerConfig> {
    let data_dir = match args.data_dir {
        Some(dir) => dir,
        None => default_data_dir()
            .context("neither XDG_DATA_HOME nor HOME is set: say `--data-dir DIR`")?,
    };
    Ok(ServerConfig {
        host: args.host,
        port: args.port,
        data_dir: std::path::absolute(data_dir)?,
        max_runs: args.max_runs,
        trainer: match args.trainer {
            Some(trainer) => std::path::absolute(trainer)?,
            None => std::env::current_exe()
                .context("the folder of `board` is not known: say `--trainer FILE`")?
                .with_file_name("trainer"),
        },
        environment: std::env::vars_os().collect(),
        model_roots: args
            .model_roots
            .into_iter()
            .map(std::path::absolute)
            .collect::<Result<_, _>>()?,
        open_browser: args.open,
    })
}

/// Returns `$XDG_DATA_HOME/board`, or `~/.local/share/board`.
fn default_data_dir() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(home.join("board"))
}

/// Raises the limit of open files to what the system allows: every live stream is one.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

fn open(url: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let started = Program::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        tracing::warn!(%error, "no browser could be opened");
    }
}
