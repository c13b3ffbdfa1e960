//! The models and datasets that were found, each with what it is or why it cannot be used.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::catalog::{self, Dataset, ModelFolder, Refusal};
use crate::error::Error;
use crate::i18n::Tr;
use crate::state::AppState;
use crate::view::figure::bytes;
use crate::view::{Chrome, Section};

#[derive(Template)]
#[template(path = "models/index.html")]
struct ModelsPage {
    chrome: Chrome,
    models: Vec<ModelFolder>,
    folder: String,
}

#[derive(Template)]
#[template(path = "datasets/index.html")]
struct DatasetsPage {
    chrome: Chrome,
    datasets: Vec<DatasetRow>,
    problem: Option<Refusal>,
    folder: String,
}

struct DatasetRow {
    dataset: Dataset,
    rows: Option<String>,
    size: String,
    preview: String,
}

/// Answers with the models.
pub async fn list_models(chrome: Chrome, State(state): State<AppState>) -> Result<Response, Error> {
    let config = state.config.clone();
    let folder = config.models_dir().display().to_string();
    let models = tokio::task::spawn_blocking(move || catalog::list_models(&config));
    let models = models
        .await
        .map_err(|error| Error::Internal(error.into()))?;
    let t = chrome.t;
    let in_words = |refusal: Refusal| Refusal {
        reason: t.said(refusal.reason),
        hint: refusal.hint.map(|hint| t.said(hint)),
    };
    super::answer(&ModelsPage {
        chrome: chrome.at(Section::Models),
        models: models
            .into_iter()
            .map(|model| ModelFolder {
                refusal: model.refusal.map(in_words),
                ..model
            })
            .collect(),
        folder,
    })
}

/// Answers with the datasets.
pub async fn list_datasets(
    chrome: Chrome,
    State(state): State<AppState>,
) -> Result<Response, Error> {
    let config = state.config.clone();
    let folder = config.datasets_dir().display().to_string();
    let t = chrome.t;
    let read = tokio::task::spawn_blocking(move || {
        let listed = catalog::list_datasets(&config)?;
        Ok::<_, trainer_data::DataError>(
            listed
                .into_iter()
                .map(|dataset| row(t, &config, dataset))
                .collect::<Vec<_>>(),
        )
    });
    let (datasets, problem) = match read.await.map_err(|error| Error::Internal(error.into()))? {
        Ok(rows) => (rows, None),
        Err(error) => (
            Vec::new(),
            Some(Refusal {
                reason: t.said(error.to_string()),
                hint: error.hint().map(|hint| t.said(hint)),
            }),
        ),
    };
    super::answer(&DatasetsPage {
        chrome: chrome.at(Section::Datasets),
        datasets,
        problem,
        folder,
    })
}

fn row(t: Tr, config: &crate::ServerConfig, mut dataset: Dataset) -> DatasetRow {
    let folder = config.datasets_dir();
    let rows = match trainer_data::count_rows(&folder, &dataset.name) {
        Ok(rows) => Some(t.count(rows)),
        Err(error) => {
            dataset.problem.get_or_insert_with(|| error.to_string());
            None
        }
    };
    dataset.problem = dataset.problem.map(|problem| t.said(problem));
    let preview = trainer_data::preview_rows(&folder, &dataset.name, 0, 1)
        .ok()
        .and_then(|rows| rows.into_iter().next());
    let preview = preview.map(|row| row.to_string()).unwrap_or_default();
    DatasetRow {
        size: bytes(dataset.size_bytes),
        rows,
        preview: preview.chars().take(240).collect(),
        dataset,
    }
}
