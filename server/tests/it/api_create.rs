//! `POST /api/v1/runs` and `POST /api/v1/check`.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, GOOD_YAML, TestBoard};

fn good_config() -> Value {
    json!({
        "stage": "sft",
        "model_name_or_path": "models/demo",
        "dataset": "demo",
        "template": "chatml",
        "finetuning_type": "full",
    })
}

fn field<'a>(problem: &'a Value, name: &str) -> &'a Value {
    let fields = problem["fields"].as_array().unwrap();
    fields
        .iter()
        .find(|field| field["field"] == name)
        .unwrap_or_else(|| panic!("no `{name}` in {problem:#}"))
}

async fn num_runs(board: &TestBoard) -> u64 {
    board.state.store.count_runs().await.unwrap().total()
}

#[tokio::test]
async fn yaml_makes_a_run_whose_directory_holds_what_was_given() {
    let board = TestBoard::open().await;
    let answer = board
        .post(
            "/api/v1/runs?name=first&tag=a&tag=b",
            "application/yaml",
            GOOD_YAML,
        )
        .await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    let run = &answer.json()["run"];
    let id = run["id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/api/v1/runs/{id}"));
    assert_eq!(
        (&run["name"], &run["tags"]),
        (&json!("first"), &json!(["a", "b"]))
    );
    let dir = board.state.supervisor.run_dir(id.parse().unwrap());
    assert_eq!(
        std::fs::read_to_string(dir.training_args()).unwrap(),
        GOOD_YAML
    );
    let canonical = std::fs::read_to_string(dir.config()).unwrap();
    let model = board.state.config.models_dir().join("demo");
    assert!(
        canonical.contains(&*model.to_string_lossy()),
        "paths are absolute: {canonical}"
    );
    let datasets = board.state.config.datasets_dir();
    assert!(
        canonical.contains(&*datasets.to_string_lossy()),
        "datasets are the board's: {canonical}"
    );
}

#[tokio::test]
async fn run_name_of_the_config_names_the_run_unless_the_request_does() {
    let board = TestBoard::open().await;
    let yaml = format!("{GOOD_YAML}run_name: from the file\n");
    for (path, name) in [
        ("/api/v1/runs", "from the file"),
        ("/api/v1/runs?name=asked", "asked"),
    ] {
        let answer = board.post(path, "application/yaml", yaml.clone()).await;
        assert_eq!(answer.json()["run"]["name"], name);
    }
    let hostile = format!("{GOOD_YAML}run_name: \"a\\0b\"\n");
    let answer = board
        .post("/api/v1/runs", "application/yaml", hostile)
        .await;
    let problem = answer.problem(422, "invalid_config");
    assert_eq!(
        field(&problem, "name")["reason"],
        "holds a control character"
    );
}

#[tokio::test]
async fn json_is_taken_with_the_keys_at_the_top_or_under_config() {
    let board = TestBoard::open().await;
    let flat = board.post_json("/api/v1/runs", &good_config()).await;
    assert_eq!(flat.status, StatusCode::CREATED, "{flat:?}");
    let body = json!({"name": "wrapped", "tags": ["x"], "config": good_config()});
    let wrapped = board.post_json("/api/v1/runs", &body).await;
    assert_eq!(wrapped.status, StatusCode::CREATED, "{wrapped:?}");
    assert_eq!(wrapped.json()["run"]["name"], "wrapped");
    let strange = json!({"colour": "red", "config": good_config()});
    board
        .post_json("/api/v1/runs", &strange)
        .await
        .problem(400, "bad_body");
}

#[tokio::test]
async fn every_refused_key_is_named_at_once_and_nothing_is_made() {
    let board = TestBoard::open().await;
    let yaml = GOOD_YAML.replace("1.0e-4", "-1") + "learning_rte: 1.0\nnum_train_epochs: many\n";
    let problem = board
        .post("/api/v1/runs", "application/yaml", yaml)
        .await
        .problem(422, "invalid_config");
    let unknown = field(&problem, "learning_rte");
    assert_eq!(unknown["code"], "unknown_key");
    assert!(
        unknown["hint"].as_str().unwrap().contains("learning_rate"),
        "{unknown}"
    );
    assert_eq!(field(&problem, "num_train_epochs")["value"], "many");
    assert_eq!(field(&problem, "learning_rate")["code"], "out_of_range");
    assert!(field(&problem, "num_train_epochs")["line"].is_u64());
    assert_eq!(num_runs(&board).await, 0);
}

