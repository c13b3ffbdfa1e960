//! All SQL of the board: runs, events and metric series in `SQLite`.
//!
//! One task writes, in transactions that take together what came together; readers have connections of their own and see
//! the last commit. What a run's event file gave is stored in the same transaction as how far it was read, so a board that
//! is killed at any moment neither loses nor doubles a point. Knows nothing of HTTP and of processes.

mod convert;
mod error;
mod events;
mod ingest;
mod open;
mod runs;
mod series;
mod sparkline;
mod store;
mod writer;

pub use error::StoreError;
pub use events::{MemoryPoint, StageTime, StoredEvent};
pub use ingest::{Ingest, IngestReport, ReadMark};
pub use runs::{
    NewRun, Phase, ProcessKey, Run, RunEdit, RunExit, RunFilter, RunPage, RunTexts, StateChange,
    StateCounts,
};
pub use series::{
    ChunkError, Export, FEWEST_POINTS, MetricRow, Point, RunSeries, Series, SeriesQuery,
    non_finite_name,
};
pub use store::Store;

/// The migrations of the database, oldest first.
pub static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../../../migrations");
