//! Probes for whoever keeps the board running.

use axum::extract::State;

use crate::error::{Error, Problem};
use crate::state::AppState;

/// Says that the process answers.
#[utoipa::path(get, path = "/healthz", tag = "probes",
    responses((status = OK, description = "The process answers.", content_type = "text/plain", body = String)))]
pub async fn show_health() -> &'static str {
    "ok\n"
}

/// Says whether the board can serve: the store answers and the board is not stopping.
#[utoipa::path(get, path = "/readyz", tag = "probes",
    responses(
        (status = OK, description = "The board serves.", content_type = "text/plain", body = String),
        (status = SERVICE_UNAVAILABLE, description = "It does not, now.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn show_readiness(State(state): State<AppState>) -> Result<&'static str, Error> {
    if state.shutdown.is_cancelled() {
        return Err(board_store::StoreError::Closed.into());
    }
    state.store.last_event_id().await?;
    Ok("ready\n")
}
