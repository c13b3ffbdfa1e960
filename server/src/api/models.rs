//! The model folders that can be trained.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::catalog::{self, ModelFolder};
use crate::error::{Error, blocking};
use crate::state::AppState;

/// All model folders.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// By name, the demo first.
    pub models: Vec<ModelFolder>,
    /// Always `null`: the list is complete.
    pub next: Option<String>,
}

/// Lists the model folders below the data folder and the further roots, refused ones with their reason.
#[utoipa::path(get, path = "/api/v1/models", tag = "catalog", responses((status = OK, description = "The model folders.", body = ModelList)))]
pub async fn list_models(State(state): State<AppState>) -> Result<Json<ModelList>, Error> {
    let models = blocking(move || catalog::list_models(&state.config)).await?;
    Ok(Json(ModelList { models, next: None }))
}
