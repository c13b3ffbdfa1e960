//! LoRA on a real model through the real form; run by `scripts/browser-smollm2 MODEL_DIR DATA_DIR`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod board;
mod browser;
#[expect(
    dead_code,
    reason = "shared with the other target, which uses all of it"
)]
mod pages;
mod wait;

use std::path::{Path, PathBuf};
use std::time::Duration;

use board::Board;
use browser::Browser;
use pages::{fill_new_run, start_run, wait_for_more_points};

/// Ten steps of 135 million parameters on two busy cores.
const A_RUN: Duration = Duration::from_mins(30);

const DATASET: &str = "alpaca_en_demo";

fn folder(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set; use scripts/browser-smollm2"));
    std::fs::canonicalize(path).unwrap()
}

/// Puts the dataset where a user of the board keeps datasets.
fn copy_dataset(from: &Path, to: &Path) {
    let text = std::fs::read(from.join("dataset_info.json")).unwrap();
    let info: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let file = info[DATASET]["file_name"].as_str().unwrap();
    std::fs::create_dir_all(to).unwrap();
    std::fs::copy(from.join(file), to.join(file)).unwrap();
    let entry = serde_json::json!({ DATASET: info[DATASET] });
    std::fs::write(to.join("dataset_info.json"), entry.to_string()).unwrap();
}

#[tokio::test]
async fn smollm2_lora_run_survives_a_killed_board() {
    let (model, data) = (folder("SMOLLM2_DIR"), folder("SMOLLM2_DATA_DIR"));
    let dir = tempfile::tempdir().unwrap();
    copy_dataset(&data, &dir.path().join("datasets"));
    let mut board = Board::start(dir.path(), model.parent());
    let browser = Browser::open().await;
    let values = [
        ("model_name_or_path", model.to_str().unwrap()),
        ("dataset", DATASET),
        ("template", "smollm2"),
        ("finetuning_type", "lora"),
        ("cutoff_len", "256"),
        ("learning_rate", "1e-4"),
        ("max_steps", "10"),
        ("per_device_train_batch_size", "2"),
        ("gradient_accumulation_steps", "4"),
    ];
    fill_new_run(&browser, &board, &values).await;
    browser.screenshot("smollm2-form").await;
    let run = start_run(&browser).await;
    let first = wait_for_more_points(&browser, "loss", 1, A_RUN).await;
    assert_eq!(
        board.state(&run).await,
        "running",
        "the curve moves before the run ends"
    );
    browser.find("#run-badge.running").await;
    board.kill();
    board.restart();
    wait_for_more_points(&browser, "loss", first, A_RUN).await;
    board.wait_for_state(&run, "finished", A_RUN).await;
    assert_eq!(board.assert_no_step_is_missing_or_doubled(&run).await, 10);
    let adapter = board.run_dir(&run).join("adapter_model.safetensors");
    assert!(adapter.is_file(), "{}", adapter.display());
    browser.find("#run-badge.finished").await;
    browser.screenshot("smollm2-finished").await;
    browser.resize(390, 844).await;
    browser.screenshot("smollm2-finished-phone").await;
    browser.close().await;
}
