//! What can go wrong with the store. Blind to HTTP.

use std::io;
use std::path::PathBuf;

use run_protocol::{RunId, RunState};

use crate::series::ChunkError;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file cannot be made or opened.
    #[error("cannot open the database `{path}`: {source}")]
    Open {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process works on the same data folder.
    #[error("the database `{path}` is in use by another board")]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// A newer board has written the database.
    #[error("the database has version `{version}`, newer than this board knows")]
    NewerVersion {
        /// The migration that this board has not.
        version: i64,
    },
    /// The file is no database, or is damaged.
    #[error("the database is damaged: {reason}")]
    Corrupt {
        /// What was found.
        reason: String,
    },
    /// A chunk of points cannot be read.
    #[error("a chunk of points is damaged")]
    Chunk(#[from] ChunkError),
    /// No space is left for the database.
    #[error("the disk is full")]
    DiskFull,
    /// The database cannot be written.
    #[error("the database cannot be written: {reason}")]
    ReadOnly {
        /// What SQLite said.
        reason: String,
    },
    /// Another process holds the database for too long.
    #[error("the database is locked by another process")]
    Locked,
    /// There is no such run.
    #[error("there is no run `{0}`")]
    RunNotFound(RunId),
    /// A run of this id is there already.
    #[error("run `{0}` exists already")]
    RunExists(RunId),
    /// A run of this id was deleted.
    #[error("run `{0}` was deleted")]
    RunDeleted(RunId),
    /// The run is in a state in which this cannot be done.
    #[error("run `{id}` is `{}`, which does not allow it to become `{}`", .is.as_str(), .wanted.as_str())]
    State {
        /// The run.
        id: RunId,
        /// The state it is in.
        is: RunState,
        /// The state it should have taken.
        wanted: RunState,
    },
    /// A run that still has a process cannot be deleted.
    #[error("run `{0}` has not ended")]
    StillActive(RunId),
    /// A text is too long or empty.
    #[error("`{field}` takes from {min} to {max} characters, got {actual}")]
    TextLength {
        /// The field.
        field: &'static str,
        /// Fewest characters.
        min: usize,
        /// Most characters.
        max: usize,
        /// How many there are.
        actual: usize,
    },
    /// The task that writes has ended.
    #[error("the store is closed")]
    Closed,
    /// Bringing the database to this version failed.
    #[error("cannot bring the database up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Anything else that SQLite reports.
    #[error("the database failed")]
    Database(#[source] sqlx::Error),
}

impl StoreError {
    /// Whether it was found before anything was written, so that the transaction goes on without it.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::RunNotFound(_)
                | Self::RunExists(_)
                | Self::RunDeleted(_)
                | Self::State { .. }
                | Self::StillActive(_)
                | Self::TextLength { .. }
        )
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Open { .. } => {
                "check that the data folder exists and that you may write it, or give another one by `--data-dir`"
            }
            Self::InUse { .. } => {
                "stop the other board, or give this one another folder by `--data-dir`"
            }
            Self::NewerVersion { .. } => {
                "start the newer board, or give this one another folder by `--data-dir`"
            }
            Self::Corrupt { .. } | Self::Chunk(_) => {
                "restore a backup; or move the database away and start again: the list of runs will be empty, while their folders stay"
            }
            Self::DiskFull => {
                "free some space on the disk of the data folder; nothing that was stored is lost"
            }
            Self::ReadOnly { .. } => {
                "check the permissions of the data folder and of the database in it"
            }
            Self::Locked => "close the program that has the database open, then try again",
            Self::StillActive(_) => "stop the run first",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// SQLite's primary result codes that have an error of their own.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
    /// The write of a page failed (an extended code of `IOERR`).
    pub(super) const IOERR_WRITE: i32 = IOERR | (3 << 8);
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = &error else {
            return Self::Database(error);
        };
        let extended = database
            .code()
            .and_then(|code| code.parse::<i32>().ok())
            .unwrap_or(0);
        let reason = || database.message().to_owned();
        match extended & 0xff {
            code::BUSY | code::LOCKED => Self::Locked,
            code::READONLY | code::CANTOPEN => Self::ReadOnly { reason: reason() },
            code::CORRUPT | code::NOTADB => Self::Corrupt { reason: reason() },
            code::FULL => Self::DiskFull,
            code::IOERR if extended == code::IOERR_WRITE => Self::DiskFull,
            _ => Self::Database(error),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::VersionMissing(version) => Self::NewerVersion { version },
            sqlx::migrate::MigrateError::Execute(error) => Self::from(error),
            error => Self::Migrate(error),
        }
    }
}
