//! REST under `/api/v1`, and the probes.

pub mod check;
pub mod create;
pub mod datasets;
pub mod events;
pub mod extract;
pub mod health;
pub mod metrics;
pub mod models;
pub mod parts;
pub mod resource;
pub mod runs;

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::AppState;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "board",
        description = "Fine-tuning runs: start, watch, stop, export. Failures are `application/problem+json` with `code`, `hint` and `fields`.",
    ),
    tags(
        (name = "runs", description = "One execution of one config."),
        (name = "events", description = "What happens, as it happens."),
        (name = "catalog", description = "What can be trained."),
        (name = "probes", description = "Whether the board works."),
    ),
)]
struct Description;

/// Returns the routes with their description.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(runs::list_runs, create::create_run))
        .routes(routes!(runs::show_run))
        .routes(routes!(runs::stop_run))
        .routes(routes!(runs::kill_run))
        .routes(routes!(runs::resume_run))
        .routes(routes!(check::check_config))
        .routes(routes!(metrics::show_metrics))
        .routes(routes!(events::stream_run))
        .routes(routes!(events::stream_board))
        .routes(routes!(parts::show_config))
        .routes(routes!(parts::show_log))
        .routes(routes!(parts::list_files))
        .routes(routes!(models::list_models))
        .routes(routes!(datasets::list_datasets))
        .routes(routes!(health::show_health))
        .routes(routes!(health::show_readiness))
}
