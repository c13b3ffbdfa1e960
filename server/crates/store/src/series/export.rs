//! A walk over every point of a run, a chunk at a time, so that a run of any length takes little memory.

use std::collections::VecDeque;
use std::sync::Arc;

use run_protocol::RunId;

use super::point::Point;
use super::{chunk, parse_values, query};
use crate::error::StoreError;
use crate::runs::change::find_key;
use crate::store::Store;

/// One point with the name of its metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRow {
    /// The metric.
    pub name: Arc<str>,
    /// The point.
    pub point: Point,
}

/// The walk: metric by metric in alphabetical order, each by steps. Where a resumed attempt repeats steps, only its own
/// points come. What is stored while it goes on may come or not, but no point twice.
#[derive(Debug)]
pub struct Export {
    store: Store,
    run_key: i64,
    attempts: Vec<(u32, i64)>,
    /// What is left: name and attempt.
    left: VecDeque<(Arc<str>, u32)>,
    /// Points with ids up to this one are done, of the series at the front of `left`.
    done: i64,
}

impl Export {
    pub(crate) async fn new(store: Store, run: RunId) -> Result<Self, StoreError> {
        let mut snapshot = store.snapshot().await?;
        let run_key = find_key(&mut snapshot, run).await?;
        let attempts = query::first_steps(&mut snapshot, run_key).await?;
        let names = query::names(&mut snapshot, run).await?;
        drop(snapshot);
        let left = names
            .iter()
            .map(|name| Arc::<str>::from(name.as_str()))
            .flat_map(|name| {
                attempts
                    .iter()
                    .map(move |(attempt, _)| (Arc::clone(&name), *attempt))
            })
            .collect();
        Ok(Self {
            store,
            run_key,
            attempts,
            left,
            done: 0,
        })
    }

    /// Returns the next rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<MetricRow>>, StoreError> {
        while let Some((name, attempt)) = self.left.front().cloned() {
            let points = self.points_after(&name, attempt).await?;
            let Some(last) = points.last() else {
                self.left.pop_front();
                self.done = 0;
                continue;
            };
            self.done = last.id;
            let last_step = query::last_step(&self.attempts, attempt);
            let kept = points.into_iter().filter(|point| point.step <= last_step);
            let rows: Vec<MetricRow> = kept
                .map(|point| MetricRow {
                    name: Arc::clone(&name),
                    point,
                })
                .collect();
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The points after those done: of the next chunk, or of all open rows.
    async fn points_after(&self, name: &str, attempt: u32) -> Result<Vec<Point>, StoreError> {
        let mut snapshot = self.store.snapshot().await?;
        let blob = sqlx::query_scalar!(
            "SELECT c.points FROM series AS s JOIN chunks AS c ON c.series_key = s.series_key
             WHERE s.run_key = ?1 AND s.attempt = ?2 AND s.name = ?3 AND c.last_id > ?4 ORDER BY c.ordinal LIMIT 1",
            self.run_key,
            attempt,
            name,
            self.done
        );
        let mut points = Vec::new();
        if let Some(blob) = blob.fetch_optional(&mut *snapshot).await? {
            chunk::decode_into(&blob, &mut points)?;
            points.retain(|point| point.id > self.done);
            return Ok(points);
        }
        let rows = sqlx::query!(
            r#"SELECT id AS "id!", time_ms, step, epoch, points FROM open_metrics
             WHERE run_key = ?1 AND attempt = ?2 AND id > ?3 ORDER BY id"#,
            self.run_key,
            attempt,
            self.done
        );
        for row in rows.fetch_all(&mut *snapshot).await? {
            let values = parse_values(&row.points)?;
            if let Some((_, value)) = values.into_iter().find(|(found, _)| found == name) {
                points.push(Point {
                    id: row.id,
                    step: row.step,
                    time_ms: row.time_ms,
                    epoch: row.epoch,
                    value,
                });
            }
        }
        Ok(points)
    }
}
