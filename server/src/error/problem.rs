//! What a reader gets of a failure: a problem in the shape of RFC 9457, or a page.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Response};
use run_protocol::ConfigError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::telemetry::RequestId;

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

impl Problem {
    pub(super) fn of_status(status: StatusCode, code: String, detail: String) -> Self {
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
        let vary = "Accept, HX-Request, Cookie, Accept-Language";
        let page = crate::pages::error_page(&problem, &headers);
        ([(header::VARY, vary)], Html(page)).into_response()
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
