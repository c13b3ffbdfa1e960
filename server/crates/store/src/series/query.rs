//! Series for a curve: as few points as asked for, read at the coarsest level that has enough of them.

use std::collections::BTreeMap;

use run_protocol::RunId;
use serde::Serialize;
use sqlx::SqliteConnection;

use super::point::Point;
use super::{THINNED_POINTS, chunk, parse_values, thin};
use crate::convert::{count, small};
use crate::error::StoreError;
use crate::events::last_id;
use crate::runs::change::find_key;

/// Which points are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesQuery {
    /// The metrics; all of them if `None`.
    pub names: Option<Vec<String>>,
    /// Most points of each series; at least [`super::FEWEST_POINTS`] are taken.
    pub max_points: usize,
    /// The first step.
    pub from_step: Option<i64>,
    /// The last step.
    pub to_step: Option<i64>,
}

impl Default for SeriesQuery {
    fn default() -> Self {
        Self {
            names: None,
            max_points: 1000,
            from_step: None,
            to_step: None,
        }
    }
}

/// Series of one run at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSeries {
    /// The id of the last event they contain: a stream that begins after it continues them.
    pub as_of: i64,
    /// The steps at which a resumed attempt begins.
    pub joins: Vec<i64>,
    /// The series, in alphabetical order.
    pub series: Vec<Series>,
}

/// One metric over the steps. Where a resumed attempt repeats steps, only its own points are there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The metric.
    pub name: String,
    /// Points stored in the range of steps, before thinning.
    pub num_points: u64,
    /// How many of them are NaN.
    pub num_nan: u64,
    /// The smallest finite value of the points given, which is that of the points stored.
    pub min: Option<f64>,
    /// The greatest finite value.
    pub max: Option<f64>,
    /// Whether points were left out.
    pub is_thinned: bool,
    /// The points, in order.
    pub points: Vec<Point>,
}

/// The series of an attempt.
struct Part {
    series_key: Option<i64>,
    attempt: u32,
    tail: Vec<Point>,
}

/// Steps of a part that count.
#[derive(Clone, Copy)]
struct Range {
    from: i64,
    to: i64,
}

impl Range {
    fn has(self, step: i64) -> bool {
        (self.from..=self.to).contains(&step)
    }
}

/// Returns the series of a run.
pub(crate) async fn query(
    connection: &mut SqliteConnection,
    run: RunId,
    query: &SeriesQuery,
) -> Result<RunSeries, StoreError> {
    let run_key = find_key(connection, run).await?;
    let as_of = last_id(connection).await?;
    let attempts = first_steps(connection, run_key).await?;
    let mut series = Vec::new();
    for (name, parts) in parts(connection, run_key, query.names.as_deref()).await? {
        series.push(one(connection, name, parts, &attempts, query).await?);
    }
    Ok(RunSeries {
        as_of,
        joins: attempts.iter().skip(1).map(|(_, step)| *step).collect(),
        series,
    })
}

/// Returns the names of a run's metrics.
pub(crate) async fn names(
    connection: &mut SqliteConnection,
    run: RunId,
) -> Result<Vec<String>, StoreError> {
    let run_key = find_key(connection, run).await?;
    let names = sqlx::query_scalar!(
        r#"SELECT name AS "name!: String" FROM series WHERE run_key = ?1
         UNION SELECT j.key FROM open_metrics AS m, json_each(m.points) AS j WHERE m.run_key = ?1 ORDER BY 1"#,
        run_key
    );
    Ok(names.fetch_all(connection).await?)
}

/// Returns the attempts of a run with the step at which each begins.
pub(super) async fn first_steps(
    connection: &mut SqliteConnection,
    run_key: i64,
) -> Result<Vec<(u32, i64)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT attempt, first_step FROM attempts WHERE run_key = ?1 ORDER BY attempt",
        run_key
    );
    let rows = rows.fetch_all(connection).await?;
    Ok(rows
        .into_iter()
        .map(|row| (small(row.attempt), row.first_step))
        .collect())
}

/// Returns the last step of an attempt that no later one repeats.
pub(super) fn last_step(attempts: &[(u32, i64)], attempt: u32) -> i64 {
    let later = attempts
        .iter()
        .filter(|(later, _)| *later > attempt)
        .map(|(_, first_step)| *first_step);
    later
        .min()
        .map_or(i64::MAX, |first_step| first_step.saturating_sub(1))
}

