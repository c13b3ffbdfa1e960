//! The one place where errors become statuses and bodies.
//!
//! A handler returns [`Error`]; its answer carries a [`Problem`], which [`render`] writes as
//! `application/problem+json` under `/api` and as a page for a browser. A failure that a layer
//! answers by its status alone (405, 413, 408) is given the same shape there. The cause of a 5xx
//! goes to the log, its request id to the reader.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use board_store::StoreError;
use board_supervisor::SupervisorError;
use run_protocol::{ConfigError, ConfigErrors};
use serde::Serialize;
use utoipa::ToSchema;

use crate::telemetry::RequestId;

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No route has this path.
    #[error("there is nothing at this address")]
    RouteNotFound,
    /// The id names no run.
    #[error("there is no such run")]
    RunNotFound,
    /// The run has no such file or log.
    #[error("the run has no {what}")]
    PartNotFound {
        /// What was asked for.
        what: String,
    },
    /// The request itself is malformed.
    #[error("{message}")]
    BadRequest {
        /// Stable name of the fault.
        code: &'static str,
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The body is larger than the route takes.
    #[error("the body is larger than {} KiB", crate::router::BODY_LIMIT_BYTES >> 10)]
    BodyTooLarge,
    /// The body's type is none that the route reads.
    #[error("the body is `{given}`, expected one of {expected}")]
    MediaType {
        /// The type that came.
        given: String,
        /// The types that are read.
        expected: &'static str,
    },
    /// Values were refused, each with its reason.
    #[error("{}", count_refused(.0.len()))]
    Invalid(Vec<FieldProblem>),
    /// A file of the user's cannot be used.
    #[error("{message}")]
    Unusable {
        /// Stable name of the fault.
        code: &'static str,
        /// What is wrong with it.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The run is in a state that does not allow this.
    #[error("{message}")]
    Conflict {
        /// Stable name of the fault.
        code: &'static str,
        /// What is in the way.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The request names a host that this board is not.
    #[error("this board does not answer for the host it was asked for")]
    WrongHost,
    /// A page of another site sent the request.
    #[error("the request came from a page of another site")]
    ForeignOrigin,
    /// More live streams are open than the board serves.
    #[error("too many live streams are open")]
    TooManyStreams,
    /// There is no trainer to start.
    #[error("the board finds no trainer program")]
    NoTrainer(#[source] SupervisorError),
    /// The store refused or failed.
    #[error("{}", say_store(.0))]
    Store(#[source] StoreError),
    /// Something on the board's side failed; the source is logged, never shown.
    #[error("something failed on the board's side")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Only what concerns the caller is said; the rest goes to the log.
fn say_store(error: &StoreError) -> String {
    match error {
        StoreError::Locked => "the database is busy".into(),
        StoreError::Closed => "the board is stopping".into(),
        error
            if store_status(error).is_server_error() && !matches!(error, StoreError::DiskFull) =>
        {
            "something failed on the board's side".into()
        }
        error => error.to_string(),
    }
}

fn store_status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::RunExists(_) | StoreError::State { .. } | StoreError::StillActive(_) => {
            StatusCode::CONFLICT
        }
        StoreError::TextLength { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        StoreError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Locked | StoreError::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn store_code(error: &StoreError) -> &'static str {
    match error {
        StoreError::RunExists(_) => "run_exists",
        StoreError::State { .. } => "wrong_state",
        StoreError::StillActive(_) => "run_active",
        StoreError::TextLength { .. } => "text_length",
        StoreError::DiskFull => "disk_full",
        StoreError::Locked => "store_busy",
        StoreError::Closed => "stopping",
        _ => "internal",
    }
}

fn count_refused(count: usize) -> String {
    match count {
        1 => "1 value was refused".into(),
        n => format!("{n} values were refused"),
    }
}

/// One refused value.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FieldProblem {
    /// The config key.
    pub field: String,
    /// The value as it was given.
    pub value: Option<String>,
    /// Why it was refused.
    pub reason: String,
    /// What would be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Stable name of the fault.
    pub code: String,
    /// Other keys that take part in the fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    /// Line in the YAML, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in the YAML, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

/// A failed request, in the shape of RFC 9457.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: `code` tells faults apart.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The phrase of the status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong, in a sentence.
    pub detail: String,
    /// Stable name of the fault; part of the contract.
    pub code: String,
    /// What the caller can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Every refused value at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldProblem>,
    /// Id under which the cause stands in the log (5xx only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Error {
    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::RouteNotFound | Self::RunNotFound | Self::PartNotFound { .. } => {
                StatusCode::NOT_FOUND
            }
            Self::BadRequest { .. } => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid(_) | Self::Unusable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::NoTrainer(_) | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::Store(error) => store_status(error),
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RouteNotFound => "not_found",
            Self::RunNotFound => "run_not_found",
            Self::PartNotFound { .. } => "part_not_found",
            Self::BadRequest { code, .. }
            | Self::Unusable { code, .. }
            | Self::Conflict { code, .. } => code,
            Self::BodyTooLarge => "body_too_large",
            Self::MediaType { .. } => "unsupported_media_type",
            Self::Invalid(_) => "invalid_config",
            Self::WrongHost => "wrong_host",
            Self::ForeignOrigin => "foreign_origin",
            Self::NoTrainer(_) => "no_trainer",
            Self::TooManyStreams => "too_many_streams",
            Self::Store(error) => store_code(error),
            Self::Internal(_) => "internal",
        }
    }

    /// Returns what the caller can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::BadRequest { hint, .. }
            | Self::Unusable { hint, .. }
            | Self::Conflict { hint, .. } => hint.clone(),
            Self::RouteNotFound => Some("the API is described at /openapi.json".into()),
            Self::RunNotFound => Some("GET /api/v1/runs lists the runs".into()),
            Self::WrongHost => Some("use the address that `board serve` printed".into()),
            Self::ForeignOrigin => {
                Some("use the board's own pages, or a script that sends no Origin".into())
            }
            Self::NoTrainer(error) => error.hint(),
            Self::TooManyStreams => Some("close some pages or clients, then try again".into()),
            Self::Store(error) if store_code(error) != "internal" => error.hint(),
            Self::Store(_) | Self::Internal(_) => {
                Some("the log of `board serve` holds the cause under the request id".into())
            }
            Self::BodyTooLarge
            | Self::PartNotFound { .. }
            | Self::MediaType { .. }
            | Self::Invalid(_) => None,
        }
    }

    fn into_problem(self) -> Problem {
        let status = self.status();
        let (code, detail, hint) = (self.code().to_owned(), self.to_string(), self.hint());
        let fields = match self {
            Self::Invalid(fields) => fields,
            _ => Vec::new(),
        };
        Problem {
            hint,
            fields,
            ..Problem::of_status(status, code, detail)
        }
    }
}

