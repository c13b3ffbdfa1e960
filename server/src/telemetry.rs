//! Logging: one span a request, with an id that error answers repeat.
//!
//! Spans hold the route's pattern, never the query or a header: those may carry secrets.

use std::io::IsTerminal as _;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;
use tracing_subscriber::EnvFilter;
use uuid::Uuid;

/// The id of a request; chosen here, whatever the caller sent.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// The header that repeats the id to the caller.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Sends events to the standard error stream; `filter` has the syntax of `RUST_LOG`.
pub fn init(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    if subscriber.try_init().is_err() {
        tracing::debug!("logging was set up before");
    }
}

/// Gives the request its id and its span, and logs how it ended.
pub async fn trace_request(mut request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().simple().to_string();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("-", MatchedPath::as_str)
        .to_owned();
    let span = tracing::info_span!("request", id, method = %request.method(), route);
    request.extensions_mut().insert(RequestId(id.clone()));
    let started = std::time::Instant::now();
    async move {
        let mut response = next.run(request).await;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(status = response.status().as_u16(), duration_ms, "answered");
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        response
    }
    .instrument(span)
    .await
}
