//! Runs: listed, shown, started, stopped.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use board_store::RunFilter;
use run_protocol::{RunId, RunState};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::extract::{ApiQuery, RunPath};
use crate::api::resource::{RunAnswer, RunList};
use crate::error::{Error, Problem};
use crate::state::AppState;

/// Runs of a page where nothing else is asked for.
const DEFAULT_LIMIT: usize = 50;

/// Most runs of a page.
const MAX_LIMIT: usize = 200;

/// Which runs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only runs in this state; repeatable.
    #[serde(default)]
    state: Vec<String>,
    /// Only runs whose name, model or a tag contains this text.
    q: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Runs of a page.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(RunsQuery),
    responses(
        (status = OK, description = "A page of runs.", body = RunList),
        (status = BAD_REQUEST, description = "A parameter is refused.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn list_runs(
    State(state): State<AppState>,
    ApiQuery(query): ApiQuery<RunsQuery>,
) -> Result<Json<RunList>, Error> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(refuse(
            "limit",
            &limit.to_string(),
            &format!("1 to {MAX_LIMIT}"),
        ));
    }
    let states: Result<Vec<RunState>, Error> =
        query.state.iter().map(|word| parse_state(word)).collect();
    let after = query.cursor.as_deref().map(parse_cursor).transpose()?;
    let filter = RunFilter {
        states: states?,
        text: query.q,
    };
    let page = state.store.list_runs(&filter, after, limit).await?;
    Ok(Json(RunList {
        runs: page.runs.into_iter().map(Into::into).collect(),
        next: page.next.map(|id| id.to_string()),
    }))
}

fn parse_state(word: &str) -> Result<RunState, Error> {
    let words: Vec<_> = RunState::ALL.iter().map(|state| state.as_str()).collect();
    word.parse()
        .map_err(|_| refuse("state", word, &words.join(", ")))
}

fn parse_cursor(text: &str) -> Result<RunId, Error> {
    text.parse()
        .map_err(|_| refuse("cursor", text, "the `next` of another page"))
}

fn refuse(parameter: &str, value: &str, expected: &str) -> Error {
    let value: String = value.chars().take(80).collect();
    let message = format!("`{parameter}` is `{value}`, expected {expected}");
    Error::BadRequest {
        code: "bad_query",
        message,
        hint: None,
    }
}

/// Answers with one run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = OK, description = "The run.", body = RunAnswer),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn show_run(
    State(state): State<AppState>,
    RunPath(id): RunPath,
) -> Result<Json<RunAnswer>, Error> {
    let run = state.store.find_run(id).await?.ok_or(Error::RunNotFound)?;
    Ok(Json(RunAnswer { run: run.into() }))
}

/// Asks a run to save a checkpoint and end; one that waits ends at once.
///
/// The answer comes before the run has ended: its state is `stopping` until then. After a minute it is killed.
#[utoipa::path(post, path = "/api/v1/runs/{id}/stop", tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = ACCEPTED, description = "The run was told.", body = RunAnswer),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
        (status = CONFLICT, description = "The run has ended.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn stop_run(
    State(state): State<AppState>,
    RunPath(id): RunPath,
) -> Result<(StatusCode, Json<RunAnswer>), Error> {
    let run = state.supervisor.stop_run(id).await?;
    Ok((StatusCode::ACCEPTED, Json(RunAnswer { run: run.into() })))
}

/// Kills the processes of a run: what it learned since its last checkpoint is lost.
#[utoipa::path(post, path = "/api/v1/runs/{id}/kill", tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = ACCEPTED, description = "The run is being killed.", body = RunAnswer),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
        (status = CONFLICT, description = "The run has ended.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn kill_run(
    State(state): State<AppState>,
    RunPath(id): RunPath,
) -> Result<(StatusCode, Json<RunAnswer>), Error> {
    let run = state.supervisor.kill_run(id).await?;
    Ok((StatusCode::ACCEPTED, Json(RunAnswer { run: run.into() })))
}

/// Puts a run that has failed or was stopped back into the queue, to go on from its newest checkpoint.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = ACCEPTED, description = "The run waits for its turn.", body = RunAnswer),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
        (status = CONFLICT, description = "The run has not ended, is finished, or has no checkpoint to go on from.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn resume_run(
    State(state): State<AppState>,
    RunPath(id): RunPath,
) -> Result<(StatusCode, Json<RunAnswer>), Error> {
    let run = state.supervisor.resume_run(id, None).await?;
    Ok((StatusCode::ACCEPTED, Json(RunAnswer { run: run.into() })))
}
