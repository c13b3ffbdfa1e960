//! The datasets of `dataset_info.json`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::catalog::{self, Dataset};
use crate::error::{Error, blocking};
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
#[utoipa::path(get, path = "/api/v1/datasets", tag = "catalog", responses((status = OK, body = DatasetList)))]
pub async fn list_datasets(State(state): State<AppState>) -> Result<Json<DatasetList>, Error> {
    let datasets = blocking(move || catalog::list_datasets(&state.config)).await??;
    Ok(Json(DatasetList {
        datasets,
        next: None,
    }))
}
