//! Taking events in: once each, in order, and metrics into their series.

pub(crate) mod incoming;

use run_protocol::{Event, EventKind, RunId, RunState};
use sqlx::SqliteConnection;

use crate::convert::{sql_count, word};
use crate::error::StoreError;
use crate::events::{self, StoredEvent};
use crate::runs::StateChange;
use crate::series;
use crate::sparkline::Sparkline;
use incoming::Incoming;

/// Events of one run, in the order of their `seq`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingest {
    /// The run.
    pub run: RunId,
    /// The events. One whose `seq` was stored before changes nothing.
    pub events: Vec<Event>,
    /// How far the file they came from is read with them.
    pub mark: Option<ReadMark>,
}

/// How far an event file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadMark {
    /// The file's name, relative to the run directory.
    pub file: String,
    /// The first byte that was not read.
    pub offset: u64,
}

/// What became of events that were taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IngestReport {
    /// Events stored.
    pub num_stored: usize,
    /// Events that were there already.
    pub num_known: usize,
}

struct RunFacts {
    run_key: i64,
    state: String,
    last_seq: i64,
    num_open: i64,
    sparkline: Option<Vec<u8>>,
}

/// What a batch changes of the run's own row.
#[derive(Default)]
struct Progress {
    phase: Option<(String, Option<i64>, Option<i64>)>,
    steps_total: Option<i64>,
    step: Option<i64>,
    epoch: Option<f64>,
    loss: Option<f64>,
    eval_loss: Option<f64>,
    /// When the ranks reported to be at work.
    started: Option<(i64, u32)>,
}

/// Stores a batch.
pub(crate) async fn ingest(
    connection: &mut SqliteConnection,
    batch: &Ingest,
    stored: &mut Vec<StoredEvent>,
) -> Result<IngestReport, StoreError> {
    let id = batch.run.to_string();
    let facts = sqlx::query_as!(
        RunFacts,
        r#"SELECT run_key AS "run_key!", state, last_seq, num_open, sparkline FROM runs WHERE id = ?1"#,
        id
    );
    let facts = facts
        .fetch_optional(&mut *connection)
        .await?
        .ok_or(StoreError::RunNotFound(batch.run))?;
    let mut last_seq = facts.last_seq;
    let fresh: Vec<&Event> = batch
        .events
        .iter()
        .filter(|event| {
            let seq = sql_count(event.seq);
            let is_new = seq > last_seq;
            last_seq = last_seq.max(seq);
            is_new
        })
        .collect();
    let report = IngestReport {
        num_stored: fresh.len(),
        num_known: batch.events.len() - fresh.len(),
    };
    if !fresh.is_empty() {
        store_fresh(connection, &facts, batch.run, &fresh, last_seq, stored).await?;
    }
    if let Some(mark) = &batch.mark {
        put_mark(connection, facts.run_key, mark).await?;
    }
    Ok(report)
}

async fn store_fresh(
    connection: &mut SqliteConnection,
    facts: &RunFacts,
    run: RunId,
    fresh: &[&Event],
    last_seq: i64,
    stored: &mut Vec<StoredEvent>,
) -> Result<(), StoreError> {
    let first_id = events::take_ids(connection, fresh.len()).await? + 1;
    let incoming: Vec<Incoming> = (first_id..)
        .zip(fresh)
        .map(|(id, event)| Incoming::new(id, event))
        .collect();
    let (metrics, others): (Vec<&Incoming>, Vec<&Incoming>) =
        incoming.iter().partition(|event| event.is_metric());
    events::insert_many(connection, facts.run_key, &others).await?;
    let num_open = series::insert(connection, facts.run_key, facts.num_open, &metrics).await?;

    let mut sparkline = facts
        .sparkline
        .as_deref()
        .map(Sparkline::from_bytes)
        .unwrap_or_default();
    let progress = Progress::of(fresh, &mut sparkline);
    put_progress(
        connection,
        facts.run_key,
        last_seq,
        num_open,
        &progress,
        &sparkline,
    )
    .await?;
    stored.extend(incoming.iter().map(|event| event.to_stored(run)));

    if let Some((time_ms, attempt)) = progress.started
        && word::<RunState>("state", &facts.state)? == RunState::Starting
    {
        sqlx::query!(
            "UPDATE runs SET state = 'running' WHERE run_key = ?1",
            facts.run_key
        )
        .execute(&mut *connection)
        .await?;
        let change = StateChange::new(&[RunState::Starting], RunState::Running, time_ms);
        stored.push(events::insert_state(connection, facts.run_key, run, attempt, &change).await?);
    }
    Ok(())
}

