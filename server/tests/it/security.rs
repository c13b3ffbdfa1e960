//! What other sites, strange hosts and strange bytes get.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};

use crate::support::{Answer, GOOD_YAML, TestBoard};

async fn with_host(board: &TestBoard, uri: &str, hosts: &[&str]) -> Answer {
    let mut request = Request::builder().uri(uri);
    for host in hosts {
        request = request.header("host", *host);
    }
    board.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn only_the_boards_own_names_are_answered() {
    let board = TestBoard::open().await;
    for host in [
        "127.0.0.1:7860",
        "localhost:7860",
        "LOCALHOST",
        "[::1]:7860",
        "127.0.0.1:9000",
    ] {
        assert_eq!(
            with_host(&board, "/healthz", &[host]).await.status,
            StatusCode::OK,
            "{host}"
        );
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1:7860",
        "0.0.0.0:7860",
        "a@localhost",
    ] {
        for path in [
            "/healthz",
            "/api/v1/runs",
            "/api/v1/events",
            "/static/x.css",
            "/",
        ] {
            let answer = with_host(&board, path, &[host]).await;
            assert_eq!(
                answer.status,
                StatusCode::MISDIRECTED_REQUEST,
                "{host} {path}"
            );
        }
    }
}

#[tokio::test]
async fn request_that_names_no_host_or_several_is_refused() {
    let board = TestBoard::open().await;
    with_host(&board, "/healthz", &[])
        .await
        .problem(400, "bad_host");
    with_host(&board, "/healthz", &["localhost", "localhost"])
        .await
        .problem(400, "bad_host");
    with_host(&board, "/healthz", &["local host"])
        .await
        .problem(400, "bad_host");
    with_host(&board, "http://evil.example/healthz", &["localhost"])
        .await
        .problem(400, "bad_host");
    assert_eq!(
        with_host(&board, "http://localhost/healthz", &["localhost"])
            .await
            .status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let foreign: [&[(&str, &str)]; 7] = [
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://localhost:3000")],
        &[("origin", "http://127.0.0.1.evil.example:7860")],
        &[("sec-fetch-site", "cross-site")],
        &[
            ("sec-fetch-site", "same-site"),
            ("origin", "http://localhost:3000"),
        ],
        &[("sec-fetch-site", "cross-site"), ("cookie", "session=1")],
    ];
    for headers in foreign {
        for kind in [
            "application/yaml",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            for path in [
                "/api/v1/runs".to_owned(),
                format!("/api/v1/runs/{run}/stop"),
                "/api/v1/check".to_owned(),
            ] {
                for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                    let mut request =
                        TestBoard::request(method, &path).header("content-type", kind);
                    for (name, value) in headers {
                        request = request.header(*name, *value);
                    }
                    let answer = board
                        .send(request.body(Body::from(GOOD_YAML)).unwrap())
                        .await;
                    answer.problem(403, "foreign_origin");
                }
            }
        }
    }
    let counts = board.state.store.count_runs().await.unwrap();
    assert_eq!((counts.total(), counts.queued), (1, 1));
}

#[tokio::test]
async fn own_pages_and_scripts_may_change_things() {
    let board = TestBoard::open().await;
    let own: [&[(&str, &str)]; 4] = [
        &[],
        &[("origin", "http://127.0.0.1:7860")],
        &[
            ("origin", "http://127.0.0.1:7860"),
            ("sec-fetch-site", "same-origin"),
        ],
        &[("sec-fetch-site", "none")],
    ];
    for headers in own {
        let mut request = TestBoard::request(Method::POST, "/api/v1/check")
            .header("content-type", "application/yaml");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = board
            .send(request.body(Body::from(GOOD_YAML)).unwrap())
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{headers:?}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_headers_and_none_that_tells_too_much() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    for path in [
        "/healthz",
        "/api/v1/runs",
        "/nothing",
        "/static/nothing.js",
        &format!("/api/v1/runs/{run}/metrics"),
        "/",
    ] {
        let answer = board.get(path).await;
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert!(!answer.header("cache-control").is_empty(), "{path}");
        for name in ["server", "x-powered-by", "access-control-allow-origin"] {
            assert!(!answer.headers.contains_key(name), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn cross_origin_preflight_allows_nothing() {
    let board = TestBoard::open().await;
    let request =
        TestBoard::request(Method::OPTIONS, "/api/v1/runs").header("origin", "http://evil.example");
    let request = request.header("access-control-request-method", "POST");
    let answer = board.send(request.body(Body::empty()).unwrap()).await;
    assert!(!answer.status.is_success());
    assert!(
        answer
            .headers
            .keys()
            .all(|name| !name.as_str().starts_with("access-control"))
    );
}

#[tokio::test]
async fn failure_on_the_boards_side_shows_an_id_and_no_cause() {
    let board = TestBoard::open().await;
    board.state.store.close().await;
    let answer = board.get("/api/v1/runs").await;
    assert!(answer.status.is_server_error(), "{answer:?}");
    let problem = answer.json();
    assert_eq!(
        problem["request_id"].as_str().unwrap(),
        answer.header("x-request-id")
    );
    let text = answer.text();
    for secret in [
        "sqlx",
        "Pool",
        "SELECT",
        ".sqlite",
        "/tmp",
        "panicked",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn request_id_is_the_boards_own() {
    let board = TestBoard::open().await;
    let request =
        TestBoard::request(Method::GET, "/healthz").header("x-request-id", "forged\u{e9}");
    let answer = board.send(request.body(Body::empty()).unwrap()).await;
    let id = answer.header("x-request-id");
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
}

#[tokio::test]
async fn static_files_stay_in_their_folder_and_are_kept_by_their_hash() {
    let board = TestBoard::open().await;
    for path in [
        "../Cargo.toml",
        "..%2fCargo.toml",
        "%2e%2e/Cargo.toml",
        "%252e%252e%252fCargo.toml",
        "....//Cargo.toml",
        "/etc/passwd",
        "css/../../Cargo.toml",
    ] {
        let answer = board.get(&format!("/static/{path}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    let url = board::assets::url("vendor/htmx.min.js");
    let answer = board.get(&url).await;
    assert_eq!(answer.status, StatusCode::OK, "{url}");
    assert!(answer.header("cache-control").contains("immutable"));
    assert!(
        answer.header("content-type").contains("javascript"),
        "{answer:?}"
    );
    let plain = url.split('?').next().unwrap();
    assert_eq!(board.get(plain).await.header("cache-control"), "no-cache");
    let request =
        TestBoard::request(Method::GET, plain).header("if-none-match", answer.header("etag"));
    assert_eq!(
        board
            .send(request.body(Body::empty()).unwrap())
            .await
            .status,
        StatusCode::NOT_MODIFIED
    );
}
