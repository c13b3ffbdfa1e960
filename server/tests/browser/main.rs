//! The board as a person uses it: real programs, a real browser, the demo model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod board;
mod browser;
mod pages;
mod wait;

use std::time::Duration;

use board::Board;
use browser::{Browser, SOON};
use pages::{fill_new_run, opened_run, points_drawn, start_run, stop_run, wait_for_more_points};
use wait::until;

/// A demo run is over within half a minute on a quiet machine; a busy one gets more.
const A_RUN: Duration = Duration::from_mins(5);

/// What the form is given for the demo: the choices of `recipes/demo.yaml`.
const DEMO: &[(&str, &str)] = &[
    ("model_name_or_path", "models/demo"),
    ("dataset", "demo"),
    ("template", "chatml"),
    ("finetuning_type", "full"),
    ("cutoff_len", "128"),
    ("val_size", "0.1"),
    ("learning_rate", "2e-3"),
    ("num_train_epochs", "18"),
    ("per_device_train_batch_size", "4"),
    ("gradient_accumulation_steps", "4"),
];

#[tokio::test]
async fn curve_moves_and_a_killed_board_loses_no_point() {
    let data = tempfile::tempdir().unwrap();
    let mut board = Board::start(data.path(), None);
    let browser = Browser::open().await;
    browser.goto(&board.url("/")).await;
    browser.screenshot("runs-empty").await;
    fill_new_run(&browser, &board, DEMO).await;
    browser.screenshot("new-run").await;
    let run = start_run(&browser).await;

    let first = wait_for_more_points(&browser, "loss", 1, A_RUN).await;
    wait_for_more_points(&browser, "loss", first, A_RUN).await;
    assert_eq!(
        board.state(&run).await,
        "running",
        "the curve moves before the run ends"
    );
    browser.find("#run-badge.running").await;
    browser.screenshot("run-live").await;

    board.kill();
    board.restart();
    let before = points_drawn(&browser, "loss").await;
    wait_for_more_points(&browser, "loss", before, A_RUN).await;
    board.wait_for_state(&run, "finished", A_RUN).await;
    let last = board.assert_no_step_is_missing_or_doubled(&run).await;
    assert_eq!(points_at_the_end(&browser, last).await, last);
    browser.find("#run-badge.finished").await;
    browser.screenshot("run-finished").await;
    browser.goto(&board.url("/")).await;
    browser.screenshot("runs").await;
    browser.close().await;
}

/// Waits until the open page has drawn the whole curve, without a reload.
async fn points_at_the_end(browser: &Browser, last: u64) -> u64 {
    until("the page shows the whole curve", SOON, async || {
        let points = points_drawn(browser, "loss").await;
        (points >= last).then_some(points)
    })
    .await
}

#[tokio::test]
async fn closing_the_browser_changes_nothing_in_the_run() {
    let data = tempfile::tempdir().unwrap();
    let board = Board::start(data.path(), None);
    let browser = Browser::open().await;
    browser.goto(&board.url("/")).await;
    browser.press("form[action='/runs/demo'] button").await;
    let run = opened_run(&browser).await;
    wait_for_more_points(&browser, "loss", 0, A_RUN).await;
    browser.close().await;
    board.wait_for_state(&run, "finished", A_RUN).await;
    board.assert_no_step_is_missing_or_doubled(&run).await;
}

#[tokio::test]
async fn stop_button_saves_a_checkpoint() {
    let data = tempfile::tempdir().unwrap();
    let board = Board::start(data.path(), None);
    let browser = Browser::open().await;
    fill_new_run(&browser, &board, DEMO).await;
    browser.fill("num_train_epochs", "2000").await;
    let run = start_run(&browser).await;
    wait_for_more_points(&browser, "loss", 1, A_RUN).await;
    stop_run(&browser).await;
    board.wait_for_state(&run, "stopped", A_RUN).await;
    let last = board.assert_no_step_is_missing_or_doubled(&run).await;
    let checkpoint = board
        .run_dir(&run)
        .join(format!("checkpoint-{last}/CHECKPOINT_COMPLETE"));
    assert!(checkpoint.is_file(), "{}", checkpoint.display());
    browser.screenshot("run-stopped").await;
    browser.close().await;
}

#[tokio::test]
async fn bad_value_is_refused_beside_its_field() {
    let data = tempfile::tempdir().unwrap();
    let board = Board::start(data.path(), None);
    let browser = Browser::open().await;
    fill_new_run(&browser, &board, DEMO).await;
    browser.fill("learning_rate", "fast").await;
    browser.press("#start").await;
    let field = browser
        .find("[name='learning_rate'][aria-invalid='true']")
        .await;
    assert_eq!(field.prop("value").await.unwrap().as_deref(), Some("fast"));
    let described = field.attr("aria-describedby").await.unwrap().unwrap();
    let message = described
        .split_whitespace()
        .map(|id| format!("#{id}"))
        .collect::<Vec<_>>();
    let said = browser
        .find(&message.join(", "))
        .await
        .text()
        .await
        .unwrap();
    assert!(!said.is_empty());
    browser.screenshot("new-run-refused").await;
    browser.close().await;
}

#[tokio::test]
async fn language_and_theme_stay_as_they_were_chosen() {
    let data = tempfile::tempdir().unwrap();
    let board = Board::start(data.path(), None);
    let browser = Browser::open().await;
    browser.goto(&board.url("/runs/new")).await;
    browser.press(".lang-form [value^='zh']").await;
    browser.find("html[lang^='zh']").await;
    browser.press(".theme-form [value='dark']").await;
    browser.find("html[data-theme='dark']").await;
    browser.goto(&board.url("/")).await;
    browser.find("html[lang^='zh'][data-theme='dark']").await;
    browser.screenshot("runs-zh-dark").await;
    browser.goto(&board.url("/runs/new")).await;
    browser.screenshot("new-run-zh-dark").await;
    browser.resize(390, 844).await;
    let sideways: bool = browser
        .eval("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        .await;
    browser.screenshot("new-run-phone").await;
    assert!(!sideways, "a phone does not scroll sideways");
    browser.close().await;
}
