//! What can go wrong with a run's process. Blind to HTTP.

use std::io;
use std::path::{Path, PathBuf};

use board_store::StoreError;
use run_protocol::RunId;

/// Why the supervisor could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// There is no trainer.
    #[error("there is no trainer at `{path}`")]
    TrainerMissing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The trainer cannot be run.
    #[error("the trainer `{path}` is not an executable file")]
    TrainerNotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The trainer did not start.
    #[error("the trainer `{path}` did not start: {source}")]
    Start {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run directory cannot be written.
    #[error("cannot write `{path}`: {source}")]
    RunDir {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space is left for the run directory.
    #[error("the disk is full: `{path}` was not written")]
    DiskFull {
        /// The file or folder.
        path: PathBuf,
    },
    /// The run has no process to be stopped.
    #[error("run `{0}` is not running")]
    NotRunning(RunId),
    /// The run has not ended, so that it cannot be resumed.
    #[error("run `{0}` has not ended")]
    NotEnded(RunId),
    /// The run has done all its steps, so that there is nothing to resume.
    #[error("run `{0}` is finished")]
    Finished(RunId),
    /// The run has no checkpoint to go on from.
    #[error("run `{0}` has no checkpoint that it can go on from")]
    NoCheckpoint(RunId),
    /// The supervisor was shut down.
    #[error("the board is shutting down")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SupervisorError {
    /// Makes an error of a failed write.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if run_protocol::events::is_disk_full(&source) {
            Self::DiskFull { path }
        } else {
            Self::RunDir { path, source }
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::TrainerMissing { .. } => {
                "build it by `make build`, which puts it beside the board, or name it by BOARD_TRAINER"
            }
            Self::TrainerNotExecutable { .. } => {
                "make it executable by `chmod +x`, or name another by BOARD_TRAINER"
            }
            Self::Start { .. } => "run `trainer version` in a shell to see what is missing",
            Self::RunDir { .. } => "check the permissions of the data folder",
            Self::DiskFull { .. } => "free some space on the disk of the data folder",
            Self::NotEnded(_) => "stop the run first",
            Self::Finished(_) => "start a new run for more steps",
            Self::NoCheckpoint(_) => {
                "start a new run: only a complete checkpoint saved without `save_only_model` can be resumed"
            }
            Self::Store(error) => return error.hint(),
            Self::NotRunning(_) | Self::ShuttingDown => return None,
        };
        Some(hint.to_owned())
    }
}
