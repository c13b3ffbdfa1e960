//! The one place where errors become statuses and bodies.
//!
//! A handler returns [`Error`]; its answer carries a [`Problem`], which [`render`] writes as
//! `application/problem+json` under `/api` and as a page for a browser. A failure that a layer
//! answers by its status alone (405, 413, 408) is given the same shape there. The cause of a 5xx
//! goes to the log, its request id to the reader.

mod problem;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use board_store::StoreError;
use board_supervisor::SupervisorError;
use run_protocol::ConfigErrors;

pub use problem::{FieldProblem, Problem, render};

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
            SupervisorError::Finished(_) => conflict("finished", "the run is finished"),
            SupervisorError::NoCheckpoint(_) => conflict(
                "no_checkpoint",
                "the run has no checkpoint that it can go on from",
            ),
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
