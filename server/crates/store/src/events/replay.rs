//! Replay: rows of both tables, and the metrics that lie in chunks already, merged by id.

use std::collections::BTreeMap;

use run_protocol::RunId;
use sqlx::SqliteConnection;

use super::StoredEvent;
use crate::convert::{small, word};
use crate::error::StoreError;
use crate::ingest::incoming::metric_body;
use crate::runs::change::find_key;
use crate::series::{chunk, non_finite_name};

/// Most events of one answer.
const MOST_EVENTS: usize = 5000;

struct EventRow {
    id: i64,
    run: String,
    seq: Option<i64>,
    attempt: i64,
    time_ms: i64,
    kind: String,
    body: String,
}

struct OpenRow {
    id: i64,
    run: String,
    seq: i64,
    attempt: i64,
    time_ms: i64,
    step: i64,
    epoch: Option<f64>,
    points: String,
}

/// A metric event that is put together from its points.
struct Assembled {
    event: StoredEvent,
    step: i64,
    epoch: Option<f64>,
    values: String,
}

/// Returns up to `limit` events with an id above `after`, oldest first.
pub(crate) async fn after(
    connection: &mut SqliteConnection,
    after: i64,
    run: Option<RunId>,
    limit: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let limit = limit.clamp(1, MOST_EVENTS);
    let run_key = match run {
        Some(run) => Some(find_key(connection, run).await?),
        None => None,
    };
    // The first chunk to end after `after` bounds the answer: up to its last id every event is found, and only the few
    // chunks that begin before it are read.
    let bound = chunk_bound(connection, after, run_key).await?;
    let mut events = match bound {
        Some(bound) => from_chunks(connection, after, bound, run_key).await?,
        None => Vec::new(),
    };
    let bound = bound.unwrap_or(i64::MAX);
    let sql_limit = i64::try_from(limit).unwrap_or(i64::MAX);
    for row in event_rows(connection, after, bound, run_key, sql_limit).await? {
        events.push(StoredEvent {
            id: row.id,
            run: word("id", &row.run)?,
            seq: row.seq,
            attempt: small(row.attempt),
            time_ms: row.time_ms,
            kind: row.kind,
            body: row.body,
        });
    }
    for row in open_rows(connection, after, bound, run_key, sql_limit).await? {
        events.push(StoredEvent {
            id: row.id,
            run: word("id", &row.run)?,
            seq: Some(row.seq),
            attempt: small(row.attempt),
            time_ms: row.time_ms,
            kind: "metric".to_owned(),
            body: metric_body(row.step, row.epoch, &row.points),
        });
    }
    events.sort_unstable_by_key(|event| event.id);
    events.truncate(limit);
    Ok(events)
}

async fn event_rows(
    connection: &mut SqliteConnection,
    after: i64,
    bound: i64,
    run_key: Option<i64>,
    limit: i64,
) -> Result<Vec<EventRow>, StoreError> {
    let rows =
        match run_key {
            Some(run_key) => sqlx::query_as!(
                EventRow,
                r#"SELECT e.id AS "id!", r.id AS run, e.seq, e.attempt, e.time_ms, e.kind, e.body
                 FROM events AS e JOIN runs AS r ON r.run_key = e.run_key
                 WHERE e.run_key = ?3 AND e.id > ?1 AND e.id <= ?2 ORDER BY e.id LIMIT ?4"#,
                after,
                bound,
                run_key,
                limit
            )
            .fetch_all(connection)
            .await,
            None => sqlx::query_as!(
                EventRow,
                r#"SELECT e.id AS "id!", r.id AS run, e.seq, e.attempt, e.time_ms, e.kind, e.body
                 FROM events AS e JOIN runs AS r ON r.run_key = e.run_key
                 WHERE e.id > ?1 AND e.id <= ?2 ORDER BY e.id LIMIT ?3"#,
                after,
                bound,
                limit
            )
            .fetch_all(connection)
            .await,
        };
    Ok(rows?)
}

