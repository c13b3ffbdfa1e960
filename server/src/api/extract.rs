//! What handlers take from a request, refused in the API's own words.

use axum::RequestPartsExt as _;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum_extra::extract::Query;
use run_protocol::RunId;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The run that the path names. What is no id names no run, whatever it looks like.
#[derive(Debug, Clone, Copy)]
pub struct RunPath(pub RunId);

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let Path(text) = parts
            .extract::<Path<String>>()
            .await
            .map_err(|_| Error::RunNotFound)?;
        text.parse().map(Self).map_err(|_| Error::RunNotFound)
    }
}

/// The query; an unknown or unreadable parameter is refused.
#[derive(Debug)]
pub struct ApiQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let refuse = |message: String| Error::BadRequest {
            code: "bad_query",
            message,
            hint: Some("/openapi.json lists the parameters of each address".into()),
        };
        let query = parts
            .extract::<Query<T>>()
            .await
            .map_err(|rejection| refuse(rejection.body_text()))?;
        Ok(Self(query.0))
    }
}

/// A configuration as it came.
#[derive(Debug)]
pub enum ConfigBody {
    /// YAML in LLaMA-Factory's keys.
    Yaml(String),
    /// A JSON object.
    Json(serde_json::Map<String, serde_json::Value>),
}

const CONFIG_TYPES: &str = "`application/yaml`, `application/json`";

impl<S: Send + Sync> FromRequest<S> for ConfigBody {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let given = request
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        let kind = given
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        let is_json = match kind.as_str() {
            "application/json" => true,
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => false,
            _ => {
                let given = if given.is_empty() {
                    "of no type".into()
                } else {
                    given.chars().take(80).collect()
                };
                return Err(Error::MediaType {
                    given,
                    expected: CONFIG_TYPES,
                });
            }
        };
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| refuse_bytes(&rejection))?;
        if is_json {
            let object = serde_json::from_slice(&bytes).map_err(|error| refuse_json(&error))?;
            return Ok(Self::Json(object));
        }
        let text =
            String::from_utf8(bytes.into()).map_err(|_| bad_body("the body is not UTF-8 text"))?;
        Ok(Self::Yaml(text))
    }
}

fn refuse_bytes(rejection: &BytesRejection) -> Error {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        Error::BodyTooLarge
    } else {
        bad_body("the body broke off")
    }
}

/// Says where the JSON is wrong, without the parser's words about types.
fn refuse_json(error: &serde_json::Error) -> Error {
    let what = if error.is_data() {
        "the body is no JSON object"
    } else {
        "the body is no JSON"
    };
    bad_body(&format!(
        "{what} (line {}, column {})",
        error.line(),
        error.column()
    ))
}

fn bad_body(message: &str) -> Error {
    Error::BadRequest {
        code: "bad_body",
        message: message.into(),
        hint: None,
    }
}
