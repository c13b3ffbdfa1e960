//! Live events of one run, or of the whole board.

use std::collections::HashSet;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use run_protocol::RunId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::extract::{ApiQuery, RunPath};
use crate::error::{Error, Problem};
use crate::live::{LastEventId, Scope};
use crate::state::AppState;

/// Most runs that one stream names.
const MAX_RUNS: usize = 100;

/// Where a stream of one run begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunStreamQuery {
    /// The last id that the caller has; the header `Last-Event-ID` wins over it.
    last_event_id: Option<String>,
}

/// What a stream is about, and where it begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BoardStreamQuery {
    /// The last id that the caller has; the header `Last-Event-ID` wins over it.
    last_event_id: Option<String>,
    /// Only events of this run; repeatable. All runs without it.
    #[serde(default)]
    run: Vec<String>,
}

/// Streams the events of a run as server-sent events, and ends with it.
///
/// `metric`, `log`, `state`, `stage`, `checkpoint`, `alert`, `sample` carry `run`, `attempt`, `time` (milliseconds since 1970) and their own
/// fields; `end` says why nothing more comes: `run_ended` or `board_stopped`. Without an id the stream begins at the run's first
/// event, with one it goes on behind it. A client that comes back after the `end` of a run gets 204.
#[utoipa::path(get, path = "/api/v1/runs/{id}/events", tag = "events",
    params(("id" = String, Path, description = "The run."), RunStreamQuery,
        ("last-event-id" = Option<String>, Header, description = "The last id that the caller has.")),
    responses(
        (status = OK, description = "The stream.", content_type = "text/event-stream", body = String),
        (status = NO_CONTENT, description = "The run has ended and the caller has everything."),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
        (status = SERVICE_UNAVAILABLE, description = "Too many streams are open.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn stream_run(
    State(state): State<AppState>,
    RunPath(id): RunPath,
    ApiQuery(query): ApiQuery<RunStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let last = LastEventId::from_request(&headers, query.last_event_id.as_deref())?;
    state.store.find_run(id).await?.ok_or(Error::RunNotFound)?;
    state.live.stream(Scope::Run(id), last).await
}

/// Streams the events of all runs as server-sent events.
///
/// The events are those of one run's stream. Without an id it begins with the next event, with one it goes on behind it; 0 replays everything.
/// After a run's last event comes its `end`; the stream stays open until the board stops.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(BoardStreamQuery, ("last-event-id" = Option<String>, Header, description = "The last id that the caller has.")),
    responses(
        (status = OK, description = "The stream.", content_type = "text/event-stream", body = String),
        (status = SERVICE_UNAVAILABLE, description = "Too many streams are open.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn stream_board(
    State(state): State<AppState>,
    ApiQuery(query): ApiQuery<BoardStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let last = LastEventId::from_request(&headers, query.last_event_id.as_deref())?;
    if query.run.len() > MAX_RUNS {
        let message = format!(
            "a stream takes up to {MAX_RUNS} runs, got {}",
            query.run.len()
        );
        return Err(Error::BadRequest {
            code: "bad_query",
            message,
            hint: Some("leave `run` out to get all".into()),
        });
    }
    let runs: Result<HashSet<RunId>, _> = query.run.iter().map(|id| id.parse()).collect();
    let runs = runs.map_err(|_| Error::RunNotFound)?;
    let scope = if runs.is_empty() {
        Scope::Board
    } else {
        Scope::Runs(runs)
    };
    state.live.stream(scope, last).await
}
