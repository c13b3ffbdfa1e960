//! The files of `static/`, built into the program. The style sheets are joined into one, so that a page asks once.
//!
//! [`url`] puts the content's hash into the address, so that browsers may keep the file for good;
//! without the hash (a module importing its neighbour) they ask again with the `ETag`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../static"]
struct Static;

/// The address of all style sheets together, below `static/`.
pub const STYLE: &str = "css/board.css";

/// The style sheets in their order: tokens, then what is everywhere, then what single pages have.
const SHEETS: [&str; 10] = [
    "css/tokens.css",
    "css/base.css",
    "css/shell.css",
    "css/parts.css",
    "css/layers.css",
    "css/form.css",
    "css/preflight.css",
    "css/run.css",
    "vendor/uplot.min.css",
    "css/chart.css",
];

/// A file as it is sent.
struct Asset {
    data: Cow<'static, [u8]>,
    hash: String,
}

impl Asset {
    fn find(path: &str) -> Option<Self> {
        if path == STYLE {
            return Some(Self::style());
        }
        let file = Static::get(path)?;
        Some(Self {
            hash: short_hash(&file.metadata.sha256_hash()),
            data: file.data,
        })
    }

    fn style() -> Self {
        let mut data = Vec::new();
        for sheet in SHEETS.iter().filter_map(|path| Static::get(path)) {
            data.extend_from_slice(&sheet.data);
            data.push(b'\n');
        }
        Self {
            hash: short_hash(&Sha256::digest(&data)),
            data: data.into(),
        }
    }
}

/// The query of a file's address.
#[derive(Debug, Deserialize)]
pub struct Version {
    v: Option<String>,
}

/// Returns the address of a static file, with its hash: `css/board.css` gives `/static/css/board.css?v=…`.
pub fn url(path: &str) -> String {
    // In a debug build the files are read anew, so that a change shows without a build.
    static STYLE_URL: LazyLock<String> =
        LazyLock::new(|| format!("/static/{STYLE}?v={}", Asset::style().hash));
    if path == STYLE && !cfg!(debug_assertions) {
        return STYLE_URL.clone();
    }
    match Asset::find(path) {
        Some(asset) => format!("/static/{path}?v={}", asset.hash),
        None => format!("/static/{path}"),
    }
}

/// Answers with one static file.
pub async fn show_asset(
    Path(path): Path<String>,
    Query(version): Query<Version>,
    request: HeaderMap,
) -> Result<Response, Error> {
    let Asset { data, hash } = Asset::find(&path).ok_or(Error::RouteNotFound)?;
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
    Ok((headers, [(header::CONTENT_TYPE, kind)], data).into_response())
}

fn short_hash(hash: &[u8]) -> String {
    let mut text = String::new();
    for byte in &hash[..8] {
        let _ = write!(text, "{byte:02x}"); // a `String` takes everything
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_holds_every_sheet() {
        let listed: Vec<_> = Static::iter()
            .filter(|path| path.ends_with(".css"))
            .collect();
        for path in &listed {
            assert!(SHEETS.contains(&path.as_ref()), "{path} is not in SHEETS");
        }
        assert_eq!(listed.len(), SHEETS.len());
    }

    #[test]
    fn own_scripts_stay_short() {
        let own = Static::iter().filter(|path| path.starts_with("js/"));
        for path in own {
            let data = Static::get(&path).unwrap().data;
            let lines = data.split(|byte| *byte == b'\n').count();
            assert!(lines <= 200, "{path} has {lines} lines");
        }
    }
}
