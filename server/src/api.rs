//! REST under `/api/v1`, and the probes.

pub mod health;

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::AppState;

#[derive(OpenApi)]
#[openapi(info(
    title = "board",
    description = "Fine-tuning runs: start, watch, stop, export."
))]
struct Description;

/// Returns the routes with their description.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Description::openapi()).routes(routes!(health::show_health))
}
