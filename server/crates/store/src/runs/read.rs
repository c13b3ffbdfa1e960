//! Reading runs.

use run_protocol::{RunId, RunState};
use sqlx::SqliteConnection;

use super::types::{Phase, ProcessKey, Run, RunExit, RunFilter, RunPage, RunTexts, StateCounts};
use crate::convert::{count as to_count, real, small, texts, word};
use crate::error::StoreError;
use crate::sparkline::Sparkline;

/// Runs read at a time where a text is looked for outside of SQL.
const SEARCH_PAGE: usize = 200;

/// A row as SQL gives it.
pub(super) struct RunRow {
    id: String,
    name: String,
    state: String,
    stage: String,
    backend: String,
    finetuning_type: String,
    model: String,
    datasets: String,
    tags: String,
    notes: String,
    created_ms: i64,
    queued_ms: i64,
    started_ms: Option<i64>,
    ended_ms: Option<i64>,
    stop_requested_ms: Option<i64>,
    attempt: i64,
    resume_from: Option<String>,
    pid: Option<i64>,
    pid_start: Option<i64>,
    exit_code: Option<i64>,
    exit_class: Option<String>,
    message: Option<String>,
    hint: Option<String>,
    phase: Option<String>,
    phase_done: Option<i64>,
    phase_total: Option<i64>,
    steps_done: i64,
    steps_total: Option<i64>,
    epoch: Option<f64>,
    last_loss: Option<f64>,
    last_loss_is_nan: i64,
    last_eval_loss: Option<f64>,
    last_eval_loss_is_nan: i64,
    sparkline: Option<Vec<u8>>,
}

/// Queries runs by what comes after FROM. The columns stand here once.
macro_rules! select_runs {
    ($tail:literal $(, $argument:expr)*) => {
        sqlx::query_as!(
            RunRow,
            r#"SELECT r.id, r.name, r.state, r.stage, r.backend, r.finetuning_type, r.model, r.datasets,
            (SELECT json_group_array(t.tag) FROM run_tags AS t WHERE t.run_key = r.run_key) AS "tags!: String",
            r.notes, r.created_ms, r.queued_ms, r.started_ms, r.ended_ms, r.stop_requested_ms, r.attempt,
            r.resume_from, r.pid, r.pid_start, r.exit_code, r.exit_class, r.message, r.hint, r.phase, r.phase_done,
            r.phase_total, r.steps_done, r.steps_total, r.epoch, r.last_loss, r.last_loss_is_nan, r.last_eval_loss,
            r.last_eval_loss_is_nan, r.sparkline FROM runs AS r "# + $tail
            $(, $argument)*
        )
    };
}

impl TryFrom<RunRow> for Run {
    type Error = StoreError;

    fn try_from(row: RunRow) -> Result<Self, StoreError> {
        let state: RunState = word("state", &row.state)?;
        let process = row.pid.zip(row.pid_start).map(|(pid, start)| ProcessKey {
            pid: small(pid),
            start_time: to_count(start),
        });
        Ok(Self {
            id: word("id", &row.id)?,
            name: row.name,
            state,
            stage: row.stage,
            backend: row.backend,
            finetuning_type: row.finetuning_type,
            model: row.model,
            datasets: texts(&row.datasets)?,
            tags: texts(&row.tags)?,
            notes: row.notes,
            created_ms: row.created_ms,
            queued_ms: row.queued_ms,
            started_ms: row.started_ms,
            ended_ms: row.ended_ms,
            stop_requested_ms: row.stop_requested_ms,
            attempt: small(row.attempt),
            resume_from: row.resume_from,
            process,
            exit: state.is_final().then(|| RunExit {
                code: row.exit_code.and_then(|code| i32::try_from(code).ok()),
                class: row.exit_class,
                message: row.message,
                hint: row.hint,
            }),
            phase: row.phase.map(|name| Phase {
                name,
                done: row.phase_done.map(to_count),
                total: row.phase_total.map(to_count),
            }),
            steps_done: to_count(row.steps_done),
            steps_total: row.steps_total.map(to_count),
            epoch: row.epoch,
            last_loss: real(row.last_loss, row.last_loss_is_nan),
            last_eval_loss: real(row.last_eval_loss, row.last_eval_loss_is_nan),
            sparkline: row
                .sparkline
                .map(|bytes| Sparkline::from_bytes(&bytes).into_values())
                .unwrap_or_default(),
        })
    }
}

/// Returns a run.
pub(crate) async fn find(
    connection: &mut SqliteConnection,
    id: RunId,
) -> Result<Option<Run>, StoreError> {
    let id = id.to_string();
    let row = select_runs!("WHERE r.id = ?1", id)
        .fetch_optional(connection)
        .await?;
    row.map(Run::try_from).transpose()
}

