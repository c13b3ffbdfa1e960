//! A new run, from YAML or JSON.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracing::Instrument as _;
use utoipa::{IntoParams, ToSchema};

use crate::api::check::{AcceptedResource, WarningResource};
use crate::api::extract::{ApiQuery, ConfigBody};
use crate::api::resource::RunResource;
use crate::draft::Draft;
use crate::error::{Error, Problem};
use crate::idempotency::{Claim, Reservation};
use crate::state::AppState;

/// What a YAML body has no place for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CreateQuery {
    /// The run's name; model and dataset name it without.
    name: Option<String>,
    /// A mark; repeatable.
    #[serde(default)]
    tag: Vec<String>,
}

/// A JSON body. The config's keys may also stand at the top, without `name` and `tags`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRunBody {
    /// The run's name; model and dataset name it without.
    pub name: Option<String>,
    /// Marks.
    #[serde(default)]
    pub tags: Vec<String>,
    /// LLaMA-Factory's flat keys.
    #[schema(value_type = Object, example = json!({"model_name_or_path": "models/demo", "stage": "sft", "dataset": "demo"}))]
    pub config: Map<String, Value>,
}

/// A run that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedAnswer {
    /// The run.
    pub run: RunResource,
    /// What is probably not meant.
    pub warnings: Vec<WarningResource>,
    /// Keys that were given but change nothing here.
    pub accepted_without_effect: Vec<AcceptedResource>,
}

/// Makes a run and puts it into the queue.
///
/// A config that is refused makes nothing: every refused key is in `fields`. The same `Idempotency-Key` with the same body makes one run.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs",
    params(CreateQuery, ("idempotency-key" = Option<String>, Header, description = "Makes a retry safe.")),
    request_body(description = "A config in LLaMA-Factory's keys.", content((String = "application/yaml"), (NewRunBody = "application/json"))),
    responses(
        (status = CREATED, description = "The run was made.", body = CreatedAnswer),
        (status = BAD_REQUEST, description = "The body cannot be read.", content_type = "application/problem+json", body = Problem),
        (status = FORBIDDEN, description = "The request came from a page of another site.", content_type = "application/problem+json", body = Problem),
        (status = CONFLICT, description = "The key was used for another request.", content_type = "application/problem+json", body = Problem),
        (status = PAYLOAD_TOO_LARGE, description = "The body is too large.", content_type = "application/problem+json", body = Problem),
        (status = UNSUPPORTED_MEDIA_TYPE, description = "The body is neither YAML nor JSON.", content_type = "application/problem+json", body = Problem),
        (status = UNPROCESSABLE_ENTITY, description = "Values are refused.", content_type = "application/problem+json", body = Problem),
        (status = INSUFFICIENT_STORAGE, description = "The disk is full.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn create_run(
    State(state): State<AppState>,
    ApiQuery(query): ApiQuery<CreateQuery>,
    headers: HeaderMap,
    body: ConfigBody,
) -> Result<Response, Error> {
    let reservation = match claim(&state, &headers, &query, &body)? {
        Some(Claim::Made(id)) => {
            let run = state.store.find_run(id).await?.ok_or(Error::RunNotFound)?;
            return Ok(answer(run.into(), Vec::new(), Vec::new()));
        }
        Some(Claim::New(reservation)) => Some(reservation),
        None => None,
    };
    // In a task of its own: a client that goes away must not leave a run that its key does not know.
    let work = make(state, reservation, query, body).instrument(tracing::Span::current());
    tokio::spawn(work)
        .await
        .map_err(|error| Error::Internal(Box::new(error)))?
}

async fn make(
    state: AppState,
    reservation: Option<Reservation>,
    query: CreateQuery,
    body: ConfigBody,
) -> Result<Response, Error> {
    let (draft, name, tags) = read(&state, query, body)?;
    let (warnings, accepted) = (
        draft.check().warnings,
        draft.accepted_without_effect.clone(),
    );
    let run = state.start_run(draft, name, tags).await?;
    if let Some(reservation) = reservation {
        Reservation::keep(reservation, run.id);
    }
    let warnings = warnings.into_iter().map(Into::into).collect();
    Ok(answer(
        run.into(),
        warnings,
        accepted.into_iter().map(Into::into).collect(),
    ))
}

fn answer(
    run: RunResource,
    warnings: Vec<WarningResource>,
    accepted: Vec<AcceptedResource>,
) -> Response {
    let location = format!("/api/v1/runs/{}", run.id);
    let body = Json(CreatedAnswer {
        run,
        warnings,
        accepted_without_effect: accepted,
    });
    (StatusCode::CREATED, [(header::LOCATION, location)], body).into_response()
}

fn claim(
    state: &AppState,
    headers: &HeaderMap,
    query: &CreateQuery,
    body: &ConfigBody,
) -> Result<Option<Claim>, Error> {
    let Some(key) = headers.get("idempotency-key").map(HeaderValue::to_str) else {
        return Ok(None);
    };
    let request = match body {
        ConfigBody::Yaml(text) => format!("yaml {:?} {:?} {text}", query.name, query.tag),
        ConfigBody::Json(object) => format!(
            "json {:?} {:?} {}",
            query.name,
            query.tag,
            Value::Object(object.clone())
        ),
    };
    state
        .idempotency
        .claim(key.unwrap_or(""), request.as_bytes())
        .map(Some)
}

fn read(
    state: &AppState,
    query: CreateQuery,
    body: ConfigBody,
) -> Result<(Draft, Option<String>, Vec<String>), Error> {
    let object = match body {
        ConfigBody::Yaml(text) => {
            return Ok((
                Draft::from_yaml(&state.config, &text)?,
                query.name,
                query.tag,
            ));
        }
        ConfigBody::Json(object) => object,
    };
    let is_wrapped = object.get("config").is_some_and(Value::is_object);
    let wrapped = if is_wrapped {
        serde_json::from_value(Value::Object(object)).map_err(|error| Error::BadRequest {
            code: "bad_body",
            message: error.to_string(),
            hint: Some("beside `config` only `name` and `tags` are read".into()),
        })?
    } else {
        NewRunBody {
            name: None,
            tags: Vec::new(),
            config: object,
        }
    };
    let pairs: BTreeMap<String, Value> = wrapped.config.into_iter().collect();
    let tags = if wrapped.tags.is_empty() {
        query.tag
    } else {
        wrapped.tags
    };
    Ok((
        Draft::from_pairs(&state.config, &pairs)?,
        wrapped.name.or(query.name),
        tags,
    ))
}
