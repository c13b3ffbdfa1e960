//! The description of the API is true.

use axum::body::Body;
use axum::http::Method;
use serde_json::Value;

use crate::support::TestBoard;

#[tokio::test]
async fn description_is_the_reviewed_one() {
    let board = TestBoard::open().await;
    let answer = board.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), "application/json");
    let description = answer.json();
    assert_eq!(description["openapi"], "3.1.0");
    insta::assert_json_snapshot!("openapi", description);
}

#[tokio::test]
async fn every_described_route_answers_with_a_described_status() {
    let board = TestBoard::open().await;
    let id = board.make_run("run").await.to_string();
    let description = board.get("/openapi.json").await.json();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let request = TestBoard::request(method.clone(), &path.replace("{id}", &id));
            let answer = board.stream(request.body(Body::empty()).unwrap()).await;
            let status = answer.status().as_u16().to_string();
            let described = operation["responses"].as_object().unwrap();
            assert!(
                described.contains_key(&status),
                "{method} {path} answered {status}"
            );
            let kind = answer
                .headers()
                .get("content-type")
                .map_or("", |kind| kind.to_str().unwrap());
            let kind = kind.split(';').next().unwrap();
            let kinds = described[&status]["content"].as_object();
            assert!(
                kinds.is_none_or(|kinds| kinds.contains_key(kind)),
                "{method} {path} answered {kind}"
            );
        }
    }
}

#[tokio::test]
async fn every_operation_has_a_summary_and_an_id() {
    let board = TestBoard::open().await;
    let description = board.get("/openapi.json").await.json();
    let operations = description["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values());
    for operation in operations {
        assert!(
            operation["summary"].is_string() && operation["operationId"].is_string(),
            "{operation:#}"
        );
        assert!(
            operation["tags"]
                .as_array()
                .is_some_and(|tags| tags.iter().all(Value::is_string))
        );
    }
}
