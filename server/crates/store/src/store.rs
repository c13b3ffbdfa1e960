//! The handle that everybody else holds.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use run_protocol::RunId;
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::sync::broadcast;

use crate::error::StoreError;
use crate::events::{self, MemoryPoint, StageTime, StoredEvent};
use crate::ingest::{self, Ingest, IngestReport};
use crate::runs::{
    self, NewRun, Run, RunEdit, RunFilter, RunPage, RunTexts, StateChange, StateCounts,
};
use crate::series::{self, Export, RunSeries, SeriesQuery};
use crate::writer::{Command, Outcome, Writer};
use crate::{MIGRATOR, open};

/// The store. Cheap to clone; the last clone that is dropped closes it.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    reader: SqlitePool,
    writer: Writer,
    /// Keeps other boards out of the data folder.
    _lock: Option<File>,
}

impl Store {
    /// Opens the database, or makes it, readable by its owner alone, and brings it up to date.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let opened = open::open(path).await?;
        let writer = Writer::start(opened.writer);
        Ok(Self {
            inner: Arc::new(Inner {
                reader: opened.reader,
                writer,
                _lock: Some(opened.lock),
            }),
        })
    }

    /// Works on a pool that is open already; for tests, which get a database each.
    pub async fn from_pool(pool: SqlitePool) -> Result<Self, StoreError> {
        MIGRATOR.run(&pool).await?;
        let writer = Writer::start(pool.clone());
        Ok(Self {
            inner: Arc::new(Inner {
                reader: pool,
                writer,
                _lock: None,
            }),
        })
    }

    /// Writes what is waiting, then closes the database.
    pub async fn close(&self) {
        self.inner.writer.close(&self.inner.reader).await;
    }

    /// Returns every event from now on, in the order of ids, after it is stored. A receiver that lags re-reads by
    /// [`Store::events_after`].
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<StoredEvent>> {
        self.inner.writer.subscribe()
    }

    /// Makes a run; it is queued.
    pub async fn create_run(&self, new: NewRun) -> Result<Run, StoreError> {
        self.write_run(Command::Create(Box::new(new))).await
    }

    /// Moves a run to another state, and tells the subscribers.
    pub async fn change_state(&self, id: RunId, change: StateChange) -> Result<Run, StoreError> {
        self.write_run(Command::ChangeState(id, Box::new(change)))
            .await
    }

    /// Changes name, notes or tags.
    pub async fn edit_run(&self, id: RunId, edit: RunEdit) -> Result<Run, StoreError> {
        self.write_run(Command::Edit(id, Box::new(edit))).await
    }

    /// Deletes a run that has no process. Its id stays taken.
    pub async fn delete_run(&self, id: RunId, time_ms: i64) -> Result<(), StoreError> {
        self.inner
            .writer
            .write(Command::Delete(id, time_ms))
            .await
            .map(drop)
    }

    /// Stores events of a run, each once, together with how far their file was read.
    pub async fn ingest(&self, batch: Ingest) -> Result<IngestReport, StoreError> {
        match self.inner.writer.write(Command::Ingest(batch)).await? {
            Outcome::Ingested(report) => Ok(report),
            _ => Err(StoreError::Closed),
        }
    }

    /// Returns how far an event file was read; 0 if it never was.
    pub async fn read_offset(&self, run: RunId, file: &str) -> Result<u64, StoreError> {
        ingest::read_offset(&mut *self.snapshot().await?, run, file).await
    }

    /// Returns a run.
    pub async fn find_run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        runs::find(&mut *self.snapshot().await?, id).await
    }

    /// Returns the configuration of a run.
    pub async fn find_texts(&self, id: RunId) -> Result<Option<RunTexts>, StoreError> {
        runs::find_texts(&mut *self.snapshot().await?, id).await
    }

    /// Returns a page of runs, newest first, beginning after the run `after`.
    pub async fn list_runs(
        &self,
        filter: &RunFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<RunPage, StoreError> {
        runs::list(&mut *self.snapshot().await?, filter, after, limit).await
    }

    /// Returns how many runs are in each state.
    pub async fn count_runs(&self) -> Result<StateCounts, StoreError> {
        runs::count(&mut *self.snapshot().await?).await
    }

    /// Returns the queue, first in first out.
    pub async fn queued_runs(&self) -> Result<Vec<RunId>, StoreError> {
        runs::queued(&mut *self.snapshot().await?).await
    }

    /// Returns the id of the newest event; 0 if there is none.
    pub async fn last_event_id(&self) -> Result<i64, StoreError> {
        events::last_id(&mut *self.snapshot().await?).await
    }

    /// Returns up to `limit` events with an id above `after`, of one run or of all, oldest first. Called again with the id
    /// of the last one it goes on; an empty answer is the end.
    pub async fn events_after(
        &self,
        after: i64,
        run: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        events::after(&mut *self.snapshot().await?, after, run, limit).await
    }

    /// Returns the newest events of a run of one kind (any but `metric`), newest first.
    pub async fn newest_events(
        &self,
        run: RunId,
        kind: &str,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        events::newest(&mut *self.snapshot().await?, run, kind, limit).await
    }

    /// Returns how long each phase of a run took, in the order in which they first came.
    pub async fn stage_times(&self, run: RunId) -> Result<Vec<StageTime>, StoreError> {
        events::stage_times(&mut *self.snapshot().await?, run).await
    }

    /// Returns the memory of each rank over the steps, thinned to `max_points` a rank; every peak is kept.
    pub async fn memory(
        &self,
        run: RunId,
        max_points: usize,
    ) -> Result<Vec<MemoryPoint>, StoreError> {
        events::memory(&mut *self.snapshot().await?, run, max_points).await
    }

    /// Returns the series of a run, thinned to what a curve can show.
    pub async fn series(&self, run: RunId, query: &SeriesQuery) -> Result<RunSeries, StoreError> {
        series::query(&mut *self.snapshot().await?, run, query).await
    }

    /// Returns the names of a run's metrics, in alphabetical order.
    pub async fn metric_names(&self, run: RunId) -> Result<Vec<String>, StoreError> {
        series::names(&mut *self.snapshot().await?, run).await
    }

    /// Returns a walk over every point of a run.
    pub async fn export(&self, run: RunId) -> Result<Export, StoreError> {
        Export::new(self.clone(), run).await
    }

    /// Begins a transaction for reading: everything read by it is of one moment.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.inner.reader.begin().await?)
    }

    async fn write_run(&self, command: Command) -> Result<Run, StoreError> {
        match self.inner.writer.write(command).await? {
            Outcome::Run(run) => Ok(*run),
            _ => Err(StoreError::Closed),
        }
    }
}
