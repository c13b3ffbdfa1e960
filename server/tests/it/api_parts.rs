//! Config, logs and files of a run.

use run_protocol::RunState;

use crate::support::{GOOD_YAML, TestBoard};

#[tokio::test]
async fn config_shows_what_was_given_and_what_is_acted_on() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    let config = board.get(&format!("/api/v1/runs/{id}/config")).await.json()["config"].clone();
    assert_eq!(config["input"], GOOD_YAML);
    assert_eq!(config["values"]["template"], "chatml");
    assert_eq!(config["hash"].as_str().unwrap().len(), 64);
    let changed: Vec<_> = config["changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["key"].as_str().unwrap())
        .collect();
    assert!(
        changed.contains(&"learning_rate") && !changed.contains(&"weight_decay"),
        "{changed:?}"
    );
}

#[tokio::test]
async fn logs_are_read_by_rank_and_offset() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    board.let_go();
    board.wait_for_state(&id, RunState::Finished).await;
    let log = board.get(&format!("/api/v1/runs/{id}/log")).await.json()["log"].clone();
    assert!(
        log["text"]
            .as_str()
            .unwrap()
            .starts_with("step 1: loss 2.5\n"),
        "{log}"
    );
    let offset = log["next_offset"].as_u64().unwrap();
    assert_eq!(log["size_bytes"].as_u64(), Some(offset));
    let rest = board
        .get(&format!("/api/v1/runs/{id}/log?rank=0&offset={offset}"))
        .await
        .json()["log"]
        .clone();
    assert_eq!(rest["text"], "");
    let part = board
        .get(&format!("/api/v1/runs/{id}/log?offset=0&limit=20"))
        .await
        .json()["log"]
        .clone();
    assert_eq!(part["text"], "step 1: loss 2.5\n");
    let launcher = board
        .get(&format!("/api/v1/runs/{id}/log?rank=launcher"))
        .await
        .json()["log"]
        .clone();
    assert_eq!(launcher["text"], "the stub starts\n");
    board
        .get(&format!("/api/v1/runs/{id}/log?rank=7"))
        .await
        .problem(404, "part_not_found");
    for rank in ["-1", "..%2flauncher", "%2fetc%2fpasswd", "0%00"] {
        board
            .get(&format!("/api/v1/runs/{id}/log?rank={rank}"))
            .await
            .problem(400, "bad_query");
    }
}

#[tokio::test]
async fn files_are_listed_with_their_sizes() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    board.wait_for_step(&id, 3).await;
    let files = board.get(&format!("/api/v1/runs/{id}/files")).await.json();
    let files = files["files"].as_array().unwrap();
    let size = |path: &str| {
        files
            .iter()
            .find(|file| file["path"] == path)
            .map(|file| file["size_bytes"].as_u64())
    };
    assert_eq!(
        size("training_args.yaml"),
        Some(Some(GOOD_YAML.len() as u64))
    );
    assert!(
        size("logs/rank-0.log").is_some() && size("events.jsonl").is_some(),
        "{files:?}"
    );
}
