//! What a person does to a run: stop, kill, resume.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use axum_htmx::HxRequest;
use run_protocol::RunId;

use super::run::find_run;
use crate::error::Error;
use crate::state::AppState;
use crate::view::figure::middle_cut;
use crate::view::{Chrome, Section};

/// The question before a run is killed, for a browser without script; with one it is a dialog of the run's page.
#[derive(Template)]
#[template(path = "runs/kill.html")]
struct KillPage {
    chrome: Chrome,
    id: RunId,
    name: String,
    steps: u64,
}

/// Asks a run to save and end.
pub async fn stop_run(
    HxRequest(is_htmx): HxRequest,
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let run = find_run(&state, &id).await?;
    state.supervisor.stop_run(run.id).await?;
    Ok(super::go_to(&format!("/runs/{}", run.id), is_htmx))
}

/// Asks whether to kill a run.
pub async fn confirm_kill(
    chrome: Chrome,
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let run = find_run(&state, &id).await?;
    let name = middle_cut(&run.name, 48);
    super::answer(&KillPage {
        chrome: chrome.at(Section::Runs),
        id: run.id,
        name,
        steps: run.steps_done,
    })
}

/// Kills the processes of a run.
pub async fn kill_run(
    HxRequest(is_htmx): HxRequest,
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let run = find_run(&state, &id).await?;
    state.supervisor.kill_run(run.id).await?;
    Ok(super::go_to(&format!("/runs/{}", run.id), is_htmx))
}

/// Puts a run that has ended back into the queue, to go on from its newest checkpoint.
pub async fn resume_run(
    HxRequest(is_htmx): HxRequest,
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let run = find_run(&state, &id).await?;
    state.supervisor.resume_run(run.id, None).await?;
    Ok(super::go_to(&format!("/runs/{}", run.id), is_htmx))
}