#[tokio::test]
async fn folder_that_is_no_model_is_refused_before_anything_starts() {
    let board = TestBoard::open().await;
    let yaml = GOOD_YAML.replace("models/demo", "models/none");
    let problem = board
        .post("/api/v1/runs", "application/yaml", yaml)
        .await
        .problem(422, "invalid_config");
    assert!(field(&problem, "model_name_or_path")["hint"].is_string());
    assert_eq!(num_runs(&board).await, 0);
}

#[tokio::test]
async fn dataset_that_is_not_there_is_refused_before_anything_starts() {
    let board = TestBoard::open().await;
    let yaml = GOOD_YAML.replace("dataset: demo", "dataset: demo,demmo\neval_dataset: none");
    let answer = board.post("/api/v1/runs", "application/yaml", yaml).await;
    let problem = answer.problem(422, "invalid_config");
    assert_eq!(field(&problem, "dataset")["value"], "demmo");
    assert_eq!(field(&problem, "eval_dataset")["value"], "none");
    let info = board.state.config.datasets_dir().join("dataset_info.json");
    std::fs::write(info, "{,}").unwrap();
    let answer = board
        .post("/api/v1/runs", "application/yaml", GOOD_YAML)
        .await;
    let problem = answer.problem(422, "invalid_config");
    let reason = field(&problem, "dataset_dir")["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("datasets/dataset_info.json:1:2"),
        "{reason}"
    );
    assert_eq!(num_runs(&board).await, 0);
}

#[tokio::test]
async fn output_dir_is_accepted_without_effect() {
    let board = TestBoard::open().await;
    let yaml = format!("{GOOD_YAML}output_dir: /tmp/elsewhere\n");
    let answer = board
        .post("/api/v1/runs", "application/yaml", yaml)
        .await
        .json();
    let accepted = answer["accepted_without_effect"].as_array().unwrap();
    assert!(
        accepted.iter().any(|key| key["key"] == "output_dir"),
        "{answer:#}"
    );
}

#[tokio::test]
async fn body_that_cannot_be_read_is_refused_in_plain_words() {
    let board = TestBoard::open().await;
    let post =
        async |kind: &str, body: String| -> Answer { board.post("/api/v1/runs", kind, body).await };
    post("text/plain", GOOD_YAML.into())
        .await
        .problem(415, "unsupported_media_type");
    post("application/x-www-form-urlencoded", "a=b".into())
        .await
        .problem(415, "unsupported_media_type");
    post("application/json", "{\"stage\":".into())
        .await
        .problem(400, "bad_body");
    post("application/json", "[]".into())
        .await
        .problem(400, "bad_body");
    post(
        "application/json",
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
    )
    .await
    .problem(400, "bad_body");
    post("application/yaml", "stage: [".into())
        .await
        .problem(422, "invalid_config");
    post("application/yaml", format!("stage: {}", "[".repeat(10_000)))
        .await
        .problem(422, "invalid_config");
    post("application/yaml", "a".repeat(10 << 20))
        .await
        .problem(413, "body_too_large");
    let request =
        TestBoard::request(Method::POST, "/api/v1/runs").header("content-type", "application/yaml");
    board
        .send(request.body(Body::from(vec![0xff, 0xfe])).unwrap())
        .await
        .problem(400, "bad_body");
    let doubled = (0..30)
        .zip(1..)
        .map(|(last, next)| format!("a{next}: &a{next} [*a{last}, *a{last}]"));
    let bomb = std::iter::once("a0: &a0 [x, x]".to_owned())
        .chain(doubled)
        .collect::<Vec<_>>()
        .join("\n");
    post("application/yaml", bomb)
        .await
        .problem(422, "invalid_config");
    assert_eq!(num_runs(&board).await, 0);
}

