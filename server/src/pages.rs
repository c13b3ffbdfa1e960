//! The HTML pages.

use axum::Router;
use axum::http::HeaderMap;

use crate::error::Problem;
use crate::state::AppState;

/// Returns the routes of every page; `router.rs` merges them below its layers.
pub fn routes() -> Router<AppState> {
    Router::new()
}

/// Returns the page that tells a browser about a failed request.
///
/// `request` holds the headers of the request: language, theme and `HX-Request` are read there.
pub fn error_page(problem: &Problem, request: &HeaderMap) -> String {
    let _ = request;
    format!(
        "<!doctype html><title>{}</title><h1>{}</h1>",
        problem.status, problem.title
    )
}
