//! The datasets of `dataset_info.json`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::catalog::{self, Dataset};
use crate::error::{Error, Problem, blocking};
use crate::state::AppState;

/// All datasets.
#[derive(Debug, Serialize, ToSchema)]
pub struct DatasetList {
    /// In the order of `dataset_info.json`.
    pub datasets: Vec<Dataset>,
    /// Always `null`: the list is complete.
    pub next: Option<String>,
}

/// Lists the datasets of the data folder, unusable ones with their reason.
#[utoipa::path(get, path = "/api/v1/datasets", tag = "catalog", responses(
        (status = OK, description = "The datasets.", body = DatasetList),
        (status = UNPROCESSABLE_ENTITY, description = "`dataset_info.json` cannot be read.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn list_datasets(State(state): State<AppState>) -> Result<Json<DatasetList>, Error> {
    let config = Arc::clone(&state.config);
    let listed = blocking(move || catalog::list_datasets(&config)).await?;
    let datasets = listed.map_err(|error| Error::Unusable {
        code: "bad_data",
        hint: error.hint(),
        message: state.config.shorten(&error.to_string()),
    })?;
    Ok(Json(DatasetList {
        datasets,
        next: None,
    }))
}
