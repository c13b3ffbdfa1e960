//! Models, datasets and the probes.

use axum::http::StatusCode;

use crate::support::TestBoard;

#[tokio::test]
async fn fresh_board_offers_the_demo_model_and_dataset() {
    let board = TestBoard::open().await;
    let models = board.get("/api/v1/models").await.json();
    let demo = &models["models"][0];
    assert_eq!(
        (demo["name"].as_str(), demo["path"].as_str()),
        (Some("demo"), Some("models/demo"))
    );
    assert!(
        demo["is_demo"] == true && demo["refusal"].is_null(),
        "{demo:#}"
    );
    let datasets = board.get("/api/v1/datasets").await.json();
    let demo = &datasets["datasets"][0];
    assert_eq!(
        (demo["name"].as_str(), demo["problem"].is_null()),
        (Some("demo"), true),
        "{datasets:#}"
    );
}

#[tokio::test]
async fn broken_dataset_info_is_a_problem_with_its_place() {
    let board = TestBoard::open().await;
    std::fs::write(
        board.state.config.datasets_dir().join("dataset_info.json"),
        "{\"a\": {},}",
    )
    .unwrap();
    let problem = board.get("/api/v1/datasets").await.problem(422, "bad_data");
    assert_eq!(
        problem["detail"],
        "datasets/dataset_info.json:1:10: trailing comma"
    );
}

#[tokio::test]
async fn probes_tell_a_living_board_from_one_that_stops() {
    let board = TestBoard::open().await;
    assert_eq!(board.get("/healthz").await.text(), "ok\n");
    assert_eq!(board.get("/readyz").await.text(), "ready\n");
    board.state.shutdown.cancel();
    assert_eq!(board.get("/healthz").await.status, StatusCode::OK);
    board.get("/readyz").await.problem(503, "stopping");
}