#[tokio::test]
async fn same_idempotency_key_makes_one_run() {
    let board = TestBoard::open().await;
    let send = async |body: &'static str| {
        let request = TestBoard::request(Method::POST, "/api/v1/runs");
        let request = request
            .header("content-type", "application/yaml")
            .header("idempotency-key", "retry-1");
        board.send(request.body(Body::from(body)).unwrap()).await
    };
    let (first, second) = (send(GOOD_YAML).await, send(GOOD_YAML).await);
    assert_eq!(
        (first.status, second.status),
        (StatusCode::CREATED, StatusCode::CREATED)
    );
    assert_eq!(first.json()["run"]["id"], second.json()["run"]["id"]);
    send("stage: sft\n")
        .await
        .problem(409, "idempotency_conflict");
    assert_eq!(num_runs(&board).await, 1);
}

#[tokio::test]
async fn hostile_names_are_kept_as_text_or_refused() {
    let board = TestBoard::open().await;
    for name in [
        "$(touch x)",
        "; id",
        "`id`",
        "--flag",
        "<script>alert(1)</script>",
        "../../x",
        "名前 ё",
    ] {
        let answer = board
            .post_json(
                "/api/v1/runs",
                &json!({"name": name, "config": good_config()}),
            )
            .await;
        assert_eq!(answer.status, StatusCode::CREATED, "{name}");
        assert_eq!(answer.json()["run"]["name"], name);
    }
    let made = num_runs(&board).await;
    for name in ["", "  ", "a\nb", "a\u{0}b", &"x".repeat(10_000)] {
        let answer = board
            .post_json(
                "/api/v1/runs",
                &json!({"name": name, "config": good_config()}),
            )
            .await;
        assert_eq!(
            field(&answer.problem(422, "invalid_config"), "name")["code"],
            "bad_label"
        );
    }
    let tags = json!({"tags": ["x\ty"], "config": good_config()});
    board
        .post_json("/api/v1/runs", &tags)
        .await
        .problem(422, "invalid_config");
    assert_eq!(num_runs(&board).await, made);
}

#[tokio::test]
async fn check_answers_with_everything_and_starts_nothing() {
    let board = TestBoard::open().await;
    let good = board
        .post(
            "/api/v1/check",
            "application/yaml",
            format!("{GOOD_YAML}overwrite_cache: true\n"),
        )
        .await;
    let check = &good.json()["check"];
    assert_eq!(
        (&check["is_ok"], &check["errors"]),
        (&json!(true), &json!([])),
        "{check:#}"
    );
    assert_eq!(check["config"]["template"], "chatml");
    let accepted = check["accepted_without_effect"].as_array().unwrap();
    assert!(
        accepted
            .iter()
            .any(|key| key["key"] == "overwrite_cache" && key["reason"].is_string()),
        "{check:#}"
    );
    let bad = board
        .post_json(
            "/api/v1/check",
            &json!({"config": {"stage": "sft", "cutoff_len": -3}}),
        )
        .await;
    let check = &bad.json()["check"];
    assert_eq!(
        (bad.status, &check["is_ok"]),
        (StatusCode::OK, &json!(false))
    );
    assert!(!check["errors"].as_array().unwrap().is_empty());
    assert_eq!(num_runs(&board).await, 0);
}

#[tokio::test]
async fn missing_trainer_is_said_with_what_to_do() {
    let board = TestBoard::open().await;
    std::fs::remove_file(&board.state.config.trainer).unwrap();
    let problem = board
        .post("/api/v1/runs", "application/yaml", GOOD_YAML)
        .await
        .problem(503, "no_trainer");
    assert!(problem["hint"].as_str().unwrap().contains("BOARD_TRAINER"));
    assert!(
        !problem
            .to_string()
            .contains(&*board.state.config.data_dir.to_string_lossy())
    );
}
