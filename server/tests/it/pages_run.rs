//! The page of a run whose events are given: what its strip, figures, memory and alerts say.

use board_store::{Ingest, StateChange};
use run_protocol::events::{Alert, Finished, Level, MetricValue, Phase, StageProgress, System};
use run_protocol::{Event, EventKind, RunId, RunState};

use crate::pages::{one, page, select, text};
use crate::support::TestBoard;

fn stage(stage: Phase) -> EventKind {
    EventKind::Stage(StageProgress {
        stage,
        done: None,
        total: None,
    })
}

fn reading(rank: u32, step: u64, gib: f64) -> EventKind {
    let bytes = gib * f64::from(1 << 30);
    let values = [("rss_bytes", bytes), ("peak_rss_bytes", 2.0 * bytes)];
    let values = values.map(|(name, value)| (name.to_owned(), MetricValue(value)));
    EventKind::System(System {
        rank,
        step: Some(step),
        values: values.into_iter().collect(),
    })
}

fn alert(step: u64) -> EventKind {
    EventKind::Alert(Alert {
        level: Level::Warn,
        code: "odd".into(),
        message: format!("alert of {step}"),
        hint: None,
        step: Some(step),
    })
}

fn metric(step: u64) -> EventKind {
    let eval_loss = if step == 4 { 0.5 } else { 0.75 };
    let values = [
        ("loss", 2.0 / step as f64),
        ("eval_loss", eval_loss),
        ("learning_rate", 1e-4),
        ("train_tokens_per_second", 1000.0 * step as f64),
        ("num_input_tokens_seen", 2000.0 * step as f64),
    ];
    EventKind::metric(step, Some(0.5), values)
}

/// Stores events of the first attempt; each is said with its second.
async fn tell(board: &TestBoard, run: RunId, events: Vec<(i64, EventKind)>) {
    let events = events
        .into_iter()
        .enumerate()
        .map(|(index, (second, kind))| Event {
            v: 1,
            seq: index as u64 + 1,
            attempt: 1,
            time: 1000 * second,
            kind,
        });
    let batch = Ingest {
        run,
        events: events.collect(),
        mark: None,
    };
    board.state.store.ingest(batch).await.unwrap();
}

async fn change(
    board: &TestBoard,
    run: RunId,
    from: &'static [RunState],
    to: RunState,
    second: i64,
) {
    let change = StateChange {
        attempt: (to == RunState::Starting).then_some(1),
        ..StateChange::new(from, to, 1000 * second)
    };
    board.state.store.change_state(run, change).await.unwrap();
}

/// A run of five steps: loaded for 3 s, trained for 60 s, evaluated in between for 10 s.
async fn told_run(board: &TestBoard) -> RunId {
    let run = board.make_run("told").await;
    change(board, run, &[RunState::Queued], RunState::Starting, 100).await;
    let mut events = vec![(100, stage(Phase::Loading)), (103, stage(Phase::Training))];
    for step in 1..=5 {
        let second = 103 + 10 * i64::try_from(step).unwrap();
        events.push((second, reading(0, step, step as f64)));
        events.push((second, reading(1, step, 0.5)));
        events.push((second, alert(step)));
        events.push((second, metric(step)));
    }
    events.push((153, stage(Phase::Evaluating)));
    events.push((163, stage(Phase::Training)));
    tell(board, run, events).await;
    run
}

