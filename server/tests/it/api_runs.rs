//! Runs over REST: listed, shown, run to their end, stopped, killed, resumed.

use axum::http::StatusCode;
use run_protocol::RunState;
use serde_json::Value;

use crate::support::TestBoard;

fn names(list: &Value) -> Vec<&str> {
    list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn pages_of_the_list_hold_every_run_once() {
    let board = TestBoard::open().await;
    for number in 0..5 {
        board.make_run(&format!("run {number}")).await;
    }
    let mut seen = Vec::new();
    let mut path = "/api/v1/runs?limit=2".to_owned();
    loop {
        let list = board.get(&path).await.json();
        seen.extend(names(&list).into_iter().map(str::to_owned));
        let Some(next) = list["next"].as_str() else {
            break;
        };
        path = format!("/api/v1/runs?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["run 4", "run 3", "run 2", "run 1", "run 0"]);
}

#[tokio::test]
async fn list_is_filtered_by_state_and_text() {
    let board = TestBoard::open().await;
    board.make_run("one").await;
    board.make_run("two").await;
    assert_eq!(names(&board.get("/api/v1/runs?q=TW").await.json()), ["two"]);
    assert_eq!(
        names(
            &board
                .get("/api/v1/runs?state=queued&state=running")
                .await
                .json()
        )
        .len(),
        2
    );
    assert!(names(&board.get("/api/v1/runs?state=failed").await.json()).is_empty());
    for query in [
        "state=done",
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=1",
        "sort=name",
        "state='--",
    ] {
        board
            .get(&format!("/api/v1/runs?{query}"))
            .await
            .problem(400, "bad_query");
    }
}

#[tokio::test]
async fn run_goes_from_the_queue_to_its_end() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    board.wait_for_step(&id, 3).await;
    let run = board.get(&format!("/api/v1/runs/{id}")).await.json()["run"].clone();
    assert_eq!(
        (run["state"].as_str(), run["attempt"].as_u64()),
        (Some("running"), Some(1))
    );
    assert_eq!(
        (run["step"].as_u64(), run["total_steps"].as_u64()),
        (Some(3), Some(6))
    );
    assert!(run["started_at"].as_str().unwrap().ends_with('Z'));
    board.let_go();
    board.wait_for_state(&id, RunState::Finished).await;
    let run = board.get(&format!("/api/v1/runs/{id}")).await.json()["run"].clone();
    assert_eq!(
        (run["step"].as_u64(), run["loss"].as_f64()),
        (Some(6), Some(1.0))
    );
    assert_eq!(run["exit"]["code"], 0);
}

#[tokio::test]
async fn failed_run_says_why() {
    let board = TestBoard::open().await;
    board.let_fail();
    let id = board.start_run().await;
    board.wait_for_state(&id, RunState::Failed).await;
    let run = board.get(&format!("/api/v1/runs/{id}")).await.json()["run"].clone();
    assert_eq!(
        (run["exit"]["class"].as_str(), run["exit"]["code"].as_i64()),
        (Some("out_of_memory"), Some(13))
    );
    assert_eq!(run["exit"]["message"], "no memory was left");
    board
        .post(&format!("/api/v1/runs/{id}/resume"), "", "")
        .await
        .problem(409, "no_checkpoint");
}

#[tokio::test]
async fn stopped_run_saves_and_can_be_resumed() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    let resume = format!("/api/v1/runs/{id}/resume");
    board.wait_for_step(&id, 3).await;
    board.post(&resume, "", "").await.problem(409, "not_ended");
    let told = board.post(&format!("/api/v1/runs/{id}/stop"), "", "").await;
    assert_eq!(
        (told.status, told.json()["run"]["state"].as_str()),
        (StatusCode::ACCEPTED, Some("stopping"))
    );
    board.wait_for_state(&id, RunState::Stopped).await;
    board
        .post(&format!("/api/v1/runs/{id}/stop"), "", "")
        .await
        .problem(409, "not_running");
    board.let_go();
    assert_eq!(
        board.post(&resume, "", "").await.status,
        StatusCode::ACCEPTED
    );
    board.wait_for_state(&id, RunState::Finished).await;
    assert_eq!(
        board.get(&format!("/api/v1/runs/{id}")).await.json()["run"]["attempt"],
        2
    );
    board.post(&resume, "", "").await.problem(409, "finished");
}

#[tokio::test]
async fn waiting_run_stops_at_once_and_a_killed_one_soon() {
    let board = TestBoard::open().await;
    let (first, second) = (board.start_run().await, board.start_run().await);
    board.wait_for_step(&first, 3).await;
    let stopped = board
        .post(&format!("/api/v1/runs/{second}/stop"), "", "")
        .await;
    assert_eq!(stopped.json()["run"]["state"], "stopped");
    let killed = board
        .post(&format!("/api/v1/runs/{first}/kill"), "", "")
        .await;
    assert_eq!(killed.status, StatusCode::ACCEPTED);
    board.wait_for_state(&first, RunState::Stopped).await;
}

#[tokio::test]
async fn whatever_is_no_run_gets_the_same_answer() {
    let board = TestBoard::open().await;
    let missing = run_protocol::RunId::new().to_string();
    let mut answers = Vec::new();
    for id in [
        missing.as_str(),
        "1",
        "..%2f..%2fetc",
        "%252e%252e",
        "C:%5C",
        "a%00b",
        "%E2%80%AE",
        "x%20",
    ] {
        for part in ["", "/metrics", "/events", "/config", "/log", "/files"] {
            let answer = board.get(&format!("/api/v1/runs/{id}{part}")).await;
            answers.push(answer.problem(404, "run_not_found"));
        }
        for action in ["stop", "kill", "resume"] {
            let answer = board
                .post(&format!("/api/v1/runs/{id}/{action}"), "", "")
                .await;
            answers.push(answer.problem(404, "run_not_found"));
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_for_scripts_and_a_page_for_browsers() {
    let board = TestBoard::open().await;
    board.get("/api/v1/nothing").await.problem(404, "not_found");
    let wrong = board.post("/api/v1/runs/x", "", "").await;
    wrong.problem(405, "method_not_allowed");
    assert!(wrong.header("allow").contains("GET"), "{wrong:?}");
    let request =
        TestBoard::request(axum::http::Method::GET, "/nothing").header("accept", "text/html");
    let page = board
        .send(request.body(axum::body::Body::empty()).unwrap())
        .await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    assert!(page.header("content-type").starts_with("text/html"));
}
