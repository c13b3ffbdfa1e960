//! Metric series: the tables `open_metrics`, `series`, `chunks` and `attempts`.
//!
//! New metrics are rows until their run has [`SEAL_AT`] of them; then all of the run's rows move into chunks, a chunk a
//! series. A chunk is kept at three levels of detail, so that a curve of a million points reads a few kilobytes.

pub(crate) mod chunk;
mod export;
mod point;
mod query;
mod seal;
mod thin;

use sqlx::SqliteConnection;

use crate::error::StoreError;
use crate::events::to_json;
use crate::ingest::incoming::{Content, Incoming};

pub use chunk::ChunkError;
pub use export::{Export, MetricRow};
pub use point::{Point, non_finite_name};
pub use query::{RunSeries, Series, SeriesQuery};
pub(crate) use query::{names, query};
pub use thin::FEWEST_POINTS;

/// Open metric rows of a run at which they move into chunks.
const SEAL_AT: usize = 2048;
/// Most points of a chunk.
const CHUNK_POINTS: usize = 2048;
/// Points of a chunk's middle level.
const THINNED_POINTS: usize = 128;

/// Stores metric events of a run, in the order of their ids, and returns how many open rows it has then.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    run_key: i64,
    num_open: i64,
    metrics: &[&Incoming],
) -> Result<i64, StoreError> {
    if metrics.is_empty() {
        return Ok(num_open);
    }
    put_attempts(connection, run_key, metrics).await?;
    let num_open = usize::try_from(num_open).unwrap_or(0);
    if num_open + metrics.len() >= SEAL_AT {
        seal::seal(connection, run_key, metrics).await?;
        return Ok(0);
    }
    let mut rows = Vec::with_capacity(metrics.len());
    for event in metrics {
        if let Content::Metric {
            step,
            epoch,
            values_json,
            ..
        } = &event.content
        {
            // A text within the JSON, which SQLite then stores without reading it again.
            rows.push((
                event.id,
                event.seq,
                event.attempt,
                event.time_ms,
                step,
                epoch,
                values_json,
            ));
        }
    }
    let rows = to_json(&rows)?;
    sqlx::query!(
        "INSERT INTO open_metrics (id, run_key, seq, attempt, time_ms, step, epoch, points)
         SELECT value ->> 0, ?1, value ->> 1, value ->> 2, value ->> 3, value ->> 4, CAST(value ->> 5 AS REAL), value ->> 6
         FROM json_each(?2)",
        run_key,
        rows
    )
    .execute(connection)
    .await?;
    Ok(i64::try_from(num_open + metrics.len()).unwrap_or(i64::MAX))
}

/// Notes where attempts begin.
async fn put_attempts(
    connection: &mut SqliteConnection,
    run_key: i64,
    metrics: &[&Incoming],
) -> Result<(), StoreError> {
    let mut noted = None;
    for event in metrics {
        if noted == Some(event.attempt) {
            continue;
        }
        noted = Some(event.attempt);
        if let Content::Metric { step, .. } = &event.content {
            sqlx::query!(
                "INSERT OR IGNORE INTO attempts (run_key, attempt, first_step) VALUES (?1, ?2, ?3)",
                run_key,
                event.attempt,
                step
            )
            .execute(&mut *connection)
            .await?;
        }
    }
    Ok(())
}

/// Reads the values of an open row.
pub(crate) fn parse_values(json: &str) -> Result<Vec<(String, f64)>, StoreError> {
    let corrupt = || StoreError::Corrupt {
        reason: format!("`{json}` is no object of numbers"),
    };
    let values: indexmap::IndexMap<String, run_protocol::MetricValue> =
        serde_json::from_str(json).map_err(|_| corrupt())?;
    Ok(values
        .into_iter()
        .map(|(name, value)| (name, value.get()))
        .collect())
}
