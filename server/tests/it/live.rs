//! Server-sent events: live, replayed, ended.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Method, StatusCode};
use board_store::StateChange;
use futures_util::StreamExt as _;
use run_protocol::{RunId, RunState};
use serde_json::Value;

use crate::support::{LIMIT, TestBoard};

/// One event as a browser gets it.
#[derive(Debug, Clone, PartialEq)]
struct Received {
    id: String,
    name: String,
    data: Value,
}

/// Reads a stream as a browser does.
struct Reader {
    body: BodyDataStream,
    text: String,
}

impl Reader {
    async fn open(board: &TestBoard, path: &str, last: Option<&str>) -> Self {
        let mut request = TestBoard::request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = board.stream(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "text/event-stream; charset=utf-8");
        assert_eq!(
            (
                header("cache-control").as_str(),
                header("x-accel-buffering").as_str()
            ),
            ("no-cache", "no")
        );
        Self {
            body: answer.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Received> {
        loop {
            while let Some(at) = self.text.find("\n\n") {
                let block = self.text[..at].to_owned();
                self.text.drain(..at + 2);
                if let Some(event) = parse(&block) {
                    return Some(event);
                }
            }
            let more = tokio::time::timeout(LIMIT, self.body.next())
                .await
                .expect("an event comes in time");
            self.text
                .push_str(std::str::from_utf8(&more?.unwrap()).unwrap());
        }
    }

    /// Returns the next events, without the `queued` that every run begins with.
    async fn take(&mut self, count: usize) -> Vec<Received> {
        let mut events = Vec::new();
        while events.len() < count {
            let event = self.next().await.expect("the stream goes on");
            if event.data["state"] != "queued" {
                events.push(event);
            }
        }
        events
    }

    async fn rest(&mut self) -> Vec<Received> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn parse(block: &str) -> Option<Received> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|text| text.trim().to_owned())
    };
    let data = serde_json::from_str(&field("data:")?).unwrap();
    Some(Received {
        id: field("id:").unwrap_or_default(),
        name: field("event:").unwrap_or_default(),
        data,
    })
}

fn steps(events: &[Received]) -> Vec<u64> {
    events
        .iter()
        .filter(|event| event.name == "metric")
        .map(|event| event.data["step"].as_u64().unwrap())
        .collect()
}

fn flat(step: u64) -> f64 {
    step as f64
}

async fn end(board: &TestBoard, run: RunId) {
    let change = StateChange::new(&[RunState::Queued], RunState::Stopped, 1);
    board.state.store.change_state(run, change).await.unwrap();
}

#[tokio::test]
async fn stream_begins_with_what_was_and_goes_on_with_what_comes() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    board.log_steps(run, 1, 3, flat).await;
    let mut reader = Reader::open(&board, &format!("/api/v1/runs/{run}/events"), None).await;
    assert_eq!(steps(&reader.take(3).await), [1, 2, 3]);
    board.log_steps(run, 4, 5, flat).await;
    let live = reader.take(2).await;
    assert_eq!(steps(&live), [4, 5]);
    assert_eq!(live[0].data["run"], run.to_string());
    assert_eq!(
        (
            live[0].data["attempt"].as_u64(),
            live[0].data["values"]["loss"].as_f64()
        ),
        (Some(1), Some(4.0))
    );
    end(&board, run).await;
    let rest = reader.rest().await;
    assert_eq!(
        rest.iter()
            .map(|event| event.name.as_str())
            .collect::<Vec<_>>(),
        ["state", "end"]
    );
    assert_eq!(
        (
            rest[1].data["reason"].as_str(),
            rest[1].data["state"].as_str()
        ),
        (Some("run_ended"), Some("stopped"))
    );
    assert_eq!(rest[1].id, format!("{}-end", rest[0].id));
}

#[tokio::test]
async fn client_that_comes_back_misses_and_doubles_nothing() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let path = format!("/api/v1/runs/{run}/events");
    board.log_steps(run, 1, 10, flat).await;
    let first = Reader::open(&board, &path, None).await.take(4).await;
    board.log_steps(run, 11, 20, flat).await;
    let last = first.last().unwrap().id.clone();
    let mut reader = Reader::open(&board, &path, Some(&last)).await;
    let mut all = steps(&first);
    all.extend(steps(&reader.take(16).await));
    assert_eq!(all, (1..=20).collect::<Vec<_>>());
    let mut by_parameter =
        Reader::open(&board, &format!("{path}?last_event_id={last}"), None).await;
    assert_eq!(steps(&by_parameter.take(1).await), [5]);
}

