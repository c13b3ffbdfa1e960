//! What the pages weigh on the wire, against the budgets that the design sets.

use std::fs;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Method, header};

use crate::pages::{page, select};
use crate::support::TestBoard;

const KIB: usize = 1024;

/// Returns how many bytes an answer takes once it is compressed.
async fn gzip_bytes(board: &TestBoard, path: &str) -> usize {
    let request = TestBoard::request(Method::GET, path)
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::ACCEPT, "text/html")
        .body(Body::empty())
        .unwrap();
    let answer = board.send(request).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.status);
    assert_eq!(answer.header("content-encoding"), "gzip", "{path}");
    answer.body.len()
}

/// Returns the scripts of `static/` below their address.
fn scripts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../static");
    let files = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let all = files("js").into_iter().chain(files("vendor"));
    all.filter(|path| path.extension().is_some_and(|extension| extension == "js"))
        .map(|path| format!("/static/{}", path.strip_prefix(&root).unwrap().display()))
        .collect()
}

#[tokio::test]
async fn style_scripts_and_a_full_run_page_stay_within_their_budgets() {
    let board = TestBoard::open().await;
    let (_, html) = page(&board, "/runs", &[]).await;
    let sheets = select(&html, "link[rel='stylesheet']");
    assert_eq!(sheets.len(), 1, "a page asks for one style sheet");
    let style = gzip_bytes(&board, sheets[0].attr("href").unwrap()).await;
    assert!(style <= 15 * KIB, "the style takes {style} bytes");
    let mut all = 0;
    for path in scripts() {
        all += gzip_bytes(&board, &path).await;
    }
    assert!(
        (20 * KIB..=120 * KIB).contains(&all),
        "the scripts take {all} bytes"
    );
    let run = board.make_run("long").await;
    board
        .log_steps(run, 1, 3000, |step| {
            3.0 / (step as f64).sqrt() + (step as f64).sin() * 0.1
        })
        .await;
    let html = gzip_bytes(&board, &format!("/runs/{run}")).await;
    assert!(html <= 60 * KIB, "the page takes {html} bytes");
}
