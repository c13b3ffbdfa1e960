//! The one task that writes. What comes while it is busy goes into the next transaction together.

use std::sync::{Arc, Mutex, PoisonError};

use run_protocol::RunId;
use sqlx::{Connection as _, SqliteConnection, SqlitePool};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::error::StoreError;
use crate::events::StoredEvent;
use crate::ingest::{self, Ingest, IngestReport};
use crate::runs::{NewRun, Run, RunEdit, StateChange, change};

/// Commands that wait at most; whoever sends more waits.
const QUEUE_LENGTH: usize = 256;
/// Commands of one transaction at most.
const BATCH_LENGTH: usize = 64;
/// Events that a subscriber may be behind before it has to re-read.
const SUBSCRIBER_LAG: usize = 8192;

/// Something to write.
#[derive(Debug)]
pub(crate) enum Command {
    Create(Box<NewRun>),
    ChangeState(RunId, Box<StateChange>),
    Edit(RunId, Box<RunEdit>),
    Delete(RunId, i64),
    Ingest(Ingest),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Run(Box<Run>),
    Ingested(IngestReport),
    Done,
}

struct Job {
    command: Command,
    reply: oneshot::Sender<Result<Outcome, StoreError>>,
}

/// The handle of the writing task.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    events: broadcast::Sender<Arc<StoredEvent>>,
    task: Mutex<Option<JoinHandle<()>>>,
    pool: SqlitePool,
}

impl Writer {
    /// Starts the task.
    pub(crate) fn start(pool: SqlitePool) -> Self {
        let (jobs, receiver) = mpsc::channel(QUEUE_LENGTH);
        let (events, _) = broadcast::channel(SUBSCRIBER_LAG);
        let task = tokio::spawn(serve(pool.clone(), receiver, events.clone()));
        Self {
            jobs: Mutex::new(Some(jobs)),
            events,
            task: Mutex::new(Some(task)),
            pool,
        }
    }

    /// Returns the events stored from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<StoredEvent>> {
        self.events.subscribe()
    }

    /// Writes and waits until it is committed.
    pub(crate) async fn write(&self, command: Command) -> Result<Outcome, StoreError> {
        let jobs = self
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or(StoreError::Closed)?;
        let (reply, outcome) = oneshot::channel();
        jobs.send(Job { command, reply })
            .await
            .map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// Writes what is waiting, ends the task and closes the database. Whoever reads must have closed it before: the last
    /// connection folds the write-ahead log into the file, which one for reading cannot.
    pub(crate) async fn close(&self, reader: &SqlitePool) {
        drop(
            self.jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the writing task of the store failed");
        }
        reader.close().await;
        self.pool.close().await;
    }
}

async fn serve(
    pool: SqlitePool,
    mut jobs: mpsc::Receiver<Job>,
    events: broadcast::Sender<Arc<StoredEvent>>,
) {
    let mut batch = Vec::with_capacity(BATCH_LENGTH);
    while jobs.recv_many(&mut batch, BATCH_LENGTH).await > 0 {
        match write_together(&pool, &batch, &events).await {
            Ok(outcomes) => batch
                .drain(..)
                .zip(outcomes)
                .for_each(|(job, outcome)| answer(job, outcome)),
            Err(error) if batch.len() == 1 => batch
                .drain(..)
                .zip([Err(error)])
                .for_each(|(job, out)| answer(job, out)),
            // One of them spoiled the transaction: each for itself, so that only that one fails.
            Err(_) => {
                for job in batch.drain(..) {
                    let alone = std::slice::from_ref(&job);
                    let outcome = write_together(&pool, alone, &events).await;
                    let outcome = outcome
                        .and_then(|mut outcomes| outcomes.pop().unwrap_or(Err(StoreError::Closed)));
                    answer(job, outcome);
                }
            }
        }
    }
}

fn answer(job: Job, outcome: Result<Outcome, StoreError>) {
    // Whoever asked may have gone; the write stands all the same.
    drop(job.reply.send(outcome));
}

/// Writes jobs in one transaction and, once it is committed, broadcasts their events.
async fn write_together(
    pool: &SqlitePool,
    jobs: &[Job],
    events: &broadcast::Sender<Arc<StoredEvent>>,
) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
    let mut connection = pool.acquire().await?;
    match write_on(&mut connection, jobs).await {
        Ok((outcomes, stored)) => {
            for event in stored {
                // Without a subscriber there is nobody to tell.
                drop(events.send(Arc::new(event)));
            }
            Ok(outcomes)
        }
        Err(error) => {
            // After a full disk or a failed write `SQLite` may have ended the transaction by itself; a new connection
            // knows for certain that there is none.
            connection.close_on_drop();
            Err(error)
        }
    }
}

type Written = (Vec<Result<Outcome, StoreError>>, Vec<StoredEvent>);

async fn write_on(connection: &mut SqliteConnection, jobs: &[Job]) -> Result<Written, StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut stored = Vec::new();
    for job in jobs {
        match apply(&mut transaction, &job.command, &mut stored).await {
            Err(error) if !error.is_refusal() => return Err(error),
            outcome => outcomes.push(outcome),
        }
    }
    transaction.commit().await?;
    Ok((outcomes, stored))
}

async fn apply(
    connection: &mut SqliteConnection,
    command: &Command,
    stored: &mut Vec<StoredEvent>,
) -> Result<Outcome, StoreError> {
    let run = match command {
        Command::Create(new) => change::create(connection, new, stored).await?,
        Command::ChangeState(id, state) => {
            change::change_state(connection, *id, state, stored).await?
        }
        Command::Edit(id, edit) => change::edit(connection, *id, edit).await?,
        Command::Delete(id, time_ms) => {
            change::delete(connection, *id, *time_ms).await?;
            return Ok(Outcome::Done);
        }
        Command::Ingest(batch) => {
            return Ok(Outcome::Ingested(
                ingest::ingest(connection, batch, stored).await?,
            ));
        }
    };
    Ok(Outcome::Run(Box::new(run)))
}
