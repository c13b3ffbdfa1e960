//! The HTML pages.

pub mod catalogs;
pub mod device;
mod error;
pub mod files;
pub mod new_run;
pub mod preferences;
pub mod run;
pub mod run_actions;
pub mod runs;

use askama::Template;
use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use crate::error::Error;
use crate::state::AppState;

pub use error::error_page;

/// Returns the routes of every page; `router.rs` merges them below its layers.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(|| std::future::ready(Redirect::to("/runs"))))
        .route("/runs", get(runs::list_runs).post(new_run::create_run))
        .route("/runs/new", get(new_run::show_form).post(new_run::switch_tab))
        .route("/runs/check", post(new_run::check_form))
        .route("/runs/demo", post(new_run::create_demo_run))
        .route("/runs/{id}", get(run::show_run))
        .route("/runs/{id}/stop", post(run_actions::stop_run))
        .route("/runs/{id}/kill", get(run_actions::confirm_kill).post(run_actions::kill_run))
        .route("/runs/{id}/resume", post(run_actions::resume_run))
        .route("/runs/{id}/files/{*path}", get(files::show_file))
        .route("/datasets", get(catalogs::list_datasets))
        .route("/models", get(catalogs::list_models))
        .route("/device", get(device::show_device))
        .route("/preferences", post(preferences::set_preferences))
}

/// Says that an answer depends on who asks.
const VARY: (HeaderName, &str) = (header::VARY, "HX-Request, Cookie, Accept-Language");

/// Renders a page or one of its blocks.
fn answer(page: &impl Template) -> Result<Response, Error> {
    let html = page.render().map_err(|error| Error::Internal(error.into()))?;
    Ok(([VARY], Html(html)).into_response())
}

/// Sends the reader on: a browser by 303, htmx by its header.
fn go_to(address: &str, is_htmx: bool) -> Response {
    if is_htmx { [("HX-Redirect", address)].into_response() } else { Redirect::to(address).into_response() }
}
