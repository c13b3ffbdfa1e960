//! The tables `events` and `open_metrics`: what happened, by board-wide id, and how it is replayed.

mod kinds;
mod replay;

use run_protocol::RunId;
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::error::StoreError;
use crate::ingest::incoming::Incoming;
use crate::runs::StateChange;

pub use kinds::{MemoryPoint, StageTime};
pub(crate) use kinds::{memory, newest, stage_times};
pub(crate) use replay::after;

/// An event as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredEvent {
    /// Board-wide id: the id of a server-sent event. Grows with every event.
    pub id: i64,
    /// The run.
    pub run: RunId,
    /// The number that the trainer gave it; `None` for what the board did, and for metrics replayed from chunks.
    pub seq: Option<i64>,
    /// The attempt.
    pub attempt: u32,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: i64,
    /// `metric`, `state`, `stage`, `checkpoint`, `log`, …; kinds of a newer trainer stay as they are.
    pub kind: String,
    /// Its own fields as a JSON object. Of `metric`: `{"step", "epoch", "values": {name: number or word}}`;
    /// of `state`: `{"state", "message", "hint"}`.
    pub body: String,
}

/// Takes `count` ids and returns the one before the first.
pub(crate) async fn take_ids(
    connection: &mut SqliteConnection,
    count: usize,
) -> Result<i64, StoreError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last = sqlx::query_scalar!(
        "UPDATE event_ids SET last_id = last_id + ?1 RETURNING last_id",
        count
    );
    Ok(last.fetch_one(connection).await? - count)
}

/// Returns the id of the newest event.
pub(crate) async fn last_id(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar!("SELECT last_id FROM event_ids")
        .fetch_one(connection)
        .await?)
}

/// Stores a change of state as an event of the board's own.
pub(crate) async fn insert_state(
    connection: &mut SqliteConnection,
    run_key: i64,
    run: RunId,
    attempt: u32,
    change: &StateChange,
) -> Result<StoredEvent, StoreError> {
    let id = take_ids(connection, 1).await? + 1;
    let body = serde_json::json!({
        "state": change.to.as_str(),
        "message": change.exit.message,
        "hint": change.exit.hint,
    })
    .to_string();
    sqlx::query!(
        "INSERT INTO events (id, run_key, seq, attempt, time_ms, kind, body) VALUES (?1, ?2, NULL, ?3, ?4, 'state', ?5)",
        id,
        run_key,
        attempt,
        change.time_ms,
        body
    )
    .execute(connection)
    .await?;
    Ok(StoredEvent {
        id,
        run,
        seq: None,
        attempt,
        time_ms: change.time_ms,
        kind: "state".to_owned(),
        body,
    })
}

/// Stores events that are no metrics. One statement takes them all: a call each would cost more than the insert.
pub(crate) async fn insert_many(
    connection: &mut SqliteConnection,
    run_key: i64,
    incoming: &[&Incoming],
) -> Result<(), StoreError> {
    if incoming.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = incoming
        .iter()
        .map(|event| {
            (
                event.id,
                event.seq,
                event.attempt,
                event.time_ms,
                event.kind(),
                event.body(),
            )
        })
        .collect();
    let rows = to_json(&rows)?;
    sqlx::query!(
        "INSERT INTO events (id, run_key, seq, attempt, time_ms, kind, body)
         SELECT value ->> 0, ?1, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(?2)",
        run_key,
        rows
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns rows as the JSON that `json_each` takes.
pub(crate) fn to_json<T: Serialize>(rows: &[T]) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::Corrupt {
        reason: error.to_string(),
    })
}
