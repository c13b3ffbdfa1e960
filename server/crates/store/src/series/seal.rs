//! Moving open rows into chunks.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use super::point::Point;
use super::{CHUNK_POINTS, THINNED_POINTS, chunk, parse_values, thin};
use crate::convert::sql_count;
use crate::error::StoreError;
use crate::ingest::incoming::{Content, Incoming};

/// Points by attempt and name.
type Columns = BTreeMap<(u32, String), Vec<Point>>;

/// Moves the open rows of a run, and the metrics after them, into chunks.
pub(super) async fn seal(
    connection: &mut SqliteConnection,
    run_key: i64,
    metrics: &[&Incoming],
) -> Result<(), StoreError> {
    let mut columns = Columns::new();
    let rows = sqlx::query!(
        r#"SELECT id AS "id!", attempt, time_ms, step, epoch, points FROM open_metrics WHERE run_key = ?1 ORDER BY id"#,
        run_key
    );
    for row in rows.fetch_all(&mut *connection).await? {
        let point = Point {
            id: row.id,
            step: row.step,
            time_ms: row.time_ms,
            epoch: row.epoch,
            value: 0.0,
        };
        for (name, value) in parse_values(&row.points)? {
            push(
                &mut columns,
                crate::convert::small(row.attempt),
                &name,
                Point { value, ..point },
            );
        }
    }
    for event in metrics {
        if let Content::Metric {
            step,
            epoch,
            values,
            ..
        } = &event.content
        {
            let point = Point {
                id: event.id,
                step: *step,
                time_ms: event.time_ms,
                epoch: *epoch,
                value: 0.0,
            };
            for (name, value) in values {
                push(
                    &mut columns,
                    event.attempt,
                    name,
                    Point {
                        value: *value,
                        ..point
                    },
                );
            }
        }
    }
    for ((attempt, name), points) in columns {
        append(connection, run_key, attempt, &name, points).await?;
    }
    sqlx::query!("DELETE FROM open_metrics WHERE run_key = ?1", run_key)
        .execute(connection)
        .await?;
    Ok(())
}

fn push(columns: &mut Columns, attempt: u32, name: &str, point: Point) {
    // Most points find their series there; only the first of one needs a name of its own.
    match columns
        .iter_mut()
        .find(|((a, n), _)| *a == attempt && n == name)
    {
        Some((_, points)) => points.push(point),
        None => drop(columns.insert((attempt, name.to_owned()), vec![point])),
    }
}

/// Appends points to a series: the last chunk is filled up first.
async fn append(
    connection: &mut SqliteConnection,
    run_key: i64,
    attempt: u32,
    name: &str,
    mut points: Vec<Point>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT OR IGNORE INTO series (run_key, attempt, name) VALUES (?1, ?2, ?3)",
        run_key,
        attempt,
        name
    )
    .execute(&mut *connection)
    .await?;
    let series_key = sqlx::query_scalar!(
        r#"SELECT series_key AS "series_key!" FROM series WHERE run_key = ?1 AND attempt = ?2 AND name = ?3"#,
        run_key,
        attempt,
        name
    )
    .fetch_one(&mut *connection)
    .await?;
    let last = sqlx::query!(
        "SELECT ordinal, num_points FROM chunks WHERE series_key = ?1 ORDER BY ordinal DESC LIMIT 1",
        series_key
    )
    .fetch_optional(&mut *connection)
    .await?;
    let mut ordinal = match last {
        None => 0,
        Some(last) if last.num_points >= sql_count(CHUNK_POINTS as u64) => last.ordinal + 1,
        Some(last) => {
            let blob = sqlx::query_scalar!(
                "SELECT points FROM chunks WHERE series_key = ?1 AND ordinal = ?2",
                series_key,
                last.ordinal
            );
            let mut joined = Vec::with_capacity(CHUNK_POINTS + points.len());
            chunk::decode_into(&blob.fetch_one(&mut *connection).await?, &mut joined)?;
            joined.append(&mut points);
            points = joined;
            last.ordinal
        }
    };
    for points in points.chunks(CHUNK_POINTS) {
        put_chunk(connection, series_key, ordinal, points).await?;
        ordinal += 1;
    }
    Ok(())
}

async fn put_chunk(
    connection: &mut SqliteConnection,
    series_key: i64,
    ordinal: i64,
    points: &[Point],
) -> Result<(), StoreError> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Ok(());
    };
    let finite = || {
        points
            .iter()
            .map(|point| point.value)
            .filter(|value| value.is_finite())
    };
    let min_value = finite().reduce(f64::min);
    let max_value = finite().reduce(f64::max);
    let num_points = sql_count(points.len() as u64);
    let num_nan = sql_count(points.iter().filter(|point| point.value.is_nan()).count() as u64);
    let summary = chunk::encode(&thin::summarize(points));
    let thinned = chunk::encode(&thin::thin(points, THINNED_POINTS));
    let blob = chunk::encode(points);
    sqlx::query!(
        "INSERT OR REPLACE INTO chunks (series_key, ordinal, first_id, last_id, first_step, last_step, num_points, num_nan,
            min_value, max_value, summary, thinned, points)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        series_key,
        ordinal,
        first.id,
        last.id,
        first.step,
        last.step,
        num_points,
        num_nan,
        min_value,
        max_value,
        summary,
        thinned,
        blob
    )
    .execute(connection)
    .await?;
    Ok(())
}