#[tokio::test]
async fn replay_meets_the_live_events_without_a_gap_while_a_run_logs() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let path = format!("/api/v1/runs/{run}/events");
    let writing = async {
        for step in 1..=300 {
            board.log_steps(run, step * 10 - 9, step * 10, flat).await;
        }
        end(&board, run).await;
    };
    let reading = async {
        let mut all = Vec::new();
        let mut last = "0".to_owned();
        loop {
            let mut reader = Reader::open(&board, &path, Some(&last)).await;
            for _ in 0..170 {
                let Some(event) = reader.next().await else {
                    break;
                };
                last.clone_from(&event.id);
                all.push(event);
            }
            if all.last().is_some_and(|event| event.name == "end") {
                return all;
            }
        }
    };
    let ((), all) = tokio::join!(writing, reading);
    assert_eq!(steps(&all), (1..=3_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn slow_client_gets_everything_and_holds_up_nobody() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let mut slow = Reader::open(&board, "/api/v1/events", None).await;
    board.log_steps(run, 1, 1, flat).await;
    slow.take(1).await;
    for batch in 0..200 {
        board
            .log_steps(run, batch * 100 + 2, batch * 100 + 101, flat)
            .await; // far more than the channel holds
    }
    let mut quick = Reader::open(&board, "/api/v1/events", None).await;
    board.log_steps(run, 20_002, 20_002, flat).await;
    assert_eq!(steps(&quick.take(1).await), [20_002]);
    assert_eq!(
        steps(&slow.take(20_001).await),
        (2..=20_002).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn client_of_an_ended_run_is_told_to_stop() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    board.log_steps(run, 1, 2, flat).await;
    end(&board, run).await;
    let path = format!("/api/v1/runs/{run}/events");
    let all = Reader::open(&board, &path, None).await.rest().await;
    assert_eq!(
        all.iter()
            .map(|event| event.name.as_str())
            .collect::<Vec<_>>(),
        ["state", "metric", "metric", "state", "end"]
    );
    let before_end = &all[3].id;
    let again = Reader::open(&board, &path, Some(before_end))
        .await
        .rest()
        .await;
    assert_eq!(
        again
            .iter()
            .map(|event| event.name.as_str())
            .collect::<Vec<_>>(),
        ["end"]
    );
    let request = TestBoard::request(Method::GET, &path).header("last-event-id", &all[4].id);
    let answer = board.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn board_stream_has_the_runs_that_were_asked_for() {
    let board = TestBoard::open().await;
    let (one, two) = (board.make_run("one").await, board.make_run("two").await);
    board.log_steps(one, 1, 1, flat).await;
    let mut all = Reader::open(&board, "/api/v1/events", None).await;
    let mut only_two = Reader::open(&board, &format!("/api/v1/events?run={two}"), None).await;
    board.log_steps(one, 2, 2, flat).await;
    board.log_steps(two, 1, 1, flat).await;
    end(&board, two).await;
    let runs: Vec<_> = all
        .take(4)
        .await
        .into_iter()
        .map(|event| (event.data["run"].clone(), event.name))
        .collect();
    assert_eq!(runs[0], (Value::from(one.to_string()), "metric".to_owned()));
    assert_eq!(runs[3], (Value::from(two.to_string()), "end".to_owned()));
    let only = only_two.take(3).await;
    assert_eq!(
        only.iter()
            .map(|event| event.name.as_str())
            .collect::<Vec<_>>(),
        ["metric", "state", "end"]
    );
    board.log_steps(two, 2, 2, flat).await;
    assert_eq!(
        steps(&only_two.take(1).await),
        [2],
        "the stream of the board stays open"
    );
    board
        .get("/api/v1/events?run=x")
        .await
        .problem(404, "run_not_found");
}

#[tokio::test]
async fn stopping_board_says_goodbye_to_its_streams() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let mut reader = Reader::open(&board, &format!("/api/v1/runs/{run}/events"), None).await;
    let mut whole = Reader::open(&board, "/api/v1/events", None).await;
    board.log_steps(run, 1, 1, flat).await;
    reader.take(1).await;
    whole.take(1).await;
    board.state.shutdown.cancel();
    for mut reader in [reader, whole] {
        let rest = reader.rest().await;
        assert_eq!(
            (rest.len(), rest[0].name.as_str(), rest[0].id.as_str()),
            (1, "end", "")
        );
        assert_eq!(rest[0].data["reason"], "board_stopped");
    }
}

#[tokio::test]
async fn silence_is_broken_by_comments_with_a_ping() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    let request = TestBoard::request(Method::GET, &format!("/api/v1/runs/{run}/events"));
    let answer = board.stream(request.body(Body::empty()).unwrap()).await;
    let mut body = answer.into_body().into_data_stream();
    assert_eq!(body.next().await.unwrap().unwrap(), "retry: 3000\n\n");
    assert!(
        body.next()
            .await
            .unwrap()
            .unwrap()
            .starts_with(b"event: state")
    );
    let nothing = tokio::time::timeout(Duration::from_millis(300), body.next()).await;
    assert!(nothing.is_err(), "the store has nothing: {nothing:?}");
    tokio::time::pause(); // from here on only the stream's own clock goes on
    let comment = tokio::time::timeout(Duration::from_secs(15), body.next())
        .await
        .unwrap();
    let comment = comment.unwrap().unwrap();
    assert!(comment.starts_with(b":"));
    let text = String::from_utf8_lossy(&comment);
    assert!(
        text.contains("event: ping\n"),
        "a page hears of events alone: {text}"
    );
}

#[tokio::test]
async fn client_of_another_database_gets_what_this_one_has() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    board.log_steps(run, 1, 2, flat).await;
    let path = format!("/api/v1/runs/{run}/events");
    let mut of_run = Reader::open(&board, &path, Some("999999")).await;
    assert_eq!(steps(&of_run.take(2).await), [1, 2]);
    let mut of_board = Reader::open(&board, "/api/v1/events", Some("999999")).await;
    board.log_steps(run, 3, 3, flat).await;
    assert_eq!(steps(&of_board.take(1).await), [3]);
}

#[tokio::test]
async fn strange_event_ids_are_refused() {
    let board = TestBoard::open().await;
    let run = board.make_run("run").await;
    for id in ["x", "-5", "1;drop", "99999999999999999999999"] {
        board
            .get(&format!("/api/v1/runs/{run}/events?last_event_id={id}"))
            .await
            .problem(400, "bad_event_id");
    }
}

#[tokio::test]
async fn closed_streams_are_counted_out() {
    let board = TestBoard::open().await;
    let readers = [
        Reader::open(&board, "/api/v1/events", None).await,
        Reader::open(&board, "/api/v1/events", None).await,
    ];
    assert_eq!(board.state.live.num_streams(), 2);
    drop(readers);
    assert_eq!(board.state.live.num_streams(), 0);
}
