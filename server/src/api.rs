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

/// What the document of the API says about the whole; `router.rs` adds the routes.
#[derive(Debug, OpenApi)]
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
pub struct Description;
