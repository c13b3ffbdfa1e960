//! What keeps other sites away: Host and Origin checks, and the headers of every answer.
//!
//! A browser can be talked into sending requests here by any page it shows. Asking for a foreign
//! `Host` (DNS rebinding) is answered 421, an unsafe method from a foreign page 403 (tower-http's
//! CSRF layer compares `Sec-Fetch-Site` and `Origin`). A script sends neither and passes.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::csrf::{CsrfLayer, ProtectionError};

use crate::error::Error;
use crate::state::AppState;

/// Refuses a request whose `Host` is not this board's.
pub async fn check_host(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match named_host(&request) {
        Ok(host) if is_own_host(&host, state.config.host) => next.run(request).await,
        Ok(_) => Error::WrongHost.into_response(),
        Err(error) => error.into_response(),
    }
}

/// Returns the one host that the request names.
fn named_host(request: &Request) -> Result<Authority, Error> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = hosts
        .next()
        .map(|value| value.as_bytes().try_into())
        .transpose()
        .map_err(|_| bad_host())?;
    if hosts.next().is_some() {
        return Err(bad_host());
    }
    let target: Option<&Authority> = request.uri().authority();
    match (named, target) {
        (Some(host), Some(target)) if &host != target => Err(bad_host()),
        (Some(host), _) => Ok(host),
        (None, _) => Err(bad_host()),
    }
}

fn bad_host() -> Error {
    Error::BadRequest {
        code: "bad_host",
        message: "the request must name one host".into(),
        hint: None,
    }
}

/// Loopback names pass with any port (a forwarded port has another number); rebinding needs a name.
fn is_own_host(host: &Authority, listening: IpAddr) -> bool {
    if host.as_str().contains('@') {
        return false;
    }
    let name = host.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address == listening || address.is_loopback())
}

/// Returns the layer that refuses unsafe requests of other sites.
pub fn csrf_layer() -> CsrfLayer<fn(ProtectionError) -> Response> {
    CsrfLayer::new().with_rejection_response(|_| Error::ForeignOrigin.into_response())
}

const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), microphone=(), geolocation=()",
    ),
];

/// Adds the security headers to every answer; what is not said to be cached must be asked for again.
pub async fn set_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
    response
}
