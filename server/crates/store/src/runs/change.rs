//! Writing runs. Called by the writer task alone; everything here checks before it writes, so a refusal has changed nothing.

use run_protocol::{RunId, RunState};
use sqlx::SqliteConnection;

use super::read;
use super::types::{NewRun, Run, RunEdit, StateChange};
use crate::convert::{sql_count, texts_json};
use crate::error::StoreError;
use crate::events::{self, StoredEvent};

/// Most characters of a name.
const NAME_LENGTH: usize = 200;
/// Most characters of a tag.
const TAG_LENGTH: usize = 60;
/// Most characters of the notes.
const NOTES_LENGTH: usize = 20_000;

/// Makes a run.
pub(crate) async fn create(
    connection: &mut SqliteConnection,
    new: &NewRun,
    stored: &mut Vec<StoredEvent>,
) -> Result<Run, StoreError> {
    check_length("name", &new.name, 1, NAME_LENGTH)?;
    check_tags(&new.tags)?;
    let id = new.id.to_string();
    let is_deleted = sqlx::query_scalar!("SELECT id FROM deleted_runs WHERE id = ?1", id);
    if is_deleted.fetch_optional(&mut *connection).await?.is_some() {
        return Err(StoreError::RunDeleted(new.id));
    }
    if find_key(connection, new.id).await.is_ok() {
        return Err(StoreError::RunExists(new.id));
    }
    let datasets = texts_json(&new.datasets);
    let steps_total = new.steps_total.map(sql_count);
    let run_key = sqlx::query!(
        "INSERT INTO runs (id, name, stage, backend, finetuning_type, model, datasets, created_ms, queued_ms, steps_total)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)",
        id,
        new.name,
        new.stage,
        new.backend,
        new.finetuning_type,
        new.model,
        datasets,
        new.created_ms,
        steps_total
    )
    .execute(&mut *connection)
    .await?
    .last_insert_rowid();
    sqlx::query!(
        "INSERT INTO run_configs (run_key, input_yaml, config_yaml, config_hash) VALUES (?1, ?2, ?3, ?4)",
        run_key,
        new.texts.input_yaml,
        new.texts.config_yaml,
        new.texts.config_hash
    )
    .execute(&mut *connection)
    .await?;
    put_tags(connection, run_key, &new.tags).await?;
    let change = StateChange::new(&[], RunState::Queued, new.created_ms);
    stored.push(events::insert_state(connection, run_key, new.id, 0, &change).await?);
    find_existing(connection, new.id).await
}

/// Moves a run to another state.
pub(crate) async fn change_state(
    connection: &mut SqliteConnection,
    id: RunId,
    change: &StateChange,
    stored: &mut Vec<StoredEvent>,
) -> Result<Run, StoreError> {
    let before = find_existing(connection, id).await?;
    if !change.from.contains(&before.state) {
        return Err(StoreError::State {
            id,
            is: before.state,
            wanted: change.to,
        });
    }
    let run_key = find_key(connection, id).await?;
    let to = change.to.as_str();
    let time = change.time_ms;
    let is_queued = change.to == RunState::Queued;
    let is_starting = change.to == RunState::Starting;
    let is_stopping = change.to == RunState::Stopping;
    let is_final = change.to.is_final();
    let attempt = change.attempt.map(i64::from);
    let pid = change.process.map(|process| i64::from(process.pid));
    let pid_start = change.process.map(|process| sql_count(process.start_time));
    let exit_code = change.exit.code.map(i64::from);
    sqlx::query!(
        "UPDATE runs SET
            state = ?2,
            queued_ms = CASE WHEN ?3 THEN ?4 ELSE queued_ms END,
            started_ms = CASE WHEN ?5 THEN ?4 WHEN ?3 THEN NULL ELSE started_ms END,
            stop_requested_ms = CASE WHEN ?6 THEN ?4 WHEN ?3 THEN NULL ELSE stop_requested_ms END,
            ended_ms = CASE WHEN ?7 THEN ?4 ELSE NULL END,
            attempt = coalesce(?8, attempt),
            pid = CASE WHEN ?7 OR ?3 THEN NULL ELSE coalesce(?9, pid) END,
            pid_start = CASE WHEN ?7 OR ?3 THEN NULL ELSE coalesce(?10, pid_start) END,
            resume_from = CASE WHEN ?7 THEN NULL ELSE coalesce(?11, resume_from) END,
            exit_code = ?12, exit_class = ?13, message = ?14, hint = ?15,
            phase = CASE WHEN ?7 OR ?3 THEN NULL ELSE phase END,
            phase_done = CASE WHEN ?7 OR ?3 THEN NULL ELSE phase_done END,
            phase_total = CASE WHEN ?7 OR ?3 THEN NULL ELSE phase_total END
         WHERE run_key = ?1",
        run_key,
        to,
        is_queued,
        time,
        is_starting,
        is_stopping,
        is_final,
        attempt,
        pid,
        pid_start,
        change.resume_from,
        exit_code,
        change.exit.class,
        change.exit.message,
        change.exit.hint
    )
    .execute(&mut *connection)
    .await?;
    let run = find_existing(connection, id).await?;
    if before.state != change.to {
        stored.push(events::insert_state(connection, run_key, id, run.attempt, change).await?);
    }
    Ok(run)
}