/// Returns the texts of a run.
pub(crate) async fn find_texts(
    connection: &mut SqliteConnection,
    id: RunId,
) -> Result<Option<RunTexts>, StoreError> {
    let id = id.to_string();
    let texts = sqlx::query_as!(
        RunTexts,
        "SELECT c.input_yaml, c.config_yaml, c.config_hash
         FROM run_configs AS c JOIN runs AS r ON r.run_key = c.run_key WHERE r.id = ?1",
        id
    );
    Ok(texts.fetch_optional(connection).await?)
}

/// Returns a page of runs, newest first, beginning after the run `after`.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    filter: &RunFilter,
    after: Option<RunId>,
    limit: usize,
) -> Result<RunPage, StoreError> {
    let states: Vec<String> = filter
        .states
        .iter()
        .map(|state| state.as_str().to_owned())
        .collect();
    let states = (!states.is_empty()).then(|| crate::convert::texts_json(&states));
    let text = filter
        .text
        .as_deref()
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_lowercase);
    let mut runs = match text.as_deref() {
        Some(text) if !text.is_ascii() => {
            search(connection, states.as_deref(), text, after, limit).await?
        }
        text => {
            let one_more = limit.saturating_add(1);
            page(connection, states.as_deref(), text, after, one_more).await?
        }
    };
    let next = if runs.len() > limit {
        runs.truncate(limit);
        runs.last().map(|run| run.id)
    } else {
        None
    };
    Ok(RunPage { runs, next })
}

/// Returns the runs that have a text, one more than `limit`. SQLite folds the case of ASCII letters alone, so that any
/// other text is looked for here.
async fn search(
    connection: &mut SqliteConnection,
    states: Option<&str>,
    text: &str,
    mut after: Option<RunId>,
    limit: usize,
) -> Result<Vec<Run>, StoreError> {
    let has = |field: &str| field.to_lowercase().contains(text);
    let mut found = Vec::new();
    loop {
        let runs = page(connection, states, None, after, SEARCH_PAGE).await?;
        let is_last = runs.len() < SEARCH_PAGE;
        after = runs.last().map(|run| run.id);
        found.extend(runs.into_iter().filter(|run| {
            has(&run.name) || has(&run.model) || run.tags.iter().any(|tag| has(tag))
        }));
        if is_last || found.len() > limit {
            return Ok(found);
        }
    }
}

async fn page(
    connection: &mut SqliteConnection,
    states: Option<&str>,
    text: Option<&str>,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<Run>, StoreError> {
    let after = after.map(|id| id.to_string());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = select_runs!(
        "WHERE (?1 IS NULL OR r.state IN (SELECT value FROM json_each(?1)))
         AND (?2 IS NULL OR instr(lower(r.name), ?2) > 0 OR instr(lower(r.model), ?2) > 0
            OR EXISTS (SELECT 1 FROM run_tags AS t WHERE t.run_key = r.run_key AND instr(lower(t.tag), ?2) > 0))
         AND (?3 IS NULL OR r.run_key < (SELECT a.run_key FROM runs AS a WHERE a.id = ?3))
         ORDER BY r.run_key DESC LIMIT ?4",
        states,
        text,
        after,
        limit
    );
    let rows = rows.fetch_all(connection).await?;
    rows.into_iter().map(Run::try_from).collect()
}

/// Returns the queue, first in first out.
pub(crate) async fn queued(connection: &mut SqliteConnection) -> Result<Vec<RunId>, StoreError> {
    let rows = sqlx::query_scalar!(
        "SELECT id FROM runs WHERE state = 'queued' ORDER BY queued_ms, run_key"
    );
    let ids = rows.fetch_all(connection).await?;
    ids.iter().map(|id| word("id", id)).collect()
}

/// Returns how many runs are in each state.
pub(crate) async fn count(connection: &mut SqliteConnection) -> Result<StateCounts, StoreError> {
    let rows =
        sqlx::query!(r#"SELECT state, count(*) AS "num_runs!: i64" FROM runs GROUP BY state"#);
    let mut counts = StateCounts::default();
    for row in rows.fetch_all(connection).await? {
        let place = match word::<RunState>("state", &row.state)? {
            RunState::Queued => &mut counts.queued,
            RunState::Starting => &mut counts.starting,
            RunState::Running => &mut counts.running,
            RunState::Stopping => &mut counts.stopping,
            RunState::Finished => &mut counts.finished,
            RunState::Failed => &mut counts.failed,
            RunState::Stopped => &mut counts.stopped,
        };
        *place = to_count(row.num_runs);
    }
    Ok(counts)
}
