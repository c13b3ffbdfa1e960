//! A config checked without being started.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use run_protocol::{AcceptedKey, ConfigErrors, Warning};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::extract::ConfigBody;
use crate::config::ServerConfig;
use crate::draft::Draft;
use crate::error::{Error, FieldProblem, Problem, blocking};
use crate::state::AppState;

/// What a check found, under its name.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckAnswer {
    /// What was found.
    pub check: CheckResource,
}

/// What a check found.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckResource {
    /// Whether the run could be started.
    pub is_ok: bool,
    /// Why it could not, all reasons at once.
    pub errors: Vec<FieldProblem>,
    /// What is probably not meant.
    pub warnings: Vec<WarningResource>,
    /// Keys that were given but change nothing here.
    pub accepted_without_effect: Vec<AcceptedResource>,
    /// Every key with its value; empty where the config could not be read.
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
    /// SHA-256 of the canonical YAML.
    pub hash: Option<String>,
}

/// Something that works but is probably not meant.
#[derive(Debug, Serialize, ToSchema)]
pub struct WarningResource {
    /// The key.
    pub field: String,
    /// What is odd.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A key that changes nothing here.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedResource {
    /// The key.
    pub key: String,
    /// Why it changes nothing.
    pub reason: String,
}

/// Checks a config as `POST /api/v1/runs` would, and starts nothing.
#[utoipa::path(post, path = "/api/v1/check", tag = "runs",
    request_body(description = "A config, as for a new run.", content((String = "application/yaml"), (Object = "application/json"))),
    responses(
        (status = OK, description = "What the check found, errors too.", body = CheckAnswer),
        (status = BAD_REQUEST, description = "The body cannot be read.", content_type = "application/problem+json", body = Problem),
        (status = UNSUPPORTED_MEDIA_TYPE, description = "The body is neither YAML nor JSON.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn check_config(
    State(state): State<AppState>,
    body: ConfigBody,
) -> Result<Json<CheckAnswer>, Error> {
    let read = match body {
        ConfigBody::Yaml(text) => Draft::from_yaml(&state.config, &text),
        ConfigBody::Json(object) => {
            let pairs: BTreeMap<String, Value> = match object.get("config") {
                Some(Value::Object(config)) => config.clone().into_iter().collect(),
                _ => object.into_iter().collect(),
            };
            Draft::from_pairs(&state.config, &pairs)
        }
    };
    let check = match read {
        Ok(draft) => blocking(move || CheckResource::of_draft(&draft, &state.config)).await?,
        Err(errors) => CheckResource::of_errors(errors),
    };
    Ok(Json(CheckAnswer { check }))
}

impl From<Warning> for WarningResource {
    fn from(warning: Warning) -> Self {
        Self {
            field: warning.field,
            message: warning.message,
            hint: warning.hint,
        }
    }
}

impl From<AcceptedKey> for AcceptedResource {
    fn from(key: AcceptedKey) -> Self {
        Self {
            key: key.key,
            reason: key.reason,
        }
    }
}

impl CheckResource {
    fn of_draft(draft: &Draft, server: &ServerConfig) -> Self {
        let report = draft.report(server);
        Self {
            is_ok: report.errors.is_empty(),
            errors: report.errors.into_iter().map(FieldProblem::from).collect(),
            warnings: report.warnings.into_iter().map(Into::into).collect(),
            accepted_without_effect: draft
                .accepted_without_effect
                .iter()
                .cloned()
                .map(Into::into)
                .collect(),
            config: draft.config.to_flat_json(),
            hash: Some(draft.config.hash()),
        }
    }

    fn of_errors(errors: ConfigErrors) -> Self {
        Self {
            is_ok: false,
            errors: errors.into_iter().map(FieldProblem::from).collect(),
            warnings: Vec::new(),
            accepted_without_effect: Vec::new(),
            config: Map::new(),
            hash: None,
        }
    }
}
