//! `GET /api/v1/runs/{id}/metrics`.

use axum::http::StatusCode;

use crate::support::TestBoard;

fn loss(step: u64) -> f64 {
    if step == 2 {
        f64::NAN
    } else {
        1.0 / step as f64
    }
}

#[tokio::test]
async fn json_has_series_with_words_for_what_is_no_number() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    board.log_steps(run, 1, 4, loss).await;
    let metrics = board
        .get(&format!("/api/v1/runs/{run}/metrics?name=loss"))
        .await
        .json()["metrics"]
        .clone();
    assert!(metrics["last_event_id"].as_i64().unwrap() >= 4);
    let series = &metrics["series"];
    assert_eq!(series.as_array().unwrap().len(), 1);
    let points = &series[0]["points"];
    assert_eq!(
        (points[1]["value"].as_str(), points[3]["value"].as_f64()),
        (Some("NaN"), Some(0.25))
    );
    assert_eq!(
        (points[3]["step"].as_i64(), points[3]["epoch"].as_f64()),
        (Some(4), Some(0.5))
    );
    assert_eq!(
        (
            series[0]["num_points"].as_i64(),
            series[0]["num_nan"].as_i64()
        ),
        (Some(4), Some(1))
    );
}

#[tokio::test]
async fn csv_and_json_lines_have_every_point_of_a_long_run() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    board.log_steps(run, 1, 5_000, loss).await;
    let csv = board
        .get(&format!("/api/v1/runs/{run}/metrics?format=csv"))
        .await;
    assert!(csv.header("content-type").starts_with("text/csv"));
    assert!(
        csv.header("content-disposition")
            .contains(&format!("metrics-{run}.csv"))
    );
    let text = csv.text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("step,epoch,time,name,value"));
    let steps: Vec<u64> = lines
        .filter(|line| line.split(',').nth(3) == Some("loss"))
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(steps, (1..=5_000).collect::<Vec<_>>());
    let jsonl = board
        .get(&format!(
            "/api/v1/runs/{run}/metrics?format=jsonl&name=loss&from_step=10&to_step=12"
        ))
        .await;
    let rows: Vec<serde_json::Value> = jsonl
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        rows.iter()
            .map(|row| row["step"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [10, 11, 12]
    );
}

#[tokio::test]
async fn thinned_series_keep_extremes_and_say_so() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    board
        .log_steps(
            run,
            1,
            5_000,
            |step| if step == 3_333 { 99.0 } else { loss(step) },
        )
        .await;
    let series = board
        .get(&format!(
            "/api/v1/runs/{run}/metrics?name=loss&max_points=50"
        ))
        .await
        .json();
    let series = &series["metrics"]["series"][0];
    assert_eq!(
        (
            series["is_thinned"].as_bool(),
            series["num_points"].as_u64()
        ),
        (Some(true), Some(5_000))
    );
    let points = series["points"].as_array().unwrap();
    assert!(points.len() <= 50);
    assert!(points.iter().any(|point| point["value"] == 99.0));
    assert!(points.iter().any(|point| point["value"] == "NaN"));
    let csv = board
        .get(&format!(
            "/api/v1/runs/{run}/metrics?format=csv&name=loss&max_points=50"
        ))
        .await;
    assert!(csv.text().lines().count() <= 51);
}

#[tokio::test]
async fn run_without_metrics_has_empty_answers() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let json = board
        .get(&format!("/api/v1/runs/{run}/metrics"))
        .await
        .json();
    assert!(json["metrics"]["series"].as_array().unwrap().is_empty());
    let csv = board
        .get(&format!("/api/v1/runs/{run}/metrics?format=csv"))
        .await;
    assert_eq!(
        (csv.status, csv.text().as_str()),
        (StatusCode::OK, "step,epoch,time,name,value\r\n")
    );
    for query in [
        "format=xml",
        "max_points=0",
        "max_points=1000000",
        "from_step=a",
        "names=loss",
    ] {
        board
            .get(&format!("/api/v1/runs/{run}/metrics?{query}"))
            .await
            .problem(400, "bad_query");
    }
}