impl Progress {
    fn of(fresh: &[&Event], sparkline: &mut Sparkline) -> Self {
        let mut progress = Self::default();
        for event in fresh {
            match &event.kind {
                EventKind::Started(started) => {
                    progress.steps_total =
                        started.total_steps.map(sql_count).or(progress.steps_total);
                    progress.started = Some((event.time, event.attempt));
                }
                EventKind::Stage(stage) => {
                    let (done, total) = (stage.done.map(sql_count), stage.total.map(sql_count));
                    progress.phase = Some((stage.stage.as_str().to_owned(), done, total));
                }
                EventKind::Metric(metric) => {
                    progress.step = Some(sql_count(metric.step));
                    progress.epoch = metric.epoch.or(progress.epoch);
                    if let Some(loss) = metric.values.get("loss") {
                        progress.loss = Some(loss.get());
                        sparkline.push(loss.get());
                    }
                    if let Some(loss) = metric.values.get("eval_loss") {
                        progress.eval_loss = Some(loss.get());
                    }
                }
                _ => {}
            }
        }
        progress
    }
}

async fn put_progress(
    connection: &mut SqliteConnection,
    run_key: i64,
    last_seq: i64,
    num_open: i64,
    progress: &Progress,
    sparkline: &Sparkline,
) -> Result<(), StoreError> {
    let (phase, done, total) = match &progress.phase {
        Some((phase, done, total)) => (Some(phase), *done, *total),
        None => (None, None, None),
    };
    let has_loss = progress.loss.is_some();
    let loss = progress.loss.filter(|loss| !loss.is_nan());
    let has_eval_loss = progress.eval_loss.is_some();
    let eval_loss = progress.eval_loss.filter(|loss| !loss.is_nan());
    let sparkline = sparkline.to_bytes();
    sqlx::query!(
        "UPDATE runs SET last_seq = ?2, num_open = ?3,
            phase_done = CASE WHEN ?4 IS NULL THEN phase_done ELSE ?5 END,
            phase_total = CASE WHEN ?4 IS NULL THEN phase_total ELSE ?6 END,
            phase = coalesce(?4, phase),
            steps_total = coalesce(?7, steps_total),
            steps_done = coalesce(?8, steps_done),
            epoch = coalesce(?9, epoch),
            last_loss = CASE WHEN ?10 THEN ?11 ELSE last_loss END,
            last_loss_is_nan = CASE WHEN ?10 THEN ?11 IS NULL ELSE last_loss_is_nan END,
            last_eval_loss = CASE WHEN ?12 THEN ?13 ELSE last_eval_loss END,
            last_eval_loss_is_nan = CASE WHEN ?12 THEN ?13 IS NULL ELSE last_eval_loss_is_nan END,
            sparkline = ?14
         WHERE run_key = ?1",
        run_key,
        last_seq,
        num_open,
        phase,
        done,
        total,
        progress.steps_total,
        progress.step,
        progress.epoch,
        has_loss,
        loss,
        has_eval_loss,
        eval_loss,
        sparkline
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn put_mark(
    connection: &mut SqliteConnection,
    run_key: i64,
    mark: &ReadMark,
) -> Result<(), StoreError> {
    let offset = sql_count(mark.offset);
    sqlx::query!(
        "INSERT INTO event_files (run_key, file, offset_bytes) VALUES (?1, ?2, ?3)
         ON CONFLICT (run_key, file) DO UPDATE SET offset_bytes = excluded.offset_bytes",
        run_key,
        mark.file,
        offset
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns how far an event file was read.
pub(crate) async fn read_offset(
    connection: &mut SqliteConnection,
    run: RunId,
    file: &str,
) -> Result<u64, StoreError> {
    let run = run.to_string();
    let offset = sqlx::query_scalar!(
        "SELECT f.offset_bytes FROM event_files AS f JOIN runs AS r ON r.run_key = f.run_key
         WHERE r.id = ?1 AND f.file = ?2",
        run,
        file
    );
    Ok(offset
        .fetch_optional(connection)
        .await?
        .map_or(0, crate::convert::count))
}
