//! Every route in one list, the layers at the end.

use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{get, post};
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::TimeoutLayer;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::Error;
use crate::pages::{catalogs, device, files, new_run, preferences, run, run_actions, runs};
use crate::state::AppState;
use crate::{api, assets, error, security, telemetry};

/// Bytes of a body; the largest is a config in YAML.
pub const BODY_LIMIT_BYTES: usize = 1 << 20;

/// A handler that has not answered by then is given up; streams have answered long before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The pages.
fn page_routes() -> Router<AppState> {
    Router::new()
        .route("/", get(|| std::future::ready(Redirect::to("/runs"))))
        .route("/runs", get(runs::list_runs).post(new_run::create_run))
        .route(
            "/runs/new",
            get(new_run::show_form).post(new_run::switch_tab),
        )
        .route("/runs/check", post(new_run::check_form))
        .route("/runs/demo", post(new_run::create_demo_run))
        .route("/runs/{id}", get(run::show_run))
        .route("/runs/{id}/stop", post(run_actions::stop_run))
        .route(
            "/runs/{id}/kill",
            get(run_actions::confirm_kill).post(run_actions::kill_run),
        )
        .route("/runs/{id}/resume", post(run_actions::resume_run))
        .route("/runs/{id}/files/{*path}", get(files::show_file))
        .route("/datasets", get(catalogs::list_datasets))
        .route("/models", get(catalogs::list_models))
        .route("/device", get(device::show_device))
        .route("/preferences", post(preferences::set_preferences))
}

/// REST and the probes, with their description.
fn api_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(api::Description::openapi())
        .routes(routes!(api::runs::list_runs, api::create::create_run))
        .routes(routes!(api::runs::show_run))
        .routes(routes!(api::runs::stop_run))
        .routes(routes!(api::runs::kill_run))
        .routes(routes!(api::runs::resume_run))
        .routes(routes!(api::check::check_config))
        .routes(routes!(api::metrics::show_metrics))
        .routes(routes!(api::events::stream_run))
        .routes(routes!(api::events::stream_board))
        .routes(routes!(api::parts::show_config))
        .routes(routes!(api::parts::show_log))
        .routes(routes!(api::parts::list_files))
        .routes(routes!(api::models::list_models))
        .routes(routes!(api::datasets::list_datasets))
        .routes(routes!(api::health::show_health))
        .routes(routes!(api::health::show_readiness))
}

/// Returns the whole board as one service.
pub fn app(state: AppState) -> Router {
    let (api, description) = api_routes().split_for_parts();
    Router::new()
        .merge(page_routes())
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
