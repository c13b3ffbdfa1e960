//! What the form carries from one request to the next, sent again as a browser sends it.

use axum::http::StatusCode;
use board_store::{RunExit, StateChange};
use run_protocol::RunState;
use scraper::Html;

use crate::pages::{one, page, select, send_form, text};
use crate::support::{GOOD_YAML, TestBoard};

/// Returns what a browser would send of the form.
fn sent(html: &Html) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut push = |name: &str, value: &str| pairs.push((name.to_owned(), value.to_owned()));
    for input in select(html, "#run-form input[name]") {
        let is_box = matches!(input.attr("type"), Some("checkbox" | "radio"));
        if !is_box || input.attr("checked").is_some() {
            push(
                input.attr("name").unwrap(),
                input.attr("value").unwrap_or_default(),
            );
        }
    }
    for area in select(html, "#run-form textarea[name]") {
        let value: String = area.text().collect();
        push(area.attr("name").unwrap(), &value);
    }
    for menu in select(html, "#run-form select[name]") {
        let option = scraper::Selector::parse("option[selected]").unwrap();
        let chosen = menu.select(&option).next();
        if let Some(chosen) = chosen.filter(|option| option.attr("disabled").is_none()) {
            push(
                menu.attr("name").unwrap(),
                chosen.attr("value").unwrap_or_default(),
            );
        }
    }
    pairs
}

fn encoded(pairs: &[(String, String)]) -> String {
    let quote = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<Vec<_>>()
            .concat()
    };
    let parts = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", quote(name), quote(value)));
    parts.collect::<Vec<_>>().join("&")
}

async fn from_yaml(board: &TestBoard, yaml: &str) -> Html {
    let pairs = [("source", "yaml"), ("tab", "form"), ("yaml", yaml)];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (answer, html) = send_form(board, "/runs/new", &encoded(&pairs), &[]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    html
}

#[tokio::test]
async fn values_of_a_later_version_stay_in_the_form_and_are_refused_each_time() {
    let board = TestBoard::open().await;
    let html = from_yaml(&board, &format!("{GOOD_YAML}fp16: true\ncp_size: 2\n")).await;
    assert_eq!(
        text(one(&html, "#kept label[for='f-cp_size']")),
        "cp_size: 2"
    );
    let mut pairs = sent(&html);
    for _ in 0..2 {
        let (answer, html) = send_form(&board, "/runs", &encoded(&pairs), &[]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        one(&html, "#f-compute_type-error");
        one(&html, "#f-cp_size-error");
        assert!(!select(&html, "#error-summary a[href='#f-cp_size']").is_empty());
        pairs = sent(&html);
    }
    pairs.retain(|(name, _)| name != "cp_size");
    for pair in &mut pairs {
        if pair.0 == "compute_type" {
            pair.1 = "bf16".into();
        }
    }
    let (answer, _) = send_form(&board, "/runs", &encoded(&pairs), &[]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text());
}

#[tokio::test]
async fn lines_of_a_system_prompt_stay_lines() {
    let board = TestBoard::open().await;
    let yaml = format!("{GOOD_YAML}default_system: |-\n  Be kind.\n  Be short.\n");
    let html = from_yaml(&board, &yaml).await;
    assert_eq!(select(&html, "#kept").len(), 0);
    let pairs = sent(&html);
    let prompt = pairs.iter().find(|(name, _)| name == "default_system");
    assert_eq!(
        prompt.map(|pair| pair.1.trim_start()),
        Some("Be kind.\nBe short.")
    );
}

#[tokio::test]
async fn name_that_no_page_could_show_is_a_fault_of_its_field() {
    let board = TestBoard::open().await;
    let form = "stage=sft&backend=single&model_name_or_path=models%2Fdemo&dataset=demo&template=chatml&finetuning_type=full&once=abc";
    let form = format!("{form}&run_name={}", "x".repeat(201));
    let (answer, html) = send_form(&board, "/runs", &form, &[("hx-request", "true")]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(select(&html, ".side").len(), 0, "only the form comes back");
    assert!(text(one(&html, "#f-run_name-error")).contains("200"));
    one(&html, "#group-logging[open]");
    assert_eq!(board.state.store.count_runs().await.unwrap().total(), 0);
}

#[tokio::test]
async fn stop_that_ended_by_force_says_so() {
    let board = TestBoard::open().await;
    let run = board.make_run("one").await;
    let change = StateChange {
        exit: RunExit {
            code: None,
            class: Some("killed".into()),
            message: Some("it did not stop within 30 s and was killed".into()),
            hint: None,
        },
        ..StateChange::new(&[RunState::Queued], RunState::Stopped, 1)
    };
    board.state.store.change_state(run, change).await.unwrap();
    let (_, html) = page(
        &board,
        &format!("/runs/{run}"),
        &[("cookie", "lang=zh-Hans")],
    )
    .await;
    assert!(text(one(&html, "#run-head")).contains("30 秒内没有停止"));
}