async fn open_rows(
    connection: &mut SqliteConnection,
    after: i64,
    bound: i64,
    run_key: Option<i64>,
    limit: i64,
) -> Result<Vec<OpenRow>, StoreError> {
    let rows = match run_key {
        Some(run_key) => {
            sqlx::query_as!(
                OpenRow,
                r#"SELECT m.id AS "id!", r.id AS run, m.seq, m.attempt, m.time_ms, m.step, m.epoch, m.points
                 FROM open_metrics AS m JOIN runs AS r ON r.run_key = m.run_key
                 WHERE m.run_key = ?3 AND m.id > ?1 AND m.id <= ?2 ORDER BY m.id LIMIT ?4"#,
                after,
                bound,
                run_key,
                limit
            )
            .fetch_all(connection)
            .await
        }
        None => {
            sqlx::query_as!(
                OpenRow,
                r#"SELECT m.id AS "id!", r.id AS run, m.seq, m.attempt, m.time_ms, m.step, m.epoch, m.points
                 FROM open_metrics AS m JOIN runs AS r ON r.run_key = m.run_key
                 WHERE m.id > ?1 AND m.id <= ?2 ORDER BY m.id LIMIT ?3"#,
                after,
                bound,
                limit
            )
            .fetch_all(connection)
            .await
        }
    };
    Ok(rows?)
}

async fn chunk_bound(
    connection: &mut SqliteConnection,
    after: i64,
    run_key: Option<i64>,
) -> Result<Option<i64>, StoreError> {
    let bound = match run_key {
        Some(run_key) => {
            sqlx::query_scalar!(
                r#"SELECT min(c.last_id) AS "bound: i64" FROM series AS s JOIN chunks AS c ON c.series_key = s.series_key
                 WHERE s.run_key = ?2 AND c.last_id > ?1"#,
                after,
                run_key
            )
            .fetch_one(connection)
            .await
        }
        None => {
            sqlx::query_scalar!(r#"SELECT min(last_id) AS "bound: i64" FROM chunks WHERE last_id > ?1"#, after)
                .fetch_one(connection)
                .await
        }
    };
    Ok(bound?)
}

/// The metric events with ids in `(after, bound]` that lie in chunks.
async fn from_chunks(
    connection: &mut SqliteConnection,
    after: i64,
    bound: i64,
    run_key: Option<i64>,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT r.id AS run, s.attempt, s.name, c.points
         FROM chunks AS c JOIN series AS s ON s.series_key = c.series_key JOIN runs AS r ON r.run_key = s.run_key
         WHERE c.last_id > ?1 AND c.first_id <= ?2 AND (?3 IS NULL OR s.run_key = ?3)
         ORDER BY s.series_key, c.ordinal"#,
        after,
        bound,
        run_key
    )
    .fetch_all(connection)
    .await?;
    let mut assembled: BTreeMap<i64, Assembled> = BTreeMap::new();
    let mut points = Vec::new();
    for row in rows {
        let run: RunId = word("id", &row.run)?;
        let name = serde_json::Value::from(row.name.as_str()).to_string();
        points.clear();
        chunk::decode_into(&row.points, &mut points)?;
        for point in points
            .iter()
            .filter(|point| point.id > after && point.id <= bound)
        {
            let entry = assembled.entry(point.id).or_insert_with(|| Assembled {
                event: StoredEvent {
                    id: point.id,
                    run,
                    seq: None,
                    attempt: small(row.attempt),
                    time_ms: point.time_ms,
                    kind: "metric".to_owned(),
                    body: String::new(),
                },
                step: point.step,
                epoch: point.epoch,
                values: String::new(),
            });
            if !entry.values.is_empty() {
                entry.values.push(',');
            }
            entry.values.push_str(&name);
            entry.values.push(':');
            match non_finite_name(point.value) {
                Some(word) => entry.values.extend(["\"", word, "\""]),
                None => entry
                    .values
                    .push_str(&serde_json::Value::from(point.value).to_string()),
            }
        }
    }
    let events = assembled.into_values().map(|assembled| StoredEvent {
        body: metric_body(
            assembled.step,
            assembled.epoch,
            &format!("{{{}}}", assembled.values),
        ),
        ..assembled.event
    });
    Ok(events.collect())
}