#[tokio::test]
async fn finished_run_folds_to_one_line_and_shows_best_and_final_figures() {
    let board = TestBoard::open().await;
    let run = told_run(&board).await;
    let batch = Ingest {
        run,
        events: vec![Event {
            v: 1,
            seq: 100,
            attempt: 1,
            time: 173_000,
            kind: EventKind::Finished(Finished::default()),
        }],
        mark: None,
    };
    board.state.store.ingest(batch).await.unwrap();
    change(
        &board,
        run,
        &[RunState::Starting, RunState::Running],
        RunState::Finished,
        173,
    )
    .await;
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    let line = text(one(&html, ".strip .outcome"));
    for part in [
        "1:13",
        "5 steps",
        "10,000 tokens",
        "3,000 tok/s",
        "peak 10 GiB",
    ] {
        assert!(line.contains(part), "`{part}` in `{line}`");
    }
    let stages: Vec<_> = select(&html, ".strip li").into_iter().map(text).collect();
    assert_eq!(stages, ["load 0:03", "train 1:00", "evaluate 0:10"]);
    let figures: Vec<_> = select(&html, ".figure").into_iter().map(text).collect();
    assert!(
        figures[0].starts_with("Final loss loss 0.400"),
        "{figures:?}"
    );
    assert!(
        figures[1].starts_with("Best eval loss eval_loss 0.500 @4 · final 0.750"),
        "{figures:?}"
    );
    assert!(figures[5].starts_with("Peak memory 10 GiB"), "{figures:?}");
}

#[tokio::test]
async fn every_action_that_does_not_fit_says_why() {
    let board = TestBoard::open().await;
    let run = told_run(&board).await;
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    let resume = "#run-head [aria-disabled='true'][aria-describedby='later-1']";
    assert_eq!(text(one(&html, resume)), "Resume");
    assert_eq!(text(one(&html, "#later-1")), "The run has not ended.");
    change(
        &board,
        run,
        &[RunState::Starting, RunState::Running],
        RunState::Failed,
        170,
    )
    .await;
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    assert!(text(one(&html, "#later-1")).contains("no complete checkpoint"));
    for action in select(&html, "#run-head [aria-disabled='true']") {
        let why = action.attr("aria-describedby").unwrap();
        assert!(!text(one(&html, &format!("#{why}"))).is_empty());
    }
    assert_eq!(select(&html, "#run-head form[action$='/stop']").len(), 0);
    let stages: Vec<_> = select(&html, ".strip li").into_iter().map(text).collect();
    assert_eq!(stages[..2], ["load 0:03", "tokenize"]);
    assert!(stages[2].starts_with("train 0:57"), "{stages:?}");
}

#[tokio::test]
async fn memory_of_each_rank_is_a_panel_that_its_block_keeps_fresh() {
    let board = TestBoard::open().await;
    let run = told_run(&board).await;
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    let panel = one(&html, ".panel[data-panel='memory']");
    assert_eq!(panel.attr("data-names"), Some("rank 0,rank 1"));
    assert!(text(panel).contains("GiB"));
    let path = format!("/runs/{run}?block=memory");
    let (_, html) = page(&board, &path, &[("hx-request", "true")]).await;
    let points = one(&html, "#memory-points");
    assert!(points.attr("hx-get").is_some(), "a live run asks again");
    let points: serde_json::Value = serde_json::from_str(points.attr("value").unwrap()).unwrap();
    assert_eq!(
        points[0],
        serde_json::json!(["rank 0", [1, 2, 3, 4, 5], [1.0, 2.0, 3.0, 4.0, 5.0]])
    );
    assert_eq!(points[1][0], "rank 1");
    assert_eq!(select(&html, ".panel, .side").len(), 0);
}

#[tokio::test]
async fn newest_alerts_come_first_and_the_rest_is_folded() {
    let board = TestBoard::open().await;
    let run = told_run(&board).await;
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    let shown: Vec<_> = select(&html, "#run-live > .alerts li")
        .into_iter()
        .map(text)
        .collect();
    assert_eq!(
        shown,
        [
            "alert of 5 step 5",
            "alert of 4 step 4",
            "alert of 3 step 3"
        ]
    );
    assert!(text(one(&html, "#more-alerts summary")).contains("2 more alerts"));
    assert_eq!(select(&html, "#more-alerts li").len(), 2);
}

#[tokio::test]
async fn chips_say_which_is_the_model_and_which_the_data() {
    let board = TestBoard::open().await;
    let run = board.make_run("one").await;
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    let chips: Vec<_> = select(&html, "#run-head .chip")
        .into_iter()
        .map(text)
        .collect();
    assert_eq!(
        chips,
        ["Task SFT · LoRA · single", "Model demo", "Data demo"]
    );
}