impl Problem {
    fn of_status(status: StatusCode, code: String, detail: String) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail,
            code,
            hint: None,
            fields: Vec::new(),
            request_id: None,
        }
    }

    /// Returns the problem of a status that a layer answered without a word.
    fn of_bare(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::METHOD_NOT_ALLOWED => (
                "method_not_allowed",
                "this address does not answer that method",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => (
                "body_too_large",
                "the body is larger than this address takes",
            ),
            StatusCode::REQUEST_TIMEOUT => ("timeout", "the request took too long"),
            StatusCode::NOT_FOUND => ("not_found", "there is nothing at this address"),
            s if s.is_server_error() => ("internal", "something failed on the board's side"),
            _ => ("bad_request", "the request could not be read"),
        };
        Self::of_status(status, code.into(), detail.into())
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        match &self {
            Self::Internal(source) => {
                tracing::error!(error = with_causes(source.as_ref()), "a request failed");
            }
            Self::NoTrainer(source) => {
                tracing::error!(error = with_causes(source), "a run cannot start");
            }
            Self::Store(source) if self.status().is_server_error() => {
                tracing::error!(error = with_causes(source), "the store failed a request");
            }
            _ => {}
        }
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self.into_problem());
        response
    }
}

/// Returns an error's message with those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Runs what reads files or computes for long where it holds up nobody.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| Error::Internal(Box::new(error)))
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::RunNotFound(_) | StoreError::RunDeleted(_) => Self::RunNotFound,
            error => Self::Store(error),
        }
    }
}

impl From<SupervisorError> for Error {
    fn from(error: SupervisorError) -> Self {
        let hint = error.hint();
        let conflict = |code, message: &str| Self::Conflict {
            code,
            message: message.into(),
            hint: hint.clone(),
        };
        match error {
            SupervisorError::Store(error) => error.into(),
            SupervisorError::NotRunning(_) => conflict("not_running", "the run has ended"),
            SupervisorError::NotEnded(_) => conflict("not_ended", "the run has not ended"),
            SupervisorError::DiskFull { .. } => Self::Store(StoreError::DiskFull),
            SupervisorError::ShuttingDown => Self::Store(StoreError::Closed),
            SupervisorError::TrainerMissing { .. }
            | SupervisorError::TrainerNotExecutable { .. } => Self::NoTrainer(error),
            error => Self::Internal(Box::new(error)),
        }
    }
}

impl From<ConfigErrors> for Error {
    fn from(errors: ConfigErrors) -> Self {
        Self::Invalid(errors.into_iter().map(FieldProblem::from).collect())
    }
}

impl From<ConfigError> for FieldProblem {
    fn from(error: ConfigError) -> Self {
        Self {
            field: error.field,
            value: error.value,
            reason: error.reason,
            hint: error.hint,
            code: error.code.as_str().to_owned(),
            related: error.related,
            line: error.line,
            column: error.column,
        }
    }
}

/// Writes every failure in the form that its reader understands.
pub async fn render(request: Request, next: Next) -> Response {
    let is_head = request.method() == Method::HEAD;
    let is_api = is_api_path(request.uri().path());
    let id = request.extensions().get::<RequestId>().cloned();
    let headers = request.headers().clone();
    let response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let given = response.extensions().get::<Problem>().cloned();
    if given.is_none()
        && response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(is_html)
    {
        return response; // a form that was refused, already a page
    }
    let mut problem = given.unwrap_or_else(|| Problem::of_bare(status));
    if status.is_server_error() {
        problem.request_id = id.map(|RequestId(id)| id);
    }
    let mut answer = if is_api || !wants_html(&headers) {
        let body = if is_head {
            String::new()
        } else {
            serde_json::to_string(&problem).unwrap_or_default()
        };
        ([(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    } else {
        Html(crate::pages::error_page(&problem, &headers)).into_response()
    };
    *answer.status_mut() = status;
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = response.headers().get(&name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

fn is_api_path(path: &str) -> bool {
    path.starts_with("/api/") || matches!(path, "/api" | "/openapi.json" | "/healthz" | "/readyz")
}

fn is_html(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"text/html")
}

fn wants_html(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request")
        || headers
            .get(header::ACCEPT)
            .and_then(|v| v.to_str().ok())
            .is_some_and(|v| v.contains("text/html"))
}
