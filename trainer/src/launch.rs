//! The parent of all ranks: starts them, passes signals on, ends siblings, writes `exit.json`.
//!
//! Signals are blocked and then waited for, so no handler runs at an odd place. A second stop
//! signal kills. The ranks share the launcher's process group, so that a board that kills the group
//! leaves nothing behind. This module knows nothing of libtorch or of training.

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, alarm};

/// How long the siblings of a failed rank may take to end by themselves.
const SIBLING_GRACE_SECONDS: u32 = 10;

/// What the launcher starts.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The folder of the run, in which the ranks work.
    pub(crate) run_dir: PathBuf,
    /// One log file a rank.
    pub(crate) logs: Vec<PathBuf>,
    /// Arguments of a rank's process.
    pub(crate) arguments: Vec<String>,
    /// Threads each rank may use.
    pub(crate) num_threads: usize,
}

/// How the ranks ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The rank that failed first, or 0 where all ended well.
    pub(crate) rank: usize,
    /// Its exit code, where it ended by itself.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<Signal>,
    /// How often someone asked the run to stop; from the second time on, it is killed.
    pub(crate) stop_signals: u32,
}

/// The signals that are held back. A file that grows beyond the limit is an error to report, not a signal to die of.
fn signals() -> SigSet {
    [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGCHLD,
        Signal::SIGALRM,
        Signal::SIGXFSZ,
    ]
    .into_iter()
    .collect()
}

/// Holds the signals back until the launcher waits for them; call it before any thread starts.
pub(crate) fn block_signals() -> Result<()> {
    signals().thread_block().context("cannot block signals")
}

/// Starts the ranks and waits until all have ended.
pub(crate) fn run_ranks(plan: &Plan) -> Result<Ended> {
    let mut ranks = Ranks {
        running: Vec::new(),
        first_failure: None,
        stop_signals: 0,
    };
    for rank in 0..plan.logs.len() {
        match start_rank(plan, rank) {
            Ok(child) => ranks.running.push((rank, child)),
            Err(error) => {
                ranks.signal_all(Signal::SIGKILL);
                return Err(error);
            }
        }
    }
    let signals = signals();
    while !ranks.running.is_empty() {
        match signals.wait().context("cannot wait for signals")? {
            Signal::SIGCHLD => ranks.reap()?,
            Signal::SIGXFSZ => {}
            Signal::SIGALRM => ranks.signal_all(Signal::SIGKILL),
            _ => ranks.stop(),
        }
    }
    let (rank, status) = ranks.first_failure.unwrap_or_default();
    Ok(Ended {
        rank,
        code: status.code(),
        signal: status
            .signal()
            .and_then(|number| Signal::try_from(number).ok()),
        stop_signals: ranks.stop_signals,
    })
}

/// The ranks that still run, and the first one that failed.
struct Ranks {
    running: Vec<(usize, Child)>,
    first_failure: Option<(usize, ExitStatus)>,
    stop_signals: u32,
}

impl Ranks {
    /// Takes up the ranks that have ended; after a failure the others are asked to end, too.
    fn reap(&mut self) -> Result<()> {
        let mut still_running = Vec::with_capacity(self.running.len());
        let had_failed = self.first_failure.is_some();
        for (rank, mut child) in self.running.drain(..) {
            match child.try_wait().context("cannot wait for a rank")? {
                None => still_running.push((rank, child)),
                Some(status) if status.success() => {}
                Some(status) => {
                    self.first_failure.get_or_insert((rank, status));
                }
            }
        }
        self.running = still_running;
        if self.first_failure.is_some() && !had_failed && !self.running.is_empty() {
            self.signal_all(Signal::SIGTERM);
            alarm::set(SIBLING_GRACE_SECONDS);
        }
        Ok(())
    }

    /// Asks the ranks to save and end; from the second time on, kills them.
    fn stop(&mut self) {
        self.stop_signals += 1;
        let signal = if self.stop_signals == 1 {
            Signal::SIGTERM
        } else {
            Signal::SIGKILL
        };
        tracing::info!(signal = signal.as_str(), "stopping the ranks");
        self.signal_all(signal);
    }

    fn signal_all(&self, signal: Signal) {
        for (rank, child) in &self.running {
            let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id fits"));
            if let Err(error) = kill(pid, signal) {
                tracing::warn!(rank, %error, "cannot signal the rank");
            }
        }
    }
}

/// Starts one rank with torchrun's variables, its output straight to its log file.
fn start_rank(plan: &Plan, rank: usize) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let log = open_log(&plan.logs[rank])?;
    let errors = log.try_clone().context("cannot share the log file")?;
    let world_size = plan.logs.len();
    let mut command = Command::new(program);
    command
        .args(&plan.arguments)
        .current_dir(&plan.run_dir)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("WORLD_SIZE", world_size.to_string())
        .env("LOCAL_WORLD_SIZE", world_size.to_string());
    for (name, value) in [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    if std::env::var_os("OMP_NUM_THREADS").is_none() {
        command.env("OMP_NUM_THREADS", plan.num_threads.to_string());
    }
    // libgomp's threads spin for milliseconds while they wait, and on cores that a board, a browser or a second run
    // shares, a step then takes ten times as long. 1000 rounds are some 20 microseconds.
    let is_set = |name| std::env::var_os(name).is_some();
    if !is_set("OMP_WAIT_POLICY") && !is_set("GOMP_SPINCOUNT") {
        command.env("GOMP_SPINCOUNT", "1000");
    }
    // Activations come and go by the megabyte: in huge pages they cost fewer page faults.
    if !is_set("GLIBC_TUNABLES") {
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    command
        .spawn()
        .with_context(|| format!("cannot start rank {rank}"))
}

/// Opens a log file for appending, so that a resumed run keeps what was written before.
fn open_log(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open the log file `{}`", path.display()))
}