/// Changes what people say of a run.
pub(crate) async fn edit(
    connection: &mut SqliteConnection,
    id: RunId,
    edit: &RunEdit,
) -> Result<Run, StoreError> {
    if let Some(name) = &edit.name {
        check_length("name", name, 1, NAME_LENGTH)?;
    }
    if let Some(notes) = &edit.notes {
        check_length("notes", notes, 0, NOTES_LENGTH)?;
    }
    check_tags(edit.tags.as_deref().unwrap_or_default())?;
    let run_key = find_key(connection, id).await?;
    sqlx::query!(
        "UPDATE runs SET name = coalesce(?2, name), notes = coalesce(?3, notes) WHERE run_key = ?1",
        run_key,
        edit.name,
        edit.notes
    )
    .execute(&mut *connection)
    .await?;
    if let Some(tags) = &edit.tags {
        sqlx::query!("DELETE FROM run_tags WHERE run_key = ?1", run_key)
            .execute(&mut *connection)
            .await?;
        put_tags(connection, run_key, tags).await?;
    }
    find_existing(connection, id).await
}

/// Deletes a run that has ended or never began, with everything stored of it. Its id stays taken.
pub(crate) async fn delete(
    connection: &mut SqliteConnection,
    id: RunId,
    time_ms: i64,
) -> Result<(), StoreError> {
    let run = find_existing(connection, id).await?;
    if run.state.is_active() {
        return Err(StoreError::StillActive(id));
    }
    let run_key = find_key(connection, id).await?;
    let id = id.to_string();
    sqlx::query!(
        "INSERT INTO deleted_runs (id, name, deleted_ms) VALUES (?1, ?2, ?3)",
        id,
        run.name,
        time_ms
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("DELETE FROM runs WHERE run_key = ?1", run_key)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// Returns the key of a run that must be there.
pub(crate) async fn find_key(
    connection: &mut SqliteConnection,
    id: RunId,
) -> Result<i64, StoreError> {
    let text = id.to_string();
    let key = sqlx::query_scalar!(
        r#"SELECT run_key AS "run_key!" FROM runs WHERE id = ?1"#,
        text
    );
    key.fetch_optional(connection)
        .await?
        .ok_or(StoreError::RunNotFound(id))
}

async fn find_existing(connection: &mut SqliteConnection, id: RunId) -> Result<Run, StoreError> {
    read::find(connection, id)
        .await?
        .ok_or(StoreError::RunNotFound(id))
}

async fn put_tags(
    connection: &mut SqliteConnection,
    run_key: i64,
    tags: &[String],
) -> Result<(), StoreError> {
    let tags = texts_json(tags);
    sqlx::query!(
        "INSERT OR IGNORE INTO run_tags (run_key, tag) SELECT ?1, value FROM json_each(?2)",
        run_key,
        tags
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn check_tags(tags: &[String]) -> Result<(), StoreError> {
    tags.iter()
        .try_for_each(|tag| check_length("tag", tag, 1, TAG_LENGTH))
}

fn check_length(field: &'static str, text: &str, min: usize, max: usize) -> Result<(), StoreError> {
    let actual = text.chars().count();
    if (min..=max).contains(&actual) {
        Ok(())
    } else {
        Err(StoreError::TextLength {
            field,
            min,
            max,
            actual,
        })
    }
}
