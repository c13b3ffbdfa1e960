//! Opening the database file: its permissions, its lock, its settings, its version.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::MIGRATOR;
use crate::error::StoreError;

/// Connections that read at the same time.
const NUM_READERS: u32 = 4;
/// How long a statement waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Databases up to this size are checked whole at the start; the check of a larger one would delay it.
const CHECKED_BYTES: u64 = 32 * 1024 * 1024;

/// An open database.
pub(crate) struct Opened {
    pub(crate) writer: SqlitePool,
    pub(crate) reader: SqlitePool,
    /// Held as long as the store lives: one board a data folder.
    pub(crate) lock: File,
}

/// Opens or makes the database.
pub(crate) async fn open(path: &Path) -> Result<Opened, StoreError> {
    let lock = take_lock(path)?;
    let size = make_private(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("trusted_schema", "OFF")
        .pragma("journal_size_limit", "67108864")
        .statement_cache_capacity(200);
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_with(options.clone())
        .await?;
    if size <= CHECKED_BYTES {
        check(&writer).await?;
    }
    MIGRATOR.run(&writer).await?;
    let reader = SqlitePoolOptions::new()
        .max_connections(NUM_READERS)
        .test_before_acquire(false)
        .connect_with(options.read_only(true).create_if_missing(false))
        .await?;
    Ok(Opened {
        writer,
        reader,
        lock,
    })
}

/// Takes the lock beside the database, or tells that another board holds it.
fn take_lock(path: &Path) -> Result<File, StoreError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push("-lock");
    let failed = |source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    };
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(lock_path)
        .map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
            path: path.to_path_buf(),
        }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Makes the file if it is not there, takes its permissions from all but its owner, and returns its size. `SQLite` gives
/// the files beside it the same permissions.
fn make_private(path: &Path) -> Result<u64, StoreError> {
    let open = || {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        let metadata = file.metadata()?;
        if metadata.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        Ok(metadata.len())
    };
    open().map_err(|source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    })
}

async fn check(pool: &SqlitePool) -> Result<(), StoreError> {
    let reason: String = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(pool)
        .await?;
    if reason == "ok" {
        Ok(())
    } else {
        Err(StoreError::Corrupt { reason })
    }
}
