//! Every route in one list, the layers at the end.

use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::TimeoutLayer;

use crate::error::Error;
use crate::state::AppState;
use crate::{api, assets, error, pages, security, telemetry};

/// Bytes of a body; the largest is a config in YAML.
pub const BODY_LIMIT_BYTES: usize = 1 << 20;

/// A handler that has not answered by then is given up; streams have answered long before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the whole board as one service.
pub fn app(state: AppState) -> Router {
    let (api, description) = api::routes().split_for_parts();
    Router::new()
        .merge(pages::routes())
        .merge(api)
        .route(
            "/openapi.json",
            get(move || std::future::ready(Json(description))),
        )
        .route("/static/{*path}", get(assets::show_asset))
        .fallback(|| std::future::ready(Error::RouteNotFound))
        // From here on inwards to outwards: the last layer sees a request first.
        .layer(CompressionLayer::new())
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            ANSWER_TIMEOUT,
        ))
        .layer(security::csrf_layer())
        .layer(from_fn_with_state(state.clone(), security::check_host))
        .layer(CatchPanicLayer::new())
        .layer(from_fn(error::render))
        .layer(from_fn(security::set_headers))
        .layer(from_fn(telemetry::trace_request))
        .with_state(state)
}
