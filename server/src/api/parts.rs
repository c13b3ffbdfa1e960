//! What a run directory holds: its config, its logs, the list of its files.
//!
//! Nothing of a request is ever part of a path: a log is named by its rank, files are only listed.

use axum::Json;
use axum::extract::State;
use run_protocol::RunConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::api::extract::{ApiQuery, RunPath};
use crate::error::{Error, Problem, blocking};
use crate::run_files::{self, LogPart, LogSource, RunFile};
use crate::state::AppState;

/// The config of a run under its name.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigAnswer {
    /// The config.
    pub config: ConfigResource,
}

/// What a run was started with.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigResource {
    /// Every key with its value.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
    /// The keys that differ from their defaults.
    pub changed: Vec<ChangedResource>,
    /// The canonical YAML that the trainer acts on.
    pub yaml: String,
    /// The YAML as it was given.
    pub input: String,
    /// SHA-256 of the canonical YAML.
    pub hash: String,
}

/// A key that differs from its default.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedResource {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Its default.
    pub default: Value,
}

/// Which part of which log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// The rank, or `launcher`. 0 without it.
    rank: Option<String>,
    /// The byte to begin at. Without it the end of the log is given.
    offset: Option<u64>,
    /// Most bytes.
    #[param(minimum = 1, maximum = 1_048_576)]
    limit: Option<usize>,
}

/// A part of a log under its name.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogAnswer {
    /// The part.
    pub log: LogPart,
}

/// The files of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct FileList {
    /// By path.
    pub files: Vec<RunFile>,
    /// Always `null`: the list is complete, or cut at its limit.
    pub next: Option<String>,
}

/// Answers with the config of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}/config", tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = OK, description = "The config.", body = ConfigAnswer),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn show_config(
    State(state): State<AppState>,
    RunPath(id): RunPath,
) -> Result<Json<ConfigAnswer>, Error> {
    let texts = state
        .store
        .find_texts(id)
        .await?
        .ok_or(Error::RunNotFound)?;
    // The texts of a run that a newer board made may not be readable here; they are shown all the same.
    let config = RunConfig::from_yaml(&texts.config_yaml, &[])
        .ok()
        .map(|parsed| parsed.config);
    let changed = config
        .iter()
        .flat_map(RunConfig::changed_keys)
        .map(|changed| ChangedResource {
            key: changed.key.to_owned(),
            value: changed.value,
            default: changed.default,
        });
    let config = ConfigResource {
        changed: changed.collect(),
        values: config
            .as_ref()
            .map(RunConfig::to_flat_json)
            .unwrap_or_default(),
        yaml: texts.config_yaml,
        input: texts.input_yaml,
        hash: texts.config_hash,
    };
    Ok(Json(ConfigAnswer { config }))
}

/// Answers with a part of a rank's log, or of the launcher's; without `offset` with its end.
#[utoipa::path(get, path = "/api/v1/runs/{id}/log", tag = "runs",
    params(("id" = String, Path, description = "The run."), LogQuery),
    responses(
        (status = OK, description = "A part of the log.", body = LogAnswer),
        (status = BAD_REQUEST, description = "A parameter is refused.", content_type = "application/problem+json", body = Problem),
        (status = NOT_FOUND, description = "No such run or log.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn show_log(
    State(state): State<AppState>,
    RunPath(id): RunPath,
    ApiQuery(query): ApiQuery<LogQuery>,
) -> Result<Json<LogAnswer>, Error> {
    state.store.find_run(id).await?.ok_or(Error::RunNotFound)?;
    let source: LogSource = query.rank.as_deref().unwrap_or("0").parse()?;
    let dir = state.supervisor.run_dir(id);
    let log =
        blocking(move || run_files::read_log(&dir, source, query.offset, query.limit)).await??;
    Ok(Json(LogAnswer { log }))
}

/// Lists the files of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}/files", tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = OK, description = "The files.", body = FileList),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn list_files(
    State(state): State<AppState>,
    RunPath(id): RunPath,
) -> Result<Json<FileList>, Error> {
    state.store.find_run(id).await?.ok_or(Error::RunNotFound)?;
    let dir = state.supervisor.run_dir(id);
    let files = blocking(move || run_files::list_files(&dir)).await?;
    Ok(Json(FileList { files, next: None }))
}