async fn parts(
    connection: &mut SqliteConnection,
    run_key: i64,
    names: Option<&[String]>,
) -> Result<BTreeMap<String, Vec<Part>>, StoreError> {
    let is_wanted =
        |name: &str| names.is_none_or(|names| names.iter().any(|wanted| wanted == name));
    let mut parts: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    let rows = sqlx::query!(
        r#"SELECT series_key AS "series_key!", attempt, name FROM series WHERE run_key = ?1 ORDER BY name, attempt"#,
        run_key
    );
    for row in rows.fetch_all(&mut *connection).await? {
        if is_wanted(&row.name) {
            let part = Part {
                series_key: Some(row.series_key),
                attempt: small(row.attempt),
                tail: Vec::new(),
            };
            parts.entry(row.name).or_default().push(part);
        }
    }
    let rows = sqlx::query!(
        r#"SELECT id AS "id!", attempt, time_ms, step, epoch, points FROM open_metrics WHERE run_key = ?1 ORDER BY id"#,
        run_key
    );
    for row in rows.fetch_all(connection).await? {
        let attempt = small(row.attempt);
        for (name, value) in parse_values(&row.points)? {
            if !is_wanted(&name) {
                continue;
            }
            let point = Point {
                id: row.id,
                step: row.step,
                time_ms: row.time_ms,
                epoch: row.epoch,
                value,
            };
            let parts = parts.entry(name).or_default();
            match parts.iter_mut().find(|part| part.attempt == attempt) {
                Some(part) => part.tail.push(point),
                None => parts.push(Part {
                    series_key: None,
                    attempt,
                    tail: vec![point],
                }),
            }
        }
    }
    Ok(parts)
}

async fn one(
    connection: &mut SqliteConnection,
    name: String,
    parts: Vec<Part>,
    attempts: &[(u32, i64)],
    query: &SeriesQuery,
) -> Result<Series, StoreError> {
    let mut points = Vec::new();
    let (mut num_points, mut num_nan) = (0, 0);
    for part in parts {
        let range = Range {
            from: query.from_step.unwrap_or(i64::MIN),
            to: query
                .to_step
                .unwrap_or(i64::MAX)
                .min(last_step(attempts, part.attempt)),
        };
        if let Some(series_key) = part.series_key {
            let (stored, nan) =
                read_chunks(connection, series_key, range, query.max_points, &mut points).await?;
            num_points += stored;
            num_nan += nan;
        }
        let tail = part.tail.into_iter().filter(|point| range.has(point.step));
        for point in tail {
            num_points += 1;
            num_nan += u64::from(point.value.is_nan());
            points.push(point);
        }
    }
    let points = thin::thin(&points, query.max_points);
    let finite = || {
        points
            .iter()
            .map(|point| point.value)
            .filter(|value| value.is_finite())
    };
    Ok(Series {
        name,
        num_points,
        num_nan,
        min: finite().reduce(f64::min),
        max: finite().reduce(f64::max),
        is_thinned: (points.len() as u64) < num_points,
        points,
    })
}

/// Appends the points of the chunks in the range; returns how many points and how many NaN are stored there.
async fn read_chunks(
    connection: &mut SqliteConnection,
    series_key: i64,
    range: Range,
    max_points: usize,
    points: &mut Vec<Point>,
) -> Result<(u64, u64), StoreError> {
    let facts = sqlx::query!(
        r#"SELECT count(*) AS "num_chunks!: i64", coalesce(sum(num_points), 0) AS "num_points!: i64",
         coalesce(sum(num_nan), 0) AS "num_nan!: i64"
         FROM chunks WHERE series_key = ?1 AND last_step >= ?2 AND first_step <= ?3"#,
        series_key,
        range.from,
        range.to
    )
    .fetch_one(&mut *connection)
    .await?;
    let num_chunks = usize::try_from(facts.num_chunks).unwrap_or(0);
    // A summary has two points at least, the middle level its full number (save in a last chunk).
    let level = if num_chunks >= max_points {
        0
    } else if num_chunks.saturating_mul(THINNED_POINTS / 2) >= max_points {
        1
    } else {
        2
    };
    let start = points.len();
    // Where the range cuts a chunk, that chunk is read whole: its own ends and extremes may lie outside.
    let blobs = sqlx::query_scalar!(
        r#"SELECT CASE
            WHEN ?4 = 2 OR first_step < ?2 OR last_step > ?3 THEN points
            WHEN ?4 = 1 THEN thinned
            ELSE summary END AS "blob!: Vec<u8>"
         FROM chunks WHERE series_key = ?1 AND last_step >= ?2 AND first_step <= ?3 ORDER BY ordinal"#,
        series_key,
        range.from,
        range.to,
        level
    )
    .fetch_all(connection)
    .await?;
    for blob in blobs {
        chunk::decode_into(&blob, points)?;
    }
    // Points outside of the range were counted with their chunk; those chunks were read whole, so they tell how many.
    let (mut num_outside, mut nan_outside) = (0, 0);
    let mut kept = start;
    for index in start..points.len() {
        let point = points[index];
        if range.has(point.step) {
            points[kept] = point;
            kept += 1;
        } else {
            num_outside += 1;
            nan_outside += u64::from(point.value.is_nan());
        }
    }
    points.truncate(kept);
    Ok((
        count(facts.num_points).saturating_sub(num_outside),
        count(facts.num_nan).saturating_sub(nan_outside),
    ))
}
