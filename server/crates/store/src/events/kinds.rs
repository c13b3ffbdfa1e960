//! The events of one run by their kind: the newest ones, how long each phase took, what each rank's memory was.

use run_protocol::RunId;
use serde::Serialize;
use sqlx::SqliteConnection;

use super::StoredEvent;
use crate::convert::{small, sql_count};
use crate::error::StoreError;
use crate::runs::change::find_key;

/// Most events of one answer.
const MOST_EVENTS: usize = 1000;

/// How long a run was in a phase, over all its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageTime {
    /// `loading`, `tokenizing`, `training`, …
    pub stage: String,
    /// The time that is over.
    pub time_ms: i64,
    /// Since when the last attempt is in it, if it is or was at its end.
    pub since_ms: Option<i64>,
}

/// Memory of one rank around a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryPoint {
    /// The rank.
    pub rank: u32,
    /// The last step of those that the point stands for.
    pub step: u64,
    /// The most that was in use at them.
    pub rss_bytes: f64,
}

/// Returns the newest events of a kind that is not `metric`, newest first.
pub(crate) async fn newest(
    connection: &mut SqliteConnection,
    run: RunId,
    kind: &str,
    limit: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let run_key = find_key(connection, run).await?;
    let limit = sql_count(limit.clamp(1, MOST_EVENTS) as u64);
    let rows = sqlx::query!(
        r#"SELECT id AS "id!", seq, attempt, time_ms, kind, body FROM events
         WHERE run_key = ?1 AND kind = ?2 ORDER BY id DESC LIMIT ?3"#,
        run_key,
        kind,
        limit
    )
    .fetch_all(connection)
    .await?;
    let events = rows.into_iter().map(|row| StoredEvent {
        id: row.id,
        run,
        seq: row.seq,
        attempt: small(row.attempt),
        time_ms: row.time_ms,
        kind: row.kind,
        body: row.body,
    });
    Ok(events.collect())
}

/// Returns how long each phase took. A phase lasts until the next one begins or the attempt ends; what a killed attempt
/// did after its last event is not known and not counted.
pub(crate) async fn stage_times(
    connection: &mut SqliteConnection,
    run: RunId,
) -> Result<Vec<StageTime>, StoreError> {
    let run_key = find_key(connection, run).await?;
    let rows = sqlx::query!(
        r#"WITH marks AS (
             SELECT id, kind, body ->> 'stage' AS stage, attempt, time_ms,
                 lead(time_ms) OVER (PARTITION BY attempt ORDER BY id) AS next_ms
             FROM events WHERE run_key = ?1 AND kind IN ('stage', 'finished', 'failed'))
         SELECT stage AS "stage!: String", coalesce(sum(next_ms - time_ms), 0) AS "time_ms!: i64",
             max(CASE WHEN next_ms IS NULL AND attempt = (SELECT max(attempt) FROM marks) THEN time_ms END) AS "since_ms: i64"
         FROM marks WHERE kind = 'stage' AND stage IS NOT NULL GROUP BY stage ORDER BY min(id)"#,
        run_key
    )
    .fetch_all(connection)
    .await?;
    let times = rows.into_iter().map(|row| StageTime {
        stage: row.stage,
        time_ms: row.time_ms.max(0),
        since_ms: row.since_ms,
    });
    Ok(times.collect())
}

/// Returns the memory of each rank over the steps, at most `max_points` a rank.
pub(crate) async fn memory(
    connection: &mut SqliteConnection,
    run: RunId,
    max_points: usize,
) -> Result<Vec<MemoryPoint>, StoreError> {
    let run_key = find_key(connection, run).await?;
    let max_points = sql_count(max_points.max(1) as u64);
    let rows = sqlx::query!(
        r#"WITH readings AS (
             SELECT body ->> 'rank' AS rank, coalesce(body ->> 'step', 0) AS step,
                 CAST(body ->> '$.values.rss_bytes' AS REAL) AS rss_bytes
             FROM events WHERE run_key = ?1 AND kind = 'system' AND typeof(body ->> '$.values.rss_bytes') IN ('integer', 'real')),
         span AS (SELECT max(step) + 1 AS steps FROM readings)
         SELECT rank AS "rank!: i64", max(step) AS "step!: i64", max(rss_bytes) AS "rss_bytes!: f64"
         FROM readings, span GROUP BY rank, CASE WHEN steps <= ?2 THEN step ELSE step * ?2 / steps END ORDER BY rank, step"#,
        run_key,
        max_points
    )
    .fetch_all(connection)
    .await?;
    let points = rows.into_iter().map(|row| MemoryPoint {
        rank: small(row.rank),
        step: row.step.max(0).cast_unsigned(),
        rss_bytes: row.rss_bytes,
    });
    Ok(points.collect())
}
