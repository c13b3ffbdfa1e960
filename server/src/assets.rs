//! The files of `static/`, built into the program.
//!
//! [`url`] puts the content's hash into the address, so that browsers may keep the file for good;
//! without the hash (a module importing its neighbour) they ask again with the `ETag`.

use std::fmt::Write as _;

use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};
use serde::Deserialize;

use crate::error::Error;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../static"]
struct Static;

/// The query of a file's address.
#[derive(Debug, Deserialize)]
pub struct Version {
    v: Option<String>,
}

/// Returns the address of a static file, with its hash: `css/board.css` gives `/static/css/board.css?v=…`.
pub fn url(path: &str) -> String {
    match Static::get(path) {
        Some(file) => format!("/static/{path}?v={}", short_hash(&file)),
        None => format!("/static/{path}"),
    }
}

/// Answers with one static file.
pub async fn show_asset(
    Path(path): Path<String>,
    Query(version): Query<Version>,
    request: HeaderMap,
) -> Result<Response, Error> {
    let file = Static::get(&path).ok_or(Error::RouteNotFound)?;
    let hash = short_hash(&file);
    let etag = format!("\"{hash}\"");
    let keep = if version.v.as_deref() == Some(hash.as_str()) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [
        (header::ETAG, etag.clone()),
        (header::CACHE_CONTROL, keep.to_owned()),
    ];
    let is_known = request
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == etag.as_bytes());
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let kind = mime_guess::from_path(&path).first_or_octet_stream();
    let kind = match kind.type_() {
        mime_guess::mime::TEXT => format!("{kind}; charset=utf-8"),
        _ => kind.to_string(),
    };
    Ok((headers, [(header::CONTENT_TYPE, kind)], file.data).into_response())
}

fn short_hash(file: &EmbeddedFile) -> String {
    let mut text = String::new();
    for byte in &file.metadata.sha256_hash()[..8] {
        let _ = write!(text, "{byte:02x}"); // a `String` takes everything
    }
    text
}
