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
use axum::http::header::{self, HeaderName};
use axum::response::{Html, IntoResponse, Redirect, Response};

use crate::error::Error;

pub use error::error_page;

/// Says that an answer depends on who asks.
const VARY: (HeaderName, &str) = (header::VARY, "HX-Request, Cookie, Accept-Language");

/// Renders a page or one of its blocks.
fn answer(page: &impl Template) -> Result<Response, Error> {
    let html = page
        .render()
        .map_err(|error| Error::Internal(error.into()))?;
    Ok(([VARY], Html(html)).into_response())
}

/// Sends the reader on: a browser by 303, htmx by its header.
fn go_to(address: &str, is_htmx: bool) -> Response {
    if is_htmx {
        [("HX-Redirect", address)].into_response()
    } else {
        Redirect::to(address).into_response()
    }
}
